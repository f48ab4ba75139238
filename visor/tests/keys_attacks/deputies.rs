//! Hostcalls that are to read or write for a function what it may not: an answer and an explanation, and nothing touched.
//! `e2e_hostcalls` has some 400 more, with keys in force too.

use crate::harness::attack;

/// Places, and why they are refused.
const PLACES: [(&str, &str); 9] = [
    ("visor-data", "touches the system partition"),
    ("visor-code", "touches the system partition"),
    ("visor-heap", "touches the system partition"),
    ("trusted-stack", "touches the system partition"),
    ("module-data", "touches the system partition"),
    ("dispatch-table", "touches the system partition"),
    ("signal-stack", "touches the system partition"),
    ("carrier", "touches the system partition"),
    ("selector", "outside the caller's cell"),
];

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn no_hostcall_reads_or_writes_trusted_memory() {
    for (place, why) in PLACES {
        for what in ["print", "fill"] {
            attack("deputy", what, place).fails("error", &[why]);
        }
    }
    // With memory of its own it works.
    for what in ["print", "fill"] {
        attack("deputy", what, "own").works("mpk");
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn no_file_is_filled_from_trusted_memory_or_read_into_it() {
    for (place, why) in PLACES {
        for what in ["store", "load"] {
            attack("deputy", what, place).granted().fails("error", &[why]);
        }
    }
    for what in ["store", "load"] {
        attack("deputy", what, "own").granted().works("mpk");
    }
}
