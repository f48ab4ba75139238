//! The owner of each buffer, and the buffer in each slot.
//!
//! A buffer has one owner at a time, an instance or a slot:
//!
//! ```text
//!            hold                publish "x"             take "x"                 free
//!  arena ──────────▶ held by A ─────────────▶ in slot x ──────────▶ held by B ──────────▶ arena
//!                        ▲                        │ A failed           │  │ ▲
//!                        └── (its own again) ─────┴──▶ arena           │  │ │ free, not written to:
//!                                                 ▲                    │  ▼ │ kept until B has ended
//!                                                 └──── B failed, ─────┴─ retained
//!                                                       not written to
//! ```
//!
//! A failed instance can be run again alone if its *inputs are intact*: every buffer that it took and did not write to goes back
//! into its slot, and no other instance has taken what it published. This includes inputs that were freed before the failure,
//! which is what a function does that returns an error. So a freed input is *retained*, within limits, until the instance that
//! took it has ended. After a write to an input the instance's inputs are *dirty*, and nothing is retained for it any more.
//!
//! All slot calls of a domain share one lock, and an instance may own hundreds of thousands of held and retained buffers. So
//! [`crate::batches`] frees the buffers of an instance in batches, and releases the lock between two of them.
//!
//! While a hostcall copies from or to a held buffer, the buffer is *pinned*: it keeps its address and its owner. So nothing
//! changes between the check of an address and its use, even if other threads of the same instance make slot calls.
//!
//! Memory is charged to the instance that holds a buffer, or that published it and has not ended. An instance could otherwise
//! avoid its limit by publishing.

mod names;
mod recent;

use crate::arena::{Arena, Returns, Taken};
use crate::mark::Mark;
use crate::pages::Run;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;
use hashbrown::HashMap;
use monohull_abi::effect::PerformId;
use monohull_abi::event::EventSlot;
use monohull_abi::layout::page_up;
use monohull_abi::module::{Ending, SYSTEM_INSTANCE};
use monohull_abi::types::{HeldBuffer, SlotView};
use monohull_module::HostRef;
use recent::Recent;

type Hasher = foldhash::fast::FixedState;

/// Most bytes that are retained for one instance.
pub(crate) const RETAINED_MAX: u64 = 64 << 20;
/// No event is retained that would make it more than this: an instance may take events for years, and what is retained is in each of
/// its checkpoints.
pub(crate) const EVENTS_RETAINED_MAX: u64 = 1 << 20;
/// With a protection key for each instance, a held buffer is up to two mappings, and a process has some 65 000. Without free mappings
/// no allocation succeeds and no instance starts. So each instance may hold this many...
pub(crate) const HELD_SHARE: u32 = 1024;
/// ...and more while all instances together hold fewer than this. There are 14 keys for instances, so at most some 22 000 buffers.
pub(crate) const HELD_TOGETHER: u32 = 8192;

/// What a published buffer holds.
pub(crate) struct Content {
    pub(crate) count: u64,
    pub(crate) element_size: u64,
    pub(crate) fingerprint: u64,
    pub(crate) type_name: Box<str>,
}

impl Content {
    /// Bytes in use; `None` if that is no number of bytes.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.count.checked_mul(self.element_size)
    }
}

/// Why the table refuses a call.
pub(crate) enum Denied {
    /// The address is not the start of a buffer that the caller holds.
    NotHeld,
    /// A hostcall is copying from or to the buffer, or moving it.
    Pinned,
    /// The slot is filled.
    NameTaken,
    /// The contents do not fit in the buffer, which has this many bytes.
    TooSmall(u64),
    /// The slot holds another type, with this name.
    WrongType(Box<str>),
    /// This many more bytes would exceed the caller's memory limit.
    Limit(u64),
    /// The arena is full.
    ArenaFull,
    /// Zeroing the memory, or copying to it, has failed: the host has no memory for it.
    NoMemory,
    /// The caller holds as many buffers as it may.
    TooMany,
    /// The buffer is a continuation, which goes nowhere but to a slot that a function names.
    Marked,
}

/// What `take` found.
pub(crate) struct Found {
    pub(crate) view: SlotView,
    /// Bytes in use.
    pub(crate) bytes: u64,
}

