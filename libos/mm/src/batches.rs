//! Freeing many buffers: when an instance has ended, and when its retained inputs are freed.
//!
//! An instance may own hundreds of thousands of buffers when it ends, and the slot calls of all other instances wait for the same
//! lock. So buffers are freed in batches. Under the lock, a batch is removed from the table. Without it, the batch gets the system
//! calls it needs. Under the lock again, its memory becomes free and the next batch is removed. A waiting thread gets the lock
//! between two batches.
//!
//! ```text
//!  lock     accept 0, withdraw 1          accept 1, withdraw 2          …
//!  no lock                      settle 1                      settle 2
//! ```
//!
//! For other instances, the slots that a failed instance filled are empty from the first batch on: see `Table::withdrawn`.

use crate::Memory;
use crate::arena::Returns;
use crate::pages::Run;
use crate::table::{Buffer, BufferState, Denied, Slot, Table};
use alloc::boxed::Box;
use alloc::collections::btree_set;
use alloc::sync::Arc;
use alloc::vec::Vec;
use monohull_abi::module::{Ending, SYSTEM_INSTANCE};
use monohull_module::{FutexMutexGuard, HostRef};

/// Most buffers that are removed from the table under one lock.
pub(crate) const BATCH: usize = 128;

/// The buffers of an instance that has ended, while they are freed or returned.
pub(crate) struct Cleanup {
    id: u32,
    ending: Ending,
    addresses: btree_set::IntoIter<u64>,
    /// Inputs of the last batch that were not written to; they still have the instance's key.
    found: Vec<Input>,
    /// Those of all batches before: they go back into their slots.
    inputs: Vec<Input>,
    /// All inputs go back, and no other instance has taken what the instance published.
    intact: bool,
}

/// A buffer that goes back into its slot.
struct Input {
    run: Run,
    align: u64,
    slot: Box<Slot>,
}

impl Memory {
    /// Works on the table for an instance, and frees the memory of buffers that are removed from it.
    pub(crate) fn with_table<R>(&self, instance: u32, work: impl FnOnce(&mut Table, &mut Returns) -> R) -> R {
        let mut returns = Returns::default();
        let (result, must_free_retained) = {
            let mut table = self.table.lock();
            (work(&mut table, &mut returns), table.must_free_retained(instance))
        };
        if !returns.is_empty() {
            returns.settle(self.host);
            self.table.lock().arena.accept(&mut returns);
        }
        if must_free_retained {
            self.free_retained(instance);
        }
        result
    }

    /// The same for work that may reach the instance's memory limit: then its retained inputs are freed, and the work is tried again.
    pub(crate) fn with_room<R>(
        &self,
        instance: u32,
        mut work: impl FnMut(&mut Table, &mut Returns) -> Result<R, Denied>,
    ) -> Result<R, Denied> {
        let first = self.with_table(instance, &mut work);
        if !matches!(first, Err(Denied::Limit(_))) {
            return first;
        }
        self.free_retained(instance);
        self.with_table(instance, work)
    }

    /// Frees the inputs retained for an instance, which needs the memory or cannot be run again any more.
    pub(crate) fn free_retained(&self, instance: u32) {
        let mut returns = Returns::default();
        loop {
            let mut table = self.table.lock();
            table.arena.accept(&mut returns);
            let found = table.release_retained(instance, &mut returns);
            FutexMutexGuard::unlock_fair(table);
            if !found {
                return;
            }
            returns.settle(self.host);
        }
    }

    /// Frees the buffers of an instance that has ended. Returns whether its inputs are intact.
    pub(crate) fn end(&self, instance: u32, ending: Ending) -> bool {
        let Some(mut cleanup) = self.table.lock().end(instance, ending) else { return true };
        let mut returns = Returns::default();
        loop {
            let mut table = self.table.lock();
            table.arena.accept(&mut returns);
            let found = table.withdraw(&mut cleanup, &mut returns);
            FutexMutexGuard::unlock_fair(table);
            if !found {
                break;
            }
            cleanup.take_keys(self.host, &mut returns);
            returns.settle(self.host);
        }
        // Only now: the instance may have published something under the name of an input.
        loop {
            let mut table = self.table.lock();
            table.arena.accept(&mut returns);
            let refilled = table.refill(&mut cleanup, &mut returns);
            FutexMutexGuard::unlock_fair(table);
            if refilled.is_empty() && returns.is_empty() {
                return cleanup.intact;
            }
            returns.settle(self.host);
            for name in refilled {
                self.host.wake(crate::slots::key_of(&name), u64::MAX);
            }
        }
    }
}

