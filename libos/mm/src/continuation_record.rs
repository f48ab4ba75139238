//! The continuations of a domain as a part of its record.
//!
//! The record says which buffers are continuations, and for whom. Which of them can be used follows: those whose instances live.

use crate::mark::Mark;
use crate::table::{Buffer, BufferState, Table};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use monohull_abi::continuation::{CONTINUATIONS_MAX, WAITER_NAME_MAX};
use monohull_abi::effect::{EffectPart, EffectSlot, PerformId};
use monohull_abi::event::RESERVED;
use monohull_abi::layout::{ARENA_BASE, PAGE};
use monohull_module::record::{Refused, rise};
use serde::{Deserialize, Serialize};

/// See [`Mark`].
#[derive(Serialize, Deserialize)]
pub(crate) struct ContinuationRecord<'r> {
    /// The first page of its buffer, counted from the arena's start.
    pub(crate) page: u64,
    /// The instance that waits.
    pub(crate) asker: u32,
    /// Which of its continuations; 0 if it has ended.
    pub(crate) number: u32,
    /// Its name.
    pub(crate) waiter: &'r str,
}

impl Table {
    pub(crate) fn save_continuations(&self) -> Vec<ContinuationRecord<'_>> {
        let marked = self.buffers.iter().filter_map(|(address, buffer)| Some((address, buffer.mark.as_deref()?)));
        marked
            .map(|(address, mark)| ContinuationRecord {
                page: (address - ARENA_BASE) / PAGE,
                asker: mark.id.asker,
                number: if self.continuations.contains(&mark.id.to_raw()) { mark.id.number } else { 0 },
                waiter: &mark.waiter,
            })
            .collect()
    }

    /// After all buffers are there.
    pub(crate) fn restore_continuations(
        &mut self,
        continuations: Vec<ContinuationRecord<'_>>,
        live: &BTreeSet<u32>,
    ) -> Result<(), Refused> {
        rise(continuations.iter().map(|record| record.page), "the continuations")?;
        for record in continuations {
            self.restore_continuation(record, live)?;
        }
        // What they were used with waits for an instance that lives, and none is used twice.
        let slots = self.names.keys().filter_map(|name| EffectSlot::parse(name));
        for EffectSlot { id, .. } in slots.filter(|slot| slot.part == EffectPart::Resume) {
            if !live.contains(&id.asker) {
                let why = format_args!("a continuation was used, but there is no instance {}", id.asker);
                return Err(Refused::new(why));
            }
            if self.continuations.contains(&id.to_raw()) {
                let why = format_args!("its continuation {} was used, and can be used", id.number);
                return Err(Refused::of(id.asker, why));
            }
        }
        match live.iter().find(|id| self.continuations_of(**id) > CONTINUATIONS_MAX) {
            Some(id) => Err(Refused::of(*id, format_args!("it has more than {CONTINUATIONS_MAX} continuations"))),
            None => Ok(()),
        }
    }

    fn restore_continuation(&mut self, record: ContinuationRecord<'_>, live: &BTreeSet<u32>) -> Result<(), Refused> {
        let ContinuationRecord { page, asker, number, waiter } = record;
        if number != 0 && !live.contains(&asker) {
            return Err(Refused::new(format_args!("no instance {asker} waits for its continuation {number}")));
        }
        if waiter.len() > WAITER_NAME_MAX || waiter.contains(char::is_control) {
            let why =
                format_args!("the name of an instance with a continuation is too long, or has a control character");
            return Err(Refused::new(why));
        }
        let address = page.checked_mul(PAGE).and_then(|offset| offset.checked_add(ARENA_BASE));
        let Some(buffer) = address.and_then(|address| self.buffers.get_mut(&address)) else {
            return Err(Refused::new(format_args!("a continuation is at page {page}, where no slot buffer begins")));
        };
        if was_reserved(buffer) {
            return Err(Refused::new(format_args!("a continuation is a request, a reply or an event")));
        }
        let id = PerformId { asker, number };
        buffer.mark = Some(Box::new(Mark { id, waiter: waiter.into() }));
        if number != 0 && !self.continuations.insert(id.to_raw()) {
            return Err(Refused::of(asker, format_args!("two slot buffers are its continuation {number}")));
        }
        Ok(())
    }
}

/// Whether a buffer lies in a slot that no function names, or was taken from one.
fn was_reserved(buffer: &Buffer) -> bool {
    let slot = match &buffer.state {
        BufferState::Held { origin, .. } => origin.as_deref(),
        BufferState::Retained { slot, .. } | BufferState::InSlot { slot } => Some(&**slot),
    };
    let before = slot.and_then(|slot| slot.before.as_deref());
    [slot, before].into_iter().flatten().any(|slot| slot.name.starts_with(RESERVED))
}
