//! The kernel's doors past all keys: every one is behind a system call, and no system call of a function is made.

use crate::harness::{DOORS, attack};

fn all(how: &str) {
    for (door, number) in DOORS {
        attack("door", door, how).fails("system-call", &[&format!("made system call {number} directly")]);
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn by_an_instruction_of_ones_own() {
    all("syscall");
    attack("door", "getpid", "selector").fails("memory-fault", &["protection key denies", "the info page"]);
    attack("door", "getpid", "int80").fails("system-call", &["made system call 20 directly"]);
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn by_the_function_in_libc() {
    all("libc");
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn by_the_instruction_in_libc() {
    all("instruction");
}
