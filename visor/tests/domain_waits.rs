//! Threads that wait for each other in pipes, event counters, pairs of sockets, `poll` and `epoll` are captured as they wait, and go on in
//! another domain. What waits for a socket of the network is in the way of a capture, and is named.

mod support;

use monohull_abi::number::QUEUE_WAIT;
use monohull_visor::domain::checkpoint::record::ThreadState;
use monohull_visor::domain::checkpoint::{Continuation, Rejected, RestoreError};
use monohull_visor::engine::{HostError, Ready, RunEnd, RunOptions};
use monohull_visor::report::{RunReport, Silent, Status};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{ready, report, suspended};

/// Where the program has sockets of its own.
const OWN: &str = "127.83.61.47";
/// Shorter waits are waited out.
const LEAST: Duration = Duration::from_millis(20);

/// `libc/programs/waits.c` with these arguments.
fn workflow(carriers: u32, arguments: &[&str]) -> Value {
    json!({
        "name": "waits",
        "functions": { "waits": { "image": "libc-waits" } },
        "steps": [{ "name": "waits", "function": "waits", "args": { "argv": arguments } }],
        "limits": { "carriers": carriers, "timeout": "1h" },
    })
}

fn run(ready: &Ready, continuation: Option<Continuation>, least: Option<Duration>, halt: Option<Duration>) -> RunEnd {
    let options = RunOptions { halt, ..RunOptions::default() };
    ready.run_from(continuation, least, &options, Arc::new(Silent)).expect("the host can hold a domain")
}

/// Goes on from each continuation, until there is no more. The report, and how many there were.
fn run_in_parts(ready: &Ready, least: Option<Duration>, halt: Option<Duration>) -> (RunReport, u32) {
    let (mut end, mut parts) = (run(ready, None, least, halt), 0);
    while let RunEnd::Suspended(suspended) = end {
        parts += 1;
        end = run(ready, Some(suspended.continuation), least, halt);
    }
    (report(end), parts)
}

/// Every check of the program holds.
#[track_caller]
fn holds(report: &RunReport) {
    let lines: Vec<_> = report.steps[0].instances[0].lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(report.status, Status::Done, "{lines:#?} {:#?}", report.error);
    assert!(lines.len() == 1 && lines[0].ends_with(" checks, 0 failures"), "{lines:#?}");
}

#[test]
fn threads_that_wait_for_each_other_are_suspended_and_go_on() {
    for carriers in [1, 2, 4] {
        let ready = ready(&workflow(carriers, &["3", "150"]));
        let _one = support::one_at_a_time();
        holds(&report(run(&ready, None, None, None)));
        let (report, parts) = run_in_parts(&ready, Some(LEAST), None);
        holds(&report);
        assert!(report.not_suspended.is_none(), "{:?}", report.not_suspended);
        assert!(parts >= 3, "suspended {parts} times");
    }
}

#[test]
fn they_are_halted_anywhere_and_go_on() {
    for carriers in [1, 2, 4] {
        let ready = ready(&workflow(carriers, &["4", "50"]));
        let _one = support::one_at_a_time();
        let begin = Instant::now();
        holds(&report(run(&ready, None, None, None)));
        // Some eight times in a run, however fast the machine is. Another run may be faster than this one was.
        let mut after = begin.elapsed() / 8;
        loop {
            let (report, parts) = run_in_parts(&ready, None, Some(after));
            holds(&report);
            if parts >= 2 {
                break;
            }
            after /= 2;
            assert!(!after.is_zero(), "halted {parts} times");
        }
    }
}

