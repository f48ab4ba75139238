//! Registers of the processor that only assembly reaches.

use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::sync::atomic::{AtomicU8, Ordering};

/// The calling thread's pointer: the first word of its control block, where the x86-64 TLS ABI keeps the block's own
/// address.
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: reads memory that every thread of the process has.
    unsafe { asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly)) };
    pointer
}

/// Empties the x87 registers, which are the MMX registers too: nothing there passes from one function to another.
/// If the processor reports which registers are in use, unused ones are not cleared, which is slow.
pub fn clear_x87() {
    if reports_what_is_in_use() && in_use() & X87_STATE == 0 {
        return;
    }
    // SAFETY: compiled code on x86-64 keeps nothing in them across calls, and `fninit` leaves the state the ABI wants.
    unsafe {
        asm!(
            "fninit", "fldz", "fldz", "fldz", "fldz", "fldz", "fldz", "fldz", "fldz", "fninit",
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            options(nomem, nostack)
        );
    }
}

/// The x87 bit of XINUSE.
const X87_STATE: u32 = 1;

/// XINUSE (Intel SDM volume 1, 13.6): which register sets are not in their initial state.
fn in_use() -> u32 {
    // SAFETY: only called where XGETBV knows index 1, which is what `reports_what_is_in_use` checks.
    unsafe { xgetbv(1) as u32 }
}

/// XCR0 (Intel SDM volume 1, 13.3): the register sets that the kernel has switched on, a bit each. Without XSAVE there are
/// only x87's and SSE's.
pub fn extended_states() -> u64 {
    match uses_xsave() {
        // SAFETY: XGETBV is there, and always knows index 0.
        true => unsafe { xgetbv(0) },
        false => 0b11,
    }
}

/// Where XSAVE writes a component; 0 if there is no such component.
pub(super) fn xsave_offset(component: u32) -> usize {
    match uses_xsave() && extended_states() >> component & 1 == 1 {
        true => __cpuid_count(0xd, component).ebx as usize,
        false => 0,
    }
}

/// Whether the kernel uses XSAVE, which is what XGETBV comes with.
fn uses_xsave() -> bool {
    __cpuid(1).ecx >> 27 & 1 == 1
}

/// # Safety
/// The processor has XGETBV, and it knows this index.
unsafe fn xgetbv(index: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller's promise; it only reads.
    unsafe {
        asm!("xgetbv", in("ecx") index, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    };
    u64::from(high) << 32 | u64::from(low)
}

/// Whether XGETBV knows index 1; asked of the processor once.
fn reports_what_is_in_use() -> bool {
    /// 0 not asked yet, 1 no, 2 yes.
    static ANSWER: AtomicU8 = AtomicU8::new(0);
    match ANSWER.load(Ordering::Relaxed) {
        0 => {
            let known = uses_xsave() && __cpuid(0).eax >= 0xd && __cpuid_count(0xd, 1).eax >> 2 & 1 == 1;
            ANSWER.store(1 + u8::from(known), Ordering::Relaxed);
            known
        }
        answer => answer == 2,
    }
}
