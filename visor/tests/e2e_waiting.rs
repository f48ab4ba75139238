//! What waits is woken, on whichever carrier; and where nothing can wake it, the report says why.

mod support;

use monohull_visor::report::{Blame, FailureKind, Status};
use serde_json::json;
use support::run;

/// The carrier of the thread that closes the socket goes on in user code.
#[test]
fn a_reader_learns_on_another_carrier_that_its_socket_is_closed() {
    for _ in 0..10 {
        let report = run(&json!({
            "name": "waiting",
            "functions": { "races": { "image": "races" } },
            "steps": [{ "name": "close", "function": "races", "args": { "how": "close" } }],
            "network": { "mode": "host", "listen": ["127.0.0.1:0"] },
            "limits": { "carriers": 2, "timeout": "30s" },
        }));
        assert_eq!(report.status, Status::Done, "{:#?}", report.error);
    }
}

#[test]
fn threads_cannot_wait_on_a_word_in_a_mapped_file() {
    let report = run(&json!({
        "name": "waiting",
        "functions": { "races": { "image": "races" } },
        "steps": [{ "name": "mapped", "function": "races", "args": { "how": "mapped-word" } }],
        "files": [{ "at": "/data", "memory": "1MiB" }],
        "limits": { "timeout": "30s" },
    }));
    assert_eq!(report.status, Status::Done, "{:#?}", report.error);
}

/// As many instances as there are places for wait for what an instance makes that has no place. No function is to blame.
#[test]
fn a_wait_for_instances_that_cannot_start_is_an_error() {
    let report = run(&json!({
        "name": "waiting",
        "functions": { "misbehave": { "image": "misbehave" }, "no-op": { "image": "no-op" } },
        "steps": [
            { "name": "takes", "function": "misbehave", "args": { "how": "missing-slot" }, "instances": 256, "memory": "4MiB" },
            { "name": "fills", "function": "no-op" },
        ],
        "limits": { "carriers": 2, "timeout": "60s" },
    }));
    let error = report.error.expect("nothing can go on");
    assert_eq!((error.kind, error.blame), (FailureKind::Deadlock, Blame::Workflow), "{}", error.message);
    assert!(error.message.contains("1 more cannot be started"), "{}", error.message);
}
