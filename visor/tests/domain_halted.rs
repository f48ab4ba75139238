//! A workflow that computes is brought to rest wherever it is, captured with all registers, and goes on in another domain.

mod support;

use monohull_visor::domain::checkpoint::record::{RegistersRecord, ThreadRecord, ThreadState};
use monohull_visor::domain::checkpoint::{Continuation, Rejected, RestoreError};
use monohull_visor::engine::{HostError, Ready, RunEnd, RunOptions};
use monohull_visor::report::{Progress, RunReport, Silent, Status, Stream};
use serde_json::{Value, json};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use support::{ready, text};

/// Steps that run at the same time; the first fills the result.
fn workflow(carriers: u32, steps: &[(&str, u64)]) -> Value {
    let step = |(index, (how, rounds)): (usize, &(&str, u64))| json!({ "name": format!("s{index}"), "function": "preempted", "args": { "how": how, "rounds": rounds } });
    json!({
        "name": "halted",
        "functions": { "preempted": { "image": "preempted" } },
        "steps": steps.iter().enumerate().map(step).collect::<Vec<_>>(),
        "outputs": ["result"],
        "limits": { "carriers": carriers, "timeout": "1h" },
    })
}

fn run(ready: &Ready, continuation: Option<Continuation>, halt: Option<Duration>) -> Result<RunEnd, HostError> {
    let options = RunOptions { halt, ..RunOptions::default() };
    ready.run_from(continuation, None, &options, Arc::new(Silent))
}

/// Goes on from each continuation until the workflow has ended. How often it was halted.
fn run_halted(ready: &Ready, halt: Duration) -> (RunReport, u32) {
    let mut end = run(ready, None, Some(halt)).expect("the host can hold a domain");
    for times in 0.. {
        let mut continuation = match end {
            RunEnd::Report(report) => return (*report, times),
            RunEnd::HandedOver => unreachable!("it stands still nowhere"),
            RunEnd::Suspended(suspended) => suspended.continuation,
        };
        continuation.lineage.generation += 1;
        end = run(ready, Some(continuation), Some(halt)).expect("it can be gone on with");
    }
    unreachable!("it ends before")
}

/// A continuation of a workflow that computes, in which a thread was interrupted. On a slow machine none may have begun when it is halted
/// first.
fn halted(ready: &Ready) -> Continuation {
    let mut continuation = None;
    loop {
        match run(ready, continuation, Some(Duration::from_millis(30))).expect("the host can hold a domain") {
            RunEnd::Suspended(suspended) => {
                assert!(suspended.until.is_some_and(|at| at <= suspended.continuation.wall), "it need not wait");
                let mut halted = suspended.continuation;
                if interrupted(&mut halted).next().is_some() {
                    return halted;
                }
                continuation = Some(halted);
            }
            RunEnd::Report(report) => panic!("{:?}, {:#?}", report.not_suspended, report.error),
            RunEnd::HandedOver => unreachable!("it stands still nowhere"),
        }
    }
}

fn interrupted(continuation: &mut Continuation) -> impl Iterator<Item = &mut ThreadRecord> {
    let threads = continuation.instances.iter_mut().flat_map(|instance| &mut instance.threads);
    threads.filter(|thread| thread.registers.is_some())
}

/// Loops over all registers, hostcalls and threads, side by side: what goes wrong with a register is a panic.
#[test]
fn a_run_that_is_halted_again_and_again_ends_as_one_that_is_not() {
    let _one = support::one_at_a_time();
    let steps = [("compute", 20_000_000), ("registers", 1500), ("threads", 2_000_000), ("calls", 15_000)];
    let ready_for = |carriers| ready(&workflow(carriers, &steps));
    let begin = Instant::now();
    let Ok(RunEnd::Report(expected)) = run(&ready_for(2), None, None) else { panic!("it was not to be halted") };
    // Some ten times in a run, however fast the machine is.
    let halt = begin.elapsed() / 10;
    assert_eq!(expected.status, Status::Done, "{:#?}", expected.error);
    for carriers in [1, 2, 4, 8] {
        let (report, times) = run_halted(&ready_for(carriers), halt);
        assert_eq!(report.status, Status::Done, "{:#?}", report.error);
        assert_eq!(
            text(&report, "result"),
            text(&expected, "result"),
            "with {carriers} carriers, halted {times} times"
        );
        assert!(times > 2, "halted {times} times");
    }
}