/// What `resize` decided.
pub(crate) enum Resized {
    /// The buffer is large enough, where it is.
    InPlace,
    /// The buffer moves: its contents, of so many bytes, must be copied to the new pages. It stays where it is until then, and no
    /// other call frees, publishes, resizes or pins it.
    Move { capacity: u64, new: Taken },
}

impl Buffer {
    /// Whether a call copies from or to it, or moves it.
    pub(crate) fn is_in_use(&self) -> bool {
        self.pins > 0 || self.moves
    }

    /// Whether the buffer is freed when this instance has ended. It is not if another instance has taken it meanwhile, or has
    /// allocated one at the same address.
    pub(crate) fn ends_with(&self, id: u32, ending: Ending) -> bool {
        match &self.state {
            BufferState::Held { by, .. } | BufferState::Retained { by, .. } => *by == id,
            BufferState::InSlot { slot } => slot.producer == id && !slot.taken && ending == Ending::Failed,
        }
    }
}

/// A filled slot, or one that was filled until its buffer was taken.
pub(crate) struct Slot {
    pub(crate) name: Arc<str>,
    pub(crate) content: Content,
    /// The instance that published it.
    pub(crate) producer: u32,
    /// Another instance has taken it since. The producer cannot withdraw it any more, even if it has gone back into its slot.
    pub(crate) taken: bool,
    /// The slot from which the producer took it, if it published an input without writing to it.
    pub(crate) before: Option<Box<Slot>>,
}

pub(crate) enum BufferState {
    /// An instance owns it. `origin` is the slot from which it was taken, until the instance writes to it.
    Held { by: u32, origin: Option<Box<Slot>> },
    /// An instance has freed this input, but may be run again.
    Retained { by: u32, slot: Box<Slot> },
    /// A slot owns it.
    InSlot { slot: Box<Slot> },
}

pub(crate) struct Buffer {
    pub(crate) run: Run,
    pub(crate) state: BufferState,
    /// What its address is a multiple of, wherever it moves.
    pub(crate) align: u64,
    /// What makes it a continuation.
    pub(crate) mark: Option<Box<Mark>>,
    /// Its contents are on their way to its next address, or into a cell.
    moves: bool,
    /// Copies under way. They end before the instance does.
    pins: u32,
}

/// What the table records of a running instance.
#[derive(Default)]
pub(crate) struct Instance {
    /// Held and retained buffers, and published ones that have not been taken. Ordered, so that neighbours are freed together.
    pub(crate) addresses: BTreeSet<u64>,
    /// Bytes in them.
    pub(crate) charged: u64,
    /// Retained buffers.
    pub(crate) retained: Vec<u64>,
    /// Bytes in them.
    pub(crate) retained_bytes: u64,
    /// Number of held buffers.
    held: u32,
    /// Its inputs are not intact any more.
    pub(crate) inputs_dirty: bool,
}

/// All buffers of one domain.
pub(crate) struct Table {
    pub(crate) host: HostRef,
    pub(crate) arena: Arena,
    pub(crate) buffers: BTreeMap<u64, Buffer>,
    /// Ordered, not hashed: functions choose the names.
    pub(crate) names: BTreeMap<Arc<str>, u64>,
    pub(crate) instances: HashMap<u32, Instance, Hasher>,
    /// Failed instances whose slots are being withdrawn: until that is done, they are empty already.
    pub(crate) withdrawn: Vec<u32>,
    pub(crate) bytes: u64,
    /// Number of buffers that instances hold.
    pub(crate) held: u32,
    /// The continuations that can be used: a buffer is marked with the id, and the instance that waits has not ended.
    pub(crate) continuations: BTreeSet<u64>,
    /// The number of the last one.
    pub(crate) last_continuation: u32,
    /// Those that have become of no use, and whose instances have not been woken.
    pub(crate) lost: Vec<PerformId>,
    /// What was taken last.
    pub(crate) recent: Recent,
}

impl Table {
    pub(crate) fn new(host: HostRef) -> Table {
        Table {
            host,
            arena: Arena::new(host),
            buffers: BTreeMap::new(),
            names: BTreeMap::new(),
            instances: HashMap::default(),
            withdrawn: Vec::new(),
            bytes: 0,
            held: 0,
            continuations: BTreeSet::new(),
            last_continuation: 0,
            lost: Vec::new(),
            recent: Recent::default(),
        }
    }

