//! Host threads of a domain: carriers, the timekeeper, the pager.

use super::fault_injection::{self, Mitigation};
use monohull_sys::dead_stack;
use std::hint::black_box;
use std::io;
use std::sync::Mutex;
use std::thread::{Builder, JoinHandle};

/// The exit status of a process in which trusted code has panicked: nothing of it can be relied on any more.
pub const PANICKED: i32 = 101;

/// The threads that a domain has started for a run, besides the one that runs it.
#[derive(Default)]
pub(crate) struct HostThreads(Mutex<Vec<JoinHandle<()>>>);

impl HostThreads {
    /// Keeps a thread to be joined.
    pub(crate) fn push(&self, thread: JoinHandle<()>) {
        self.0.lock().expect("threads").push(thread);
    }

    /// Waits until all have ended. One that is being joined may have started another before it saw the end of the run.
    pub(crate) fn join(&self) {
        loop {
            let threads = std::mem::take(&mut *self.0.lock().expect("threads"));
            if threads.is_empty() {
                return;
            }
            for thread in threads {
                thread.join().expect("a carrier thread does not panic");
            }
        }
    }
}

/// Starts a thread of trusted code that nothing waits for, also on a carrier.
pub fn spawn_detached(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    spawn(name.to_owned(), None, body).map(drop)
}

/// Starts a thread of trusted code, on a stack of this size if one is given.
pub(super) fn spawn(
    name: String,
    stack: Option<usize>,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let builder = Builder::new().name(name);
    let builder = stack.into_iter().fold(builder, Builder::stack_size);
    builder.spawn(move || {
        // A carrier that denies its functions the time-stamp counter passes the denial on to the threads it starts. Only
        // carriers can survive the fault, and reading a clock is one.
        // SAFETY: changes nothing but that reading the counter is no fault on this thread.
        unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE) };
        body();
        if fault_injection::is_unhardened() {
            plant();
        }
        // The C library keeps the stack for the next thread. It gives back what lies deeper.
        if !fault_injection::disabled(Mitigation::ResetThreadStacks) {
            dead_stack::wipe_near();
        }
    })
}

/// Leaves something on the stack: [`fault_injection::PLANTED`].
#[inline(never)]
fn plant() {
    let mut planted = [0u8; 8 << 10];
    planted
        .iter_mut()
        .zip(fault_injection::PLANTED.bytes().cycle())
        .for_each(|(to, byte)| *to = byte.to_ascii_uppercase());
    black_box(&planted);
}

/// Ends the process if its thread panics. The others would wait for a missing carrier, and its instance would never end.
pub(super) struct EndProcessOnPanic;

impl Drop for EndProcessOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The panic hook has printed the message.
            end_process();
        }
    }
}

/// Ends the process as one in which trusted code has panicked.
pub(super) fn end_process() -> ! {
    // SAFETY: has no preconditions; nothing of the process is used any more.
    unsafe { libc::_exit(PANICKED) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// Reading the counter where it is denied would end this process.
    #[test]
    fn a_thread_that_is_started_where_the_counter_is_denied_reads_it() {
        let denies = std::thread::spawn(|| {
            let (sender, receiver) = channel();
            // SAFETY: from here on reading the counter is a fault on this thread, which does not read it.
            unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) };
            let mut denied = 0;
            // SAFETY: writes one number.
            unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut denied) };
            let started = spawn("reads".to_owned(), None, move || {
                // SAFETY: every processor of this architecture has the instruction.
                sender.send(unsafe { std::arch::x86_64::_rdtsc() }).expect("the other thread waits");
            });
            // SAFETY: as above; it is allowed again.
            unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE) };
            started.expect("a thread").join().expect("it ends");
            (denied, receiver.recv().expect("the counter"))
        });
        let (denied, counter) = denies.join().expect("it ends");
        assert!(denied == libc::PR_TSC_SIGSEGV && counter > 0, "{denied} {counter}");
    }
}
