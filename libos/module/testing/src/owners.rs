//! The owners of the pages of the arena.

use monohull_abi::module::SYSTEM_INSTANCE;
use std::collections::BTreeMap;
use std::ops::Range;

/// End and owner of each range, by its start. What is in none is the system's.
#[derive(Default)]
pub(crate) struct Owners(BTreeMap<u64, (u64, u32)>);

impl Owners {
    /// The owner of an address.
    pub(crate) fn of(&self, address: u64) -> u32 {
        match self.0.range(..=address).next_back() {
            Some((_, &(end, owner))) if address < end => owner,
            _ => SYSTEM_INSTANCE,
        }
    }

    /// Gives a range to an owner.
    pub(crate) fn set(&mut self, range: Range<u64>, owner: u32) {
        self.split(range.start);
        self.split(range.end);
        let within: Vec<u64> = self.0.range(range.clone()).map(|(start, _)| *start).collect();
        within.iter().for_each(|start| _ = self.0.remove(start));
        self.0.insert(range.start, (range.end, owner));
    }

    /// No range reaches across this address afterwards.
    fn split(&mut self, at: u64) {
        let Some((_, found)) = self.0.range_mut(..at).next_back() else { return };
        let (end, owner) = *found;
        if at < end {
            found.0 = at;
            self.0.insert(at, (end, owner));
        }
    }
}
