//! Freeing many buffers: when an instance has ended, and when its shelf is cleared.
//!
//! An instance may leave hundreds of thousands of buffers behind, and the slot calls of all other instances wait for the same lock.
//! So buffers are freed in batches. Under the lock, a batch leaves the table; without it, the batch gets the system calls it
//! needs; under the lock again, its memory becomes free and the next batch leaves. A thread that waits gets the lock between two
//! batches.
//!
//! ```text
//!  lock     accept 0, withdraw 1          accept 1, withdraw 2          …
//!  no lock                      settle 1                      settle 2
//! ```
//!
//! The slots that a failed instance filled are empty for everybody else from the first moment on: see `Table::withdrawn`.

use crate::Memory;
use crate::arena::Returns;
use crate::pages::Run;
use crate::table::{Buffer, Denied, Place, Slot, Table};
use alloc::boxed::Box;
use alloc::collections::btree_set;
use alloc::sync::Arc;
use alloc::vec::Vec;
use monohull_abi::module::{Ending, SYSTEM_INSTANCE};
use monohull_module::{HostRef, SleepingGuard};

/// Most buffers that leave the table under one lock.
pub(crate) const BATCH: usize = 128;

/// What an instance that has ended leaves behind.
pub(crate) struct Leftovers {
    id: u32,
    ending: Ending,
    addresses: btree_set::IntoIter<u64>,
    /// Untouched inputs of the last batch, which still have the instance's key.
    found: Vec<Input>,
    /// Those of all batches before: they go back into their slots.
    inputs: Vec<Input>,
    /// All inputs go back, and others have seen nothing of what the instance made.
    whole: bool,
}

/// A buffer that goes back into its slot.
struct Input {
    run: Run,
    align: u64,
    slot: Box<Slot>,
}

impl Memory {
    /// Works on the table for an instance, and makes memory free that leaves the table.
    pub(crate) fn with_table<R>(&self, instance: u32, work: impl FnOnce(&mut Table, &mut Returns) -> R) -> R {
        let mut returns = Returns::default();
        let (result, has_useless_shelf) = {
            let mut table = self.table.lock();
            (work(&mut table, &mut returns), table.has_useless_shelf(instance))
        };
        if !returns.is_empty() {
            returns.settle(self.host);
            self.table.lock().arena.accept(&mut returns);
        }
        if has_useless_shelf {
            self.clear_shelf(instance);
        }
        result
    }

    /// The same for work that may reach the instance's memory limit; then the shelf is cleared, and it is tried again.
    pub(crate) fn with_room<R>(
        &self,
        instance: u32,
        mut work: impl FnMut(&mut Table, &mut Returns) -> Result<R, Denied>,
    ) -> Result<R, Denied> {
        let first = self.with_table(instance, &mut work);
        if !matches!(first, Err(Denied::Limit(_))) {
            return first;
        }
        self.clear_shelf(instance);
        self.with_table(instance, work)
    }

    /// Frees the inputs shelved for an instance, which needs the memory or cannot be repeated any more.
    pub(crate) fn clear_shelf(&self, instance: u32) {
        let mut returns = Returns::default();
        loop {
            let mut table = self.table.lock();
            table.arena.accept(&mut returns);
            let found = table.unshelve(instance, &mut returns);
            SleepingGuard::unlock_fair(table);
            if !found {
                return;
            }
            returns.settle(self.host);
        }
    }

    /// Frees what an instance that has ended leaves behind. Returns whether its inputs are whole.
    pub(crate) fn end(&self, instance: u32, ending: Ending) -> bool {
        let Some(mut left) = self.table.lock().end(instance, ending) else { return true };
        let mut returns = Returns::default();
        loop {
            let mut table = self.table.lock();
            table.arena.accept(&mut returns);
            let found = table.withdraw(&mut left, &mut returns);
            SleepingGuard::unlock_fair(table);
            if !found {
                break;
            }
            left.take_keys(self.host, &mut returns);
            returns.settle(self.host);
        }
        // Only now: the instance may have published something under the name of an input.
        loop {
            let mut table = self.table.lock();
            table.arena.accept(&mut returns);
            let refilled = table.refill(&mut left, &mut returns);
            SleepingGuard::unlock_fair(table);
            if refilled.is_empty() && returns.is_empty() {
                return left.whole;
            }
            returns.settle(self.host);
            for name in refilled {
                self.host.wake(crate::slots::key_of(&name), u64::MAX);
            }
        }
    }
}

