//! Dispositions of signals: `sigaction(2)`.

use nix::sys::signal::{SigHandler, Signal, signal};
use std::io;

/// Has the whole process ignore a signal.
pub fn ignore(which: Signal) -> io::Result<()> {
    // SAFETY: signal-safety(7) is about handlers; ignoring a signal runs no code. A handler that was there before is only
    // forgotten.
    unsafe { signal(which, SigHandler::SigIgn) }?;
    Ok(())
}
