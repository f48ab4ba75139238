//! Waiting on a word: `futex` over `FUTEX_WAIT` and `FUTEX_WAKE`.
//!
//! Moving waiters to another word (`REQUEUE`) wakes them instead: they look again, as after any wake-up without a cause.

use crate::clocks::{self, Timespec};
use crate::errno::{Answer, EAGAIN, EINVAL, ENOSYS};
use crate::host;
use core::sync::atomic::{AtomicU32, Ordering};
use monohull_abi::errno::Errno;
use monohull_abi::number;

const WAIT: u64 = 0;
const WAKE: u64 = 1;
const REQUEUE: u64 = 3;
const CMP_REQUEUE: u64 = 4;
const WAIT_BITSET: u64 = 9;
const WAKE_BITSET: u64 = 10;
/// The operation without the flags for private words (128) and for the wall clock (256).
const OPERATION: u64 = 127;
const WALL_CLOCK: u64 = 256;

/// Parks while the word is `expected`, at most `nanoseconds` (`u64::MAX`: for ever).
pub(crate) fn wait(word: *const AtomicU32, expected: u32, nanoseconds: u64) -> Answer {
    let answer = host::call(number::FUTEX_WAIT, [word as u64, u64::from(expected), nanoseconds]);
    if answer == Errno::Deadlock.to_value() {
        host::abort("every thread waits, and nothing is left that could wake one")
    }
    answer
}

/// Wakes at most that many threads that wait on the word: how many.
pub(crate) fn wake(word: *const AtomicU32, most: u64) -> Answer {
    host::call(number::FUTEX_WAKE, [word as u64, most])
}

/// `futex(word, operation, value, timeout or second value, second word, third value)`.
pub(crate) fn call([word, operation, value, timeout, _, third]: [u64; 6]) -> Answer {
    let address = word as *const AtomicU32;
    if word == 0 || !word.is_multiple_of(4) {
        return EINVAL;
    }
    // Numbers of threads are `int`s; one that is negative stands for all.
    let count = |value: u64| u64::try_from(value as i32).unwrap_or(u64::from(u32::MAX));
    match operation & OPERATION {
        WAIT | WAIT_BITSET => {
            let nanoseconds = match clocks::read(timeout as *const Timespec) {
                None => u64::MAX,
                Some(Err(error)) => return error,
                Some(Ok(time)) if operation & OPERATION == WAIT => time,
                Some(Ok(time)) => {
                    let wall = operation & WALL_CLOCK != 0;
                    time.saturating_sub(clocks::now(if wall { clocks::REALTIME } else { clocks::MONOTONIC }))
                }
            };
            wait(address, value as u32, nanoseconds)
        }
        WAKE => wake(address, count(value)),
        // Which bits those have that wait is not known here: with some, all look again.
        WAKE_BITSET if third as u32 == 0 => EINVAL,
        WAKE_BITSET if third as u32 == u32::MAX => wake(address, count(value)),
        WAKE_BITSET => wake(address, u64::from(u32::MAX)),
        // SAFETY: the caller's word.
        CMP_REQUEUE if unsafe { (*address).load(Ordering::SeqCst) } != third as u32 => EAGAIN,
        REQUEUE | CMP_REQUEUE => wake(address, count(value).saturating_add(count(timeout))),
        _ => ENOSYS,
    }
}
