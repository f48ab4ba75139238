//! Memory that is not the attacker's: read, written, run.

use crate::harness::{Attack, KEYS, MODULES_ELSEWHERE, attack};
use monohull_abi::layout::CELL_COUNT;
use monohull_trampoline::system::FIRST_FUNCTION_KEY;
use serde_json::json;
use std::collections::HashSet;

/// The processor's description of the fault, as the report gives it.
const DENIED: &str = "protection key denies";

fn memory(what: &str, how: &str) -> Attack {
    attack("memory", what, how)
}

/// Every way of touching a place of the system's is denied, in both separations; without keys it is there to be touched.
fn trusted(what: &str, owner: &str) {
    for how in ["read", "write"] {
        memory(what, how).works("process");
        memory(what, how).fails("memory-fault", &[DENIED, owner]);
    }
    memory(what, "read").apart().fails("memory-fault", &[DENIED, owner]);
    // Data is not executable, of any owner.
    memory(what, "run").fails("memory-fault", &["jumped to", owner]);
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn memory_of_the_visor_is_out_of_reach() {
    for what in ["visor-heap", "trusted-stack", "libc-data"] {
        trusted(what, "in the system partition");
    }
    memory("visor-data", "read").works("process");
    for how in ["read", "write"] {
        memory("visor-data", how).fails("memory-fault", &[DENIED, "in the system partition"]);
    }
    memory("visor-code", "read").works("process");
    memory("visor-code", "read").fails("memory-fault", &[DENIED, "in the system partition"]);
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn memory_of_the_libos_is_out_of_reach() {
    if !MODULES_ELSEWHERE {
        trusted("module-data", "in the system partition");
    }
    memory("dispatch-table", "read").works("process");
    for how in ["read", "write"] {
        memory("dispatch-table", how).fails("memory-fault", &[DENIED, "in the system partition"]);
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn thread_local_data_is_out_of_reach() {
    memory("tls", "read").works("process");
    for how in ["read", "write"] {
        memory("tls", how).fails("memory-fault", &[DENIED, "in the system partition"]);
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn memory_of_the_gates_is_out_of_reach() {
    for what in ["signal-stack", "carrier"] {
        memory(what, "read").works("process");
        for how in ["read", "write"] {
            memory(what, how).fails("memory-fault", &[DENIED, "memory of the gates"]);
        }
        memory(what, "run").fails("memory-fault", &["jumped to", "memory of the gates"]);
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn the_info_page_is_read_and_never_written() {
    memory("info-page", "read").works("mpk");
    for what in ["info-page", "selector"] {
        memory(what, "write").fails("memory-fault", &[DENIED, "the info page"]);
        memory(what, "write").apart().fails("memory-fault", &[DENIED, "the info page"]);
    }
    memory("info-page", "run").fails("memory-fault", &["jumped to", "the info page"]);
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn guard_pages_stop_all_code() {
    for how in ["read", "write"] {
        memory("guard", how).fails("stack-overflow", &["overran its stack"]);
        memory("carrier-guard", how).fails("memory-fault", &["memory of the gates"]);
    }
}

/// Everything of one function that another might want.
const NEIGHBOUR: [(&str, &str); 11] = [
    ("stack", "read"),
    ("stack", "write"),
    ("heap", "read"),
    ("heap", "write"),
    ("grown-heap", "read"),
    ("grown-heap", "write"),
    ("data", "read"),
    ("data", "write"),
    ("code", "read"),
    ("buffer", "read"),
    ("buffer", "write"),
];

fn owner_of(what: &str) -> &'static str {
    if what == "buffer" { "slot" } else { "memory of another instance, victim[0]" }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_function_cannot_touch_its_neighbour() {
    for (what, how) in NEIGHBOUR {
        let ran = memory(what, how).works("mpk");
        // The victim sees it: what it says elsewhere means something.
        assert_eq!(ran.printed("victim"), [if how == "write" { "harmed" } else { "intact" }], "{what}: {}", ran.output);
        memory(what, how).apart().fails("memory-fault", &[DENIED, owner_of(what)]);
    }
}

/// Pages of a mapped file have their owner's key before they are visible, and only the owner's accesses populate them.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_function_cannot_touch_a_file_its_neighbour_has_mapped() {
    let files = json!({ "files": [{ "at": "/map", "memory": "16MiB" }] });
    // Pages that are copies, made or not made yet; then a copy of what was shown, and a page of the file's own.
    for (victim, what) in [("map", "mapped"), ("map", "unfilled"), ("show", "mapped"), ("show", "unfilled")] {
        let mapped = |how: &str| memory(what, how).victim(victim).workflow(files.clone());
        for how in ["read", "write"] {
            let ran = mapped(how).works("mpk");
            assert_eq!(ran.printed("victim"), [if how == "write" { "harmed" } else { "intact" }], "{}", ran.output);
            mapped(how).apart().fails("memory-fault", &[DENIED, owner_of(what)]);
        }
        mapped("run").fails("memory-fault", &["jumped to"]);
        mapped("run").apart().fails("memory-fault", &["jumped to"]);
    }
}

/// Data is not executable, a neighbour's no more than the system's, and code is not writable: keys are not all that stands there.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn data_is_not_run_and_code_not_written() {
    for what in ["stack", "heap", "grown-heap", "data", "buffer"] {
        memory(what, "run").fails("memory-fault", &["jumped to", owner_of(what)]);
        memory(what, "run").apart().fails("memory-fault", &["jumped to", owner_of(what)]);
    }
    memory("code", "write").fails("memory-fault", &[owner_of("code")]);
    memory("code", "write").apart().fails("memory-fault", &[owner_of("code")]);
    for what in ["visor-data", "dispatch-table", "tls"] {
        memory(what, "run").fails("memory-fault", &["jumped to", "in the system partition"]);
    }
    for what in ["handed-on", "freed"] {
        memory(what, "run").apart().fails("memory-fault", &["jumped to", "slot"]);
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn code_of_a_neighbour_runs_with_ones_own_rights() {
    memory("code", "run").works("mpk");
    memory("code", "run").apart().fails("memory-fault", &[DENIED, "memory of another instance, victim[0]"]);
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_buffer_that_was_handed_on_or_freed_is_out_of_reach() {
    for what in ["handed-on", "freed"] {
        for how in ["read", "write"] {
            memory(what, how).works("mpk");
            memory(what, how).apart().fails("memory-fault", &[DENIED, "slot"]);
        }
    }
}

/// A buffer that has grown and lies elsewhere now: its old range has no owner.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn the_old_place_of_a_buffer_that_has_moved_is_out_of_reach() {
    for how in ["read", "write"] {
        memory("moved", how).apart().fails("memory-fault", &["slot"]);
    }
}

/// Fresh mappings have key 0: each new mapping must be tagged again. Victim and attacker get cells and keys that others have had, for
/// another image: all keys there are.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn cells_and_keys_that_were_used_before_keep_functions_apart_too() {
    let used = |what: &str, how: &str| memory(what, how).apart().after(KEYS, KEYS);
    for (what, how) in NEIGHBOUR {
        let ran = used(what, how).fails("memory-fault", &[DENIED, owner_of(what)]);
        let homes = ran.homes();
        let keys: HashSet<u32> = homes.iter().map(|(_, key)| *key).collect();
        assert_eq!((homes.len(), keys.len()), (KEYS as usize, KEYS as usize), "{homes:?}");
        // A buffer has no cell.
        if let Some(cell) = ran.cell_touched() {
            assert!(homes.iter().any(|(home, _)| *home == cell), "{what}: cell {cell} of {homes:?}");
        }
    }
    used("handed-on", "read").fails("memory-fault", &[DENIED, "slot"]);
    used("selector", "write").fails("memory-fault", &[DENIED, "the info page"]);
    used("visor-data", "read").fails("memory-fault", &[DENIED, "in the system partition"]);
    // In a domain without separation the same, where all instances have one key, and every cell has been used.
    let ran = memory("visor-data", "read")
        .after(CELL_COUNT as u32, CELL_COUNT as u32)
        .fails("memory-fault", &[DENIED, "in the system partition"]);
    let homes = ran.homes();
    assert_eq!(homes.len(), CELL_COUNT);
    assert!(homes.iter().all(|(_, key)| *key == FIRST_FUNCTION_KEY), "{homes:?}");
}

/// The frames through which a key's instances are entered are memory of that key. The next instance with it must not be led
/// by what the one before has left there.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn entry_frames_are_empty_for_the_next_instance_with_the_same_key() {
    let left = memory("left-in-frame", "").apart().carriers(1).attempts("1,1,1");
    left.fails("error", &["nothing was left"]);
}
