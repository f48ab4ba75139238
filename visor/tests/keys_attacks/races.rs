//! Instances that end at bad moments, each with a key of its own that goes to the next one at once: none is blamed for another's
//! end, none is lost, and nothing hangs. `domain_races` has the same races without keys, in many more rounds.

use crate::harness::{self, KEYS, image};
use serde_json::{Value, json};

/// Instances of a race that get keys in turns.
const MANY: u32 = 3 * KEYS;

/// Runs `instances` of this image so, each with a key of its own.
fn race(name: &str, args: &Value, instances: u32, carriers: u32, more: Value) -> harness::Ran {
    let mut step = json!({
        "name": "race", "function": "races", "instances": instances, "args": args, "memory": "64MiB", "stack": "16KiB"
    });
    step.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let document = json!({
        "name": "races",
        "isolation": "function",
        "functions": { "races": { "image": image(name) } },
        "steps": [step],
        "unread": "ignore",
        "network": { "mode": "host", "listen": ["127.0.0.1:0"] },
        "limits": { "carriers": carriers, "timeout": "600s", "threads": 100_000 }
    });
    harness::run(&document, None)
}

#[track_caller]
fn all_done(how: &str, instances: u32, carriers: u32) {
    let ran = race("races", &json!({ "how": how }), instances, carriers, json!({}));
    ran.is_done(how);
    assert_eq!(ran.report["isolation"], "mpk");
    let ended = ran.step("race")["instances"].as_array().map_or(0, Vec::len);
    assert_eq!(ended as u32, instances, "{how}");
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn instances_that_end_while_their_threads_start_others_or_take_turns() {
    all_done("start", KEYS, 4);
    all_done("turns", MANY, 4);
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn timers_and_listeners_of_instances_that_end() {
    all_done("timers", 2, 2);
    for carriers in [2, 3] {
        all_done("listen", 4, carriers);
    }
}

/// Those that wait for a key find that the run is over.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn more_instances_than_keys_that_all_run_out_of_time() {
    let ran = race("misbehave", &json!({ "how": "sleep" }), MANY, 8, json!({ "timeout": "100ms" }));
    let error = &ran.report["error"];
    assert_eq!((ran.status.code(), &error["kind"]), (Some(1), &"timeout".into()), "{}: {}", ran.status, ran.output);
    assert!(error["message"].as_str().is_some_and(|message| message.contains("100ms")), "{error:#}");
}
