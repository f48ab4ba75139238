//! Slots: data handed from function to function by reference.
//!
//! A buffer lies in memory that all functions of a workflow can reach, and belongs to one of them at a time. Under a
//! slot's name it changes hands: nothing is copied or serialized, so the price does not depend on the size.
//!
//! ```text
//!   producer                                       slot "words"                consumer
//!   SlotBuffer::with_slot_len("words", n) ─ drop ─▶ [u64] … ─ from_slot("words") ─▶ &[u64], &mut [u64]
//! ```
//!
//! * [`SlotBuffer<T>`], [`SlotBuffer<[T]>`](SlotBuffer): one value, or a slice of a fixed length.
//! * [`SlotVec<T>`], [`SlotString`]: what grows; they travel as `[T]` and as text.
//! * [`SlotData`]: what may travel. Pointers into a function's private heap may not, and do not compile.
//!
//! A buffer that was *made* (`with_slot…`) is published under its name when it goes out of scope; one that was *taken*
//! (`from_slot`) is freed then. For fan-out and fan-in there are indexed names: [`indexed`], [`SlotBuffer::take_all`].

mod buffer;
mod data;
#[cfg(test)]
pub(crate) mod host;
mod name;
mod raw;
mod string;
#[cfg(test)]
mod tests;
mod token;
mod vec;

pub use buffer::{SlotBuffer, TakeAll};
pub use data::{SlotContent, SlotData};
pub use monohull_macros::SlotData;
#[doc(hidden)]
pub use name::{Layout, TypeName};
pub use string::SlotString;
pub(crate) use token::Token;
pub use vec::SlotVec;

use alloc::string::String;
use core::fmt;
use monohull_abi::Errno;
use monohull_abi::types::SLOT_NAME_MAX;

/// Why a slot could not be filled or taken over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotError {
    errno: Errno,
    message: String,
}

impl SlotError {
    fn new(slot: &str, errno: Errno, explanation: String) -> SlotError {
        let message = if explanation.is_empty() { alloc::format!("slot `{slot}`: {errno}") } else { explanation };
        SlotError { errno, message }
    }

    /// The kind of error: [`Errno::WrongType`], [`Errno::NeverFilled`], [`Errno::Exists`], [`Errno::OutOfMemory`], …
    pub fn errno(&self) -> Errno {
        self.errno
    }

    /// What happened; names the slot, and both types if they differ.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for SlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for SlotError {}

/// The name of one of several like slots: `part.3`.
pub fn indexed_name(base: &str, index: usize) -> String {
    alloc::format!("{base}.{index}")
}

/// The names of like slots, without end: `part.0`, `part.1`, …
pub fn indexed(base: &str) -> impl Iterator<Item = String> {
    (0..).map(move |index| indexed_name(base, index))
}

/// A name that a slot can have: better found out when a buffer is made than when it is handed on.
#[track_caller]
fn checked_name(name: &str) -> String {
    assert!(
        (1..=SLOT_NAME_MAX).contains(&name.len()),
        "a slot's name has 1 to {SLOT_NAME_MAX} bytes, this one has {}",
        name.len()
    );
    String::from(name)
}

/// What becomes of a buffer when its handle is dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It was made here: it is published.
    Publish,
    /// It was taken over: it is freed.
    Free,
    /// It is not this handle's any more.
    Nothing,
}
