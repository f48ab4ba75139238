//! The live instances of a domain, by cell, and what each has charged to it.

use super::account::{Account, Accounts};
use super::instance::{CELL_BITS, Instance, Usage, cell_of};
use monohull_abi::layout::CELL_COUNT;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// All live instances.
pub(crate) struct InstanceTable {
    by_cell: RwLock<Vec<Option<Arc<Instance>>>>,
    accounts: Accounts,
    /// How many ids have been given.
    started: AtomicU32,
}

impl InstanceTable {
    pub(crate) fn new() -> InstanceTable {
        InstanceTable {
            by_cell: RwLock::new(vec![None; CELL_COUNT]),
            accounts: Accounts::new(),
            started: AtomicU32::new(0),
        }
    }

    /// An id that is neither 0 nor [`monohull_abi::module::SYSTEM_INSTANCE`]; its low bits are the cell.
    pub(crate) fn next_id(&self, cell: usize) -> u32 {
        let count = self.started.fetch_add(1, Ordering::Relaxed) % ((1 << (32 - CELL_BITS)) - 2) + 1;
        count << CELL_BITS | cell as u32
    }

    /// How many ids have been given.
    pub(crate) fn started(&self) -> u32 {
        self.started.load(Ordering::Relaxed)
    }

    /// Goes on giving ids behind these.
    pub(crate) fn go_on_from(&self, started: u32) {
        self.started.store(started, Ordering::Relaxed);
    }

    /// Enters a new instance, with this many bytes charged to it.
    pub(crate) fn insert(&self, instance: Arc<Instance>, charged: u64) {
        let cell = cell_of(instance.id);
        self.accounts.open(cell, instance.id, instance.config.memory_limit, charged);
        self.by_cell.write().expect("instances")[cell] = Some(instance);
    }

    /// Removes a live instance; and what it has used, without what the scheduler counts.
    pub(crate) fn remove(&self, id: u32) -> (Arc<Instance>, Usage) {
        let cell = cell_of(id);
        let instance = self.by_cell.write().expect("instances")[cell].take().expect("the instance is live");
        let usage = self.usage(&instance);
        self.accounts.close(cell);
        (instance, usage)
    }

    /// The live instance with this id.
    pub(crate) fn get(&self, id: u32) -> Option<Arc<Instance>> {
        self.in_cell(cell_of(id)).filter(|instance| instance.id == id)
    }

    /// The live instance in a cell.
    pub(crate) fn in_cell(&self, cell: usize) -> Option<Arc<Instance>> {
        self.by_cell.read().expect("instances").get(cell)?.clone()
    }

    /// All of them.
    pub(crate) fn live(&self) -> Vec<Arc<Instance>> {
        self.by_cell.read().expect("instances").iter().flatten().cloned().collect()
    }

    /// The account of a live instance.
    pub(crate) fn account(&self, id: u32) -> Option<&Account> {
        self.accounts.of(cell_of(id), id)
    }

    /// What a live instance has used, without what the scheduler counts.
    pub(crate) fn usage(&self, instance: &Instance) -> Usage {
        let (bytes_in, bytes_out) = self.account(instance.id).map_or((0, 0), Account::passed);
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (started, load) = (get(&instance.counters.started), get(&instance.counters.load));
        Usage { started, load, bytes_in, bytes_out, ..Usage::default() }
    }
}
