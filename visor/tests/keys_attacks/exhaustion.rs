//! All there is of something: an error to the offender, service to the others.

use crate::harness::{Attack, attack};
use serde_json::json;

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

/// More instances than cells, and far more than keys: they wait for their turn, and everybody gets one.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn keys_and_cells() {
    attack("memory", "info-page", "read").apart().after("no-op", 300).is_harmless();
    attack("memory", "info-page", "read").after("no-op", 300).is_harmless();
}
