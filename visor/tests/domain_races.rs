//! Instances that end at bad moments, thousands of times: none is blamed for another's end, none is lost, nothing hangs.

mod support;

use monohull_visor::report::{FailureKind, RunReport, Status};
use serde_json::json;
use std::time::{Duration, Instant};
use support::run;

/// When a race is over in any case.
const DEADLINE: Duration = Duration::from_secs(120);

/// Runs `instances` of a race on `carriers`.
fn race(how: &str, instances: u32, carriers: u32) -> RunReport {
    run(&json!({
        "name": "races",
        "functions": { "races": { "image": "races" } },
        "steps": [{
            "name": "race", "function": "races", "instances": instances, "args": { "how": how },
            "memory": "256MiB", "stack": "16KiB"
        }],
        "network": { "mode": "host", "listen": ["127.0.0.1:0"] },
        "limits": { "carriers": carriers, "timeout": format!("{}s", DEADLINE.as_secs()), "threads": 1_000_000 }
    }))
}

#[track_caller]
fn all_done(report: &RunReport) {
    assert_eq!(report.status, Status::Done, "{:#?}", report.error);
    assert!(report.steps[0].instances.iter().all(|instance| instance.status == Status::Done));
}

#[test]
fn threads_that_start_threads_in_an_instance_that_ends() {
    for _ in 0..3 {
        all_done(&race("start", 200, 4));
    }
}

#[test]
fn instances_that_end_while_others_take_turns() {
    for _ in 0..3 {
        all_done(&race("turns", 1000, 4));
    }
}

#[test]
fn timers_that_are_swept_and_timers_that_run_out() {
    all_done(&race("timers", 1, 1));
    all_done(&race("timers", 8, 4));
}

/// Threads that switch to stacks of their own making keep what belongs to them, on whichever carrier they go on.
#[test]
fn threads_that_run_on_many_stacks() {
    for carriers in [1, 4] {
        let report = race("coroutines", 2, carriers);
        all_done(&report);
        for instance in &report.steps[0].instances {
            assert_eq!(instance.lines[0].text, "2400 steps on 12 stacks");
        }
    }
}

/// A carrier that misses the end of a run waits for the next timer, which is the run's deadline. The report cannot show that: its
/// times end with the last step. The call returns when the last carrier has ended.
#[test]
fn carriers_that_listen_notice_the_end() {
    for carriers in [2, 3] {
        for _ in 0..50 {
            let start = Instant::now();
            all_done(&race("listen", 2, carriers));
            assert!(start.elapsed() < DEADLINE / 2, "a carrier waited for the deadline");
        }
    }
}

/// The second attempts begin long after the last of the first, so that the failure that ends the workflow comes when every instance
/// has run out of time once.
#[test]
fn more_instances_than_cells_that_all_run_out_of_time() {
    const INSTANCES: usize = 600;
    let report = run(&json!({
        "name": "races",
        "functions": { "misbehave": { "image": "misbehave" } },
        "steps": [{
            "name": "race", "function": "misbehave", "instances": INSTANCES, "args": { "how": "sleep" }, "timeout": "20ms",
            "retry": { "max_attempts": 2, "interval": "10s" }
        }],
        "limits": { "carriers": 8, "timeout": "60s" }
    }));
    let error = report.error.expect("a sleeper runs out of time");
    assert!(error.message.contains("20ms"), "{}", error.message);
    let step = &report.steps[0];
    assert_eq!((step.instances.len(), step.status), (INSTANCES, Status::Failed));
    for instance in &step.instances {
        assert!(instance.attempts >= 1 && instance.status != Status::Done, "{instance:?}");
        if let Some(error) = &instance.error {
            assert!(error.kind == FailureKind::Timeout || instance.status == Status::Cancelled, "{instance:?}");
        }
    }
    let twice = step.instances.iter().filter(|instance| instance.attempts == 2).count();
    assert!(twice >= 1, "no instance failed for good");
}
