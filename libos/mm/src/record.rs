//! The buffers of a domain as a record.
//!
//! The record names the pages of each buffer, its owner, and what its slot holds. The contents are captured beside it, page by page.
//! Everything else follows: free pages are those of no buffer, holdings are counted, charges are made again and are within
//! the limits or the record is refused. An event that was not taken is left out: the mailbox that it came from has it still.
//!
//! ```text
//!  arena     | buffer | warm | buffer | stuck | free …        captured: the buffers' pages
//!  rebuilt   | buffer | free | buffer | free …                what freed memory held is in no record
//! ```

use crate::Memory;
use crate::continuation_record::ContinuationRecord;
use crate::effects::is_effect;
use crate::table::{Buffer, BufferState, Content, HELD_SHARE, HELD_TOGETHER, RETAINED_MAX, Slot, Table};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use monohull_abi::effect::{EffectPart, EffectSlot};
use monohull_abi::event::{EventSlot, EventState, RESERVED};
use monohull_abi::layout::{ARENA_BASE, ARENA_END, PAGE};
use monohull_abi::module::SYSTEM_INSTANCE;
use monohull_abi::types::{SLOT_NAME_MAX, TYPE_NAME_MAX};
use monohull_module::record::{RecordsRef, Refused, fields, rise};
use serde::{Deserialize, Serialize};

/// Most keys for instances; see [`HELD_SHARE`].
const INSTANCES_APART: u32 = 16;

/// All buffers, by address.
#[derive(Serialize, Deserialize)]
pub(crate) struct TableRecord<'r> {
    #[serde(borrow)]
    pub(crate) buffers: Vec<BufferRecord<'r>>,
    /// Instances whose inputs are not intact any more.
    pub(crate) dirty: Vec<u32>,
    /// By their buffers' pages.
    #[serde(borrow)]
    pub(crate) continuations: Vec<ContinuationRecord<'r>>,
    /// The number of the last one.
    pub(crate) last_continuation: u32,
}

/// The table of version 1.
#[derive(Deserialize)]
struct TableWithoutContinuations<'r> {
    #[serde(borrow)]
    buffers: Vec<BufferRecord<'r>>,
    dirty: Vec<u32>,
}

impl<'r> From<TableWithoutContinuations<'r>> for TableRecord<'r> {
    fn from(TableWithoutContinuations { buffers, dirty }: TableWithoutContinuations<'r>) -> TableRecord<'r> {
        TableRecord { buffers, dirty, continuations: Vec::new(), last_continuation: 0 }
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct BufferRecord<'r> {
    /// The first page, counted from the arena's start.
    pub(crate) page: u64,
    pub(crate) pages: u64,
    pub(crate) align: u64,
    #[serde(borrow)]
    pub(crate) owner: OwnerRecord<'r>,
}

/// See [`BufferState`].
#[derive(Serialize, Deserialize)]
pub(crate) enum OwnerRecord<'r> {
    Held {
        by: u32,
        #[serde(borrow)]
        origin: Option<SlotRecord<'r>>,
    },
    Retained {
        by: u32,
        #[serde(borrow)]
        slot: SlotRecord<'r>,
    },
    InSlot {
        #[serde(borrow)]
        slot: SlotRecord<'r>,
        before: Option<SlotRecord<'r>>,
    },
}

/// A [`Slot`]; the one before it is beside it.
#[derive(Serialize, Deserialize)]
pub(crate) struct SlotRecord<'r> {
    pub(crate) name: &'r str,
    pub(crate) type_name: &'r str,
    pub(crate) count: u64,
    pub(crate) element_size: u64,
    pub(crate) fingerprint: u64,
    pub(crate) producer: u32,
    pub(crate) taken: bool,
}

