//! The limit of a mounted tree.

use crate::places::Places;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::Errno;

/// The limit of a tree, and the bytes charged to it.
pub(crate) struct Quota {
    limit: u64,
    used: AtomicU64,
    /// Those of all trees.
    pub(crate) places: Arc<Places>,
}

impl Quota {
    pub(crate) fn new(limit: u64, places: Arc<Places>) -> Quota {
        Quota { limit, used: AtomicU64::new(0), places }
    }

    pub(crate) fn charge(&self, bytes: u64) -> Result<(), Errno> {
        self.charge_instead(bytes, 0)
    }

    /// The same for bytes that replace others, which are refunded later.
    pub(crate) fn charge_instead(&self, bytes: u64, of: u64) -> Result<(), Errno> {
        let add = |used: u64| used.checked_add(bytes).filter(|new| *new - of.min(*new) <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).map(drop).map_err(|_| Errno::NoSpace)
    }

    pub(crate) fn refund(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
