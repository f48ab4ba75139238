//! Requests about sockets that have no safe wrapper.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Bytes that were written to a socket and that its other end has not taken: `SIOCOUTQ` of tcp(7) and unix(7), the same
/// number as `TIOCOUTQ`.
pub fn unsent(socket: impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: tcp(7): the request writes one integer.
    match unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) } {
        0 => Ok(u64::try_from(bytes).unwrap_or(0)),
        _ => Err(io::Error::last_os_error()),
    }
}
