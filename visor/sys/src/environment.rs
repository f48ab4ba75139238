//! The environment of the process: `environ(7)`.

use super::fork::OnlyThread;
use std::io;

/// Overwrites the environment: a secret in it is no business of a workflow.
pub fn scrub(only: &OnlyThread) -> io::Result<()> {
    unsafe extern "C" {
        static mut environ: *mut *mut libc::c_char;
    }
    only.confirm()?;
    // SAFETY: environ(7): the array is as `execve` or `setenv` made it: pointers to strings that may be written to, then a
    // null. No other thread reads it. `std::env` hands out copies, so safe code has no reference into it.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            std::ptr::write_bytes(*entry, 0, libc::strlen(*entry));
            entry = entry.add(1);
        }
        libc::clearenv();
    }
    Ok(())
}
