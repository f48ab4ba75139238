//! Going back: the memory of the instance as it was at an earlier point, and another return from there.
//!
//! [`capture`] returns once when it is called, and once more for each [`rewind`] to its [`Checkpoint`], with a value. All memory is what
//! it was at the capture: heap, stack, statics, mapped memory, slot buffers. So a search that tries one choice after the other undoes nothing by hand:
//!
//! ```no_run
//! use monohull::continuation::{Captured, Checkpoint, capture, rewind};
//!
//! /// The choices that may still be made another way.
//! struct Choices(Vec<(Checkpoint, u8)>);
//!
//! impl Choices {
//!     /// One of `0..count`. What turns out to be wrong is tried again from here, with the next one.
//!     fn choose(&mut self, count: u8) -> u8 {
//!         let (checkpoint, choice) = match capture().expect("a checkpoint") {
//!             Captured::Original(checkpoint) => (checkpoint, 0),
//!             Captured::Resumed { checkpoint, value, .. } => (checkpoint, value[0]),
//!         };
//!         if choice + 1 < count {
//!             self.0.push((checkpoint, choice + 1));
//!         }
//!         choice
//!     }
//!
//!     /// What was chosen last was wrong.
//!     fn fail(&mut self) {
//!         if let Some((checkpoint, next)) = self.0.pop() {
//!             rewind(&checkpoint, &[next]);
//!         }
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! **What does not go back** is outside of memory: lines that were printed, files and what is in them, positions in files, slots that were filled or taken,
//! events, messages, time, random numbers. Output is flushed before a capture and before a rewind, so that no line is printed
//! twice or lost. What was opened since stays open, and its number is lost with the memory. Slot buffers that were made or taken since are freed.
//!
//! **What would not fit together is refused**: if a descriptor, a socket or a slot buffer that memory of then names has been closed or given
//! away, or there are other threads. Then nothing has changed, and [`RewindError`] says what is in the way.
//!
//! **What it takes.** A rewind costs what the pages cost that were touched since, and a copy of the live stack and of slot buffers. A capture looks at all memory in use, and copies what
//! has changed since the one before. The first one copies all of it. Copies count against the step's memory limit.
//!
//! [`call_cc`] waits for another function, which gets the continuation of this one as a value.
//!
//! [`perform`] asks for an [effect](crate::effect): here the rest of the function is what waits for the reply. Going back behind it forgets
//! the reply; what the handler has done stays done.
//!
//! A checkpoint is the instance's own, and lives as long as its process: a workflow is not suspended while one of its instances has
//! checkpoints. A workflow that is to survive its process uses [`durable`](crate::durable).

pub use crate::effect::{PerformError, perform, perform_with};
pub use crate::one_shot::{CONTINUATIONS_MAX, Continuation, ContinuationError, call_cc};
#[cfg(test)]
use crate::slot::host as sys;
#[cfg(not(test))]
use crate::sys;
use crate::{alone, end};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use monohull_abi::types::{self, AbortKind, REWIND_FORGET};
use monohull_abi::{Errno, number};

/// Most bytes that a [`rewind`] passes on.
pub const VALUE_MAX: usize = 1024;

/// Most checkpoints that an instance has at a time.
pub const CHECKPOINTS_MAX: usize = types::CHECKPOINTS_MAX;

/// A point that can be gone back to. It is freed when it is dropped.
///
/// Memory that is gone back to has the checkpoints that it had then; those that were made later are freed.
#[must_use = "it is freed when it is dropped"]
pub struct Checkpoint {
    number: u64,
    /// It belongs to the only thread.
    _here: PhantomData<*const ()>,
}

/// Where the function is after [`capture`].
#[must_use]
#[derive(Debug)]
pub enum Captured {
    /// The capture was just made.
    Original(Checkpoint),
    /// A [`rewind`] has gone back to it.
    Resumed {
        /// The point where this is, to be gone back to again.
        checkpoint: Checkpoint,
        /// What the rewind has passed on.
        value: Vec<u8>,
        /// How often this point has been gone back to, from 1.
        rewinds: u64,
    },
}

/// Captures the memory of this instance, which has one thread.
///
/// What was printed without a line break goes out before, as a line of its own. `stdout` of Rust's own std and of `monohull-std` is flushed; a program that has buffers of
/// its own flushes them itself.
pub fn capture() -> Result<Captured, CaptureError> {
    end::flush();
    let mut here = types::Captured::default();
    let mut value = [0; VALUE_MAX];
    let args = [(&raw mut here) as u64, value.as_mut_ptr() as u64, value.len() as u64];
    let answer = alone::call(number::CAPTURE, args).map_err(|errno| CaptureError(Refusal::of(errno)))?;
    let checkpoint = Checkpoint { number: here.checkpoint, _here: PhantomData };
    Ok(match answer {
        0 => Captured::Original(checkpoint),
        _ => {
            let len = (here.len as usize).min(VALUE_MAX);
            Captured::Resumed { checkpoint, value: value[..len].into(), rewinds: here.rewinds }
        }
    })
}

/// Goes back: [`capture`] returns again, with this value.
///
/// No destructor runs of what has come into being since; its memory is gone. If that cannot be, the instance ends as failed, with what is in the way; see
/// [`try_rewind`].
pub fn rewind(checkpoint: &Checkpoint, value: &[u8]) -> ! {
    let error = try_rewind(checkpoint, value);
    end::fail(AbortKind::Error, format_args!("{error}"))
}

/// Goes back, as [`rewind`] does, or returns what is in the way. Nothing has changed then.
#[must_use = "it has returned, so it is refused"]
pub fn try_rewind(checkpoint: &Checkpoint, value: &[u8]) -> RewindError {
    end::flush();
    let args = [checkpoint.number, value.as_ptr() as u64, value.len() as u64, 0];
    let errno = alone::call(number::REWIND, args).err().unwrap_or(Errno::Invalid);
    RewindError(Refusal::of(errno))
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        let _ = sys::call(number::REWIND, [self.number, 0, 0, REWIND_FORGET]);
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Checkpoint").field(&self.number).finish()
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Refusal {
    errno: Errno,
    text: String,
}

impl Refusal {
    #[cold]
    fn of(errno: Errno) -> Refusal {
        let text = sys::last_error_message();
        Refusal { errno, text: if text.is_empty() { format!("{errno}") } else { text } }
    }
}

/// Why there is no checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaptureError(Refusal);

/// Why memory did not go back. It is as it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RewindError(Refusal);

impl CaptureError {
    /// The kind of error: [`Errno::Busy`] if there are other threads, [`Errno::OutOfMemory`] if the copy does not fit into the memory limit,
    /// [`Errno::TooMany`] beyond [`CHECKPOINTS_MAX`], [`Errno::NotSupported`] for memory that cannot be captured, such as a mapped file,
    /// [`Errno::Fault`] on a stack that is not the thread's own.
    pub fn errno(&self) -> Errno {
        self.0.errno
    }
}

impl RewindError {
    /// The kind of error: [`Errno::GivenAway`] if something has been closed or given away that memory of then names, [`Errno::Busy`] if there are other
    /// threads, [`Errno::MessageTooLong`] beyond [`VALUE_MAX`], [`Errno::OutOfMemory`], [`Errno::NotFound`] if the checkpoint is not this instance's.
    pub fn errno(&self) -> Errno {
        self.0.errno
    }
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no checkpoint: {}", self.0.text)
    }
}

impl fmt::Display for RewindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory does not go back: {}", self.0.text)
    }
}

impl core::error::Error for CaptureError {}
impl core::error::Error for RewindError {}
