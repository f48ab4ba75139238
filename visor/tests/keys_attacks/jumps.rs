//! Jumps into trusted code.

use crate::harness::{self, Attack, MODULES_ELSEWHERE, attack};
use crate::places;
use monohull_visor::domain::keys::by_default;
use serde_json::json;

const SYSTEM: &str = "in the system partition";

fn jump(what: &str, how: &str) -> Attack {
    attack("jump", what, how)
}

/// Control that arrives with other rights than the stub's is stopped by the comparison behind WRPKRU.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_stub_gives_no_rights_but_its_own() {
    // With these rights key 0 is open for one instruction, so every kernel can report the fault.
    for how in ["wrpkru,open", "wrpkru,closed"] {
        jump("stub", how).fails("illegal-instruction", &["jumped to", SYSTEM]);
        jump("stub", &format!("{how},other-carrier")).fails("illegal-instruction", &["jumped to", SYSTEM]);
        jump("stub", &format!("{how},victims-key")).apart().fails("illegal-instruction", &["jumped to", SYSTEM]);
    }
    // One's own stub with one's own frame leads back with one's own rights.
    for how in ["", "wrpkru", "compare"] {
        jump("stub", how).fails("memory-fault", &["protection key denies", SYSTEM]);
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_stub_serves_its_own_carrier_alone() {
    for how in
        ["other-carrier", "other-carrier,wrpkru", "other-carrier,victims-key", "other-carrier,victims-key,wrpkru"]
    {
        jump("stub", how).apart().fails("illegal-instruction", &["jumped to", SYSTEM]);
    }
}

/// The frame of another's key holds a stack only while its carrier is on the way in.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_stub_of_another_key_finds_no_stack() {
    for how in ["victims-key", "victims-key,wrpkru"] {
        jump("stub", how)
            .apart()
            .carriers(1)
            .attempts("1,1,1")
            .fails("memory-fault", &["jumped to", SYSTEM, "the null page"]);
    }
    let compare = jump("stub", "victims-key,compare").apart();
    compare.fails("memory-fault", &["jumped to", "protection key denies", "memory of the gates"]);
}

