//! The time-stamp counter where a workflow denies it to functions.
//!
//! The kernel can make reading the counter a fault, for a thread, whatever runs on it: toggling that at each crossing would
//! cost a system call. So it stays denied, and when trusted code reads the counter (the vDSO does for each clock) the
//! handler reads it in its place. For user code the fault is the end of the instance, as any other.

use monohull_trampoline::system::copy;

/// `si_code` for faults the kernel has no address for: a general-protection fault.
pub(super) const SI_KERNEL: i32 = 128;
const RDTSC: [u8; 2] = [0x0f, 0x31];
const RDTSCP: [u8; 3] = [0x0f, 0x01, 0xf9];

/// The instruction at `ip`, where there was a fault of this kind, if it reads the counter.
pub(super) fn reading_at(signal: i32, code: i32, ip: u64) -> Option<&'static [u8]> {
    let readings: [&[u8]; 2] = [&RDTSC, &RDTSCP];
    let mut read = [0u8; RDTSCP.len()];
    let mut is_at = |wanted: &&[u8]| {
        let read = &mut read[..wanted.len()];
        // SAFETY: the bytes are ours; wherever `ip` leads, what cannot be read is survived.
        unsafe { copy(read.as_mut_ptr(), ip as *const u8, read.len()) && *read == **wanted }
    };
    readings.into_iter().filter(|_| signal == libc::SIGSEGV && code == SI_KERNEL).find(|wanted| is_at(wanted))
}

/// Does what `instruction` was to do, and goes on behind it.
///
/// # Safety
/// Called in a handler, with the registers of trusted code that was stopped there.
pub(super) unsafe fn read_instead(instruction: &[u8], registers: &mut [libc::greg_t; 23]) {
    let mut processor = 0;
    // SAFETY: the counter may be read between the two calls, which change nothing else.
    let now = unsafe {
        libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE);
        let now = core::arch::x86_64::__rdtscp(&raw mut processor);
        libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV);
        now
    };
    registers[libc::REG_RAX as usize] = (now & u64::from(u32::MAX)) as i64;
    registers[libc::REG_RDX as usize] = (now >> 32) as i64;
    if *instruction == RDTSCP {
        registers[libc::REG_RCX as usize] = processor.into();
    }
    registers[libc::REG_RIP as usize] += instruction.len() as i64;
}
