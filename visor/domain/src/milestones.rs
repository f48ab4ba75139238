//! When a domain reached what its users measure.

use super::host_time::ticks;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ticks of the time-stamp counter; 0 before.
#[derive(Default)]
pub(crate) struct Milestones {
    first_mapped: AtomicU64,
    first_entry: AtomicU64,
}

impl Milestones {
    /// An image has been mapped and relocated.
    pub(crate) fn mapped(&self) {
        if self.first_mapped.load(Ordering::Relaxed) == 0 {
            self.first_mapped.store(ticks(), Ordering::Relaxed);
        }
    }

    /// The first instruction of an instance runs at `now`.
    pub(crate) fn entered(&self, now: u64) {
        let _ = self.first_entry.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// When the first image was mapped and relocated.
    pub(crate) fn first_mapped(&self) -> u64 {
        self.first_mapped.load(Ordering::Relaxed)
    }

    /// When the first instruction of a function ran.
    pub(crate) fn first_entry(&self) -> u64 {
        self.first_entry.load(Ordering::Relaxed)
    }
}
