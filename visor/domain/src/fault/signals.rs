//! The signal handlers of a domain.
//!
//! One handler serves every fault, preemption (stop) and the timer (deadline). It finds its carrier by its own stack's address,
//! because user code may have changed every register. The carrier's selector shows which code was interrupted:
//!
//! * user code: the handler records the fault and exits through the gate, so that the pending `enter` returns. It never
//!   returns to the interrupted code, because that would take a `sigreturn` with system calls allowed. The run loop copies the
//!   registers from the kernel's frame, and enters the code again later.
//! * user code that has jumped to the signal entry, with arguments of its own. The kernel switches the alternate stack off when it
//!   delivers a signal and user code cannot, so the handler sees the difference. It looks at no argument but the signal then: the
//!   stack may hold anything, and what lies above it is the carrier's context.
//! * the copy routine, on an address a function gave: it goes on at the routine's error exit.
//! * a handler of preemption or timer: the kernel has not called it, since it blocks both signals while one runs. A
//!   function has jumped to the signal entry, on its carrier's signal stack. The kernel has since written a frame over that
//!   stack, so nothing there may be returned to; the carrier is taken off as if user code were running.
//! * trusted code that reads the time-stamp counter while that is denied: the handler reads it instead.
//! * other trusted code: preemption and timer are recorded; a fault is Monohull's own and ends the process with a message.

use super::tsc;
use crate::fault_injection::{self, Mitigation};
use crate::gadgets;
use crate::preemption::{PREEMPT_SIGNAL, interrupts, on_preempt_signal, timer_signal};
use crate::thread_setup::signal_stack;
use monohull_trampoline::system::{FaultInfo, Variant, context_of, copy_recovery, exit_user_from_signal, signal_entry};
use std::ffi::c_void;
use std::sync::Mutex;

/// The signals of faults, and preemption. The carriers' timer has a handler too, but a number known only at run time.
pub const HANDLED: [i32; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS, PREEMPT_SIGNAL];

/// Installs the handlers, unless those of this family of gates are installed already.
pub fn install(variant: Variant) {
    static INSTALLED: Mutex<Option<Variant>> = Mutex::new(None);
    let mut installed = INSTALLED.lock().expect("installing does not panic");
    if *installed != Some(variant) {
        *installed = Some(variant);
        let entry = signal_entry(variant, handle);
        for signal in HANDLED.into_iter().chain([timer_signal()]) {
            // SAFETY: plain data.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = entry;
            // Preemption and timer are blocked while a handler runs: they would find user code running still, and the first
            // signal would be lost. If the handler ends without sigreturn, `Carrier::after_signal` unblocks them.
            action.sa_mask = interrupts();
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
            // SAFETY: the entry keeps to the handler's calling convention.
            let status = unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
            assert_eq!(status, 0, "sigaction({signal})");
        }
    }
}

/// # Safety
/// Called by the kernel, through the gate's signal entry, with the arguments of an `SA_SIGINFO` handler.
unsafe extern "C" fn handle(signal: i32, info: *mut c_void, context: *mut c_void) {
    let info = info.cast::<libc::siginfo_t>();
    let registers = context.cast::<libc::ucontext_t>();
    let here = std::ptr::from_ref(&signal) as u64;
    let preempts = signal == PREEMPT_SIGNAL || signal == timer_signal();
    // SAFETY: trusted code was interrupted, so the kernel has called: the structure is its own, on this very stack.
    let register = |which: i32| unsafe { (*registers).uc_mcontext.gregs[which as usize] as u64 };
    if let Some(carrier) = context_of(here) {
        // SAFETY: a handler that runs on a carrier's block runs on that carrier's thread, whose context is set up.
        let carrier = unsafe { &mut *carrier };
        if carrier.in_user() || preempts && context_of(register(libc::REG_RSP)).is_some() {
            // Nothing before `reclaim_cpu_state` may use thread-local data: user code can have changed fs.
            if preempts {
                on_preempt_signal(carrier.index(), signal, true);
            }
            carrier.reclaim_cpu_state();
            carrier.fault = match was_delivered(carrier.index()) {
                // SAFETY: the kernel has called, with both structures.
                true => unsafe { delivered(signal, info, registers) },
                false => FaultInfo::forged(signal),
            };
            // SAFETY: we are on this carrier's alternate stack, user code was running, so its `enter` is pending; no
            // value here needs dropping.
            unsafe { exit_user_from_signal(carrier) };
        }
    }
    // Trusted code was interrupted, which may be about to read the error of its own system call.
    let _errno = KeepErrno::new();
    // SAFETY: as for the registers.
    let (code, ip) = (unsafe { (*info).si_code }, register(libc::REG_RIP));
    if preempts {
        if let Some(carrier) = context_of(here) {
            // SAFETY: as above.
            on_preempt_signal(unsafe { (*carrier).index() }, signal, false);
        }
        return;
    }
    if let Some(reading) = tsc::reading_at(signal, code, ip) {
        // SAFETY: as above; trusted code was stopped.
        unsafe { tsc::read_instead(reading, &mut (*registers).uc_mcontext.gregs) };
        return;
    }
    if let Some(exit) = copy_recovery(ip) {
        // SAFETY: as above; the routine's error exit needs nothing but the stack, which is as at the fault.
        unsafe { (*registers).uc_mcontext.gregs[libc::REG_RIP as usize] = exit as i64 };
        return;
    }
    // SAFETY: `info` is the kernel's.
    own_fault(signal, ip, unsafe { (*info).si_addr() as u64 });
}

