//! Slots by their names: they are filled, taken, and looked at.

use super::{Buffer, BufferState, Content, Denied, Found, Slot, Table};
use crate::pages::Run;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ops::Bound;
use monohull_abi::effect::{EffectPart, EffectSlot};
use monohull_abi::event::RESERVED;
use monohull_abi::module::SYSTEM_INSTANCE;
use monohull_abi::types::{FilledSlot, SlotInfo, SlotView};

impl Table {
    /// Fills a slot with a buffer that `by` holds. Returns the bytes in use.
    pub(crate) fn publish(&mut self, by: u32, name: &str, address: u64, content: Content) -> Result<u64, Denied> {
        self.held_unpinned(by, address)?;
        if self.filled(name).is_some() {
            return Err(Denied::NameTaken);
        }
        let Some(buffer) = self.buffers.get_mut(&address) else { return Err(Denied::NotHeld) };
        if buffer.mark.is_some() && name.starts_with(RESERVED) {
            return Err(Denied::Marked);
        }
        let capacity = buffer.run.bytes();
        let bytes = content.bytes().filter(|bytes| *bytes <= capacity).ok_or(Denied::TooSmall(capacity))?;
        if !self.arena.assign(&buffer.run, SYSTEM_INSTANCE) {
            return Err(Denied::ArenaFull);
        }
        let BufferState::Held { origin: before, .. } = &mut buffer.state else { return Err(Denied::NotHeld) };
        let name: Arc<str> = name.into();
        let slot = Slot { name: name.clone(), content, producer: by, taken: false, before: before.take() };
        buffer.state = BufferState::InSlot { slot: Box::new(slot) };
        self.names.insert(name, address);
        self.adjust_held(by, -1);
        Ok(bytes)
    }

    /// Transfers ownership of a slot's buffer to `by`; `None` if the slot is empty.
    pub(crate) fn take(&mut self, by: u32, name: &str, fingerprint: u64) -> Result<Option<Found>, Denied> {
        let Some((run, slot)) = self.filled(name) else { return Ok(None) };
        let address = run.address();
        if slot.content.fingerprint != fingerprint {
            return Err(Denied::WrongType(slot.content.type_name.clone()));
        }
        let view = SlotView { address, count: slot.content.count, capacity: run.bytes() };
        let found = Found { view, bytes: slot.content.bytes().unwrap_or(0) };
        let producer = slot.producer;
        // An instance that asks for an effect can be run again without what it has asked with, unless that was an input of its own.
        let is_effect = EffectSlot::parse(name).is_some_and(|slot| slot.part != EffectPart::Resume);
        let dirties = !is_effect || slot.before.is_some();
        self.may_hold(by)?;
        let from_living = self.instances.get(&producer).is_some_and(|instance| instance.addresses.contains(&address));
        let own = from_living && producer == by;
        if !own {
            self.charge(by, view.capacity)?;
        }
        let assigned = self.buffers.get(&address).is_some_and(|buffer| self.arena.assign(&buffer.run, by));
        if !assigned {
            if !own {
                self.refund(by, view.capacity);
            }
            return Err(Denied::ArenaFull);
        }
        if !own {
            if from_living {
                self.untrack(producer, address);
                self.refund(producer, view.capacity);
                if dirties {
                    self.set_inputs_dirty(producer);
                }
            }
            self.track(by, address);
        }
        if let Some((name, _)) = self.names.remove_entry(name) {
            self.recent.add(name);
        }
        self.adjust_held(by, 1);
        if let Some(buffer) = self.buffers.get_mut(&address) {
            let state = core::mem::replace(&mut buffer.state, BufferState::Held { by, origin: None });
            if let (BufferState::Held { origin, .. }, BufferState::InSlot { mut slot }) = (&mut buffer.state, state) {
                let before = slot.before.take();
                slot.taken = true;
                *origin = if own { before } else { Some(slot) };
            }
        }
        Ok(Some(found))
    }

    /// Describes the buffer in a slot, and names its type.
    pub(crate) fn peek(&self, name: &str) -> Option<(SlotInfo, &str)> {
        let (run, slot) = self.filled(name)?;
        let Content { count, element_size, fingerprint, ref type_name } = slot.content;
        Some((SlotInfo { address: run.address(), count, element_size, fingerprint }, type_name))
    }

    /// The buffer in a slot, unless it is being withdrawn.
    pub(crate) fn filled(&self, name: &str) -> Option<(&Run, &Slot)> {
        let Buffer { run, state: BufferState::InSlot { slot }, .. } = self.buffers.get(self.names.get(name)?)? else {
            return None;
        };
        (slot.taken || !self.withdrawn.contains(&slot.producer)).then_some((run, slot))
    }

    /// The filled slot that follows a name in byte order. Events are not listed.
    pub(crate) fn next_after(&self, name: &str) -> Option<(&str, FilledSlot)> {
        let names = self.names.range::<str, _>((Bound::Excluded(name), Bound::Unbounded));
        names.into_iter().filter(|(name, _)| !name.starts_with(RESERVED)).find_map(|(name, _)| {
            let (_, slot) = self.filled(name)?;
            let bytes = slot.content.bytes().unwrap_or(0);
            Some((&**name, FilledSlot { bytes, producer: slot.producer.into() }))
        })
    }
}
