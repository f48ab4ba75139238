//! Host threads of a domain: carriers, the timekeeper, the filler of mapped files.

use super::PANICKED;
use std::io;
use std::thread::{Builder, JoinHandle};

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

/// Ends the process if the thread it lives on panics. A carrier that is gone would be waited for, and its instance never end.
pub(super) struct EndProcessOnPanic;

impl Drop for EndProcessOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The panic hook has said what happened.
            end_process();
        }
    }
}

/// Ends the process as one in which trusted code has panicked.
pub(super) fn end_process() -> ! {
    // SAFETY: has no preconditions; nothing of the process is used any more.
    unsafe { libc::_exit(PANICKED) }
}
