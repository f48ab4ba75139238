//! Why a domain could not be made or could not go on.

use super::address_space::AddressSpaceError;
use super::gadgets::GadgetsError;
use super::keys::KeysError;
use super::thread_setup::CarrierError;

/// A domain could not be made or could not go on.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum DomainError {
    #[error("protection keys cannot be put in force: {0}")]
    Keys(#[from] KeysError),
    #[error("protection keys cannot be put in force: {0}")]
    Gadgets(#[from] GadgetsError),
    #[error("the address space of the domain: {0}")]
    Region(#[from] AddressSpaceError),
    #[error("a carrier thread cannot be set up: {0}")]
    Carrier(#[from] CarrierError),
    #[error("the domain cannot be reset: something still uses it")]
    InUse,
}
