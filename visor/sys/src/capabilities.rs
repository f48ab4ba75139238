//! Capabilities of the calling thread: `capset(2)`.

use std::io;

/// Gives up all capabilities: root without them is an ordinary user that owns a few files more.
pub fn drop_all() -> io::Result<()> {
    /// `_LINUX_CAPABILITY_VERSION_3` of `linux/capability.h`.
    const VERSION: u32 = 0x2008_0522;
    let header: [u32; 2] = [VERSION, 0];
    // Effective, permitted and inheritable, twice 32 of each.
    let none = [0u32; 6];
    // SAFETY: capset(2): for this version the kernel reads a header of two and data of six such integers, and writes to
    // the header only if it does not know the version.
    match unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
