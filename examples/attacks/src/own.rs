//! What a thread finds out about itself without a hostcall: its key and its carrier.

use core::arch::asm;
use monohull_abi::layout::{CarrierLine, INFO_BASE, KEY_COUNT};

/// The first key of functions; there are stubs for it and those behind it.
pub(crate) const FIRST_KEY: u64 = 2;

/// What the key rights of functions are.
fn rights() -> u32 {
    let rights: u32;
    // SAFETY: reads a register, where there are keys; the attacks that ask need them.
    unsafe { asm!("rdpkru", in("ecx") 0, out("eax") rights, out("edx") _, options(nomem, nostack)) };
    rights
}

/// The key of one's own memory: the one that is neither denied to read nor to write. 0 where the processor has no keys.
pub(crate) fn own_key() -> u32 {
    // CPUID leaf 7, ecx bit 4: the system uses keys.
    if core::arch::x86_64::__cpuid_count(7, 0).ecx >> 4 & 1 == 0 {
        return 0;
    }
    let rights = rights();
    (FIRST_KEY as u32..KEY_COUNT as u32).find(|key| rights >> (2 * key) & 0b11 == 0).unwrap_or(0)
}

/// Which carrier this thread is on.
pub(crate) fn carrier() -> u64 {
    let line: u64;
    // SAFETY: reads a register.
    unsafe { asm!("rdgsbase {}", out(reg) line, options(nomem, nostack, preserves_flags)) };
    (line - INFO_BASE) / size_of::<CarrierLine>() as u64
}