/// WRPKRU wants a zero in ecx, not in all of rcx, and rcx is what the stub clears the frame with.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_stub_leaves_no_stack_behind_that_its_caller_chose() {
    let poison = jump("stub", "victims-key,wrpkru,poison").apart().carriers(1).attempts("1,1,1");
    poison.fails("memory-fault", &["jumped to", "the null page"]);
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn an_exit_gate_serves_its_own_carrier_alone() {
    // One's own gate is a hostcall like any other, wherever one enters it. With one carrier it is the own one whenever a slice of time ends.
    for how in ["", "wrpkru"] {
        jump("exit", how).carriers(1).is_harmless();
    }
    // A slice of time that ends in the gate has the call made: it is the attacker's own.
    jump("exit", "wrpkru,closed").fails_unless_interrupted("illegal-instruction", &["jumped to", SYSTEM]);
    for how in ["tail", "other-carrier,tail"] {
        jump("exit", how).fails("memory-fault", &["jumped to", "protection key denies"]);
    }
    // The other carrier's context says whose it is.
    let other = jump("exit", "other-carrier,print,busy").victim("busy").carriers(2).attempts("1,1,1");
    other.fails("illegal-instruction", &["jumped to", SYSTEM]);
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn the_signal_entry_serves_the_kernel_alone() {
    for how in ["", "wrpkru", "wrpkru,closed", "low", "signal-stack", "signal-stack,wrpkru"] {
        jump("signal-entry", how).fails("illegal-instruction", &["jumped to", SYSTEM]);
    }
    // A frame that would not lie on the stack as a whole, or not as the kernel aligns it.
    for how in ["top,kernels", "top,kernels,unaligned", "signal-stack,kernels,unaligned"] {
        jump("signal-entry", how).fails("illegal-instruction", &["jumped to", SYSTEM]);
    }
    // With everything as the kernel would have it, the handler finds user code running, and that the kernel has delivered nothing: no word of
    // the stack, which the last signal's registers may still be on, is in the report.
    for how in ["signal-stack,kernels", "signal-stack,kernels,nudge"] {
        jump("signal-entry", how).fails("trap", &["jumped to the entry point of signal handlers"]);
    }
    let others = jump("signal-entry", "others-stack,kernels,busy").victim("busy").carriers(2).attempts("1,1,1");
    others.fails("illegal-instruction", &["jumped to", SYSTEM]);
    jump("plain-signal-entry", "").fails("memory-fault", &["protection key denies", SYSTEM]);
}

/// No byte of a gate is a way in, be there an instruction of its own or not, whatever the registers hold. Far returns are left out:
/// what QEMU's processor makes of them ends its kernel's thread. See `instructions` for those.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn no_byte_of_a_gate_is_a_way_in() {
    let kinds = ["memory-fault", "illegal-instruction", "trap", "stack-overflow", "system-call", "timeout", "error"];
    // A name, the gate, how many there are of it and in which distance, and a length that is longer than what is there.
    let gates = [
        ("stub", "monohull_entry_keys", 448, 128, 128),
        ("victims-stub", "monohull_entry_keys", 448, 128, 128),
        ("exit", "monohull_exit_keys", 32, 256, 96),
        ("tail", "monohull_exit_tail", 1, 0, 224),
        ("signal-entry", "monohull_signal_entry_keys", 1, 0, 176),
    ];
    for (name, symbol, count, distance, bytes) in gates {
        let skipped = places::far_returns(&harness::visor(), symbol, count, distance, bytes);
        assert!(skipped.len() < bytes / 4, "{name}: {skipped:?}");
        let skipped: String = skipped.iter().map(|byte| format!(",skip-{byte}")).collect();
        for registers in ["", ",registers"] {
            // Bytes in the middle of an instruction may be a loop, which hurts only who runs it.
            let sweep = jump("sweep", &format!("{name}{registers}{skipped}")).apart();
            let sweep = sweep.attempts(&vec!["1"; bytes].join(",")).attacker(json!({ "timeout": "5s" }));
            let ran = sweep.run("mpk", &sweep.attempts);
            if !by_default() && ran.report["error"]["kind"] == "process" {
                // Older kernels may be unable to deliver a fault's signal after this code: they end the process.
                assert_eq!(ran.report["error"]["blame"], "function", "{name}{registers}: {}", ran.output);
                ran.got_nothing(name);
                continue;
            }
            sweep.has_failed(&ran, &kinds, &[]);
        }
    }
}

/// Trusted functions have the rights of the calling thread.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn trusted_code_runs_with_ones_own_rights() {
    jump("copy", "copy").works("process");
    jump("libc-wrpkru", "open").fails("illegal-instruction", &["which Monohull has removed"]);
    jump("resolver", "").fails("illegal-instruction", &["XRSTOR", "which Monohull has removed"]);
    let mut places = vec![("copy", "copy"), ("handler", "serve"), ("enter", ""), ("exit_user_from_signal", "")];
    if !MODULES_ELSEWHERE {
        places.push(("module-handler", "serve"));
    }
    for (place, how) in places {
        jump(place, how).fails("memory-fault", &["jumped to", "protection key denies"]);
    }
}

/// What the vDSO reads is the system's, and the system calls that it makes are functions' own.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn the_vdso_leaks_nothing_to_functions() {
    jump("vdso-clock", "clock").works("process");
    jump("vdso-clock", "clock").fails("memory-fault", &["jumped to", "protection key denies"]);
    jump("vdso-clock", "kernels-clock").fails("system-call", &["made system call 228 directly"]);
}

/// The dispatch of system calls does not see what is asked of this page. Not every kernel has it.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn the_vsyscall_page_is_out_of_reach() {
    let ran = jump("vsyscall", "").fails_by(&["system-call", "memory-fault"], &[]);
    let reason =
        if ran.report["error"]["kind"] == "system-call" { "made system call 96" } else { "0xffffffffff600000" };
    assert!(ran.report["error"]["message"].as_str().is_some_and(|message| message.contains(reason)), "{}", ran.output);
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn a_system_call_inside_an_instruction_is_not_run() {
    jump("middle", "").fails("system-call", &["made system call 39 directly"]);
}
