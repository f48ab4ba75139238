//! Instances that end at bad moments, thousands of times: none is blamed for another's end, none is lost, nothing hangs.

mod support;

use monohull::report::{RunReport, Status};
use serde_json::json;
use std::time::Duration;
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

/// A carrier that misses the end of a run waits for the next timer, which is the run's deadline.
#[test]
fn carriers_that_listen_hear_the_end() {
    for carriers in [2, 3] {
        for _ in 0..50 {
            let report = race("listen", 2, carriers);
            all_done(&report);
            assert!(Duration::from_micros(report.duration_us) < DEADLINE, "a carrier waited for the deadline");
        }
    }
}

#[test]
fn more_instances_than_cells_that_all_run_out_of_time() {
    let report = run(&json!({
        "name": "races",
        "functions": { "misbehave": { "image": "misbehave" } },
        "steps": [{
            "name": "race", "function": "misbehave", "instances": 600, "args": { "how": "sleep" }, "timeout": "20ms"
        }],
        "limits": { "carriers": 8, "timeout": "60s" }
    }));
    let error = report.error.expect("a sleeper runs out of time");
    assert!(error.message.contains("20ms"), "{}", error.message);
}
