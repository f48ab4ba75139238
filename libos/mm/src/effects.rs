//! The slots of effects: requests, and the replies to them ([`monohull_abi::effect`]).
//!
//! Trusted code publishes a request under a name that no function can give, and moves what the handler fills to where the asker takes it.
//! Here are the exceptions from that rule about names: a handler has its request and its reply under names of its own, and an asker takes
//! the replies to its own requests.
//!
//! ```text
//!   asker ─ SLOT_GIVE ─▶ "\0p…" ─ take "request" ─▶ handler ─ publish "reply" ─▶ "\0a…" ─ trusted code ─▶ "\0r…" ─ take ─▶ asker
//! ```

use crate::Memory;
use crate::table::{Buffer, BufferState, Content, Denied, Found, Table};
use crate::texts::TextBuffer;
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;
use monohull_abi::Errno;
use monohull_abi::effect::{EffectPart, EffectSlot, FAILURE_FINGERPRINT, REPLY, REQUEST, slots_of_asker};
use monohull_abi::event::RESERVED;
use monohull_abi::module::{Call, SYSTEM_INSTANCE};
use monohull_abi::types::{BYTES_FINGERPRINT, SLOT_NAME_MAX};

/// Whether a slot is one of a request.
pub(crate) fn is_effect(name: &str) -> bool {
    EffectSlot::parse(name).is_some()
}

impl Memory {
    /// The slot that a caller means by a name: it may be one that its step does not list in this field, or that is no function's to name.
    pub(crate) fn slot_of<'n>(
        &self,
        call: &Call,
        name: &'n str,
        field: &str,
        fills: bool,
    ) -> Result<Cow<'n, str>, Errno> {
        if call.instance == SYSTEM_INSTANCE || !fills && is_own_reply(name, call.instance) {
            return Ok(Cow::Borrowed(name));
        }
        if name.starts_with(RESERVED) {
            let why = format_args!("the name of a slot does not begin with a zero byte");
            return Err(self.host.explain(call, Errno::Invalid, why));
        }
        if let (REQUEST, false) | (REPLY, true) = (name, fills)
            && let Some(id) = self.host.handles(call.instance)
        {
            let part = if fills { EffectPart::Answer } else { EffectPart::Request };
            return Ok(Cow::Owned(format!("{}", EffectSlot { part, id })));
        }
        if self.host.slot_allowed(call.instance, name, fills) {
            return Ok(Cow::Borrowed(name));
        }
        let why = format_args!("slot `{name}` is not in the step's list `{field}`");
        Err(self.host.explain(call, Errno::NotPermitted, why))
    }

    pub(crate) fn give(&self, call: &mut Call) -> Result<u64, Errno> {
        self.trusted_only(call)?;
        let [instance, address, count, name, name_len, _] = call.args;
        let instance = u32::try_from(instance).map_err(|_| Errno::Invalid)?;
        let mut room = TextBuffer::<SLOT_NAME_MAX>::new();
        let name = room.read(self, call, name, name_len, "the slot's name")?;
        let content = Content {
            count,
            element_size: 1,
            fingerprint: BYTES_FINGERPRINT,
            type_name: alloc::boxed::Box::from("[u8]"),
        };
        let published = self.table.lock().publish(instance, name, address, content);
        let bytes = published.map_err(|denied| match denied {
            Denied::NotHeld => Errno::Fault,
            other => self.deny(call, other),
        })?;
        self.host.count_published(instance, bytes);
        self.wake_for(name);
        Ok(0)
    }

    pub(crate) fn drop_effects(&self, call: &mut Call) -> Result<u64, Errno> {
        self.trusted_only(call)?;
        let asker = u32::try_from(call.args[0]).map_err(|_| Errno::Invalid)?;
        self.with_table(SYSTEM_INSTANCE, |table, returns| {
            let parts = [EffectPart::Request, EffectPart::Answer, EffectPart::Reply];
            let names: Vec<_> = parts.into_iter().flat_map(|part| table.slots_of(part, asker)).cloned().collect();
            for name in names {
                let taken = table.take_any(SYSTEM_INSTANCE, &name);
                if let Ok(Some((found, _))) = taken {
                    table.release(SYSTEM_INSTANCE, found.view.address, returns);
                }
            }
        });
        Ok(0)
    }
}

/// Whether a slot is that of the reply to a request of this instance, or of what its continuation is used with.
pub(crate) fn is_own_reply(name: &str, instance: u32) -> bool {
    let is_taken = |part| matches!(part, EffectPart::Reply | EffectPart::Resume);
    EffectSlot::parse(name).is_some_and(|slot| is_taken(slot.part) && slot.id.asker == instance)
}

impl Table {
    /// The names of the slots of this part of all requests or continuations of an instance.
    pub(crate) fn slots_of(&self, part: EffectPart, asker: u32) -> impl Iterator<Item = &Arc<str>> {
        let (first, last) = slots_of_asker(part, asker);
        let (first, last): (String, String) = (format!("{first}"), format!("{last}"));
        self.names.range::<str, _>((Bound::Included(&*first), Bound::Included(&*last))).map(|(name, _)| name)
    }

    /// Takes what lies in a slot, whatever type it has: it is no input, which goes back if the instance fails. Whether it is the report of a
    /// failure.
    pub(crate) fn take_any(&mut self, by: u32, name: &str) -> Result<Option<(Found, bool)>, Denied> {
        let Some((_, slot)) = self.filled(name) else { return Ok(None) };
        let fingerprint = slot.content.fingerprint;
        let found = self.take(by, name, fingerprint)?;
        let buffer = found.as_ref().and_then(|found| self.buffers.get_mut(&found.view.address));
        if let Some(Buffer { state: BufferState::Held { origin, .. }, .. }) = buffer {
            *origin = None;
        }
        Ok(found.map(|found| (found, fingerprint == FAILURE_FINGERPRINT)))
    }
}