impl Leftovers {
    /// In a slot, a buffer is the system's. What cannot be taken from the instance, which may be tried again with the same key, is lost.
    fn take_keys(&mut self, host: HostRef, returns: &mut Returns) {
        for input in self.found.drain(..) {
            if host.arena_assign(SYSTEM_INSTANCE, input.run.address(), input.run.bytes()).is_ok() {
                self.inputs.push(input);
            } else {
                self.whole = false;
                returns.add(input.run);
            }
        }
    }
}

impl Table {
    /// Frees some of the inputs shelved for an instance, which is spoiled from here on. False if there are none left.
    fn unshelve(&mut self, id: u32, returns: &mut Returns) -> bool {
        let Some(instance) = self.instances.get_mut(&id).filter(|instance| !instance.shelf.is_empty()) else {
            return false;
        };
        instance.spoiled = true;
        let rest = instance.shelf.len().saturating_sub(BATCH);
        for address in instance.shelf.split_off(rest) {
            self.release(id, address, returns);
        }
        true
    }

    /// An instance has ended: it is charged for nothing any more, and what it filled is withdrawn if it has failed.
    fn end(&mut self, id: u32, ending: Ending) -> Option<Leftovers> {
        let instance = self.instances.remove(&id)?;
        if instance.charged > 0 {
            self.host.refund(id, instance.charged);
        }
        if ending == Ending::Failed {
            self.withdrawn.push(id);
        }
        let addresses = instance.addresses.into_iter();
        let whole = !instance.spoiled;
        Some(Leftovers { id, ending, addresses, found: Vec::new(), inputs: Vec::new(), whole })
    }

    /// Takes some of the leftovers out of the table. False if there are none left.
    fn withdraw(&mut self, left: &mut Leftovers, returns: &mut Returns) -> bool {
        let mut found = false;
        for address in left.addresses.by_ref().take(BATCH) {
            found = true;
            let Some(buffer) = self.buffers.get(&address) else { continue };
            if left.ending == Ending::Done && matches!(buffer.place, Place::Filled { .. }) {
                continue;
            }
            let Some(Buffer { run, place, align, .. }) = self.buffers.remove(&address) else { continue };
            self.bytes -= run.bytes();
            let input = match place {
                Place::Held { origin, .. } => {
                    self.held -= 1;
                    origin
                }
                Place::Shelved { slot } => Some(slot),
                Place::Filled { slot } => {
                    // Another instance may have filled a slot of this name meanwhile.
                    if self.names.get(&slot.name) == Some(&address) {
                        self.names.remove(&slot.name);
                    }
                    slot.before
                }
            };
            match input.filter(|_| left.ending == Ending::Failed) {
                Some(slot) => left.found.push(Input { run, align, slot }),
                None => self.arena.retire(run, returns),
            }
        }
        if !found {
            self.withdrawn.retain(|id| *id != left.id);
        }
        found
    }

    /// Puts some of the inputs back into their slots, and returns the names of these.
    fn refill(&mut self, left: &mut Leftovers, returns: &mut Returns) -> Vec<Arc<str>> {
        let mut refilled = Vec::new();
        let rest = left.inputs.len().saturating_sub(BATCH);
        for Input { run, align, slot } in left.inputs.drain(rest..) {
            if self.filled(&slot.name).is_some() {
                left.whole = false;
                self.arena.retire(run, returns);
                continue;
            }
            refilled.push(slot.name.clone());
            self.names.insert(slot.name.clone(), run.address());
            self.insert(run, Place::Filled { slot }, align);
        }
        refilled
    }
}