impl Cleanup {
    /// Gives the inputs the system's key, as all buffers in slots have it. An input for which that fails is lost: the instance may run
    /// again with the same key.
    fn take_keys(&mut self, host: HostRef, returns: &mut Returns) {
        for input in self.found.drain(..) {
            if host.arena_assign(SYSTEM_INSTANCE, input.run.address(), input.run.bytes()).is_ok() {
                self.inputs.push(input);
            } else {
                self.intact = false;
                returns.add(input.run);
            }
        }
    }
}

impl Table {
    /// Frees some of the inputs retained for an instance, whose inputs are dirty from here on. False if none remain.
    fn release_retained(&mut self, id: u32, returns: &mut Returns) -> bool {
        let Some(instance) = self.instances.get_mut(&id).filter(|instance| !instance.retained.is_empty()) else {
            return false;
        };
        instance.inputs_dirty = true;
        let rest = instance.retained.len().saturating_sub(BATCH);
        for address in instance.retained.split_off(rest) {
            self.release(id, address, returns);
        }
        true
    }

    /// An instance has ended: refunds its charges, and withdraws what it published if it has failed.
    fn end(&mut self, id: u32, ending: Ending) -> Option<Cleanup> {
        let instance = self.instances.remove(&id)?;
        if instance.charged > 0 {
            self.host.refund(id, instance.charged);
        }
        if ending == Ending::Failed {
            self.withdrawn.push(id);
        }
        let addresses = instance.addresses.into_iter();
        let intact = !instance.inputs_dirty;
        Some(Cleanup { id, ending, addresses, found: Vec::new(), inputs: Vec::new(), intact })
    }

    /// Removes some of the buffers from the table. False if none remain.
    fn withdraw(&mut self, cleanup: &mut Cleanup, returns: &mut Returns) -> bool {
        let mut found = false;
        for address in cleanup.addresses.by_ref().take(BATCH) {
            found = true;
            if !self.buffers.get(&address).is_some_and(|buffer| buffer.ends_with(cleanup.id, cleanup.ending)) {
                continue;
            }
            let Some(Buffer { run, state, align, .. }) = self.buffers.remove(&address) else { continue };
            self.bytes -= run.bytes();
            let input = match state {
                BufferState::Held { origin, .. } => {
                    self.held -= 1;
                    origin
                }
                BufferState::Retained { slot, .. } => Some(slot),
                BufferState::InSlot { slot } => {
                    // Another instance may have filled a slot of this name meanwhile.
                    if self.names.get(&slot.name) == Some(&address) {
                        self.names.remove(&slot.name);
                    }
                    slot.before
                }
            };
            match input.filter(|_| cleanup.ending == Ending::Failed) {
                Some(slot) => cleanup.found.push(Input { run, align, slot }),
                None => self.arena.retire(run, returns),
            }
        }
        if !found {
            self.withdrawn.retain(|id| *id != cleanup.id);
        }
        found
    }

    /// Returns some of the inputs to their slots. Gives the names of these.
    fn refill(&mut self, cleanup: &mut Cleanup, returns: &mut Returns) -> Vec<Arc<str>> {
        let mut refilled = Vec::new();
        let rest = cleanup.inputs.len().saturating_sub(BATCH);
        for Input { run, align, slot } in cleanup.inputs.drain(rest..) {
            if self.filled(&slot.name).is_some() {
                cleanup.intact = false;
                self.arena.retire(run, returns);
                continue;
            }
            refilled.push(slot.name.clone());
            self.names.insert(slot.name.clone(), run.address());
            self.insert(run, BufferState::InSlot { slot }, align);
        }
        refilled
    }
}
