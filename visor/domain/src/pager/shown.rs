//! Which trusted memory mappings show, so that a store there finds them.

use super::mapping::Mapping;
use super::runs::Run;
use super::stores::Stores;
use monohull_abi::Errno;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Most runs of all mappings of a domain together: each takes up to two of the kernel's mappings, of which a process has some 65 000.
const DOMAIN_MAX: usize = 4096;
/// Most runs that show one byte: a store makes a copy for each.
const OF_A_BYTE: usize = 16;

/// The runs that are shown.
#[derive(Debug, Default)]
pub(super) struct Shown {
    runs: RwLock<Runs>,
    /// How many there are, for stores that need not look.
    count: AtomicUsize,
    stores: Stores,
}

/// By the first trusted address of each, and the first address of the mapping.
#[derive(Debug, Default)]
struct Runs {
    by_source: BTreeMap<(u64, u64), (u64, Arc<Mapping>)>,
    /// The longest there has been, in bytes.
    longest: u64,
}

impl Shown {
    /// Enters the runs that a new mapping is about to show; false, and nothing is entered, if they would be too many.
    pub(super) fn enter(&self, mapping: &Arc<Mapping>, new: Vec<Run>) -> bool {
        let mut runs = self.write();
        let fits = runs.by_source.len() + new.len() <= DOMAIN_MAX;
        if !fits || new.iter().any(|run| runs.around(&run.source()).count() >= OF_A_BYTE) {
            return false;
        }
        for run in mapping.entered.get_or_init(|| new) {
            let Range { start, end } = run.source();
            runs.longest = runs.longest.max(end - start);
            runs.by_source.insert((start, mapping.address_of(run)), (end, mapping.clone()));
        }
        self.count.store(runs.by_source.len(), Ordering::SeqCst);
        true
    }

    /// Removes the runs of a mapping that shows nothing any more.
    pub(super) fn remove(&self, mapping: &Mapping) {
        let Some(entered) = mapping.entered.get() else { return };
        let mut runs = self.write();
        for run in entered {
            runs.by_source.remove(&(run.source, mapping.address_of(run)));
        }
        if runs.by_source.is_empty() {
            runs.longest = 0;
        }
        self.count.store(runs.by_source.len(), Ordering::SeqCst);
    }

    /// A store to trusted memory begins: `keep` is called for each mapping that shows any of it. A number to end it with.
    pub(super) fn store_begins(
        &self,
        address: u64,
        len: u64,
        keep: impl Fn(&Mapping, &Range<u64>) -> Result<(), Errno>,
    ) -> Result<u64, Errno> {
        let number = self.stores.begin();
        if self.count.load(Ordering::SeqCst) > 0 && len > 0 {
            let bytes = address..address.saturating_add(len);
            let showing: Vec<_> = self.read().around(&bytes).cloned().collect();
            if let Err(errno) = showing.iter().try_for_each(|mapping| keep(mapping, &bytes)) {
                self.stores.end(number);
                return Err(errno);
            }
        }
        Ok(number as u64)
    }

    /// It is over.
    pub(super) fn store_ended(&self, number: u64) {
        self.stores.end(number as usize);
    }

    /// Waits for the stores that may have begun before a mapping was entered.
    pub(super) fn wait_for_stores(&self, interrupted: impl Fn() -> bool) -> Result<(), Errno> {
        self.stores.wait(interrupted)
    }

    fn read(&self) -> RwLockReadGuard<'_, Runs> {
        self.runs.read().expect("the runs that are shown")
    }

    fn write(&self) -> RwLockWriteGuard<'_, Runs> {
        self.runs.write().expect("the runs that are shown")
    }
}

impl Runs {
    /// The mappings that show something of these addresses; each as often as it has runs that do.
    fn around(&self, bytes: &Range<u64>) -> impl Iterator<Item = &Arc<Mapping>> {
        let first = bytes.start.saturating_sub(self.longest);
        let near = self.by_source.range((first, 0)..(bytes.end, 0));
        near.filter(|(_, (end, _))| *end > bytes.start).map(|(_, (_, mapping))| mapping)
    }
}

#[cfg(test)]
mod tests;
