//! Slots for programs: what they import from the module `monohull`.
//!
//! A slot's buffer lies outside of the program's memory. `slot_take` gives a handle and a length. `slot_read` copies a part, and `slot_publish`
//! makes a buffer of a copy. `slot_move` and `slot_publish_moved` [move](crate::moves) pages instead. Functions return 0 or an error number of WASI;
//! `last_error` has the explanation.
//!
//! ```text
//!   slot_take(name, name_len, wait, out) ──▶ out: handle u32, length u32
//!   slot_read(handle, offset, pointer, len)        slot_free(handle)
//!   slot_move(handle, pointer, len)                frees the handle as well
//!   slot_publish(name, name_len, pointer, len, is_text)
//!   slot_publish_moved(name, name_len, pointer, len, is_text)      leaves zeros
//!   instance_index() ──▶ which of the step's instances this is        instance_count()        attempt()
//! ```

use crate::errno::WasiError;
use crate::guest::Guest;
use crate::imports::Imports;
use crate::moves;
use crate::preview1::{State, memory_of};
use crate::slot_refusal::SlotRefusal;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use monohull_abi::Errno;
use monohull_abi::types::SLOT_NAME_MAX;
use monohull_std::slot::{SlotBuffer, SlotError, SlotString, SlotVec};
use wasmtime::{Caller, Result};

/// The name that programs import from.
pub(crate) const MODULE: &str = "monohull";

/// A buffer that was taken over.
pub(crate) enum Taken {
    /// It holds bytes.
    Bytes(SlotBuffer<[u8]>),
    /// It holds a text.
    Text(SlotString),
    /// No buffer, but what the program was told otherwise: an event, the end of a child.
    Told(Vec<u8>),
}

impl Taken {
    /// What it holds.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Taken::Bytes(bytes) => bytes,
            Taken::Text(text) => text.as_bytes(),
            Taken::Told(bytes) => bytes,
        }
    }

    /// Puts it into a place of the same length in the program's memory.
    fn put_into(&self, place: &mut [u8]) -> Result<(), WasiError> {
        match self {
            Taken::Bytes(_) | Taken::Text(_) => moves::take_into(self.bytes(), place)?,
            Taken::Told(bytes) => place.copy_from_slice(bytes),
        }
        Ok(())
    }
}

/// Buffers that the program has taken over, by handle.
#[derive(Default)]
pub(crate) struct Slots(Vec<Option<Taken>>);

impl Slots {
    fn get(&self, handle: u32) -> Result<&Taken, WasiError> {
        self.0.get(handle as usize).and_then(Option::as_ref).ok_or(WasiError::BADF)
    }

    /// Gives it a handle.
    pub(crate) fn insert(&mut self, taken: Taken) -> u32 {
        let free = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        if free == self.0.len() {
            self.0.push(None);
        }
        self.0[free] = Some(taken);
        free as u32
    }
}

impl From<SlotError> for WasiError {
    fn from(error: SlotError) -> WasiError {
        match error.errno() {
            Errno::WrongType => WasiError::INVAL,
            Errno::NeverFilled => WasiError::NOENT,
            errno => errno.into(),
        }
    }
}

/// Takes over a slot of bytes or text; without waiting there may be none. The name is one that [`is_name`] knows.
pub(crate) fn take(name: &str, wait: bool) -> Result<Option<Taken>, SlotError> {
    let bytes = match wait {
        true => SlotBuffer::from_slot(name).map(Some),
        false => SlotBuffer::try_from_slot(name),
    };
    match bytes {
        Ok(bytes) => Ok(bytes.map(Taken::Bytes)),
        // It is filled, or this error would not have come.
        Err(error) if error.errno() == Errno::WrongType => Ok(Some(Taken::Text(SlotString::from_slot(name)?))),
        Err(error) => Err(error),
    }
}

/// Fills a slot with bytes.
pub(crate) fn publish(name: &str, bytes: &[u8]) -> Result<(), SlotError> {
    publish_parts(name, &[bytes])
}

/// Fills a slot with bytes that lie in several places.
pub(crate) fn publish_parts(name: &str, parts: &[&[u8]]) -> Result<(), SlotError> {
    let mut buffer = SlotVec::<u8>::with_slot_capacity(name, parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| buffer.extend_from_slice(part));
    buffer.publish()
}

/// Fills a slot with a text.
pub(crate) fn publish_text(name: &str, text: &str) -> Result<(), SlotError> {
    let mut buffer = SlotString::with_slot(name);
    buffer.push_str(text);
    buffer.publish()
}

/// Whether a slot can have this name: 1 to 255 bytes.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=SLOT_NAME_MAX).contains(&name.len())
}

/// What is said of a name of so many bytes that no slot can have.
pub(crate) fn wrong_name(len: usize) -> String {
    format!("a slot's name has 1 to {SLOT_NAME_MAX} bytes, this one has {len}")
}

