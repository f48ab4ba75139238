//! Dispositions of signals: `sigaction(2)`.

use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal, sigprocmask};
use std::io;

/// Has the whole process ignore a signal.
pub fn ignore(which: Signal) -> io::Result<()> {
    // SAFETY: signal-safety(7) is about handlers; ignoring a signal runs no code. A handler that was there before is only
    // forgotten.
    unsafe { signal(which, SigHandler::SigIgn) }?;
    Ok(())
}

/// Blocks no signal on the calling thread any more. Those that were pending have been handled when this returns.
pub fn unblock_all() -> io::Result<()> {
    Ok(sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?)
}
