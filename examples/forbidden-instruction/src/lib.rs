//! Holds an instruction that no image may hold: the loader refuses it before anything of it is mapped.
#![no_std]

use core::arch::asm;
use monohull_std::prelude::*;

#[monohull::main]
fn main() {
    take_the_gate();
}

/// Moves `gs`, by which every function on this carrier finds its gate.
#[inline(never)]
fn take_the_gate() {
    // SAFETY: never runs.
    unsafe { asm!("wrgsbase {}", in(reg) 0u64) };
}
