//! The hostcalls on slot buffers: arguments in, the table's answer out, a refusal put into words.
//!
//! Checking an address in the arena asks this very module (`SLOT_PIN`), so arguments are read before the table is
//! locked, and results are written after.

use crate::effects::is_effect;
use crate::table::{Content, Denied, HELD_SHARE, HELD_TOGETHER, Resized};
use crate::texts::TextBuffer;
use crate::{Memory, events};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use core::fmt;
use monohull_abi::effect::{EffectPart, EffectSlot};
use monohull_abi::event::EventSlot;
use monohull_abi::layout::PAGE;
use monohull_abi::module::{Call, NEVER, SYSTEM_INSTANCE, Wake};
use monohull_abi::types::{SLOT_NAME_MAX, SlotInfo, SlotView, TAKE_NOW, TYPE_NAME_MAX, TypeDesc, fingerprint};
use monohull_abi::user::{AccessError, UserSlice, read_one, write_one};
use monohull_abi::{Errno, Outcome};

/// Largest alignment a buffer may ask for.
const ALIGN_MAX: u64 = crate::pages::HUGE;

/// Distinguishes the keys of slots from other keys, which are addresses.
pub(crate) const KEY_TAG: u64 = 1 << 63;

/// What waiters for a slot wait on, or for any event of the name of the one that lies there.
pub(crate) fn key_of(name: &str) -> u64 {
    let events = EventSlot::parse(name).map(|event| events::key_of(event.name));
    events.unwrap_or_else(|| fingerprint(name.as_bytes()) | KEY_TAG)
}

impl Memory {
    pub(crate) fn alloc(&self, call: &mut Call) -> Result<u64, Errno> {
        let [bytes, align, ..] = call.args;
        if !align.is_power_of_two() || align > ALIGN_MAX {
            let why = format_args!("an alignment of {align} is not a power of two up to {ALIGN_MAX}");
            return Err(self.host.explain(call, Errno::Invalid, why));
        }
        self.alloc_buffer(call, bytes, align)
    }

    /// A new buffer of the caller's.
    pub(crate) fn alloc_buffer(&self, call: &Call, bytes: u64, align: u64) -> Result<u64, Errno> {
        let taken = self.with_room(call.instance, |table, _| table.take_pages(call.instance, bytes, align));
        let taken = taken.map_err(|denied| self.deny(call, denied))?;
        let is_zero = !taken.dirty || self.host.arena_zero(taken.run.address(), taken.run.bytes()).is_ok();
        let held = self.with_table(call.instance, |table, returns| {
            if is_zero {
                return table.hold(call.instance, taken.run, align, returns);
            }
            table.cancel_alloc(call.instance, taken.run, returns);
            Err(Denied::NoMemory)
        });
        held.map_err(|denied| self.deny(call, denied))
    }

    pub(crate) fn resize(&self, call: &mut Call) -> Result<u64, Errno> {
        let [address, bytes, ..] = call.args;
        let resized =
            self.with_room(call.instance, |table, returns| table.resize(call.instance, address, bytes, returns));
        match resized.map_err(|denied| self.deny(call, denied))? {
            Resized::InPlace => Ok(address),
            Resized::Move { capacity, new } => {
                let (to, added) = (new.run.address(), new.run.bytes() - capacity);
                let is_copied = self.host.arena_copy(address, to, capacity).is_ok()
                    && (!new.dirty || self.host.arena_zero(to + capacity, added).is_ok());
                let moved = self.with_table(call.instance, |table, returns| {
                    if is_copied {
                        return table.finish_move(call.instance, address, new.run, returns);
                    }
                    table.cancel_move(call.instance, address, new.run, returns);
                    Err(Denied::NoMemory)
                });
                moved.map_err(|denied| self.deny(call, denied))
            }
        }
    }

    pub(crate) fn free(&self, call: &mut Call) -> Result<u64, Errno> {
        let freed = self.with_table(call.instance, |table, returns| table.free(call.instance, call.args[0], returns));
        freed.map(|()| 0).map_err(|denied| self.deny(call, denied))
    }

