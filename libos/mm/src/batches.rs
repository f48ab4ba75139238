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
//! The end of an instance is also divided into *steps* of some batches, between which its carrier does other work. What is left lies in
//! a [`Cleanup`] meanwhile.
//!
//! For other instances, the slots that a failed instance filled are empty from the first batch on: see `Table::withdrawn`.

use crate::Memory;
use crate::arena::{Arena, Returns};
use crate::mark::Mark;
use crate::pages::Run;
use crate::table::{Buffer, BufferState, Denied, Slot, Table};
use alloc::boxed::Box;
use alloc::collections::btree_set;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use monohull_abi::module::{Ending, Released, SYSTEM_INSTANCE};
use monohull_module::{FutexMutexGuard, HostRef};

/// Most buffers that are removed from the table under one lock.
pub(crate) const BATCH: usize = 128;
/// With so many bytes in them a batch is complete as well. Larger buffers are freed piece by piece.
pub(crate) const BATCH_BYTES: u64 = 64 << 20;
/// Most batches of a step. It ends earlier after [`BATCH_BYTES`].
pub(crate) const STEP: usize = 8;

/// The buffers of an instance that has ended, while they are freed or returned.
pub(crate) struct Cleanup {
    id: u32,
    ending: Ending,
    addresses: btree_set::IntoIter<u64>,
    /// What is left of a large buffer that is freed piece by piece.
    rest: Option<Run>,
    /// Runs of the last batch, on their way back to the arena.
    returns: Returns,
    /// No buffer is in the table any more.
    withdrawn: bool,
    /// Bytes that this step has removed from the table.
    step_bytes: u64,
    /// Inputs of the last batch that were not written to; they still have the instance's key.
    found: Vec<Input>,
    /// Those of all batches before: they go back into their slots.
    inputs: Vec<Input>,
    /// Marks of inputs of the last batch that cannot go back.
    unmarked: Vec<Mark>,
    /// All inputs go back, and no other instance has taken what the instance published.
    intact: bool,
}

/// A buffer that goes back into its slot.
struct Input {
    run: Run,
    align: u64,
    mark: Option<Box<Mark>>,
    slot: Box<Slot>,
}

impl Memory {
    /// Works on the table for an instance, and frees the memory of buffers that are removed from it.
    pub(crate) fn with_table<R>(&self, instance: u32, work: impl FnOnce(&mut Table, &mut Returns) -> R) -> R {
        let mut returns = Returns::default();
        let (result, must_free_retained, lost) = {
            let mut table = self.table.lock();
            let result = work(&mut table, &mut returns);
            (result, table.must_free_retained(instance), mem::take(&mut table.lost))
        };
        self.wake_lost(lost);
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
            let lost = mem::take(&mut table.lost);
            FutexMutexGuard::unlock_fair(table);
            self.wake_lost(lost);
            if !found {
                return;
            }
            returns.settle(self.host);
        }
    }

    /// Frees buffers of an instance that has ended: one step.
    pub(crate) fn end_step(&self, instance: u32, ending: Ending) -> Released {
        let begun = self.cleanups.lock().remove(&instance);
        let begin = || {
            self.with_table(SYSTEM_INSTANCE, |table, returns| {
                table.forget_continuations(instance, returns);
                table.end(instance, ending)
            })
        };
        let Some(mut cleanup) = begun.or_else(begin) else {
            return Released::InputsIntact;
        };
        cleanup.step_bytes = 0;
        for _ in 0..STEP {
            if !self.clean_batch(&mut cleanup) {
                return Released::all(cleanup.intact);
            }
            if cleanup.step_bytes >= BATCH_BYTES {
                break;
            }
        }
        self.cleanups.lock().insert(instance, cleanup);
        Released::More
    }

    /// One batch. False if nothing was left.
    fn clean_batch(&self, cleanup: &mut Cleanup) -> bool {
        let mut table = self.table.lock();
        table.arena.accept(&mut cleanup.returns);
        cleanup.unmarked.drain(..).for_each(|mark| table.lose(Some(&mark)));
        if !cleanup.withdrawn {
            cleanup.withdrawn = !table.withdraw(cleanup);
            let lost = mem::take(&mut table.lost);
            FutexMutexGuard::unlock_fair(table);
            self.wake_lost(lost);
            cleanup.take_keys(self.host);
            cleanup.returns.settle(self.host);
            return true;
        }
        // Only now: the instance may have published something under the name of an input.
        let refilled = table.refill(cleanup);
        let lost = mem::take(&mut table.lost);
        FutexMutexGuard::unlock_fair(table);
        self.wake_lost(lost);
        let worked = !refilled.is_empty() || !cleanup.returns.is_empty();
        cleanup.returns.settle(self.host);
        for name in refilled {
            self.wake_for(&name);
        }
        worked
    }
}

