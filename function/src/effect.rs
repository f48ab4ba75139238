//! Effects: a function asks for something by name, and a step of the workflow that handles it does it in its place.
//!
//! ```text
//!   asker                              handler: an instance of the step with "handles": "blob"
//!   perform("blob", b"logo.png") ────▶ request() … reads a file, or calls a service … reply(&bytes)
//!      … waits, on no carrier …                                                          │
//!   its bytes              ◀─────────────────────────── when it has ended ───────────────┘
//! ```
//!
//! The asker does not need what the handler has: its slots, its secrets, its arguments. It sees a reply, or why there is none.
//!
//! The handler:
//!
//! ```no_run
//! use monohull::effect;
//!
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! let name = effect::request()?;
//! let blob = format!("what is called {}", String::from_utf8_lossy(&name));
//! effect::reply(blob.as_bytes())?;
//! # Ok(())
//! # }
//! ```
//!
//! And the asker:
//!
//! ```no_run
//! use monohull::continuation::perform;
//!
//! # fn main() -> Result<(), monohull::continuation::PerformError> {
//! let blob = perform("blob", b"logo.png")?;
//! println!("{} bytes", blob.len());
//! # Ok(())
//! # }
//! ```

use crate::slot::{SlotBuffer, SlotError};
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use monohull_abi::Errno;
pub use monohull_abi::effect::{EFFECT_DEPTH_MAX as DEPTH_MAX, PERFORMS_MAX};
use monohull_abi::effect::{REPLY, REQUEST};

/// Asks for an effect, and waits for the reply. The request is copied.
///
/// A handler that fails is tried again as its step's `retry` says. If this instance fails or its time is up, its handlers are cancelled. If it is started
/// again it asks again.
pub fn perform(effect: &str, request: &[u8]) -> Result<SlotBuffer<[u8]>, PerformError> {
    let buffer = SlotBuffer::<[u8]>::try_with_slot_from(REQUEST, request);
    perform_with(effect, buffer.map_err(|error| PerformError::refused_slot(effect, &error))?)
}

/// The same with a buffer, which the handler gets as it is: nothing is copied.
pub fn perform_with(effect: &str, request: SlotBuffer<[u8]>) -> Result<SlotBuffer<[u8]>, PerformError> {
    let name = match request.perform(effect) {
        Ok(name) => name,
        Err((Errno::NotFound, _)) => return Err(PerformError::Unhandled { effect: effect.to_string() }),
        Err((errno, message)) => return Err(PerformError::refused(effect, errno, message)),
    };
    // The system has written the name.
    let name = core::str::from_utf8(&name).unwrap_or_default();
    let (reply, is_failure) =
        SlotBuffer::take_reply(name).map_err(|error| PerformError::refused_slot(effect, &error))?;
    if is_failure {
        let report = String::from_utf8_lossy(&reply).into_owned();
        return Err(PerformError::Failed { effect: effect.to_string(), report });
    }
    Ok(reply)
}

/// In a handler: the request that it was started for. There is one, which can be taken once.
pub fn request() -> Result<SlotBuffer<[u8]>, SlotError> {
    SlotBuffer::from_slot(REQUEST)
}

/// In a handler: the reply, which its asker gets when the handler has ended well. The bytes are copied; a buffer that is handed on under the
/// name `reply` is not.
pub fn reply(bytes: &[u8]) -> Result<(), SlotError> {
    SlotBuffer::<[u8]>::try_with_slot_from(REPLY, bytes)?.publish()
}

/// Why there is no reply.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PerformError {
    /// No step of the workflow handles the effect.
    Unhandled {
        /// Its name.
        effect: String,
    },
    /// The handler has failed, as often as it may, or has given no reply.
    Failed {
        /// The effect's name.
        effect: String,
        /// What there is to say about that.
        report: String,
    },
    /// The request was not made, or the reply was not taken.
    Refused {
        /// The effect's name.
        effect: String,
        /// [`Errno::NotPermitted`] if the step does not list the effect, [`Errno::TooMany`] beyond [`PERFORMS_MAX`] or [`DEPTH_MAX`],
        /// [`Errno::OutOfMemory`], [`Errno::Invalid`] if it is no name.
        errno: Errno,
        /// Why.
        message: String,
    },
}

impl PerformError {
    /// The kind of error: [`Errno::NotFound`] if no step handles the effect, [`Errno::Io`] if its handler has failed.
    pub fn errno(&self) -> Errno {
        match self {
            PerformError::Unhandled { .. } => Errno::NotFound,
            PerformError::Failed { .. } => Errno::Io,
            PerformError::Refused { errno, .. } => *errno,
        }
    }

    /// The name of the effect.
    pub fn effect(&self) -> &str {
        match self {
            PerformError::Unhandled { effect }
            | PerformError::Failed { effect, .. }
            | PerformError::Refused { effect, .. } => effect,
        }
    }

    #[cold]
    fn refused(effect: &str, errno: Errno, message: String) -> PerformError {
        let message = if message.is_empty() { format!("{errno}") } else { message };
        PerformError::Refused { effect: effect.to_string(), errno, message }
    }

    #[cold]
    fn refused_slot(effect: &str, error: &SlotError) -> PerformError {
        PerformError::refused(effect, error.errno(), error.message().to_string())
    }
}

impl fmt::Display for PerformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PerformError::Unhandled { effect } => write!(f, "no step of the workflow handles effect `{effect}`"),
            PerformError::Failed { report, .. } => f.write_str(report),
            PerformError::Refused { effect, message, .. } => write!(f, "effect `{effect}`: {message}"),
        }
    }
}

impl core::error::Error for PerformError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::host;

    #[test]
    fn a_reply_comes_in_the_buffer_that_the_handler_has_filled() {
        assert_eq!(&*perform("echo", b"one").unwrap(), b"one");
        assert_eq!(&*perform("echo", b"").unwrap(), b"");
        let mut large = SlotBuffer::<[u8]>::with_slot_len("unused", 10_000);
        large[9_999] = 7;
        let at = large.as_ptr();
        let reply = perform_with("echo", large).unwrap();
        assert_eq!((reply.as_ptr(), reply.len(), reply[9_999]), (at, 10_000, 7), "nothing is copied");
    }

    #[test]
    fn errors_say_what_is_wrong_and_leave_no_buffer() {
        let before = host::census().0;
        let unhandled = perform("nobody", b"x").unwrap_err();
        assert_eq!(unhandled, PerformError::Unhandled { effect: "nobody".into() });
        assert_eq!(unhandled.to_string(), "no step of the workflow handles effect `nobody`");
        let failed = perform("fails", b"because").unwrap_err();
        assert_eq!(failed, PerformError::Failed { effect: "fails".into(), report: "because".into() });
        assert_eq!((failed.errno(), failed.effect()), (Errno::Io, "fails"));
        let refused = perform("", b"x").unwrap_err();
        assert_eq!((refused.errno(), &*refused.to_string()), (Errno::Invalid, "effect ``: the name is empty"));
        assert_eq!(host::census().0, before, "requests that were refused and replies that were read are freed");
    }

    #[test]
    fn a_handler_has_two_slots() {
        SlotBuffer::<[u8]>::with_slot_from("request", b"what").publish().unwrap();
        assert_eq!(&*request().unwrap(), b"what");
        reply(b"that").unwrap();
        assert_eq!(&*SlotBuffer::<[u8]>::from_slot("reply").unwrap(), b"that");
    }
}
