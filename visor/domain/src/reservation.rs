//! What a domain needs before its workflow is known: address space, keys, signal handlers, and the first carrier.
//!
//! ```text
//!   Site: reserved address space, and what forked processes inherit of the first carrier
//!     │ into_ground, in the process that will run the domain
//!     ▼
//!   Ground: the same, and the calling thread is the first carrier ──▶ Domain::on
//! ```

use super::carrier::{self, Berth, Carrier};
use super::domain::DomainError;
use super::keys::{self, Key, Keys};
use super::region::{Access, Partition};
use super::weaken::{self, Defence};
use super::{fault, gadgets};
use monohull_abi::layout::{INFO_BASE, INFO_SIZE};
use monohull_trampoline::system::Variant;

/// What a process that forks others should do before, because they inherit it: the signal handlers, and the answers to
/// questions that take long.
pub fn prepare_forks(keys: bool) {
    carrier::know_processor();
    keys::support();
    fault::install(if keys { Variant::Keys } else { Variant::Plain });
    keep_large_blocks_apart();
}

/// Makes each large block a mapping of its own, however many have been given back: it is zero without being written to, as a
/// connection's buffers are to be, of which most connections use little.
fn keep_large_blocks_apart() {
    const LARGE: i32 = 256 << 10;
    // SAFETY: has no preconditions.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}

/// The ground a domain stands on: address space, keys and signal handlers, which are the same for every workflow. Laying
/// it takes longer than starting a workflow, so a process can do it before it knows which one it will run.
#[derive(Debug)]
pub struct Ground {
    /// The calling thread. Dropped before the partition, in which its block lies.
    pub(crate) carrier: Carrier,
    pub(crate) partition: Partition,
}

/// As much of a [`Ground`] as processes inherit that are forked by the thread that has laid it out: a process that forks
/// many does this once for all.
#[derive(Debug)]
pub struct Site {
    /// Dropped before the partition, in which it lies.
    berth: Berth,
    partition: Partition,
}

impl Site {
    /// Reserves the address space, and gives the calling thread what is inherited of its first carrier. There is one site or
    /// ground per process at a time.
    pub fn lay_out(keys: bool) -> Result<Site, DomainError> {
        let keys = if keys {
            gadgets::remove()?;
            Keys::enabled()?
        } else {
            Keys::disabled()
        };
        fault::install(keys.variant());
        let partition = Partition::reserve(keys)?;
        let info = if weaken::is_off(Defence::Selector) { Key::FUNCTIONS } else { Key::INFO };
        partition.protect(INFO_BASE..INFO_BASE + INFO_SIZE, Access::ReadWrite, info)?;
        Ok(Site { berth: Berth::take(&partition, 0)?, partition })
    }

    /// Makes the calling thread the first carrier: the one that has laid this out, or was forked by it.
    pub fn into_ground(self) -> Result<Ground, DomainError> {
        let Site { berth, partition } = self;
        Ok(Ground { carrier: Carrier::board(&partition, berth)?, partition })
    }
}

impl Ground {
    /// Reserves the address space, and makes the calling thread its first carrier. There is one per process at a time.
    pub fn lay(keys: bool) -> Result<Ground, DomainError> {
        Site::lay_out(keys)?.into_ground()
    }
}
