//! Host threads of a domain: carriers, the timekeeper, the pager.

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
    })
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
