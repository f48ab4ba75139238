//! Single instructions: refused before they can run, stopped when they run, or harmless.

use crate::harness::{Attack, LINE, attack};
use crate::image::{WRPKRU, planted};
use serde_json::json;
use std::arch::x86_64::{__cpuid, __cpuid_count};

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
    instruction("swapgs").fails("memory-fault", &["an instruction that needs privilege"]);
    // A processor without it raises an invalid opcode before it checks privilege.
    match has_xsaves() {
        true => instruction("xrstors").fails("memory-fault", &["an instruction that needs privilege"]),
        false => instruction("xrstors").fails("illegal-instruction", &["the processor refuses"]),
    };
}

/// AMD's processors, and QEMU's, have no SYSENTER for 64-bit code. Intel's have, and the kernel takes who comes that way for a 32-bit
/// program: its call is a function's own, or it is sent back to where such a program would go on and nothing is; a kernel without
/// 32-bit programs has the processor refuse it for want of privilege.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn the_other_way_into_the_kernel_is_none() {
    if vendor() != *b"GenuineIntel" {
        instruction("sysenter").fails("illegal-instruction", &["the processor refuses"]);
        return;
    }
    let ran = instruction("sysenter").fails_by(&["system-call", "memory-fault"], &[]);
    let error = &ran.report["error"];
    let reasons: &[&str] = match error["kind"] == "system-call" {
        true => &["made system call"],
        false => &["jumped to", "an instruction that needs privilege"],
    };
    let message = error["message"].as_str().unwrap_or_default();
    assert!(reasons.iter().any(|reason| message.contains(reason)), "{error:#}");
}

/// Without a hypervisor there is no such instruction, and QEMU's processor is none although it says so. Those that there are refuse a
/// program their service: with an answer, or as if they were not there.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn calls_of_a_hypervisor_get_nothing() {
    let called = instruction("vmcall");
    if hypervisor().is_some_and(|name| name != *b"TCGTCGTCGTCG") && called.run("mpk", "1").report["status"] == "done" {
        called.is_harmless();
    } else {
        called.fails("illegal-instruction", &["the processor refuses"]);
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn traps_end_the_instance() {
    for what in ["int3", "trap-flag"] {
        instruction(what).fails("trap", &["breakpoint or trap"]);
    }
    // Every real processor has it; QEMU's does not know it.
    match hypervisor() == Some(*b"TCGTCGTCGTCG") {
        true => instruction("icebp").fails("illegal-instruction", &["the processor refuses"]),
        false => instruction("icebp").fails("trap", &["breakpoint or trap"]),
    };
    instruction("ud2").fails("illegal-instruction", &["the processor refuses"]);
}

/// Whose processor it says it is.
fn vendor() -> [u8; 12] {
    let leaf = __cpuid(0);
    name([leaf.ebx, leaf.edx, leaf.ecx])
}

/// Which hypervisor is below, if one says so: CPUID leaf 1, ecx bit 31.
fn hypervisor() -> Option<[u8; 12]> {
    let leaf = (__cpuid(1).ecx >> 31 == 1).then(|| __cpuid(0x4000_0000))?;
    Some(name([leaf.ebx, leaf.ecx, leaf.edx]))
}

fn name(words: [u32; 3]) -> [u8; 12] {
    words.map(u32::to_le_bytes).as_flattened().try_into().expect("twelve bytes")
}

/// CPUID leaf 13, 1: eax bit 3.
fn has_xsaves() -> bool {
    __cpuid_count(0xd, 1).eax >> 3 & 1 == 1
}

/// The other code segment has the same rights, and its addresses lie where nothing is. (Return and IRET by QEMU's processor are
/// another matter: natively they run.)
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn other_code_segments_lead_nowhere() {
    leads_nowhere("far-jump");
    // Code that has lost the way to the gate stays inside.
    instruction("load-gs").fails_unless_interrupted("memory-fault", &["the null page"]);
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

/// What a function leaves in flags, control words and registers does not affect other instances.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn dirty_registers_do_not_leak() {
    for what in ["dirty", "fxrstor", "x87-pending"] {
        instruction(what).is_harmless();
    }
    // One carrier: the next thread there gets the state that the gate has left.
    instruction("control-words").carriers(1).is_harmless();
    let ran = instruction("direction").carriers(1).works("mpk");
    assert!(ran.printed("attacker").contains(&LINE), "{}", ran.output);
}

/// The time-stamp counter may be read, unless the workflow denies it: counting in a loop measures time as well.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn functions_read_the_time_stamp_counter_unless_it_is_denied() {
    for what in ["rdtsc", "rdtscp"] {
        instruction(what).is_harmless();
        let denied = instruction(what).workflow(json!({ "time_stamp_counter": "deny" }));
        denied.fails("time-stamp-counter", &["read the time-stamp counter, which its workflow denies"]);
    }
}
