//! Continuations as values: one function waits, and another one that has got its continuation from a slot lets it go on.

use crate::slot::{SlotBuffer, SlotError, Token};
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use monohull_abi::Errno;
pub use monohull_abi::continuation::CONTINUATIONS_MAX;

/// The rest of a function that waits in [`call_cc`]: what is passed to [`resume`](Self::resume) is what the function goes on with.
///
/// It is used once, by whichever instance of the workflow has it. It changes hands in a slot, and in no other way: it cannot be copied, and no bytes are one.
///
/// One that is dropped is freed, and the function that waits gets an error. If it was taken from a slot that holds when this instance has ended well: after a
/// failure it is in its slot again, for the next attempt. [`discard`](Self::discard) frees it at once.
#[must_use = "what waits gets an error when it is dropped"]
pub struct Continuation(Token);

/// Waits for another function: passes a continuation to `hand_over`, which publishes it, and returns what it is used with.
///
/// The instance does not run meanwhile, and has no thread of the host. It may be suspended, and go on in another process. Other threads of it go on.
///
/// ```no_run
/// use monohull::continuation::{Continuation, ContinuationError, call_cc};
///
/// # fn one() -> Result<(), ContinuationError> {
/// let answer = call_cc(|continuation| continuation.publish("question"))?;
/// # Ok(())
/// # }
/// // In another function:
/// # fn another() -> Result<(), ContinuationError> {
/// Continuation::take("question")?.resume(b"forty-two")?;
/// # Ok(())
/// # }
/// # fn main() {}
/// ```
///
/// # Errors
/// What `hand_over` returns. [`ContinuationError`] with [`Errno::NeverFilled`] if the continuation was dropped, or its last owner has ended, or nothing is left that could use
/// it; [`Errno::TooMany`] beyond [`CONTINUATIONS_MAX`]; [`Errno::OutOfMemory`].
pub fn call_cc<E>(hand_over: impl FnOnce(Continuation) -> Result<(), E>) -> Result<SlotBuffer<[u8]>, E>
where
    E: From<ContinuationError>,
{
    let (token, name) = Token::make().map_err(|(errno, message)| ContinuationError::new(errno, message))?;
    hand_over(Continuation(token))?;
    // The system has written the name.
    let name = core::str::from_utf8(&name).unwrap_or_default();
    let (value, _) = SlotBuffer::take_reply(name).map_err(ContinuationError::from)?;
    Ok(value)
}

impl Continuation {
    /// Takes a continuation from a slot; parks until the slot is filled.
    ///
    /// # Errors
    /// As of [`SlotBuffer::from_slot`]: [`Errno::WrongType`] if something else is there.
    pub fn take(slot: &str) -> Result<Continuation, ContinuationError> {
        match Token::take(slot, false)? {
            Some(token) => Ok(Continuation(token)),
            None => Err(ContinuationError::new(Errno::NotFound, String::new())),
        }
    }

    /// Takes a continuation that is in a slot now; `None` if the slot is empty.
    ///
    /// # Errors
    /// As of [`take`](Self::take), but never [`Errno::NeverFilled`].
    pub fn try_take(slot: &str) -> Result<Option<Continuation>, ContinuationError> {
        Ok(Token::take(slot, true)?.map(Continuation))
    }

    /// Hands it on in a slot.
    ///
    /// # Errors
    /// [`Errno::Exists`] if the slot is filled, [`Errno::NotPermitted`] if the step does not fill it. It is dropped then.
    pub fn publish(self, slot: &str) -> Result<(), ContinuationError> {
        self.0.publish(slot).map_err(ContinuationError::from)
    }

    /// The function that waits goes on with a copy of these bytes.
    ///
    /// # Errors
    /// [`Errno::NotFound`] if the instance that waited has ended. The message has its name.
    pub fn resume(self, value: &[u8]) -> Result<(), ContinuationError> {
        let buffer = SlotBuffer::<[u8]>::try_with_slot_from("continuation", value)?;
        self.resume_with(buffer)
    }

    /// The same with a buffer, which the function gets as it is: nothing is copied.
    pub fn resume_with(self, value: SlotBuffer<[u8]>) -> Result<(), ContinuationError> {
        self.0.resume(value).map_err(|(errno, message)| ContinuationError::new(errno, message))
    }

    /// Drops it at once: the function that waits gets an error, and this instance is not repeated alone if it fails later.
    pub fn discard(self) {
        self.0.discard();
    }
}

impl fmt::Debug for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Continuation")
    }
}

/// Why a continuation was not made, taken, published or used, or why nothing has come of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContinuationError {
    errno: Errno,
    message: String,
}

impl ContinuationError {
    fn new(errno: Errno, message: String) -> ContinuationError {
        let message = if message.is_empty() { format!("{errno}") } else { message };
        ContinuationError { errno, message }
    }

    /// The kind of error.
    pub fn errno(&self) -> Errno {
        self.errno
    }
}

impl From<SlotError> for ContinuationError {
    fn from(error: SlotError) -> ContinuationError {
        ContinuationError::new(error.errno(), error.message().to_string())
    }
}

impl fmt::Display for ContinuationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for ContinuationError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::host;

    fn resumed(value: &[u8]) -> Result<SlotBuffer<[u8]>, ContinuationError> {
        call_cc(|continuation| {
            continuation.publish("next")?;
            Continuation::take("next")?.resume(value)
        })
    }

    #[test]
    fn a_function_goes_on_with_what_its_continuation_is_used_with() {
        assert_eq!(&*resumed(b"value").unwrap(), b"value");
        assert_eq!(&*resumed(b"").unwrap(), b"");
        let large = SlotBuffer::<[u8]>::with_slot_len("unused", 10_000);
        let at = large.as_ptr();
        let value = call_cc(|continuation| continuation.resume_with(large)).unwrap();
        assert_eq!((value.as_ptr(), value.len()), (at, 10_000), "nothing is copied");
    }

    #[test]
    fn errors_leave_no_buffer() {
        let before = host::census().0;
        let dropped = call_cc(|_| Ok::<(), ContinuationError>(())).unwrap_err();
        assert_eq!(dropped.errno(), Errno::NeverFilled);
        let refused = call_cc(|continuation| {
            let _taken = SlotBuffer::<[u8]>::with_slot_from("next", b"not a continuation").publish();
            continuation.publish("next")
        });
        let refused = refused.unwrap_err();
        assert_eq!((refused.errno(), &*refused.to_string()), (Errno::Exists, "slot `next` is already filled"));
        let wrong = Continuation::take("next").unwrap_err();
        assert_eq!(&*wrong.to_string(), "slot `next` holds `[u8]`, `continuation` was asked for");
        assert!(SlotBuffer::<[u8]>::from_slot("next").is_ok());
        assert!(Continuation::try_take("next").unwrap().is_none());
        assert_eq!(host::census().0, before);
    }
}
