//! A restriction of files that another process has prepared.

use crate::syscall_cookie::call;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Puts a set of Landlock's rules in force for this thread and all that it starts, besides those that are. It has no new privileges.
pub fn restrict(rules: &OwnedFd) -> io::Result<()> {
    // SAFETY: landlock_restrict_self(2) takes a descriptor and flags, of which there are none.
    unsafe { call(libc::SYS_landlock_restrict_self, [rules.as_raw_fd() as usize, 0, 0, 0]) }.map(drop)
}
