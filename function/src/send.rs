//! Sends an event to another invocation, for the calls of Rust and of C. It needs no allocator.

#[cfg(test)]
use crate::slot::host as sys;
#[cfg(not(test))]
use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::event::{EVENT_NAME_MAX, INVOCATION_ID_MAX};
use monohull_abi::types::fingerprint;
use monohull_abi::{Errno, number};

/// How many events have been sent, by what they are called: each has a number that is the same if the instance is run again.
static SENT: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// Id and name with a line break between them, and one byte more: a longer text is cut there, and refused as too long.
const TEXT: usize = INVOCATION_ID_MAX + 1 + EVENT_NAME_MAX + 1;

/// Sends the event, with the next checkpoint or the end of this invocation.
pub(crate) fn send_event(invocation: &[u8], name: &[u8], bytes: &[u8]) -> Result<(), Errno> {
    let mut text = [0; TEXT];
    let mut len = 0;
    for (place, &byte) in text.iter_mut().zip(invocation.iter().chain(b"\n").chain(name)) {
        *place = byte;
        len += 1;
    }
    let text = &text[..len];
    let count = &SENT[(fingerprint(text) % SENT.len() as u64) as usize];
    let number = count.fetch_add(1, Ordering::Relaxed);
    let (data, data_len) = (bytes.as_ptr() as u64, bytes.len() as u64);
    sys::call(number::SEND, [text.as_ptr() as u64, text.len() as u64, data, data_len, number]).map(drop)
}
