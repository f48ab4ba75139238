//! What the scheduler keeps for each live instance.

use super::thread::ThreadIndex;
use crate::instance::CELL_BITS;
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
pub(super) struct Instances<I>(Vec<Option<Box<InstanceThreads<I>>>>);

impl<I> Instances<I> {
    pub(super) fn new() -> Instances<I> {
        Instances((0..1 << CELL_BITS).map(|_| None).collect())
    }

    pub(super) fn insert(&mut self, id: u32, instance: I, deadline: u64) {
        let entry =
            InstanceThreads { id, instance, deadline, threads: Vec::new(), running: 0, ending: None, run: 0, park: 0 };
        let replaced = self.0[place(id)].replace(Box::new(entry));
        debug_assert!(replaced.is_none(), "a cell has one instance at a time");
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<Box<InstanceThreads<I>>> {
        self.0[place(id)].take_if(|entry| entry.id == id)
    }

    pub(super) fn get(&self, id: u32) -> Option<&InstanceThreads<I>> {
        self.0[place(id)].as_deref().filter(|entry| entry.id == id)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut InstanceThreads<I>> {
        self.0[place(id)].as_deref_mut().filter(|entry| entry.id == id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &InstanceThreads<I>> {
        self.0.iter().flatten().map(|entry| &**entry)
    }
}

impl<I> InstanceThreads<I> {
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Its deadline would pass unnoticed if no carrier had time to look: none of its threads is on one, whose timer would
    /// tell.
    pub(super) fn is_unattended(&self) -> bool {
        self.deadline != NEVER && self.running == 0
    }
}

fn place(id: u32) -> usize {
    (id & ((1 << CELL_BITS) - 1)) as usize
}
