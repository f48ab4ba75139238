//! All there is of something: an error to the offender, service to the others.

use crate::harness::{Attack, KEYS, attack};
use monohull_abi::layout::CELL_COUNT;
use serde_json::json;
use std::collections::HashSet;

fn exhaustion(what: &str) -> Attack {
    attack("exhaustion", what, "").attempts("1,1")
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn memory_and_slots_and_threads() {
    for what in ["memory", "slots", "names"] {
        let hoard = exhaustion(what).attacker(json!({ "memory": "2MiB" }));
        hoard.apart().fails("memory-limit", &["its memory limit is 2097152 bytes"]);
    }
    exhaustion("parked").attacker(json!({ "stack": "16KiB" })).fails("panic", &["threads at a time"]);
    exhaustion("recursion").attempts("1,8,1").fails("stack-overflow", &["overran its stack"]);
    exhaustion("output").is_harmless();
}

/// Where each instance has a key of its own, each buffer that one holds is a mapping, and a process has only so many: who takes all
/// gets an error, before others get nothing and no instance starts.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn mappings() {
    let hoard = attack("exhaustion", "mappings", "8500").attempts("1,1");
    hoard.works("mpk");
    hoard.apart().fails("memory-limit", &["slot buffers at a time"]);
}

/// More instances than keys, and more than cells: instances wait for their turn, and each gets a key and a cell. All keys and cells
/// are in use at once.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn keys_and_cells() {
    let ran = attack("memory", "info-page", "read").apart().after(3 * KEYS + 1, KEYS).works("mpk");
    let keys: HashSet<u32> = ran.homes().iter().map(|(_, key)| *key).collect();
    assert_eq!(keys.len(), KEYS as usize, "{}", ran.output);
    let ran = attack("memory", "info-page", "read").after(CELL_COUNT as u32 + 20, CELL_COUNT as u32).works("mpk");
    assert_eq!(ran.homes().len(), CELL_COUNT, "{}", ran.output);
}

/// A wait for an instance without a key is an error, and not endless.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_wait_for_an_instance_without_a_key_is_an_error() {
    let ran = attack("memory", "info-page", "read").apart().after(KEYS + 1, KEYS + 1).at_once().run("mpk", "1");
    let error = &ran.report["error"];
    assert_eq!((ran.status.code(), &error["step"]), (Some(1), &"before".into()), "{}: {}", ran.status, ran.output);
    assert_eq!((&error["kind"], &error["blame"]), (&"deadlock".into(), &"workflow".into()), "{error:#}");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("1 more cannot be started") && message.contains("all protection keys"), "{message}");
}
