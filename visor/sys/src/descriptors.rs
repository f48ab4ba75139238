//! The table of open files of this process.

use std::io;

/// Closes every descriptor from this number on: `close_range(2)`. Whatever owns one of them must not use it any more.
pub fn close_from(first: i32) -> io::Result<()> {
    let first = u32::try_from(first).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: close_range(2) takes numbers. That no owner goes on to use them is the caller's business; memory is not at stake.
    match unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
