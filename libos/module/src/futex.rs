//! The kernel's futex: to sleep while a word has a value.

use core::ffi::c_long;
use core::sync::atomic::AtomicU32;

const SYS_FUTEX: c_long = 202;
const FUTEX_WAIT_PRIVATE: c_long = 128;
const FUTEX_WAKE_PRIVATE: c_long = 129;

// libc's, as `memcpy` is; `core` has no system calls.
unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

/// Sleeps until another thread wakes this one, unless the word has another value by now. It may also return for no reason.
pub(crate) fn sleep_while(word: &AtomicU32, value: u32) {
    // SAFETY: the word is readable, and there is no time limit.
    unsafe { syscall(SYS_FUTEX, word, FUTEX_WAIT_PRIVATE, c_long::from(value), 0 as c_long) };
}

/// Wakes up to `most` threads that sleep; returns how many.
pub(crate) fn wake(word: &AtomicU32, most: i32) -> c_long {
    // SAFETY: only the address of the word is used, to find threads that sleep.
    unsafe { syscall(SYS_FUTEX, word, FUTEX_WAKE_PRIVATE, c_long::from(most)) }
}