    pub(crate) fn mark_written(&self, call: &mut Call) -> Result<u64, Errno> {
        let touched = self.with_table(call.instance, |table, _| table.mark_written(call.instance, call.args[0]));
        touched.map(|()| 0).map_err(|denied| self.deny(call, denied))
    }

    pub(crate) fn publish(&self, call: &mut Call) -> Result<u64, Errno> {
        let [name, name_len, address, count, desc, _] = call.args;
        let (mut name_room, mut type_room) = (TextBuffer::<SLOT_NAME_MAX>::new(), TextBuffer::<TYPE_NAME_MAX>::new());
        let name = name_room.read(self, call, name, name_len, "the slot's name")?;
        let slot = self.slot_of(call, name, "fills", true)?;
        let desc = self.read_type(call, desc)?;
        let type_name = type_room.read(self, call, desc.name, desc.name_len, "the type's name")?;
        let content = Content {
            count,
            element_size: desc.element_size,
            fingerprint: desc.fingerprint,
            type_name: Box::from(type_name),
        };
        let published = self.table.lock().publish(call.instance, &slot, address, content);
        let bytes = published.map_err(|denied| match denied {
            Denied::NameTaken => {
                let why = format_args!("slot `{name}` is already filled");
                self.host.explain(call, Errno::Exists, why)
            }
            Denied::TooSmall(capacity) => {
                let size = desc.element_size;
                let why = format_args!("{count} elements of {size} bytes do not fit in a buffer of {capacity} bytes");
                self.host.explain(call, Errno::Invalid, why)
            }
            Denied::NotHeld => {
                let why = format_args!("{address:#x} is not the start of a slot buffer that the caller owns");
                self.host.explain(call, Errno::Fault, why)
            }
            other => self.deny(call, other),
        })?;
        if call.instance != SYSTEM_INSTANCE {
            self.host.count_published(call.instance, bytes);
        }
        self.wake_for(&slot);
        Ok(0)
    }

    pub(crate) fn take(&self, call: &mut Call) -> Outcome {
        match self.try_take(call) {
            Ok(Some(is_failure)) => Outcome::ready(is_failure.into()),
            Ok(None) => Outcome::park(),
            Err(errno) => Outcome::error(errno),
        }
    }

