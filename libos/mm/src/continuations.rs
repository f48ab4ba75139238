//! One-shot continuations ([`monohull_abi::continuation`]): buffers that carry a mark.
//!
//! ```text
//!   CONTINUATION ──▶ marked buffer ─ publish, take, … ─▶ RESUME ──▶ bytes in "\0k" ID ──▶ the instance that waits
//!                         │  │                                                                   ▲
//!                         │  └─ freed, or its last owner has ended ─▶ its wait is an error ──────┘
//!                         └──── the instance that waits has ended ──▶ RESUME is an error that names it
//! ```
//!
//! The mark is a part of the buffer's entry in the table, so it goes wherever the buffer goes, and nowhere else. The table has the ids of
//! those that can be used: there is a buffer with that mark, and the instance that waits has not ended.

use crate::Memory;
use crate::arena::Returns;
use crate::mark::Mark;
use crate::table::{Buffer, BufferState, Content, Denied, Table};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;
use monohull_abi::Errno;
use monohull_abi::continuation::CONTINUATIONS_MAX;
use monohull_abi::effect::{EFFECT_SLOT_LEN, EffectPart, EffectSlot, PerformId};
use monohull_abi::module::{Call, SYSTEM_INSTANCE};
use monohull_abi::types::BYTES_FINGERPRINT;
use monohull_abi::user::UserSlice;

/// Why a continuation is not made or not used.
enum Unused {
    /// The instance has as many as it may.
    TooMany,
    /// The instance has freed or published the buffer, whose address another thread has guessed.
    GivenAway,
    /// The address is not that of a continuation which the caller owns.
    None,
    /// A call is reading, writing or moving the continuation's buffer.
    Busy,
    /// The instance that waited, of this name, has ended.
    Ended(Box<str>),
    /// The bytes cannot be given away.
    Value(Denied),
}

/// The slot of what a continuation is used with.
fn slot(id: PerformId) -> String {
    format!("{}", EffectSlot { part: EffectPart::Resume, id })
}

/// The ids of all continuations of an instance lie in this range.
fn ids_of(asker: u32) -> RangeInclusive<u64> {
    PerformId { asker, number: 0 }.to_raw()..=PerformId { asker, number: u32::MAX }.to_raw()
}

impl Memory {
    pub(crate) fn continuation(&self, call: &mut Call) -> Result<u64, Errno> {
        if call.instance == SYSTEM_INSTANCE {
            return Err(Errno::NotPermitted);
        }
        let (instance, out) = (call.instance, call.args[0]);
        // Checked before there is a buffer: can the name be written?
        self.write_name(call, out, &[0; EFFECT_SLOT_LEN])?;
        let waiter = self.host.instance_name(instance).into_boxed_str();
        let address = self.alloc_buffer(call, 1, 1)?;
        let marked = self.table.lock().mark(instance, address, waiter);
        let written = match marked {
            Ok(id) => self.write_name(call, out, &EffectSlot { part: EffectPart::Resume, id }.to_bytes()),
            // What is there now is not this call's to free.
            Err(unused @ Unused::GivenAway) => return Err(self.unused(call, unused)),
            Err(unused) => Err(self.unused(call, unused)),
        };
        if written.is_err() {
            self.with_table(instance, |table, returns| _ = table.free(instance, address, returns));
        }
        written.map(|()| address)
    }

    pub(crate) fn resume(&self, call: &mut Call) -> Result<u64, Errno> {
        let [continuation, address, count, ..] = call.args;
        let by = call.instance;
        if by == SYSTEM_INSTANCE {
            return Err(Errno::NotPermitted);
        }
        let resumed = self.with_table(by, |table, returns| table.resume(by, continuation, (address, count), returns));
        let (slot, bytes) = resumed.map_err(|unused| self.unused(call, unused))?;
        self.host.count_published(by, bytes);
        self.wake_for(&slot);
        Ok(0)
    }

    #[cold]
    fn unused(&self, call: &Call, unused: Unused) -> Errno {
        let [continuation, address, count, ..] = call.args;
        let explain = |errno, why: fmt::Arguments<'_>| self.host.explain(call, errno, why);
        match unused {
            Unused::TooMany => {
                let why =
                    format_args!("an instance has at most {CONTINUATIONS_MAX} continuations that it still waits for");
                explain(Errno::TooMany, why)
            }
            Unused::GivenAway => {
                let why = format_args!(
                    "another thread has freed, published or replaced the buffer before it was a continuation"
                );
                explain(Errno::Busy, why)
            }
            Unused::None => {
                let why = format_args!("{continuation:#x} is not the address of a continuation that the caller owns");
                explain(Errno::Fault, why)
            }
            Unused::Busy => {
                let why = format_args!("a call of another thread is reading or writing the continuation's buffer");
                explain(Errno::Busy, why)
            }
            Unused::Ended(waiter) => {
                explain(Errno::NotFound, format_args!("{waiter}, which waited for this continuation, has ended"))
            }
            Unused::Value(Denied::NotHeld) => {
                let why = format_args!("{address:#x} is not the start of a slot buffer that the caller owns");
                explain(Errno::Fault, why)
            }
            Unused::Value(Denied::TooSmall(capacity)) => {
                let why = format_args!("{count} bytes do not fit in a buffer of {capacity} bytes");
                explain(Errno::Invalid, why)
            }
            Unused::Value(denied) => self.deny(call, denied),
        }
    }

