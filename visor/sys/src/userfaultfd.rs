//! Descriptors for page faults: `userfaultfd(2)`.

use linux_raw_sys::general::{UFFD_API, uffdio_api, uffdio_range, uffdio_register};
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{UserfaultfdFlags, userfaultfd};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

/// `UFFD_USER_MODE_ONLY` of `linux/userfaultfd.h`, Linux 5.11.
const USER_MODE_ONLY: u32 = 1;
/// The flags a descriptor is made with; the sandbox allows no others.
pub const FLAGS: u32 = libc::O_CLOEXEC as u32 | libc::O_NONBLOCK as u32 | USER_MODE_ONLY;

/// The group of requests, as `linux/userfaultfd.h` numbers them.
pub const GROUP: u8 = 0xaa;
/// `UFFDIO_API`.
pub const API: Opcode = opcode::read_write::<uffdio_api>(GROUP, 0x3f);
/// `UFFDIO_REGISTER`.
pub const REGISTER: Opcode = opcode::read_write::<uffdio_register>(GROUP, 0);

/// A descriptor for page faults, with these features of the kernel's (`UFFD_FEATURE_*`).
pub fn open(features: u32) -> io::Result<OwnedFd> {
    // SAFETY: userfaultfd(2): the call takes flags and makes a descriptor, which changes no memory by itself.
    let descriptor = unsafe { userfaultfd(UserfaultfdFlags::from_bits_retain(FLAGS))? };
    let mut api = uffdio_api { api: u64::from(UFFD_API), features: u64::from(features), ioctls: 0 };
    // SAFETY: UFFDIO_API(2const): the request reads and writes this structure.
    unsafe { ioctl(&descriptor, Updater::<API, _>::new(&mut api))? };
    Ok(descriptor)
}

/// Sends the faults in this range to a descriptor (`UFFDIO_REGISTER_MODE_*`) until it is closed.
pub fn register(descriptor: &OwnedFd, range: Range<u64>, mode: u32) -> io::Result<()> {
    let range = uffdio_range { start: range.start, len: range.end - range.start };
    let mut register = uffdio_register { range, mode: u64::from(mode), ioctls: 0 };
    // SAFETY: UFFDIO_REGISTER(2const): the request reads and writes this structure. It changes when code that touches the
    // range goes on, and not what that code finds there.
    unsafe { ioctl(descriptor, Updater::<REGISTER, _>::new(&mut register))? };
    Ok(())
}