    /// Number of buffers and bytes in them.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.buffers.len() as u64, self.bytes)
    }

    /// Bytes charged to an instance.
    pub(crate) fn charged(&self, instance: u32) -> u64 {
        self.instances.get(&instance).map_or(0, |instance| instance.charged)
    }

    /// Pins the buffer that the whole range lies in, if the instance holds it.
    pub(crate) fn pin(&mut self, instance: u32, address: u64, len: u64) -> bool {
        let Some((_, buffer)) = self.buffers.range_mut(..=address).next_back() else { return false };
        let fits = address.checked_add(len).is_some_and(|end| end <= buffer.run.end());
        let held = fits && !buffer.moves && matches!(buffer.state, BufferState::Held { by, .. } if by == instance);
        buffer.pins += u32::from(held);
        held
    }

    /// Takes back one pin of the buffer around an address.
    pub(crate) fn unpin(&mut self, address: u64) {
        if let Some((_, buffer)) = self.buffers.range_mut(..=address).next_back() {
            buffer.pins -= 1;
        }
    }

    /// Pages for a new buffer, charged to `by` but not yet held: they may have to be zeroed first.
    pub(crate) fn take_pages(&mut self, by: u32, bytes: u64, align: u64) -> Result<Taken, Denied> {
        self.may_hold(by)?;
        let charged = page_up(bytes.max(1));
        self.charge(by, charged)?;
        let taken = self.arena.take(bytes, align);
        taken.ok_or_else(|| {
            self.refund(by, charged);
            Denied::ArenaFull
        })
    }

    /// Makes a buffer of `by` from pages that have been charged to it. Returns its address.
    pub(crate) fn hold(&mut self, by: u32, run: Run, align: u64, returns: &mut Returns) -> Result<u64, Denied> {
        let address = run.address();
        if !self.arena.assign(&run, by) {
            self.refund(by, run.bytes());
            self.arena.retire(run, returns);
            return Err(Denied::ArenaFull);
        }
        self.track(by, address);
        self.adjust_held(by, 1);
        self.insert(run, BufferState::Held { by, origin: None }, align, None);
        Ok(address)
    }

    /// Makes a buffer hold `bytes`.
    pub(crate) fn resize(
        &mut self,
        by: u32,
        address: u64,
        bytes: u64,
        returns: &mut Returns,
    ) -> Result<Resized, Denied> {
        self.held(by, address)?;
        let Some(Buffer { run, .. }) = self.buffers.get(&address) else { return Err(Denied::NotHeld) };
        let capacity = run.bytes();
        let more = page_up(bytes).saturating_sub(capacity);
        if more == 0 {
            return Ok(Resized::InPlace);
        }
        self.held_unpinned(by, address)?;
        self.mark_written(by, address)?;
        self.charge(by, more)?;
        let Some(buffer) = self.buffers.get_mut(&address) else { return Err(Denied::NotHeld) };
        if self.arena.extend(&mut buffer.run, more) {
            if self.arena.assign(&buffer.run, by) {
                self.bytes += more;
                return Ok(Resized::InPlace);
            }
            returns.add(self.arena.split_off(&mut buffer.run, capacity));
        }
        // While it moves there are both.
        if let Err(denied) = self.charge(by, capacity) {
            self.refund(by, more);
            return Err(denied);
        }
        let taken = self.buffers.get_mut(&address).and_then(|buffer| {
            let new = self.arena.take(bytes, buffer.align)?;
            buffer.moves = true;
            Some(new)
        });
        let Some(new) = taken else {
            self.refund(by, more + capacity);
            return Err(Denied::ArenaFull);
        };
        Ok(Resized::Move { capacity, new })
    }

    /// Puts a buffer into the pages that its contents have been copied to. Returns its address.
    pub(crate) fn finish_move(
        &mut self,
        by: u32,
        address: u64,
        new: Run,
        returns: &mut Returns,
    ) -> Result<u64, Denied> {
        if !self.arena.assign(&new, by) {
            self.cancel_move(by, address, new, returns);
            return Err(Denied::ArenaFull);
        }
        let Some(Buffer { run, state, align, mark, .. }) = self.buffers.remove(&address) else {
            return Err(Denied::NotHeld);
        };
        self.bytes -= run.bytes();
        self.refund(by, run.bytes());
        self.untrack(by, address);
        self.arena.retire(run, returns);
        let address = new.address();
        self.track(by, address);
        self.insert(new, state, align, mark);
        Ok(address)
    }

    /// Keeps a buffer at its address after its contents could not be copied.
    pub(crate) fn cancel_move(&mut self, by: u32, address: u64, new: Run, returns: &mut Returns) {
        if let Some(buffer) = self.buffers.get_mut(&address) {
            buffer.moves = false;
            self.refund(by, new.bytes());
        }
        returns.add(new);
    }

    /// A buffer that `by` holds gives its first bytes away: no other call frees, publishes, resizes or pins it until
    /// [`Table::finish_move_in`].
    pub(crate) fn begin_move_in(&mut self, by: u32, address: u64, bytes: u64) -> Result<(), Denied> {
        self.held_unpinned(by, address)?;
        let Some(buffer) = self.buffers.get_mut(&address) else { return Err(Denied::NotHeld) };
        let capacity = buffer.run.bytes();
        if bytes > capacity {
            return Err(Denied::TooSmall(capacity));
        }
        buffer.moves = true;
        Ok(())
    }

    /// It has given them away, perhaps in part, or it has not.
    pub(crate) fn finish_move_in(&mut self, by: u32, address: u64, changed: bool) -> Result<(), Denied> {
        if changed {
            self.mark_written(by, address)?;
        }
        let Some(buffer) = self.buffers.get_mut(&address) else { return Err(Denied::NotHeld) };
        buffer.moves = false;
        if changed {
            buffer.run.set_moved_out();
        }
        Ok(())
    }

    /// Pages for a buffer that is to get so many bytes of a cell, charged to `by`.
    pub(crate) fn take_for_cell(&mut self, by: u32, bytes: u64) -> Result<Run, Denied> {
        self.may_hold(by)?;
        let charged = page_up(bytes);
        self.charge(by, charged)?;
        self.arena.take_for_cell(bytes).ok_or_else(|| {
            self.refund(by, charged);
            Denied::ArenaFull
        })
    }

    /// Takes back pages that were to be a buffer of `by`.
    pub(crate) fn cancel_alloc(&mut self, by: u32, run: Run, returns: &mut Returns) {
        self.refund(by, run.bytes());
        returns.add(run);
    }

    /// Frees a buffer that `by` holds.
    pub(crate) fn free(&mut self, by: u32, address: u64, returns: &mut Returns) -> Result<(), Denied> {
        let is_input = self.held_unpinned(by, address)?.is_some();
        if !is_input {
            self.release(by, address, returns);
            return Ok(());
        }
        let Some(buffer) = self.buffers.get_mut(&address) else { return Err(Denied::NotHeld) };
        let bytes = buffer.run.bytes();
        let most = match &buffer.state {
            BufferState::Held { origin: Some(slot), .. } if EventSlot::parse(&slot.name).is_some() => {
                EVENTS_RETAINED_MAX
            }
            _ => RETAINED_MAX,
        };
        let retained = self.instances.get_mut(&by).filter(|i| !i.inputs_dirty && i.retained_bytes + bytes <= most);
        match (retained, &mut buffer.state) {
            (Some(instance), BufferState::Held { origin, .. }) if self.arena.assign(&buffer.run, SYSTEM_INSTANCE) => {
                instance.retained_bytes += bytes;
                instance.retained.push(address);
                if let Some(slot) = origin.take() {
                    buffer.state = BufferState::Retained { by, slot };
                    self.adjust_held(by, -1);
                }
            }
            _ => {
                self.set_inputs_dirty(by);
                self.release(by, address, returns);
            }
        }
        Ok(())
    }

    /// Records that `by` is about to write to a buffer that it holds.
    pub(crate) fn mark_written(&mut self, by: u32, address: u64) -> Result<(), Denied> {
        if self.held(by, address)?.take().is_some() {
            self.set_inputs_dirty(by);
        }
        Ok(())
    }

    /// The first buffer that an instance holds behind an address.
    pub(crate) fn held_behind(&self, id: u32, address: u64) -> Option<HeldBuffer> {
        let behind = self.instances.get(&id)?.addresses.range((Bound::Excluded(address), Bound::Unbounded));
        behind.into_iter().find_map(|address| match self.buffers.get(address)? {
            Buffer { run, state: BufferState::Held { by, .. }, mark, .. } if *by == id => {
                let continuation = mark.as_ref().map_or(0, |mark| mark.id.to_raw());
                Some(HeldBuffer { address: *address, capacity: run.bytes(), continuation })
            }
            _ => None,
        })
    }

    /// The origin of a buffer that `by` holds.
    fn held(&mut self, by: u32, address: u64) -> Result<&mut Option<Box<Slot>>, Denied> {
        match self.buffers.get_mut(&address) {
            Some(Buffer { state: BufferState::Held { by: holder, origin }, .. }) if *holder == by => Ok(origin),
            _ => Err(Denied::NotHeld),
        }
    }

    /// The same if no copy from or to it is under way, so that it may be freed or moved.
    fn held_unpinned(&mut self, by: u32, address: u64) -> Result<&mut Option<Box<Slot>>, Denied> {
        let pinned = self.buffers.get(&address).is_some_and(Buffer::is_in_use);
        let origin = self.held(by, address)?;
        if pinned { Err(Denied::Pinned) } else { Ok(origin) }
    }

    pub(crate) fn insert(&mut self, run: Run, state: BufferState, align: u64, mark: Option<Box<Mark>>) {
        self.bytes += run.bytes();
        self.buffers.insert(run.address(), Buffer { run, state, align, mark, moves: false, pins: 0 });
    }

    /// Frees a buffer that is charged to `by`.
    pub(crate) fn release(&mut self, by: u32, address: u64, returns: &mut Returns) {
        if let Some(buffer) = self.buffers.remove(&address) {
            self.bytes -= buffer.run.bytes();
            self.untrack(by, address);
            self.refund(by, buffer.run.bytes());
            if matches!(buffer.state, BufferState::Held { .. }) {
                self.adjust_held(by, -1);
            }
            self.lose(buffer.mark.as_deref());
            self.arena.retire(buffer.run, returns);
        }
    }

    /// Records that the inputs of an instance are not intact any more. Its retained buffers are of no use then; the instance frees them.
    pub(crate) fn set_inputs_dirty(&mut self, id: u32) {
        if let Some(instance) = self.instances.get_mut(&id) {
            instance.inputs_dirty = true;
        }
    }

    /// Whether an instance has retained buffers that are of no use.
    pub(crate) fn must_free_retained(&self, id: u32) -> bool {
        self.instances.get(&id).is_some_and(|instance| instance.inputs_dirty && !instance.retained.is_empty())
    }

    pub(crate) fn charge(&mut self, id: u32, bytes: u64) -> Result<(), Denied> {
        if id == SYSTEM_INSTANCE {
            return Ok(());
        }
        // The visor takes a signed number.
        if bytes <= i64::MAX as u64 && self.host.charge(id, bytes).is_ok() {
            self.instances.entry(id).or_default().charged += bytes;
            return Ok(());
        }
        Err(Denied::Limit(bytes))
    }

    fn refund(&mut self, id: u32, bytes: u64) {
        if let Some(instance) = self.instances.get_mut(&id) {
            instance.charged -= bytes;
            self.host.refund(id, bytes);
        }
    }

    /// Whether an instance may hold one more buffer.
    fn may_hold(&self, id: u32) -> Result<(), Denied> {
        let own = self.instances.get(&id).map_or(0, |instance| instance.held);
        let room = !self.arena.is_kept_apart() || own < HELD_SHARE || self.held < HELD_TOGETHER;
        if room || id == SYSTEM_INSTANCE { Ok(()) } else { Err(Denied::TooMany) }
    }

    /// Adjusts the number of buffers that an instance holds. Buffers that trusted code holds are not counted.
    pub(crate) fn adjust_held(&mut self, id: u32, change: i32) {
        if id != SYSTEM_INSTANCE {
            let instance = self.instances.entry(id).or_default();
            instance.held = instance.held.wrapping_add_signed(change);
            self.held = self.held.wrapping_add_signed(change);
        }
    }

    pub(crate) fn track(&mut self, id: u32, address: u64) {
        if id != SYSTEM_INSTANCE {
            self.instances.entry(id).or_default().addresses.insert(address);
        }
    }

    fn untrack(&mut self, id: u32, address: u64) {
        if let Some(instance) = self.instances.get_mut(&id) {
            instance.addresses.remove(&address);
        }
    }
}