    /// Whether what was taken is the report of a failure; `None` if the call has been registered to wait.
    fn try_take(&self, call: &mut Call) -> Result<Option<bool>, Errno> {
        let [name, name_len, desc, out, flags, _] = call.args;
        let mut room = TextBuffer::<SLOT_NAME_MAX>::new();
        let name = room.read(self, call, name, name_len, "the slot's name")?;
        let slot = self.slot_of(call, name, "takes", false)?;
        let is_reply = call.instance != SYSTEM_INSTANCE && is_effect(name);
        // There is one request, from the start.
        let is_request = matches!(slot, Cow::Owned(_));
        let may_wait = flags & TAKE_NOW == 0 && call.wake != Wake::Deadlock && !is_request;
        let desc = self.read_type(call, desc)?;
        // Checked before ownership changes: can the answer be written?
        self.write_out(call, out, SlotView::default(), "the address for the slot's view")?;
        let (instance, mut waits, mut is_lost) = (call.instance, false, false);
        let found = self.with_room(instance, |table, _| {
            let found = match is_reply {
                true => table.take_any(instance, &slot),
                false => table.take(instance, &slot, desc.fingerprint).map(|found| found.map(|found| (found, false))),
            };
            is_lost = is_reply && matches!(found, Ok(None)) && table.is_lost(&slot);
            if matches!(found, Ok(None)) && may_wait && !is_lost {
                // Under the lock, so that a publisher that comes now finds the waiter.
                self.host.wait(call, key_of(&slot), NEVER);
                waits = true;
            }
            found
        });
        if waits {
            return Ok(None);
        }
        let found = found.map_err(|denied| match denied {
            Denied::WrongType(holds) => {
                let mut room = TextBuffer::<TYPE_NAME_MAX>::new();
                let asked = match room.read(self, call, desc.name, desc.name_len, "the type's name") {
                    Ok(asked) => asked,
                    Err(errno) => return errno,
                };
                let why = if *holds == *asked {
                    format_args!("slot `{name}` holds a `{holds}` of another layout than the `{asked}` asked for")
                } else {
                    format_args!("slot `{name}` holds `{holds}`, `{asked}` was asked for")
                };
                self.host.explain(call, Errno::WrongType, why)
            }
            other => self.deny(call, other),
        })?;
        let Some((found, is_failure)) = found else {
            return Err(if is_lost {
                let why = format_args!(
                    "the continuation is gone: it was freed unused, its last owner has ended, or what had used it has failed"
                );
                self.host.explain(call, Errno::NeverFilled, why)
            } else if flags & TAKE_NOW != 0 {
                Errno::NotFound
            } else if is_request {
                self.host.explain(call, Errno::NeverFilled, format_args!("the request has been taken"))
            } else if EffectSlot::parse(name).is_some_and(|slot| slot.part == EffectPart::Resume) {
                let why = format_args!("no instance is left that could use the continuation");
                self.host.explain(call, Errno::NeverFilled, why)
            } else if is_reply {
                self.host.explain(call, Errno::NeverFilled, format_args!("no instance is left that could reply"))
            } else if self.table.lock().recent.has(name) {
                let why = format_args!(
                    "slot `{name}` has been taken already, and no instance is left that could fill it again"
                );
                self.host.explain(call, Errno::NeverFilled, why)
            } else {
                let why = format_args!("no instance is left that could fill slot `{name}`");
                self.host.explain(call, Errno::NeverFilled, why)
            });
        };
        if call.instance != SYSTEM_INSTANCE {
            self.host.count_taken(call.instance, found.bytes);
        }
        self.write_out(call, out, found.view, "the address for the slot's view")?;
        Ok(Some(is_failure))
    }

    pub(crate) fn pin(&self, call: &mut Call) -> Result<u64, Errno> {
        self.trusted_only(call)?;
        let [instance, address, len, ..] = call.args;
        let instance = u32::try_from(instance).map_err(|_| Errno::Invalid)?;
        Ok(self.table.lock().pin(instance, address, len).into())
    }

    pub(crate) fn unpin(&self, call: &mut Call) -> Result<u64, Errno> {
        self.trusted_only(call)?;
        self.table.lock().unpin(call.args[0]);
        Ok(0)
    }

    pub(crate) fn peek(&self, call: &mut Call) -> Result<u64, Errno> {
        self.trusted_only(call)?;
        let [name, name_len, out, text, capacity, _] = call.args;
        let mut room = TextBuffer::<SLOT_NAME_MAX>::new();
        let name = room.read(self, call, name, name_len, "the slot's name")?;
        let mut type_name = [0; TYPE_NAME_MAX];
        let (info, len): (SlotInfo, usize) = {
            let table = self.table.lock();
            let (info, found) = table.peek(name).ok_or(Errno::NotFound)?;
            type_name[..found.len()].copy_from_slice(found.as_bytes());
            (info, found.len())
        };
        self.write_out(call, out, info, "the address for the slot's facts")?;
        let copied = len.min(capacity as usize);
        UserSlice::<u8>::new(text, copied as u64).check(self.host.raw(), call)?.write(&type_name[..copied])?;
        Ok(len as u64)
    }

    pub(crate) fn next(&self, call: &mut Call) -> Result<u64, Errno> {
        self.trusted_only(call)?;
        let [name, name_len, out, text, capacity, _] = call.args;
        let mut room = TextBuffer::<SLOT_NAME_MAX>::new();
        let name = if name_len == 0 { "" } else { room.read(self, call, name, name_len, "the slot's name")? };
        let mut next = [0; SLOT_NAME_MAX];
        let (filled, len) = {
            let table = self.table.lock();
            let Some((name, filled)) = table.next_after(name) else { return Ok(0) };
            next[..name.len()].copy_from_slice(name.as_bytes());
            (filled, name.len())
        };
        self.write_out(call, out, filled, "the address for the slot's facts")?;
        let copied = len.min(capacity as usize);
        UserSlice::<u8>::new(text, copied as u64).check(self.host.raw(), call)?.write(&next[..copied])?;
        Ok(len as u64)
    }

