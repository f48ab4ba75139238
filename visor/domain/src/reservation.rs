//! What a domain needs before its workflow is known: address space, keys, signal handlers, and the first carrier.
//!
//! ```text
//!   PreforkDomain: reserved address space, and what forked processes inherit of the first carrier
//!     │ into_reserved, in the process that will run the domain
//!     ▼
//!   ReservedDomain: the same, and the calling thread is the first carrier ──▶ Domain::on
//! ```

use super::address_space::{Access, AddressSpace};
use super::carrier::Carrier;
use super::cell::Cell;
use super::error::DomainError;
use super::fault_injection::{self, Mitigation};
use super::keys::{self, Key, Keys};
use super::processor;
use super::thread_setup::ThreadSetup;
use super::{fault, gadgets};
use monohull_abi::layout::{INFO_BASE, INFO_SIZE};
use monohull_trampoline::system::Variant;

/// What a process that forks others should do before, because they inherit it: the signal handlers, and the answers to
/// questions that take long.
pub fn prepare_forks(keys: bool) {
    processor::detect_processor();
    keys::support();
    fault::install(if keys { Variant::Keys } else { Variant::Plain });
    keep_large_blocks_apart();
}

/// Makes each large block a mapping of its own, however many have been freed before: it is zero without being written to. Most
/// connections use little of their buffers.
fn keep_large_blocks_apart() {
    const LARGE: i32 = 256 << 10;
    // SAFETY: has no preconditions.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}

/// Address space, keys and signal handlers, which are the same for every workflow. To reserve them takes longer than to start
/// a workflow, so a process can do it before it knows which one it will run.
#[derive(Debug)]
pub struct ReservedDomain {
    /// The calling thread. Dropped before the address space, in which its block lies.
    pub(crate) carrier: Carrier,
    pub(crate) space: AddressSpace,
    /// Those that were kept from the domain before.
    #[allow(clippy::vec_box, reason = "a cell is leased as a box, and is not moved")]
    pub(crate) cells: Vec<Box<Cell>>,
}

/// The part of a [`ReservedDomain`] that processes inherit when they are forked by the thread that reserved it: a process that forks
/// many does this once for all.
#[derive(Debug)]
pub struct PreforkDomain {
    /// Dropped before the address space, in which it lies.
    setup: ThreadSetup,
    space: AddressSpace,
}

impl PreforkDomain {
    /// Reserves the address space, and installs on the calling thread what forked processes inherit of the first carrier. There
    /// is one reservation per process at a time.
    pub fn reserve(keys: bool) -> Result<PreforkDomain, DomainError> {
        let keys = if keys {
            gadgets::remove()?;
            Keys::enabled()?
        } else {
            Keys::disabled()
        };
        fault::install(keys.variant());
        let space = AddressSpace::reserve(keys)?;
        let info = if fault_injection::disabled(Mitigation::Selector) { Key::FUNCTIONS } else { Key::INFO };
        space.protect(INFO_BASE..INFO_BASE + INFO_SIZE, Access::ReadWrite, info)?;
        Ok(PreforkDomain { setup: ThreadSetup::install(&space, 0)?, space })
    }

    /// Makes the calling thread the first carrier. It must be the one that reserved this, or a fork of it.
    pub fn into_reserved(self) -> Result<ReservedDomain, DomainError> {
        let PreforkDomain { setup, space } = self;
        Ok(ReservedDomain { carrier: Carrier::attach(&space, setup)?, space, cells: Vec::new() })
    }
}

impl ReservedDomain {
    /// Reserves the address space, and makes the calling thread its first carrier. There is one per process at a time.
    pub fn reserve(keys: bool) -> Result<ReservedDomain, DomainError> {
        PreforkDomain::reserve(keys)?.into_reserved()
    }
}
