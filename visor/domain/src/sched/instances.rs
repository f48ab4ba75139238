//! What the scheduler keeps for each live instance.

use super::thread::ThreadIndex;
use crate::instance::{CELL_BITS, cell_of};
use monohull_abi::module::NEVER;
use monohull_report::failure::Failure;

/// An instance as the scheduler sees it; `I` is the rest of it, which the scheduler only hands out.
pub(crate) struct InstanceThreads<I> {
    id: u32,
    /// The rest of it.
    pub(crate) instance: I,
    /// When its time is up (monotonic ns), or [`NEVER`].
    pub(crate) deadline: u64,
    /// Its threads.
    pub(super) threads: Vec<ThreadIndex>,
    /// How many of them are on carriers.
    pub(super) running: u32,
    /// Set once: how it ended.
    pub(crate) ending: Option<Result<(), Box<Failure>>>,
    /// Ticks its threads that have ended spent on carriers.
    pub(crate) run: u64,
    /// Ticks its main thread spent off the carriers, once that has ended.
    pub(crate) park: u64,
}

/// All live instances. The low bits of an id are the instance's cell, and no two live ones share a cell.
pub(super) struct Instances<I> {
    by_cell: Vec<Option<Box<InstanceThreads<I>>>>,
    /// Those that are unattended.
    unattended: usize,
}

impl<I> Instances<I> {
    pub(super) fn new() -> Instances<I> {
        Instances { by_cell: (0..1 << CELL_BITS).map(|_| None).collect(), unattended: 0 }
    }

    pub(super) fn insert(&mut self, id: u32, instance: I, deadline: u64) {
        let entry =
            InstanceThreads { id, instance, deadline, threads: Vec::new(), running: 0, ending: None, run: 0, park: 0 };
        self.unattended += usize::from(entry.is_unattended());
        let replaced = self.by_cell[cell_of(id)].replace(Box::new(entry));
        debug_assert!(replaced.is_none(), "a cell has one instance at a time");
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<Box<InstanceThreads<I>>> {
        let entry = self.by_cell[cell_of(id)].take_if(|entry| entry.id == id)?;
        self.unattended -= usize::from(entry.is_unattended());
        Some(entry)
    }

    /// How many instances have a deadline that no carrier's timer watches over.
    pub(super) fn unattended(&self) -> usize {
        self.unattended
    }

    /// Counts an instance's thread onto or off the carriers.
    pub(super) fn count_running(&mut self, id: u32, change: i32) {
        let Some(entry) = self.get_mut(id) else { return };
        let before = usize::from(entry.is_unattended());
        entry.running = entry.running.wrapping_add_signed(change);
        let after = usize::from(entry.is_unattended());
        self.unattended = self.unattended + after - before;
    }

    pub(super) fn get(&self, id: u32) -> Option<&InstanceThreads<I>> {
        self.by_cell[cell_of(id)].as_deref().filter(|entry| entry.id == id)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut InstanceThreads<I>> {
        self.by_cell[cell_of(id)].as_deref_mut().filter(|entry| entry.id == id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &InstanceThreads<I>> {
        self.by_cell.iter().flatten().map(|entry| &**entry)
    }
}

impl<I> InstanceThreads<I> {
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// No carrier's timer enforces its deadline, since none of its threads is on a carrier.
    fn is_unattended(&self) -> bool {
        self.deadline != NEVER && self.running == 0
    }
}
