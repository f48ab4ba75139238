//! Continuations as values that a program has: the address of the buffer that is one stays here.

use crate::host::plain;
use crate::refusal::Refusal;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::result::Result as Answer;
use monohull_abi::Errno;
use monohull_abi::continuation::{CONTINUATION_FINGERPRINT, CONTINUATION_NAME};
use monohull_abi::effect::{EFFECT_SLOT_LEN, EffectPart, EffectSlot, PerformId};
use monohull_abi::event::RESERVED;
use monohull_abi::number::{CONTINUATION, RESUME, SLOT_ALLOC, SLOT_FREE, SLOT_MARK_WRITTEN, SLOT_PUBLISH, SLOT_TAKE};
use monohull_abi::types::{SlotView, TAKE_NOW, TypeDesc};
use monohull_std::slot::SlotBuffer;

/// A continuation that the program has: the address of its buffer, or nothing once it is another's or used. It is freed when it is dropped.
pub(crate) struct Continuation(Option<u64>);

/// The type as which continuations are published.
fn kind() -> TypeDesc {
    let (name, name_len) = (CONTINUATION_NAME.as_ptr() as u64, CONTINUATION_NAME.len() as u64);
    TypeDesc { fingerprint: CONTINUATION_FINGERPRINT, name, name_len, element_size: 1 }
}

impl Continuation {
    /// A new one of this instance, and the number to wait by.
    pub(crate) fn make() -> Answer<(Continuation, u64), Refusal> {
        let mut slot = [0_u8; EFFECT_SLOT_LEN];
        let made = plain(CONTINUATION, [slot.as_mut_ptr() as u64]).map_err(Refusal::of_system)?;
        let made = Continuation(Some(made));
        let slot = core::str::from_utf8(&slot).ok().and_then(EffectSlot::parse);
        let slot = slot.ok_or_else(|| Refusal::new(Errno::Io, "the name of the continuation's slot cannot be read"))?;
        Ok((made, slot.id.to_raw()))
    }

    /// Takes one from a slot, and waits for it.
    pub(crate) fn take(slot: &str, wait: bool) -> Answer<Continuation, Refusal> {
        // Of a reply the system does not compare the type.
        if slot.starts_with(RESERVED) {
            return Err(Refusal::new(Errno::Invalid, "the name of a slot does not begin with a zero byte"));
        }
        let (kind, mut view, flags) = (kind(), SlotView::default(), if wait { 0 } else { TAKE_NOW });
        let (kind, out) = (&raw const kind as u64, &raw mut view as u64);
        match plain(SLOT_TAKE, [slot.as_ptr() as u64, slot.len() as u64, kind, out, flags]) {
            Ok(_) => Ok(Continuation(Some(view.address))),
            Err(Errno::NotFound) if !wait => Err(Refusal::new(Errno::NotFound, &format!("slot `{slot}` is empty"))),
            Err(errno) => Err(Refusal::of_system(errno)),
        }
    }

    fn address(&self) -> Answer<u64, Refusal> {
        let gone = || Refusal::new(Errno::GivenAway, "the continuation has been used or handed on");
        self.0.ok_or_else(gone)
    }

    /// Hands it on in a slot; if that is refused, it stays the program's.
    pub(crate) fn publish(&mut self, slot: &str) -> Answer<(), Refusal> {
        let (address, kind) = (self.address()?, kind());
        let args = [slot.as_ptr() as u64, slot.len() as u64, address, 1, &raw const kind as u64];
        plain(SLOT_PUBLISH, args).map_err(Refusal::of_system)?;
        self.0 = None;
        Ok(())
    }

    /// The function that waits goes on with a copy of these bytes; if that is refused, the continuation stays the program's.
    pub(crate) fn resume(&mut self, value: &[u8]) -> Answer<(), Refusal> {
        let address = self.address()?;
        let buffer = plain(SLOT_ALLOC, [value.len().max(1) as u64, 1]).map_err(Refusal::of_system)?;
        // SAFETY: a new buffer with room for as many bytes, which nothing else refers to.
        unsafe { (buffer as *mut u8).copy_from_nonoverlapping(value.as_ptr(), value.len()) };
        let used = plain(RESUME, [address, buffer, value.len() as u64]).map_err(|errno| match errno {
            // The address is the runtime's, and nothing that a program can do anything with.
            Errno::Fault => {
                Refusal::new(Errno::WrongType, "what was in the slot as a continuation is none: it was made up")
            }
            errno => Refusal::of_system(errno),
        });
        if used.is_err() {
            let _ = plain(SLOT_FREE, [buffer]);
        }
        used?;
        self.0 = None;
        Ok(())
    }

    /// Frees it at once, although it was an input: this instance is not repeated alone.
    pub(crate) fn discard(self) {
        if let Some(address) = self.0 {
            let _ = plain(SLOT_MARK_WRITTEN, [address]);
        }
    }
}

impl Drop for Continuation {
    fn drop(&mut self) {
        if let Some(address) = self.0 {
            let _ = plain(SLOT_FREE, [address]);
        }
    }
}

/// Waits for what a continuation of this number is used with.
pub(crate) fn wait(number: u64) -> Answer<SlotBuffer<[u8]>, Refusal> {
    let unknown = || Refusal::new(Errno::Invalid, &format!("this instance has no continuation of the number {number}"));
    let id = PerformId::from_raw(number).ok_or_else(unknown)?;
    let slot = EffectSlot { part: EffectPart::Resume, id }.to_string();
    SlotBuffer::from_slot(&slot).map_err(|error| match error.errno() {
        // The slot is another instance's.
        Errno::Invalid => unknown(),
        errno => Refusal::new(errno, error.message()),
    })
}

/// Continuations that the program has, by handle.
#[derive(Default)]
pub(crate) struct Continuations(Vec<Option<Continuation>>);

impl Continuations {
    pub(crate) fn insert(&mut self, continuation: Continuation) -> u32 {
        let free = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        if free == self.0.len() {
            self.0.push(None);
        }
        self.0[free] = Some(continuation);
        free as u32
    }

    /// Does something with the one of this handle. If it is the program's no more, neither is the handle.
    pub(crate) fn at(
        &mut self,
        handle: u32,
        body: impl FnOnce(&mut Continuation) -> Answer<(), Refusal>,
    ) -> Answer<(), Refusal> {
        let Some(Some(continuation)) = self.0.get_mut(handle as usize) else {
            return Err(Refusal::new(Errno::BadDescriptor, &format!("no continuation has the handle {handle}")));
        };
        let done = body(continuation);
        if continuation.0.is_none() {
            self.0[handle as usize] = None;
        }
        done
    }

    /// Frees the one of this handle; although it was an input, if `at_once`.
    pub(crate) fn free(&mut self, handle: u32, at_once: bool) -> Answer<(), Refusal> {
        self.at(handle, |continuation| {
            let had = core::mem::replace(continuation, Continuation(None));
            if at_once {
                had.discard();
            }
            Ok(())
        })
    }
}
