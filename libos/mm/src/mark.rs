//! What makes a buffer a continuation: see [`crate::continuations`].

use alloc::boxed::Box;
use monohull_abi::effect::PerformId;

/// It lies here and not in the buffer, so that no function can write one.
#[derive(Debug)]
pub(crate) struct Mark {
    /// The instance that waits, and which of its continuations it is.
    pub(crate) id: PerformId,
    /// The name of that instance, for messages: it may have ended.
    pub(crate) waiter: Box<str>,
}
