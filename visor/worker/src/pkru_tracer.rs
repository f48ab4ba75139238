//! Reports of faults on kernels before 6.12, with protection keys in force.
//!
//! To deliver a signal the kernel writes a frame on the handler's stack, with the key rights of the code it interrupts. A
//! function's rights deny that stack, and a kernel before 6.12 then kills the process, so that a fault or a missed deadline is not
//! reported. There the spawner traces its workers:
//!
//! ```text
//! worker     fault ─ stops ┐                          ┌─ frame is written ─ handler ─ the instance ends, with a report
//! spawner                  └─ opens the keys ─ goes on ┘
//! ```
//!
//! The rights that are opened are never used by the function: the handlers of these signals do not return to code whose
//! rights denied the system's key, see `domain::fault::signals`. A signal that has no handler there is passed on as it is, as it
//! might return.

use monohull_domain::fault::HANDLED;
use monohull_sys::spawner::Stopped;
use std::collections::HashSet;

/// The component of a thread's extended registers that holds the rights of keys (Intel SDM volume 1, 13.1).
const PKRU: u32 = 9;
/// Where the extended registers list their components (`XSTATE_BV`).
const COMPONENTS: usize = 512;
/// Both rights to key 0: no access, no writing.
const SYSTEM_KEY: u32 = 0b11;
/// More than any processor's extended registers take.
const ROOM: usize = 16 << 10;

/// The tracer's side.
pub(super) struct PkruTracer {
    /// Threads that have stopped before.
    threads: HashSet<i32>,
    /// Where PKRU lies in the extended registers.
    pkru: usize,
}

impl PkruTracer {
    pub(super) fn new() -> PkruTracer {
        let pkru = std::arch::x86_64::__cpuid_count(0xd, PKRU).ebx as usize;
        PkruTracer { threads: HashSet::new(), pkru }
    }

    /// A thread has stopped, with this status of `waitpid`; it goes on from here.
    pub(super) fn go_on(&mut self, thread: i32, status: i32) {
        // A request that is refused is about a thread that has ended, as any traced thread may at any time.
        let stopped = Stopped(thread);
        let event = status >> 16;
        let mut signal = libc::WSTOPSIG(status);
        if event != 0 {
            // The thread has started another one, which is traced too.
            signal = 0;
        } else if self.threads.insert(thread) {
            // The first stop of a thread is that of being traced.
            let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
            let _ = stopped.set_options(options);
            signal = 0;
        } else if HANDLED.contains(&signal) || signal == monohull_domain::preemption::timer_signal() {
            self.open(stopped);
        }
        let _ = stopped.go_on(signal);
    }

    /// A thread has ended.
    pub(super) fn forget(&mut self, thread: i32) {
        self.threads.remove(&thread);
    }

    /// Gives a stopped thread all keys, if it lacks the system's.
    fn open(&self, stopped: Stopped) {
        let mut registers = [0u8; ROOM];
        // If any of this fails the process ends as it would without a tracer.
        let Ok(len) = stopped.extended_registers(&mut registers) else { return };
        let Some(rights) = registers[..len].get_mut(self.pkru..self.pkru + 4) else { return };
        if u32::from_le_bytes([rights[0], rights[1], rights[2], rights[3]]) & SYSTEM_KEY != 0 {
            rights.fill(0);
            registers[COMPONENTS + PKRU as usize / 8] |= 1 << (PKRU % 8);
            let _ = stopped.set_extended_registers(&registers[..len]);
        }
    }
}
