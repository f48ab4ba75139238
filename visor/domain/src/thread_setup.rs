//! What a host thread needs before it may touch user memory: a block of its own at a fixed address, an alternate signal stack
//! in it, and `gs`.
//!
//! ```text
//! CARRIER_BASE + i * 64 KiB
//! | guard | alternate signal stack ↓                         | context (one page) |
//! ```

use crate::address_space::{Access, AddressSpace, AddressSpaceError};
use crate::fault_injection::{self, Mitigation};
use crate::keys::Key;
use crate::processor::vector_state;
use monohull_abi::layout::{CARRIER_BASE, CARRIER_MAX, CARRIER_SIZE, CarrierLine, INFO_BASE, PAGE, SELECTOR_ALLOW};
use monohull_trampoline::system::{CarrierContext, context_address, exit_gate, thread_pointer};

/// A carrier could not be set up.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum CarrierError {
    #[error("{what} failed: {source}")]
    Host {
        /// What was tried.
        what: &'static str,
        /// The host's answer.
        source: std::io::Error,
    },
    #[error("the carrier's block: {0}")]
    Region(#[from] AddressSpaceError),
}

const ARCH_SET_GS: i32 = 0x1001;
const RSEQ_FLAG_UNREGISTER: i32 = 1;
/// The signature glibc registers its restartable sequences with on x86.
const RSEQ_SIGNATURE: u32 = 0x5305_3053;

/// The first half of a carrier's set-up: what a forked process inherits.
#[derive(Debug)]
pub struct ThreadSetup {
    pub(crate) index: usize,
    old_stack: libc::stack_t,
}

// SAFETY: the address in it is not used but to give it back to the kernel.
unsafe impl Send for ThreadSetup {}

impl ThreadSetup {
    /// Sets up a carrier's block, `gs` and alternate stack on the calling thread, and unregisters rseq.
    pub fn install(space: &AddressSpace, index: usize) -> Result<ThreadSetup, CarrierError> {
        let block = CARRIER_BASE + index as u64 * CARRIER_SIZE;
        space.protect(block + PAGE..block + CARRIER_SIZE, Access::ReadWrite, Key::SYSTEM)?;
        let stack = signal_stack(index);
        // SAFETY: plain data, filled in by the next call.
        let mut old_stack: libc::stack_t = unsafe { std::mem::zeroed() };
        // SAFETY: the stack is mapped and used for nothing else.
        checked("the alternate signal stack", unsafe { libc::sigaltstack(&stack, &mut old_stack) }.into())?;
        let setup = ThreadSetup { index, old_stack };
        unregister_rseq()?;
        // SAFETY: x86-64 glibc does not use gs; user code reads its gate there.
        checked("arch_prctl(ARCH_SET_GS)", unsafe {
            libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, info_line(index))
        })?;
        Ok(setup)
    }

    /// Writes the context by which a signal handler finds the thread, and the selector, set for trusted code.
    /// The addresses of both.
    fn write_context(&self) -> (*mut CarrierContext, *mut CarrierLine) {
        let (context, line) = (context_address(self.index) as *mut CarrierContext, info_line(self.index));
        // SAFETY: `install` has made the context's page writable, and the info page is; both places are this block's alone.
        unsafe {
            context.write(CarrierContext::new(self.index, vector_state()));
            (&raw mut (*line).selector).write(SELECTOR_ALLOW);
        }
        (context, line)
    }

    /// The same of a carrier, with the gate that user code leaves by.
    pub(crate) fn write_first_state(&self, space: &AddressSpace) -> (*mut CarrierContext, *mut CarrierLine) {
        let (context, line) = self.write_context();
        // SAFETY: the info page is writable here, and the line is this carrier's alone.
        unsafe { (&raw mut (*line).gate).write(exit_gate(space.keys().variant(), self.index)) };
        (context, line)
    }
}

/// The block of the timekeeper, which is not a carrier.
pub(super) const TIMEKEEPER_BLOCK: usize = CARRIER_MAX;

/// Sets up what the calling thread needs to survive faults when it copies from user memory: a carrier block, without the rest
/// that it takes to enter user code.
pub(super) fn survive_faults(space: &AddressSpace, block: usize) -> Result<ThreadSetup, CarrierError> {
    let setup = ThreadSetup::install(space, block)?;
    setup.write_context();
    Ok(setup)
}

impl Drop for ThreadSetup {
    fn drop(&mut self) {
        // SAFETY: the old stack is what the thread had before; gs goes back to what a thread starts with.
        unsafe {
            libc::sigaltstack(&self.old_stack, std::ptr::null_mut());
            libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, 0u64);
        }
    }
}

/// The line of carrier `index` on the info page.
pub(crate) fn info_line(index: usize) -> *mut CarrierLine {
    (INFO_BASE + index as u64 * size_of::<CarrierLine>() as u64) as *mut CarrierLine
}

/// The stack of carrier `index` for signal handlers. The kernel switches it off whenever a handler is entered. While it is on,
/// the kernel would take a stack pointer of user code in that range for the handler's, and write a frame wherever it points.
pub(crate) fn signal_stack(index: usize) -> libc::stack_t {
    /// From `linux/signal.h`; Linux 4.7 or newer.
    const SS_AUTODISARM: i32 = 1 << 31;
    let block = CARRIER_BASE + index as u64 * CARRIER_SIZE;
    libc::stack_t {
        ss_sp: (block + PAGE) as *mut _,
        ss_flags: if fault_injection::disabled(Mitigation::SignalStack) { 0 } else { SS_AUTODISARM },
        ss_size: (CARRIER_SIZE - 2 * PAGE) as usize,
    }
}

/// The kernel writes a thread's rseq area when it preempts it; with protection keys that write would be refused while
/// user code runs, and the process killed. Nothing here uses restartable sequences.
fn unregister_rseq() -> Result<(), CarrierError> {
    unsafe extern "C" {
        static __rseq_offset: isize;
        static __rseq_size: u32;
    }
    // SAFETY: constants that glibc 2.35 and newer exports.
    let (offset, size) = unsafe { (__rseq_offset, __rseq_size) };
    let area = thread_pointer().wrapping_add_signed(offset as i64);
    // The second 32 bits are the processor's number while registered, negative otherwise. glibc does not register a thread
    // whose creator is not registered.
    // SAFETY: every thread has the area, at this offset.
    if size == 0 || unsafe { (area as *const i32).add(1).read_volatile() } < 0 {
        return Ok(());
    }
    // The registered length: 32 on every glibc so far, whatever part of it (`__rseq_size`) is in use.
    // SAFETY: unregisters the area that glibc registered for this thread; glibc then falls back to system calls.
    let status = unsafe { libc::syscall(libc::SYS_rseq, area, size.max(32), RSEQ_FLAG_UNREGISTER, RSEQ_SIGNATURE) };
    checked("unregistering rseq", status)
}

/// The error that `errno` has, if a system call has failed.
pub(crate) fn checked(what: &'static str, status: i64) -> Result<(), CarrierError> {
    if status < 0 {
        return Err(CarrierError::Host { what, source: std::io::Error::last_os_error() });
    }
    Ok(())
}