/// Whether the kernel has called the handler that runs on this carrier's alternate stack. If so, the stack has been switched off, and is switched on
/// again: the handler ends without `sigreturn`.
fn was_delivered(carrier: usize) -> bool {
    // SAFETY: plain data, filled in by the next call.
    let mut before: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: the stack is this carrier's. What of it the handler still uses is not written to: the signals that could arrive before it ends are
    // blocked, and if the kernel has not called, the call changes nothing.
    unsafe { libc::sigaltstack(&signal_stack(carrier), &mut before) };
    let is_taken_for_it =
        || [Mitigation::SignalStack, Mitigation::SignalDelivery].into_iter().any(fault_injection::disabled);
    before.ss_flags & libc::SS_DISABLE != 0 || is_taken_for_it()
}

/// What the kernel says of a signal.
///
/// # Safety
/// The kernel has passed both structures.
unsafe fn delivered(signal: i32, info: *const libc::siginfo_t, registers: *const libc::ucontext_t) -> FaultInfo {
    // SAFETY: the caller's promise.
    let (code, general) = unsafe { ((*info).si_code, &(*registers).uc_mcontext.gregs) };
    let address = match signal {
        // SAFETY: for SIGSYS the union holds `call_addr`, then `syscall`.
        libc::SIGSYS => u64::from(unsafe { info.cast::<u32>().add(6).read() }),
        // SAFETY: for faults it holds the address; for the rest the value is not used.
        _ => unsafe { (*info).si_addr() as u64 },
    };
    let register = |which: i32| general[which as usize] as u64;
    let (ip, sp, bp) = (register(libc::REG_RIP), register(libc::REG_RSP), register(libc::REG_RBP));
    FaultInfo { signal, code, address, ip, sp, bp, context: registers as u64 }
}

/// Puts `errno` back when the handler returns. Where it does not return, nothing reads the old one.
struct KeepErrno(i32);

impl KeepErrno {
    fn new() -> KeepErrno {
        // SAFETY: the address is this thread's own.
        KeepErrno(unsafe { *libc::__errno_location() })
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 }
    }
}

/// A fault of trusted code: prints a message and lets it happen again without a handler.
fn own_fault(signal: i32, ip: u64, address: u64) {
    let mut text = [0u8; 512];
    let mut rest = &mut text[..];
    let whole = rest.len();
    // Formatting integers and paths into a buffer on the stack neither allocates nor locks.
    let _ = match gadgets::patched_gadget_at(ip) {
        Some(gadget) => std::io::Write::write_fmt(
            &mut rest,
            format_args!("monohull: trusted code needs {}, which was removed for protection keys\n", gadget.place()),
        ),
        None => std::io::Write::write_fmt(
            &mut rest,
            format_args!(
                "monohull: fault in trusted code: signal {signal} at ip {ip:#x}, address {address:#x}; this is a bug in Monohull\n"
            ),
        ),
    };
    let len = whole - rest.len();
    // SAFETY: async-signal-safe calls with valid arguments.
    unsafe {
        libc::write(2, text.as_ptr().cast(), len);
        libc::signal(signal, libc::SIG_DFL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What interrupted trusted code reads after its own system call is the error of that call, whatever the handler did.
    #[test]
    fn errno_is_as_it_was_when_a_handler_returns() {
        // SAFETY: the address is this thread's own.
        let errno = || unsafe { &mut *libc::__errno_location() };
        *errno() = libc::EINTR;
        {
            let _errno = KeepErrno::new();
            // SAFETY: closing no descriptor changes nothing but `errno`.
            assert_eq!(unsafe { libc::close(-1) }, -1);
            assert_eq!(*errno(), libc::EBADF, "the positive control");
        }
        assert_eq!(*errno(), libc::EINTR);
    }
}
