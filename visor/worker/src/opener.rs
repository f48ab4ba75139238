//! Reports of faults on kernels before 6.12, with protection keys in force.
//!
//! To deliver a signal the kernel writes a frame on the handler's stack, with the key rights of the code it interrupts. A
//! function's rights deny that stack, and a kernel before 6.12 then ends the process, so that nobody hears of a fault or a
//! missed deadline. There the spawner traces its workers:
//!
//! ```text
//! worker     fault ─ stops ┐                          ┌─ frame is written ─ handler ─ the instance ends, with a report
//! spawner                  └─ opens the keys ─ goes on ┘
//! ```
//!
//! The rights that are opened are never used by the function: the handlers of these signals do not return to code whose
//! rights denied the system's key, see `domain::fault::signals`. A signal that has no handler there is passed on as it is, as it
//! might return.

use super::word;
use libc::c_void;
use monohull_domain::fault::HANDLED;
use std::collections::HashSet;
use std::io;

/// `NT_X86_XSTATE` of `linux/elf.h`: all of a thread's extended registers.
const EXTENDED_REGISTERS: usize = 0x202;
/// The component of those that holds the rights of keys (Intel SDM volume 1, 13.1).
const PKRU: u32 = 9;
/// Where they say which components they hold.
const COMPONENTS: usize = 512;
/// Both rights to key 0: no access, no writing.
const SYSTEM_KEY: u32 = 0b11;
/// More than any processor's extended registers take.
const ROOM: usize = 16 << 10;

/// The tracer's side.
pub(super) struct Opener {
    /// Threads that have been seen.
    threads: HashSet<i32>,
    /// Where PKRU lies in the extended registers.
    pkru: usize,
}

impl Opener {
    pub(super) fn new() -> Opener {
        let pkru = std::arch::x86_64::__cpuid_count(0xd, PKRU).ebx as usize;
        Opener { threads: HashSet::new(), pkru }
    }

    /// A thread has stopped, with this status of `waitpid`; it goes on from here.
    pub(super) fn go_on(&mut self, thread: i32, status: i32) {
        let event = status >> 16;
        let mut signal = libc::WSTOPSIG(status);
        if event != 0 {
            // It has started another thread, which is traced too.
            signal = 0;
        } else if self.threads.insert(thread) {
            // The first stop of a thread is that of being traced.
            let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
            request(libc::PTRACE_SETOPTIONS, thread, 0, options as usize);
            signal = 0;
        } else if HANDLED.contains(&signal) || signal == monohull_domain::carrier::timer_signal() {
            self.open(thread);
        }
        request(libc::PTRACE_CONT, thread, 0, signal as usize);
    }

    /// A thread has ended.
    pub(super) fn forget(&mut self, thread: i32) {
        self.threads.remove(&thread);
    }

    /// Gives a stopped thread all keys, if it lacks the system's.
    fn open(&self, thread: i32) {
        let mut registers = [0u8; ROOM];
        // If any of this fails the process ends as it would have without us.
        let Some(len) = transfer(libc::PTRACE_GETREGSET, thread, &mut registers) else { return };
        let Some(rights) = registers[..len].get_mut(self.pkru..self.pkru + 4) else { return };
        if u32::from_le_bytes([rights[0], rights[1], rights[2], rights[3]]) & SYSTEM_KEY != 0 {
            rights.fill(0);
            registers[COMPONENTS + PKRU as usize / 8] |= 1 << (PKRU % 8);
            transfer(libc::PTRACE_SETREGSET, thread, &mut registers[..len]);
        }
    }
}

/// Reads or writes a stopped thread's extended registers; how many bytes those are.
fn transfer(what: libc::c_uint, thread: i32, registers: &mut [u8]) -> Option<usize> {
    let mut room = libc::iovec { iov_base: registers.as_mut_ptr().cast::<c_void>(), iov_len: registers.len() };
    request(what, thread, EXTENDED_REGISTERS, &raw mut room as usize).then_some(room.iov_len)
}

/// The worker's side: has its parent trace it, and waits until it does. An error means that it is not allowed to.
pub(super) fn be_traced() -> io::Result<()> {
    if !request(libc::PTRACE_TRACEME, 0, 0, 0) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // SAFETY: stops this process, which has one thread. The tracer hears of it first, and lets the process go on.
    unsafe {
        let (process, thread) = (libc::getpid() as usize, libc::gettid() as usize);
        word::call(libc::SYS_tgkill, [process, thread, libc::SIGSTOP as usize, 0]).map(drop)
    }
}

/// Makes a request; false if it is refused.
fn request(what: libc::c_uint, thread: i32, address: usize, data: usize) -> bool {
    // SAFETY: requests of this file are about registers and options of a thread that is ours to trace; where the kernel writes,
    // `data` leads to room that says how large it is.
    unsafe { word::call(libc::SYS_ptrace, [what as usize, thread as usize, address, data]).is_ok() }
}
