//! What threads wait for, as a number.
//!
//! ```text
//!   bit 63  62
//!        0   0   a futex: the address of its word
//!        0   1   the end of a thread: its number
//!        1   0   what a libos module waits for
//!        1   1   a descriptor: its number and the direction
//! ```

use monohull_abi::network::Readiness;
use std::os::fd::RawFd;

const JOIN: u64 = 1 << 62;
const MODULE: u64 = 1 << 63;

/// The key of threads that wait for a thread's end.
pub(crate) fn join(thread: u32) -> u64 {
    JOIN | u64::from(thread)
}

/// The key of threads that wait for a descriptor.
pub(crate) fn descriptor(descriptor: RawFd, readiness: Readiness) -> u64 {
    MODULE | JOIN | (descriptor as u64) << 1 | readiness as u64
}

/// Whether a wait is for something that only functions can change: a futex, or a thread's end.
pub(crate) fn is_core(key: u64) -> bool {
    key & MODULE == 0
}
