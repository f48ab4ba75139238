//! Single instructions: refused before they can run, stopped when they run, or harmless.

use crate::harness::{Attack, attack};
use crate::image::{WRPKRU, planted};
use serde_json::json;

fn instruction(what: &str) -> Attack {
    attack("instruction", what, "")
}

/// What nothing behind the checker would stop.
const REFUSED: [(&str, &[u8]); 6] = [
    ("WRPKRU", WRPKRU),
    // `mov eax, 0xef010f; nop`: the same bytes in another instruction.
    ("WRPKRU", &[0xb8, 0x0f, 0x01, 0xef, 0x00]),
    // `xrstor [rsp]`, with the 64-bit prefix and without
    ("XRSTOR", &[0x48, 0x0f, 0xae, 0x2c, 0x24]),
    ("XRSTOR", &[0x0f, 0xae, 0x6c, 0x24, 0x40]),
    ("WRFSBASE", &[0xf3, 0x48, 0x0f, 0xae, 0xd0]),
    ("WRGSBASE", &[0xf3, 0x48, 0x0f, 0xae, 0xd8]),
];

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn an_image_with_an_instruction_that_changes_rights_is_refused() {
    for (name, code) in REFUSED {
        let image = planted(code);
        let attack = attack("instruction", "planted", "read").image(image.path());
        attack.is_not_loaded(&[name, "monohull_planted"]);
    }
    // The same image without them is loaded.
    attack("instruction", "planted", "").works("mpk");
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn instructions_that_need_privilege_end_the_instance() {
    for what in ["hlt", "cli", "in", "rdmsr", "write-cr4", "rdpmc", "int", "null-ss"] {
        instruction(what).fails("memory-fault", &["an instruction that needs privilege"]);
    }
    // Their opcodes do not exist for functions, or need privilege, depending on the processor.
    for what in ["swapgs", "xrstors", "sysenter"] {
        instruction(what).fails_by(&["illegal-instruction", "memory-fault", "system-call"], &[]);
    }
}

/// A hypervisor that is called answers a program that it does not serve it; without one there is no such instruction.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn calls_of_a_hypervisor_get_nothing() {
    let called = instruction("vmcall");
    match called.run("mpk", "1").report["status"] == "done" {
        true => called.is_harmless(),
        false => drop(called.fails_by(&["illegal-instruction", "memory-fault"], &[])),
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn traps_end_the_instance() {
    for what in ["int3", "trap-flag"] {
        instruction(what).fails("trap", &["breakpoint or trap"]);
    }
    // Not every processor knows this one.
    instruction("icebp").fails_by(&["trap", "illegal-instruction"], &[]);
    instruction("ud2").fails("illegal-instruction", &["the processor refuses"]);
}

/// The other code segment has the same rights, and its addresses lie where nothing is. (Return and IRET by QEMU's processor are
/// another matter: natively they run.)
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn other_code_segments_lead_nowhere() {
    leads_nowhere("far-jump");
    // Whoever has lost the way to the gate stays inside.
    instruction("load-gs").fails("memory-fault", &["the null page"]);
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn returns_to_other_code_segments_lead_nowhere() {
    for what in ["far-return", "iret"] {
        leads_nowhere(what);
    }
}

/// Not every host has such a segment.
#[track_caller]
fn leads_nowhere(what: &str) {
    let ran = instruction(what).fails("memory-fault", &[]);
    let message = ran.report["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("jumped to") || message.contains("an instruction that needs privilege"), "{message}");
}

/// What a function leaves in flags, control words and registers disturbs nobody.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn what_is_left_dirty_disturbs_nobody() {
    for what in ["dirty", "fxrstor", "x87-pending"] {
        instruction(what).is_harmless();
    }
}

/// The time-stamp counter may be read, unless the workflow denies it: counting in a loop tells the time as well.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn functions_read_the_time_stamp_counter_unless_it_is_denied() {
    for what in ["rdtsc", "rdtscp"] {
        instruction(what).is_harmless();
        let denied = instruction(what).workflow(json!({ "time_stamp_counter": "deny" }));
        denied.fails("time-stamp-counter", &["read the time-stamp counter, which its workflow denies"]);
    }
}
