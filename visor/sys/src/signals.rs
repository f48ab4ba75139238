//! Dispositions of signals: `sigaction(2)`.

use nix::libc;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal, sigprocmask};
use std::io;

/// Has the whole process ignore a signal.
pub fn ignore(which: Signal) -> io::Result<()> {
    // SAFETY: signal-safety(7) is about handlers; ignoring a signal runs no code. A handler that was there before is only
    // forgotten.
    unsafe { signal(which, SigHandler::SigIgn) }?;
    Ok(())
}

/// Blocks a signal on the calling thread.
pub fn block(which: i32) -> io::Result<()> {
    // SAFETY: a set of signals is plain data, and this one is a local.
    let status = unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, which);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut())
    };
    if status == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(status)) }
}

/// Blocks no signal on the calling thread any more. Those that were pending have been handled when this returns.
pub fn unblock_all() -> io::Result<()> {
    Ok(sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?)
}