    pub(crate) fn held_behind(&self, call: &mut Call) -> Result<u64, Errno> {
        self.trusted_only(call)?;
        let [instance, address, out, ..] = call.args;
        let instance = u32::try_from(instance).map_err(|_| Errno::Invalid)?;
        let found = self.table.lock().held_behind(instance, address);
        let Some(held) = found else { return Ok(0) };
        self.write_out(call, out, held, "the address for the buffer")?;
        Ok(1)
    }

    fn read_type(&self, call: &Call, address: u64) -> Result<TypeDesc, Errno> {
        read_one(self.host.raw(), call, address)
            .map_err(|refusal| self.refuse(call, "the description of the type", refusal))
    }

    pub(crate) fn write_out<T>(&self, call: &Call, address: u64, value: T, what: &str) -> Result<(), Errno>
    where
        T: monohull_abi::user::Plain,
    {
        write_one(self.host.raw(), call, address, value).map_err(|refusal| self.refuse(call, what, refusal))
    }

    pub(crate) fn refuse(&self, call: &Call, what: &str, refusal: AccessError) -> Errno {
        self.host.explain(call, refusal.into(), format_args!("{what}: {refusal}"))
    }

    pub(crate) fn trusted_only(&self, call: &Call) -> Result<(), Errno> {
        if call.instance == SYSTEM_INSTANCE { Ok(()) } else { Err(Errno::NotPermitted) }
    }

    /// The error for a refusal by the table. Callers explain refusals that need a slot's name.
    pub(crate) fn deny(&self, call: &Call, denied: Denied) -> Errno {
        let explain = |errno, why: fmt::Arguments<'_>| self.host.explain(call, errno, why);
        match denied {
            Denied::NotHeld => {
                let address = call.args[0];
                let why = format_args!("{address:#x} is not the start of a slot buffer that the caller owns");
                explain(Errno::Fault, why)
            }
            Denied::Pinned => {
                explain(Errno::Busy, format_args!("a call of another thread is reading or writing this slot buffer"))
            }
            Denied::Limit(bytes) => self.over_limit(call, bytes),
            Denied::ArenaFull => explain(Errno::OutOfMemory, format_args!("the memory for slot buffers is exhausted")),
            Denied::NoMemory => explain(Errno::OutOfMemory, format_args!("the host has no memory for the slot buffer")),
            Denied::TooMany => {
                let why = format_args!(
                    "an instance with a key of its own may hold {HELD_SHARE} slot buffers at a time, and more only while all \
                     together hold fewer than {HELD_TOGETHER}"
                );
                explain(Errno::OutOfMemory, why)
            }
            Denied::Marked => {
                let why = format_args!(
                    "a continuation is handed on in a slot; it is no request, no reply, and not what another one is used with"
                );
                explain(Errno::NotPermitted, why)
            }
            Denied::NameTaken => Errno::Exists,
            Denied::TooSmall(_) => Errno::Invalid,
            Denied::WrongType(_) => Errno::WrongType,
        }
    }

    /// `bytes` more would exceed the caller's memory limit.
    pub(crate) fn over_limit(&self, call: &Call, bytes: u64) -> Errno {
        let limit = self.host.memory_limit(call.instance);
        let heap = self.host.heap_size(call.instance);
        let buffers = self.table.lock().charged(call.instance);
        let why = format_args!(
            "memory limit of {limit} bytes reached (heap {heap} + buffers {buffers} + {bytes} asked for; pages of {PAGE})"
        );
        self.host.explain(call, Errno::OutOfMemory, why)
    }
}
