//! Why a continuation cannot be gone on with.

use super::check::Rejected;
use crate::address_space::AddressSpaceError;
use crate::hostcall::RecordError;
use crate::pager::PageError;

/// A continuation cannot be gone on with.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum RestoreError {
    #[error("it is damaged or was changed: {0}")]
    Rejected(#[from] Rejected),
    #[error("it has an instance that the workflow does not have")]
    UnknownInstance,
    #[error("there is no place for an instance")]
    NoPlace,
    #[error("its memory cannot be mapped: {0}")]
    Memory(#[from] AddressSpaceError),
    #[error("its memory cannot be read: {0}")]
    Pages(#[from] PageError),
    #[error(transparent)]
    Module(#[from] RecordError),
}

impl RestoreError {
    /// Whether the host is at fault, and not the continuation.
    pub fn is_hosts(&self) -> bool {
        match self {
            RestoreError::Memory(_) | RestoreError::Pages(PageError::Host(_)) => true,
            RestoreError::Module(error) => error.is_hosts,
            _ => false,
        }
    }
}
