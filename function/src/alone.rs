//! Calls that an instance makes while it has one thread.
//!
//! A thread that has been joined may still be on its way out: the join ends when the thread says that it has ended, which is before its last
//! call. So a call that finds another thread is tried again for a while.

#[cfg(test)]
use crate::slot::host as sys;
#[cfg(not(test))]
use crate::sys;
use monohull_abi::{Errno, number};

/// How often it is tried at once, as other threads get their turn.
const TURNS: u32 = 16;
/// How often it is tried after that, and the pause before each time, in nanoseconds.
const PAUSES: u32 = 20;
const PAUSE: u64 = 1_000_000;

/// Makes a call, again as long as it is refused because of other threads.
pub(crate) fn call<const N: usize>(number: u32, args: [u64; N]) -> Result<u64, Errno> {
    for attempt in 0..TURNS + PAUSES {
        match sys::call(number, args) {
            Err(Errno::Busy) if attempt < TURNS => _ = sys::call(number::THREAD_YIELD, []),
            Err(Errno::Busy) => _ = sys::call(number::NANOSLEEP, [PAUSE]),
            answer => return answer,
        }
    }
    sys::call(number, args)
}