impl Cleanup {
    /// Gives the inputs the system's key, as all buffers in slots have it. An input for which that fails is lost: the instance may run
    /// again with the same key.
    fn take_keys(&mut self, host: HostRef) {
        for input in self.found.drain(..) {
            if host.arena_assign(SYSTEM_INSTANCE, input.run.address(), input.run.bytes()).is_ok() {
                self.inputs.push(input);
            } else {
                self.intact = false;
                self.unmarked.extend(input.mark.map(|mark| *mark));
                self.returns.add(input.run);
            }
        }
    }

    /// Has the first piece of a large run emptied, and keeps the rest.
    fn empty_piece(&mut self, arena: &mut Arena, mut run: Run) {
        if run.bytes() > BATCH_BYTES {
            self.rest = Some(arena.split_off(&mut run, BATCH_BYTES));
        }
        self.step_bytes += run.bytes();
        self.returns.add(run);
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
        Some(Cleanup {
            id,
            ending,
            addresses,
            rest: None,
            returns: Returns::default(),
            withdrawn: false,
            step_bytes: 0,
            found: Vec::new(),
            inputs: Vec::new(),
            unmarked: Vec::new(),
            intact,
        })
    }

    /// Removes some of the buffers from the table. False if none remain.
    fn withdraw(&mut self, cleanup: &mut Cleanup) -> bool {
        if let Some(run) = cleanup.rest.take() {
            cleanup.empty_piece(&mut self.arena, run);
            return true;
        }
        let (mut found, begin) = (false, cleanup.step_bytes);
        for _ in 0..BATCH {
            if cleanup.step_bytes - begin >= BATCH_BYTES || cleanup.rest.is_some() {
                break;
            }
            let Some(address) = cleanup.addresses.next() else { break };
            found = true;
            if !self.buffers.get(&address).is_some_and(|buffer| buffer.ends_with(cleanup.id, cleanup.ending)) {
                continue;
            }
            let Some(Buffer { run, state, align, mark, .. }) = self.buffers.remove(&address) else { continue };
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
                Some(slot) => {
                    cleanup.step_bytes += run.bytes();
                    cleanup.found.push(Input { run, align, mark, slot });
                    continue;
                }
                // It is too large to be kept warm.
                None if run.bytes() > BATCH_BYTES => cleanup.empty_piece(&mut self.arena, run),
                None => {
                    cleanup.step_bytes += run.bytes();
                    self.arena.retire(run, &mut cleanup.returns);
                }
            }
            self.lose(mark.as_deref());
        }
        if !found {
            self.withdrawn.retain(|id| *id != cleanup.id);
        }
        found
    }

    /// Returns some of the inputs to their slots. Gives the names of these.
    fn refill(&mut self, cleanup: &mut Cleanup) -> Vec<Arc<str>> {
        let mut refilled = Vec::new();
        let rest = cleanup.inputs.len().saturating_sub(BATCH);
        for Input { run, align, mark, slot } in cleanup.inputs.drain(rest..) {
            if self.filled(&slot.name).is_some() {
                cleanup.intact = false;
                self.lose(mark.as_deref());
                self.arena.retire(run, &mut cleanup.returns);
                continue;
            }
            refilled.push(slot.name.clone());
            self.names.insert(slot.name.clone(), run.address());
            self.insert(run, BufferState::InSlot { slot }, align, mark);
        }
        refilled
    }
}
