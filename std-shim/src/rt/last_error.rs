//! The number of the calling thread's last refused hostcall, for `io::Error::last_os_error`.
//!
//! It is kept in the thread's header. This module knows the place and nothing else of the header: hostcalls are made beneath all that the
//! header holds.
#![allow(unsafe_code, reason = "the header is at an address that the system passes")]

/// Where in the header the number is, in bytes.
pub(crate) const OFFSET: usize = 28;

/// Keeps a number.
#[cfg(not(any(test, panic = "unwind")))]
pub(crate) fn set(errno: i32) {
    // SAFETY: the thread's first stack was made with its header on top, and lives as long as the thread. The header has this number there, which
    // is aligned, and no other thread uses it.
    unsafe { place().write(errno) }
}

/// The number; 0 if nothing was refused.
#[cfg(not(any(test, panic = "unwind")))]
pub(crate) fn get() -> i32 {
    // SAFETY: as above.
    unsafe { place().read() }
}

#[cfg(not(any(test, panic = "unwind")))]
fn place() -> *mut i32 {
    (monohull_trampoline::user::thread_header() + OFFSET as u64) as *mut i32
}

#[cfg(any(test, panic = "unwind"))]
host_std::thread_local!(static LAST: core::cell::Cell<i32> = const { core::cell::Cell::new(0) });

/// Keeps a number. The stacks of unit tests have no header.
#[cfg(any(test, panic = "unwind"))]
pub(crate) fn set(errno: i32) {
    LAST.with(|last| last.set(errno));
}

/// The number; 0 if nothing was refused.
#[cfg(any(test, panic = "unwind"))]
pub(crate) fn get() -> i32 {
    LAST.with(|last| last.get())
}
