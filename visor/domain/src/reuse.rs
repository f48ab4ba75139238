//! A process whose domain has ended is made ready for another one.
//!
//! ```text
//! domain dropped: modules stopped, threads joined, timers deleted, counter allowed, memory unmapped, keys given back
//!   └─▶ reset: nothing of it is left ─ static data of modules put back ─ a new reservation, as in a new process
//! ```
//!
//! What lies outside of domains, the allocator's memory, stacks and descriptors, is the caller's.

use super::error::DomainError;
use super::fault_injection::{self, Mitigation};
use super::hostcall;
use super::reservation::ReservedDomain;

impl ReservedDomain {
    /// Reserves the address space again after a domain of this process has ended. An error means that something of it is left, or
    /// that the host refuses; the process must end then.
    pub fn reserve_again(keys: bool) -> Result<ReservedDomain, DomainError> {
        let reserved = ReservedDomain::reserve(keys)?;
        if !fault_injection::disabled(Mitigation::ResetStatics) {
            // SAFETY: the address space could be reserved, so there is no domain, whose modules could be running.
            unsafe { hostcall::restore_statics() };
        }
        Ok(reserved)
    }
}