    fn write_name(&self, call: &Call, out: u64, name: &[u8; EFFECT_SLOT_LEN]) -> Result<(), Errno> {
        let place = UserSlice::<u8>::new(out, EFFECT_SLOT_LEN as u64).check(self.host.raw(), call);
        let written = place.and_then(|place| place.write(name));
        written.map_err(|refusal| self.refuse(call, "the address for the name of the slot", refusal))
    }

    /// Wakes those that wait for continuations that have become of no use.
    pub(crate) fn wake_lost(&self, lost: Vec<PerformId>) {
        for id in lost {
            self.wake_for(&slot(id));
        }
    }
}

impl Table {
    /// Makes a buffer that `by` holds a continuation of `by`.
    fn mark(&mut self, by: u32, address: u64, waiter: Box<str>) -> Result<PerformId, Unused> {
        if self.continuations_of(by) >= CONTINUATIONS_MAX {
            return Err(Unused::TooMany);
        }
        let id = loop {
            self.last_continuation = self.last_continuation.wrapping_add(1);
            let id = PerformId { asker: by, number: self.last_continuation };
            let is_used = self.continuations.contains(&id.to_raw()) || self.names.contains_key(&*slot(id));
            if id.number != 0 && !is_used {
                break id;
            }
        };
        let is_new = |buffer: &&mut Buffer| {
            buffer.mark.is_none()
                && matches!(buffer.state, BufferState::Held { by: holder, origin: None } if holder == by)
        };
        let Some(buffer) = self.buffers.get_mut(&address).filter(is_new) else { return Err(Unused::GivenAway) };
        buffer.mark = Some(Box::new(Mark { id, waiter }));
        self.continuations.insert(id.to_raw());
        Ok(id)
    }

    /// Uses a continuation up. The name of the slot in which the bytes are, and how many there are.
    fn resume(
        &mut self,
        by: u32,
        continuation: u64,
        (address, count): (u64, u64),
        returns: &mut Returns,
    ) -> Result<(String, u64), Unused> {
        let Some(buffer) = self.buffers.get(&continuation) else { return Err(Unused::None) };
        let is_held = matches!(buffer.state, BufferState::Held { by: holder, .. } if holder == by);
        let Some(mark) = buffer.mark.as_deref().filter(|_| is_held) else { return Err(Unused::None) };
        if buffer.is_in_use() {
            return Err(Unused::Busy);
        }
        let id = mark.id;
        if !self.continuations.contains(&id.to_raw()) {
            return Err(Unused::Ended(mark.waiter.clone()));
        }
        let slot = slot(id);
        let content = Content { count, element_size: 1, fingerprint: BYTES_FINGERPRINT, type_name: Box::from("[u8]") };
        let bytes = self.publish(by, &slot, address, content).map_err(Unused::Value)?;
        self.continuations.remove(&id.to_raw());
        // An instance that has used one up is not repeated alone.
        let _ = self.mark_written(by, continuation);
        self.release(by, continuation, returns);
        Ok((slot, bytes))
    }

    /// How many continuations of an instance can be used, or have been and it has not taken what with.
    pub(crate) fn continuations_of(&self, asker: u32) -> usize {
        self.continuations.range(ids_of(asker)).count() + self.slots_of(EffectPart::Resume, asker).count()
    }

    /// A buffer is no more. If it was a continuation that could be used, the instance that waits is to be woken.
    pub(crate) fn lose(&mut self, mark: Option<&Mark>) {
        if let Some(mark) = mark
            && self.continuations.remove(&mark.id.to_raw())
        {
            self.lost.push(mark.id);
        }
    }

    /// Whether this is the slot of a continuation that cannot be used any more.
    pub(crate) fn is_lost(&self, slot: &str) -> bool {
        let slot = EffectSlot::parse(slot).filter(|slot| slot.part == EffectPart::Resume);
        slot.is_some_and(|slot| !self.continuations.contains(&slot.id.to_raw()))
    }

    /// An instance has ended: its continuations are of no use, nor is what they were used with.
    pub(crate) fn forget_continuations(&mut self, instance: u32, returns: &mut Returns) {
        let ids: Vec<u64> = self.continuations.range(ids_of(instance)).copied().collect();
        for id in ids {
            self.continuations.remove(&id);
        }
        let slots: Vec<_> = self.slots_of(EffectPart::Resume, instance).cloned().collect();
        for slot in slots {
            if let Ok(Some((found, _))) = self.take_any(SYSTEM_INSTANCE, &slot) {
                self.release(SYSTEM_INSTANCE, found.view.address, returns);
            }
        }
    }
}
