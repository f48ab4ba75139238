//! What an instance's fault handler is, and which addresses it may have.

use crate::image::{Access, Image};
use monohull_abi::Errno;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Where the faults of a range of an instance's code go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FaultHandler {
    /// Where the handler begins.
    pub entry: u64,
    /// First address of the code.
    pub start: u64,
    /// Its length, at least 1.
    pub bytes: u64,
}

/// An instance cannot have this handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum HandlerError {
    #[error("the entry of a fault handler is not in the caller's own code")]
    Entry,
    #[error("the code that a fault handler is for is not all in one executable segment of the caller's image")]
    Code,
    #[error("a fault handler lies in the code whose faults it handles, and would handle its own")]
    OwnFaults,
}

impl From<HandlerError> for Errno {
    fn from(error: HandlerError) -> Errno {
        match error {
            HandlerError::Entry | HandlerError::Code => Errno::Fault,
            HandlerError::OwnFaults => Errno::Invalid,
        }
    }
}

impl FaultHandler {
    /// Checks the addresses for an instance of `image` whose address 0 is at `base`.
    pub(crate) fn check(&self, image: &Image, base: u64) -> Result<(), HandlerError> {
        if !is_code(image, base, self.entry, 1) {
            return Err(HandlerError::Entry);
        }
        if self.bytes == 0 || !is_code(image, base, self.start, self.bytes) {
            return Err(HandlerError::Code);
        }
        match self.code().contains(&self.entry) {
            true => Err(HandlerError::OwnFaults),
            false => Ok(()),
        }
    }

    /// The code whose faults it handles.
    pub(super) fn code(&self) -> Range<u64> {
        self.start..self.start.saturating_add(self.bytes)
    }
}

/// Whether all of a range lies in one executable segment.
pub(crate) fn is_code(image: &Image, base: u64, address: u64, bytes: u64) -> bool {
    let Some(start) = address.checked_sub(base) else { return false };
    let Some(end) = start.checked_add(bytes) else { return false };
    let holds = |start: u64, end: u64, of: u64, to: u64| of <= start && end <= to;
    let mut code = image.segments.iter().filter(|segment| segment.access == Access::ReadExecute);
    code.any(|segment| holds(start, end, segment.address, segment.address + segment.memory_size))
}