/// A slot's name in the program's memory.
fn name<'a>(guest: &'a Guest<'_>, pointer: u32, len: u32) -> Result<&'a str, SlotRefusal> {
    if len == 0 || len as usize > SLOT_NAME_MAX {
        return Err(SlotRefusal { number: WasiError::INVAL, why: wrong_name(len as usize) });
    }
    Ok(guest.text(pointer, len)?)
}

/// Fills a slot with a copy of bytes, or of a text.
fn copied(name: &str, bytes: &[u8], is_text: u32) -> Result<(), SlotRefusal> {
    match is_text {
        0 => publish(name, bytes)?,
        _ => publish_text(name, core::str::from_utf8(bytes).map_err(|_| WasiError::ILSEQ)?)?,
    }
    Ok(())
}

/// Runs a function on the program's memory and slots; its result as a number. Why it refuses something can be asked for.
fn with(
    caller: &mut Caller<'_, State>,
    body: impl FnOnce(&mut Guest<'_>, &mut Slots) -> Result<(), SlotRefusal>,
) -> Result<u32> {
    let (memory, state) = memory_of(caller)?;
    Ok(match body(&mut Guest(memory), &mut state.slots) {
        Ok(()) => 0,
        Err(SlotRefusal { number, why }) => {
            state.explanation = why;
            number.0.into()
        }
    })
}

/// Gives the functions their names.
pub(crate) fn link(imports: &mut Imports<'_, State>) -> Result<()> {
    imports.provide(MODULE, "slot_take", |mut caller: Caller<'_, State>, at: u32, len: u32, wait: u32, out: u32| {
        with(&mut caller, |guest, slots| {
            // Before anything is taken over: a slot can be taken only once.
            guest.bytes(out, 8)?;
            let taken = take(name(guest, at, len)?, wait != 0)?.ok_or(WasiError::AGAIN)?;
            let bytes = u32::try_from(taken.bytes().len()).map_err(|_| WasiError::FBIG)?;
            let handle = slots.insert(taken);
            guest.store_u32(out, handle)?;
            Ok(guest.store_u32(out + 4, bytes)?)
        })
    })?;
    imports.provide(
        MODULE,
        "slot_read",
        |mut caller: Caller<'_, State>, handle: u32, offset: u32, pointer: u32, len: u32| {
            with(&mut caller, |guest, slots| {
                let rest = slots.get(handle)?.bytes().get(offset as usize..).ok_or(WasiError::INVAL)?;
                let part = rest.get(..len as usize).ok_or(WasiError::INVAL)?;
                Ok(guest.store(pointer, part)?)
            })
        },
    )?;
    imports.provide(MODULE, "slot_free", |mut caller: Caller<'_, State>, handle: u32| {
        with(&mut caller, |_, slots| {
            Ok(slots.0.get_mut(handle as usize).and_then(Option::take).map(drop).ok_or(WasiError::BADF)?)
        })
    })?;
    imports.provide(MODULE, "slot_move", |mut caller: Caller<'_, State>, handle: u32, pointer: u32, len: u32| {
        with(&mut caller, |guest, slots| {
            let taken = slots.get(handle)?;
            let room = guest.bytes_mut(pointer, len)?;
            taken.put_into(room.get_mut(..taken.bytes().len()).ok_or(WasiError::INVAL)?)?;
            slots.0[handle as usize] = None;
            Ok(())
        })
    })?;
    imports.provide(
        MODULE,
        "slot_publish_moved",
        |mut caller: Caller<'_, State>, at: u32, name_len: u32, pointer: u32, len: u32, is_text: u32| {
            with(&mut caller, |guest, _| {
                let name = String::from(name(guest, at, name_len)?);
                let bytes = guest.bytes_mut(pointer, len)?;
                if is_text != 0 && core::str::from_utf8(bytes).is_err() {
                    return Err(WasiError::ILSEQ.into());
                }
                if !moves::publish(&name, bytes, is_text != 0)? {
                    copied(&name, bytes, is_text)?;
                    bytes.fill(0);
                }
                Ok(())
            })
        },
    )?;
    imports.provide(
        MODULE,
        "slot_publish",
        |mut caller: Caller<'_, State>, at: u32, name_len: u32, pointer: u32, len: u32, is_text: u32| {
            with(&mut caller, |guest, _| copied(name(guest, at, name_len)?, guest.bytes(pointer, len)?, is_text))
        },
    )?;
    imports.provide(MODULE, "instance_index", || monohull_std::instance().index as u32)?;
    imports.provide(MODULE, "instance_count", || monohull_std::instance().count as u32)?;
    imports.provide(MODULE, "attempt", || monohull_std::instance().attempt)?;
    Ok(())
}