impl Memory {
    pub(crate) fn save_table(&self, records: RecordsRef<'_>) -> Result<(), Refused> {
        if let Some(instance) = self.cleanups.lock().keys().next() {
            return Err(Refused::of(*instance, format_args!("it has ended, and its buffers are being freed")));
        }
        let table = self.table.lock();
        if !table.withdrawn.is_empty() {
            return Err(Refused::new(format_args!("slots are being withdrawn")));
        }
        let kept = || table.buffers.values().filter(|buffer| !buffer.is_given_event());
        let buffers = kept().map(BufferRecord::of).collect::<Result<Vec<_>, _>>()?;
        let dirty = table.instances.iter().filter(|(_, instance)| instance.inputs_dirty).map(|(id, _)| *id);
        let dirty: BTreeSet<u32> = dirty.collect();
        records.write(&TableRecord {
            buffers,
            dirty: dirty.into_iter().collect(),
            continuations: table.save_continuations(),
            last_continuation: table.last_continuation,
        })?;
        kept().for_each(|buffer| records.pages(buffer.run.address(), buffer.run.bytes()));
        Ok(())
    }

    pub(crate) fn restore_table(&self, version: u32, record: &[u8], records: RecordsRef<'_>) -> Result<(), Refused> {
        let TableRecord { buffers, dirty, continuations, last_continuation } = match version {
            1 => TableRecord::from(fields::<TableWithoutContinuations<'_>>(record)?),
            _ => fields(record)?,
        };
        rise(buffers.iter().map(|buffer| buffer.page), "the buffers")?;
        rise(dirty.iter(), "the instances")?;
        let live = records.instances();
        let mut table = self.table.lock();
        for id in dirty {
            if !live.contains(&id) {
                return Err(Refused::new(format_args!("there is no instance {id}")));
            }
            table.instances.entry(id).or_default().inputs_dirty = true;
        }
        for buffer in buffers {
            let (address, bytes) = table.restore(buffer, &live)?;
            records.pages(address, bytes);
        }
        table.last_continuation = last_continuation;
        table.restore_continuations(continuations, &live)
    }
}

impl<'r> BufferRecord<'r> {
    fn of(buffer: &'r Buffer) -> Result<BufferRecord<'r>, Refused> {
        let Buffer { run, state, align, .. } = buffer;
        let owner = match state {
            BufferState::Held { by, .. } if *by == SYSTEM_INSTANCE => {
                return Err(Refused::new(format_args!("trusted code uses the slot buffer at {:#x}", run.address())));
            }
            BufferState::Held { by, .. } if buffer.is_in_use() => {
                let why = format_args!("a call reads, writes or moves its slot buffer at {:#x}", run.address());
                return Err(Refused::of(*by, why));
            }
            BufferState::Held { by, origin } => {
                OwnerRecord::Held { by: *by, origin: origin.as_deref().map(SlotRecord::of) }
            }
            BufferState::Retained { by, slot } => OwnerRecord::Retained { by: *by, slot: SlotRecord::of(slot) },
            BufferState::InSlot { slot } => {
                OwnerRecord::InSlot { slot: SlotRecord::of(slot), before: slot.before.as_deref().map(SlotRecord::of) }
            }
        };
        let page = (run.address() - ARENA_BASE) / PAGE;
        Ok(BufferRecord { page, pages: run.bytes() / PAGE, align: *align, owner })
    }

    /// Address and bytes, if they lie in the arena.
    fn place(&self) -> Result<(u64, u64), Refused> {
        let most = (ARENA_END - ARENA_BASE) / PAGE;
        let is_inside = self.page < most && (1..=most - self.page.min(most)).contains(&self.pages);
        let address = ARENA_BASE.wrapping_add(self.page.wrapping_mul(PAGE));
        let is_aligned = self.align.is_power_of_two() && self.align <= crate::pages::HUGE;
        if is_inside && is_aligned && address.is_multiple_of(self.align) {
            return Ok((address, self.pages * PAGE));
        }
        let (page, pages, align) = (self.page, self.pages, self.align);
        Err(Refused::new(format_args!("{pages} pages from page {page} on, aligned to {align}, are no slot buffer")))
    }
}

impl<'r> SlotRecord<'r> {
    fn of(slot: &'r Slot) -> SlotRecord<'r> {
        let Content { count, element_size, fingerprint, ref type_name } = slot.content;
        let (producer, taken) = (slot.producer, slot.taken);
        SlotRecord { name: &slot.name, type_name, count, element_size, fingerprint, producer, taken }
    }

    /// The same of one from which a buffer was taken, or that is filled again if another is given back: what a continuation was used with is taken once.
    fn restore_earlier(self, capacity: u64) -> Result<Box<Slot>, Refused> {
        if EffectSlot::parse(self.name).is_some_and(|slot| slot.part == EffectPart::Resume) {
            return Err(Refused::new(format_args!(
                "what a continuation was used with was taken, and can be given back"
            )));
        }
        self.restore(capacity, None)
    }

    /// The slot, if its name and its type's are names, and its contents fit into so many bytes.
    fn restore(self, capacity: u64, before: Option<Box<Slot>>) -> Result<Box<Slot>, Refused> {
        let SlotRecord { name, type_name, count, element_size, fingerprint, producer, taken } = self;
        if name.is_empty() || name.len() > SLOT_NAME_MAX {
            return Err(Refused::new(format_args!("a slot's name has {} bytes", name.len())));
        }
        let is_own = |event: EventSlot<'_>| event.state == EventState::Taken;
        if name.starts_with(RESERVED) && !EventSlot::parse(name).is_some_and(is_own) && !is_effect(name) {
            return Err(Refused::new(format_args!("a slot has a name that begins with a zero byte")));
        }
        if type_name.is_empty() || type_name.len() > TYPE_NAME_MAX {
            let why = format_args!("slot `{name}`: the name of its type has {} bytes", type_name.len());
            return Err(Refused::new(why));
        }
        let content = Content { count, element_size, fingerprint, type_name: type_name.into() };
        if content.bytes().is_none_or(|bytes| bytes > capacity) {
            return Err(Refused::new(format_args!(
                "slot `{name}`: {count} elements of {element_size} bytes do not fit in a buffer of {capacity} bytes"
            )));
        }
        Ok(Box::new(Slot { name: Arc::from(name), content, producer, taken, before }))
    }
}

impl Table {
    /// Enters one buffer; gives its address and its bytes.
    fn restore(&mut self, record: BufferRecord<'_>, live: &BTreeSet<u32>) -> Result<(u64, u64), Refused> {
        let (address, bytes) = record.place()?;
        let Some(run) = self.arena.claim(address, bytes) else {
            let why =
                format_args!("the slot buffer at {address:#x} lies in another one, or the host has no memory for it");
            return Err(Refused::new(why));
        };
        let owner = |by: u32| match live.contains(&by) {
            true => Ok(by),
            false => Err(Refused::new(format_args!("no instance {by} can own the slot buffer at {address:#x}"))),
        };
        let (charged, state) = match record.owner {
            OwnerRecord::Held { by, origin } => {
                let by = owner(by)?;
                let origin = origin.map(|slot| slot.restore_earlier(bytes)).transpose()?;
                (Some(by), BufferState::Held { by, origin })
            }
            OwnerRecord::Retained { by, slot } => {
                let by = owner(by)?;
                let slot = slot.restore_earlier(bytes)?;
                let instance = self.instances.entry(by).or_default();
                instance.retained.push(address);
                instance.retained_bytes += bytes;
                if instance.retained_bytes > RETAINED_MAX {
                    let why = format_args!("more than {RETAINED_MAX} bytes of freed inputs");
                    return Err(Refused::of(by, why));
                }
                (Some(by), BufferState::Retained { by, slot })
            }
            OwnerRecord::InSlot { slot, before } => {
                let before = before.map(|slot| slot.restore_earlier(bytes)).transpose()?;
                let slot = slot.restore(bytes, before)?;
                if self.names.insert(slot.name.clone(), address).is_some() {
                    return Err(Refused::new(format_args!("slot `{}` is filled twice", slot.name)));
                }
                let producer = live.get(&slot.producer).copied().filter(|_| !slot.taken);
                (producer, BufferState::InSlot { slot })
            }
        };
        if let Some(by) = charged {
            let charge = self.charge(by, bytes);
            charge.map_err(|_| Refused::of(by, format_args!("its slot buffers exceed its memory limit")))?;
            self.track(by, address);
        }
        if let BufferState::Held { by, .. } = state {
            self.adjust_held(by, 1);
            let assigned = self.arena.assign(&run, by);
            let fits = !self.arena.is_kept_apart() || self.held <= HELD_TOGETHER + INSTANCES_APART * HELD_SHARE;
            if !assigned || !fits {
                return Err(Refused::of(by, format_args!("it holds more slot buffers than the host has mappings for")));
            }
        }
        self.insert(run, state, record.align, None);
        Ok((address, bytes))
    }
}