/// What an edited continuation would give its author.
#[test]
fn registers_are_checked_as_a_message_from_a_stranger() {
    let _one = support::one_at_a_time();
    let ready = ready(&workflow(1, &[("compute", u64::MAX), ("spin", 0)]));
    let good = halted(&ready);
    type Change = fn(&mut ThreadRecord, &mut RegistersRecord);
    let changes: [(Rejected, Change); 21] = [
        (Rejected::Interrupted, |_, registers| registers.ip = 0),
        (Rejected::Interrupted, |_, registers| registers.ip = u64::MAX),
        // The stack, the heap, another cell, the gates, the visor.
        (Rejected::Interrupted, |thread, registers| registers.ip = thread.user_rsp),
        (Rejected::Interrupted, |_, registers| registers.ip += 1 << 30),
        (Rejected::Interrupted, |_, registers| registers.ip ^= 3 << 36),
        (Rejected::Interrupted, |_, registers| registers.ip = monohull_abi::layout::CARRIER_BASE),
        (Rejected::Interrupted, |_, registers| registers.ip = run as *const () as u64),
        // Trap, privilege, nested task, the flag that is always set, one that does not exist.
        (Rejected::Registers, |_, registers| registers.flags |= 1 << 8),
        (Rejected::Registers, |_, registers| registers.flags |= 3 << 12),
        (Rejected::Registers, |_, registers| registers.flags |= 1 << 14),
        (Rejected::Registers, |_, registers| registers.flags &= !2),
        (Rejected::Registers, |_, registers| registers.flags |= 1 << 63),
        // MXCSR, its mask, what FXSAVE leaves alone, half an XMM register.
        (Rejected::Registers, |_, registers| registers.extended[26] = 1),
        (Rejected::Registers, |_, registers| registers.extended[28] = 1),
        (Rejected::Registers, |_, registers| registers.extended[511] = 1),
        (Rejected::Registers, |_, registers| registers.extended[160] ^= 1),
        (Rejected::Registers, |_, registers| registers.extended.truncate(512)),
        (Rejected::Registers, |_, registers| registers.extended.push(0)),
        (Rejected::Registers, |thread, _| thread.state = ThreadState::Returns(1)),
        (Rejected::Registers, |thread, _| thread.state = ThreadState::Woken),
        (Rejected::StackPointer, |thread, _| thread.user_rsp = 1 << 12),
    ];
    for (number, (expected, change)) in changes.into_iter().enumerate() {
        let mut continuation = good.clone();
        let thread = interrupted(&mut continuation).next().expect("there is one");
        let mut registers = thread.registers.take().expect("it has registers");
        change(thread, &mut registers);
        thread.registers = Some(registers);
        match run(&ready, Some(continuation), Some(Duration::from_millis(1))) {
            Err(HostError::Restore(RestoreError::Rejected(rejected))) => {
                assert_eq!(rejected, expected, "{number}")
            }
            Err(other) => panic!("{number}: {other}"),
            Ok(_) => panic!("{number} was not noticed"),
        }
    }
    // Any stack pointer and any other register are user code's own affair.
    let mut continuation = good.clone();
    for registers in interrupted(&mut continuation).filter_map(|thread| thread.registers.as_mut()) {
        registers.sp = u64::MAX;
        registers.general = [u64::MAX; 15];
    }
    assert!(run(&ready, Some(continuation), Some(Duration::from_millis(1))).is_ok());
}

/// Registers are user code's own: none has an address of the visor, of its modules or of their memory.
#[test]
fn no_trusted_address_is_in_captured_registers() {
    let _one = support::one_at_a_time();
    let ready = ready(&workflow(2, &[("compute", u64::MAX), ("spin", 0)]));
    let mut continuation = halted(&ready);
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc");
    let ranges = maps.lines().filter_map(|line| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
    });
    let trusted: Vec<_> = ranges.filter(|range| range.start > 1 << 32).collect();
    let mut words = 0;
    for registers in interrupted(&mut continuation).filter_map(|thread| thread.registers.as_deref()) {
        let extended = registers.extended.chunks_exact(8);
        let extended = extended.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        for word in extended.chain(registers.general).chain([registers.sp]) {
            let found = trusted.iter().find(|range| range.contains(&word));
            assert!(found.is_none(), "{word:#x} is in {found:x?}");
            words += 1;
        }
    }
    assert!(words > 300, "{words}");
}

/// The host takes no line of the first step until the second has printed its last one.
struct HeldUp {
    naps: usize,
    printed: Mutex<usize>,
    all: Condvar,
}

impl Progress for HeldUp {
    fn line(&self, step: &str, _index: u32, _stream: Stream, _text: &str) {
        let mut printed = self.printed.lock().expect("lines");
        if step == "naps" {
            *printed += 1;
            self.all.notify_all();
        } else {
            drop(self.all.wait_while(printed, |printed| *printed < self.naps).expect("lines"));
        }
    }
}

/// What is in the way is named with its function and instance. The call is made once, and the other instance goes on meanwhile.
///
/// Both end at about the same time. A halt that has begun just then finds nothing in its way, and there is another try.
#[test]
fn a_call_that_takes_long_is_in_the_way_and_named() {
    let _one = support::one_at_a_time();
    let mut said = Vec::new();
    for attempt in 0..40 {
        let naps = 60 + 3 * attempt;
        let nap = |milliseconds: &str| json!(["nap", milliseconds]);
        let step = |name: &str, tries: Vec<Value>| json!({ "name": name, "function": "file-probe", "args": { "tries": tries } });
        let ready = ready(&json!({
            "name": "held-up",
            "functions": { "file-probe": { "image": "file-probe" } },
            "steps": [step("prints", vec![nap("1")]), step("naps", vec![nap("20"); naps])],
            "limits": { "carriers": 2, "timeout": "1h" },
        }));
        let progress = Arc::new(HeldUp { naps, printed: Mutex::new(0), all: Condvar::new() });
        let options = RunOptions { halt: Some(Duration::from_millis(200)), ..RunOptions::default() };
        let end = ready.run_from(None, None, &options, progress).expect("the host can hold a domain");
        let report = match end {
            RunEnd::Suspended(suspended) => {
                support::report(run(&ready, Some(suspended.continuation), None).expect("it can be gone on with"))
            }
            end => support::report(end),
        };
        assert_eq!(report.status, Status::Done, "{:#?}", report.error);
        let printed: Vec<_> = report.steps.iter().map(|step| step.instances[0].lines.len()).collect();
        assert_eq!(printed, [1, naps]);
        said.extend(report.not_suspended);
        let expected = "prints[0] (function file-probe) is in a call that takes longer than 50 ms: STDIO_WRITE";
        if said.last().is_some_and(|why| why == expected) {
            return;
        }
    }
    panic!("it was never so: {said:#?}");
}
