//! Attacks after a restore: a process that goes on with a checkpoint has the walls of one that began with its workflow.

use crate::harness::attack;

/// The processor's description of the fault, as the report gives it.
const DENIED: &str = "protection key denies";
const SYSTEM: &str = "in the system partition";

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn memory_of_the_system_is_out_of_reach_after_a_restore() {
    for what in ["visor-heap", "trusted-stack", "libc-data"] {
        attack("memory", what, "read").restored().works("process");
        attack("memory", what, "read").restored().fails("memory-fault", &[DENIED, SYSTEM]);
        attack("memory", what, "write").restored().apart().fails("memory-fault", &[DENIED, SYSTEM]);
    }
    attack("memory", "carrier", "write").restored().fails("memory-fault", &[DENIED, "memory of the gates"]);
    attack("memory", "selector", "write").restored().fails("memory-fault", &[DENIED, "the info page"]);
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn memory_of_another_instance_is_out_of_reach_after_a_restore() {
    for what in ["stack", "grown-heap", "data", "buffer"] {
        let ran = attack("memory", what, "write").restored().works("mpk");
        assert_eq!(ran.printed("victim"), ["harmed"], "{what}: {}", ran.output);
        attack("memory", what, "read").restored().apart().fails("memory-fault", &[DENIED]);
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn gates_and_the_kernel_are_closed_after_a_restore() {
    attack("jump", "stub", "wrpkru,open").restored().fails("illegal-instruction", &["jumped to", SYSTEM]);
    attack("jump", "stub", "wrpkru").restored().fails("memory-fault", &[DENIED, SYSTEM]);
    attack("signal", "frame", "bare").restored().fails("system-call", &["made system call 15 directly"]);
    attack("signal", "fault", "trusted-stack").restored().fails("illegal-instruction", &["the processor refuses"]);
}
