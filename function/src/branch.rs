//! Asks for a save point or for copies of this invocation, for the calls of Rust and of C. It needs no allocator.

#[cfg(test)]
use crate::slot::host as sys;
#[cfg(not(test))]
use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::types::fingerprint;
use monohull_abi::{Errno, number};

/// How many save points there were, by their labels: each has a number that is the same if the instance is run again.
static CHECKPOINTS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
/// The same of forks.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Asks for a save point. The name of the event by which that is told lies in the buffer then.
pub(crate) fn ask_checkpoint<'b>(label: &[u8], event: &'b mut [u8]) -> Result<&'b [u8], Errno> {
    let count = &CHECKPOINTS[(fingerprint(label) % CHECKPOINTS.len() as u64) as usize];
    let number = count.fetch_add(1, Ordering::Relaxed);
    let (at, room) = (event.as_mut_ptr() as u64, event.len() as u64);
    let len = sys::call(number::CHECKPOINT, [label.as_ptr() as u64, label.len() as u64, number, at, room])?;
    event.get(..len as usize).ok_or(Errno::Io)
}

/// The same for copies.
pub(crate) fn ask_fork(copies: u64, event: &mut [u8]) -> Result<&[u8], Errno> {
    let number = FORKS.fetch_add(1, Ordering::Relaxed);
    let len = sys::call(number::FORK, [copies, number, event.as_mut_ptr() as u64, event.len() as u64])?;
    event.get(..len as usize).ok_or(Errno::Io)
}
