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

/// Whether the process ignores a signal, as one does that `nohup` has started.
pub fn is_ignored(which: Signal) -> io::Result<bool> {
    // SAFETY: sigaction(2): without a new disposition it writes the present one, which is plain data, to a local.
    let (status, now) = unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(which as i32, std::ptr::null(), &mut now), now)
    };
    if status == 0 { Ok(now.sa_sigaction == libc::SIG_IGN) } else { Err(io::Error::last_os_error()) }
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