#[test]
fn a_wait_in_a_queue_is_reported_and_checked() {
    let ready = ready(&workflow(1, &["1", "3600000"]));
    let _one = support::one_at_a_time();
    let good = suspended(run(&ready, None, Some(LEAST), None));
    let queued = good.waits.iter().filter(|wait| wait.what == "for what is posted to a queue");
    assert!(queued.clone().any(|wait| wait.until.is_some()) && queued.clone().any(|wait| wait.until.is_none()));
    type Change = fn(&mut Continuation);
    let changes: [(Rejected, Change); 5] = [
        (Rejected::Wait, |c| c.instances[0].threads.iter_mut().for_each(|thread| thread.args[0] |= 64)),
        (Rejected::Wait, |c| c.instances[0].threads.iter_mut().for_each(|thread| thread.args[0] |= 1 << 63)),
        (Rejected::Order, |c| c.scheduler.queues.clear()),
        (Rejected::Order, |c| {
            let all = c.scheduler.queues.concat();
            c.scheduler.queues = vec![all];
        }),
        (Rejected::Time, |c| {
            let threads = c.instances[0].threads.iter_mut();
            threads.for_each(|thread| thread.state = ThreadState::Waits { until: Some(1) });
        }),
    ];
    for (expected, change) in changes {
        let mut bad = good.continuation.clone();
        // What is changed is what waits in queues, alone.
        let kept = bad.instances[0].threads.clone();
        change(&mut bad);
        for (thread, kept) in bad.instances[0].threads.iter_mut().zip(kept) {
            if thread.call != QUEUE_WAIT {
                *thread = kept;
            }
        }
        match ready.run_from(Some(bad), None, &RunOptions::default(), Arc::new(Silent)) {
            Err(HostError::Restore(RestoreError::Rejected(rejected))) if rejected == expected => {}
            Err(error) => panic!("{expected}: {error}"),
            Ok(_) => panic!("accepted: {expected}"),
        }
    }
    let module = |name: &str| good.continuation.modules.iter().position(|module| module.name == name);
    let socket = module("socket").expect("it has the queues");
    // Its record without the queues, and one that says of a queue what cannot be.
    for bytes in [&[2, 0, 0, 0, 0][..], &[2, 0, 0, 0, 0, 1, 0xff, 0xff, 3, 0, 0], &[3, 0, 0, 0, 0, 0]] {
        let mut bad = good.continuation.clone();
        bad.modules[socket].bytes = bytes.to_vec();
        let end = ready.run_from(Some(bad), None, &RunOptions::default(), Arc::new(Silent));
        assert!(matches!(end, Err(HostError::Restore(_))), "{bytes:?}");
    }
    suspended(run(&ready, Some(good.continuation), Some(LEAST), None));
}

/// Nothing waits for these, so that they are made again where they were.
#[test]
fn sockets_that_nothing_waits_for_are_gone_on_with() {
    let mut document = workflow(2, &["owns", "150"]);
    document["network"] = json!({ "mode": "host", "listen": ["127.83.61.47:*"], "connect": ["127.83.61.47:*"] });
    let ready = ready(&document);
    let _one = support::one_at_a_time();
    let (report, parts) = run_in_parts(&ready, Some(LEAST), None);
    holds(&report);
    assert!(parts >= 1 && report.not_suspended.is_none(), "suspended {parts} times: {:?}", report.not_suspended);
}

/// Where [`OWN`] is free, for now.
fn free_port() -> u16 {
    TcpListener::bind((OWN, 0)).and_then(|free| free.local_addr()).expect("loopback").port()
}

/// Another program has the address when the workflow is to go on: nothing is wrong with the continuation, and it goes on when that has ended.
#[test]
fn an_address_that_another_program_has_is_the_hosts_matter() {
    let port = free_port();
    let mut document = workflow(1, &["owns", "150", &port.to_string()]);
    document["network"] = json!({ "mode": "host", "listen": ["127.83.61.47:*"], "connect": ["127.83.61.47:*"] });
    let ready = ready(&document);
    let _one = support::one_at_a_time();
    let continuation = suspended(run(&ready, None, Some(LEAST), None)).continuation;
    let other = TcpListener::bind((OWN, port)).expect("the workflow has let it go");
    let end = ready.run_from(Some(continuation.clone()), None, &RunOptions::default(), Arc::new(Silent));
    let error = end.err().expect("it is in use");
    assert!(!error.is_continuations() && error.to_string().contains("the address is in use"), "{error}");
    drop(other);
    holds(&report(run(&ready, Some(continuation), None, None)));
}

/// The workflow goes on, and its report says which socket of which function was in the way.
#[test]
fn what_waits_for_a_socket_is_in_the_way_and_is_named() {
    for (what, end) in [("listens", "which listens at 127.0.0.1:"), ("connects", "which is connected to 127.0.0.1:")] {
        let mut document = workflow(2, &[what, "400"]);
        document["network"] = json!({ "mode": "host", "listen": ["127.0.0.1:*"], "connect": ["127.0.0.1:*"] });
        let ready = ready(&document);
        let _one = support::one_at_a_time();
        // It may be captured before it has come so far.
        for (suspend, halt) in [(None, Some(Duration::from_millis(100))), (Some(LEAST), None)] {
            let (report, _) = run_in_parts(&ready, suspend, halt);
            holds(&report);
            let why = report.not_suspended.expect("it was to be captured");
            assert!(why.contains("its queue 0 watches socket ") && why.contains(end), "{why}");
            assert!(why.contains("function `waits`") && why.contains("instance"), "{why}");
        }
    }
}
