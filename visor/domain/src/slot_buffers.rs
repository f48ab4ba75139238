//! Slots as the engine has them: it fills inputs before a run, gives events before and in it, and reads outputs after it.
//!
//! Buffers lie in the arena, which is this crate's memory, so this crate copies to and from them. The engine handles
//! names and bytes only.

use super::{Domain, Shared};
use monohull_abi::event::{EVENT_BYTES_MAX, EventSlot, EventState, is_event_name};
use monohull_abi::types::{BYTES_FINGERPRINT, FilledSlot, SLOT_NAME_MAX, SlotInfo, SlotView, TAKE_NOW, TypeDesc};
use monohull_abi::{Errno, number};
use monohull_sys::shared_memory::SharedMemory;
use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

impl Shared {
    /// Fills a slot with these bytes.
    pub fn fill_slot(&self, name: &str, bytes: &[u8]) -> Result<(), Errno> {
        self.fill_slot_as(name, bytes, "[u8]", BYTES_FINGERPRINT)
    }

    /// The same with bytes of another type.
    pub(crate) fn fill_slot_as(&self, name: &str, bytes: &[u8], kind: &str, fingerprint: u64) -> Result<(), Errno> {
        let address = self.allocate(bytes.len() as u64)?;
        // SAFETY: a new buffer of at least this size, whose address nothing else has yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        self.publish_as(name, address, bytes.len() as u64, kind, fingerprint)
    }
}

impl Domain {
    /// Fills a slot with the first so many bytes of a file. The outer error is the file's, the inner one the arena's.
    pub fn fill_slot_from(&self, name: &str, file: &File, len: u64) -> io::Result<Result<(), Errno>> {
        self.fill_with(name, len, |buffer| file.read_exact_at(buffer, 0))
    }

    /// Fills a slot with a part of memory that another process has written to.
    pub fn fill_slot_from_memory(&self, name: &str, memory: &SharedMemory, part: Range<u64>) -> Result<(), Errno> {
        let len = part.end.saturating_sub(part.start);
        let filled = self.fill_with(name, len, |buffer| {
            memory.read(part, buffer);
            Ok::<_, Infallible>(())
        });
        filled.unwrap_or_else(|never| match never {})
    }

    /// Fills a slot with what is copied into it. Of two errors the outer one is the copy's.
    fn fill_with<E>(
        &self,
        name: &str,
        len: u64,
        copy: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Result<(), Errno>, E> {
        let address = match self.allocate(len) {
            Ok(address) => address,
            Err(errno) => return Ok(Err(errno)),
        };
        // SAFETY: a new buffer of at least this size, zeroed, whose address nothing else has yet.
        copy(unsafe { std::slice::from_raw_parts_mut(address as *mut u8, len as usize) })?;
        Ok(self.publish(name, address, len))
    }

    /// The bytes of a filled slot. Nothing writes to them as long as they are borrowed: functions run in [`Domain::run`] alone,
    /// which borrows the domain mutably.
    pub fn slot_bytes(&self, name: &str) -> Result<&[u8], Errno> {
        let info = self.peek(name)?;
        let len = info.count.checked_mul(info.element_size).ok_or(Errno::Invalid)?;
        // SAFETY: the module has checked that so many bytes lie in the buffer. No function runs that could free it (see above).
        Ok(unsafe { std::slice::from_raw_parts(info.address as *const u8, len as usize) })
    }
}

impl Shared {
    /// Puts an event where functions that wait for its name find it.
    pub(crate) fn publish_event(&self, name: &str, number: u64, bytes: &[u8]) -> Result<(), Errno> {
        if !is_event_name(name) || bytes.len() > EVENT_BYTES_MAX {
            return Err(Errno::Invalid);
        }
        self.fill_slot(&given(name, number), bytes)
    }

    /// Whether an event that was given has been taken.
    pub(crate) fn is_event_taken(&self, name: &str, number: u64) -> bool {
        matches!(self.peek(&given(name, number)), Err(Errno::NotFound))
    }

    /// What lies in a filled slot.
    fn peek(&self, name: &str) -> Result<SlotInfo, Errno> {
        let mut info = SlotInfo::default();
        let out = &raw mut info as u64;
        self.call(number::SLOT_PEEK, [name.as_ptr() as u64, name.len() as u64, out, 0, 0, 0])?;
        Ok(info)
    }

    fn allocate(&self, len: u64) -> Result<u64, Errno> {
        self.call(number::SLOT_ALLOC, [len.max(1), 1, 0, 0, 0, 0])
    }

    fn publish(&self, name: &str, address: u64, len: u64) -> Result<(), Errno> {
        self.publish_as(name, address, len, "[u8]", BYTES_FINGERPRINT)
    }

    /// Whether something lies in a slot.
    pub(crate) fn is_filled(&self, name: &str) -> bool {
        self.peek(name).is_ok()
    }

    /// Takes what lies in a slot, if it is filled: its address, and the bytes in use.
    pub(crate) fn take_slot(&self, name: &str) -> Result<(u64, u64), Errno> {
        let info = self.peek(name)?;
        let bytes = info.count.checked_mul(info.element_size).ok_or(Errno::Invalid)?;
        let (desc, mut view) = (TypeDesc { fingerprint: info.fingerprint, ..TypeDesc::default() }, SlotView::default());
        let (desc, out) = (&raw const desc as u64, &raw mut view as u64);
        self.call(number::SLOT_TAKE, [name.as_ptr() as u64, name.len() as u64, desc, out, TAKE_NOW, 0])?;
        Ok((view.address, bytes))
    }

    /// Frees a buffer that was taken.
    pub(crate) fn free_slot(&self, address: u64) {
        let _ = self.call(number::SLOT_FREE, [address, 0, 0, 0, 0, 0]);
    }

    pub(crate) fn publish_as(
        &self,
        name: &str,
        address: u64,
        len: u64,
        kind: &str,
        fingerprint: u64,
    ) -> Result<(), Errno> {
        let desc = TypeDesc { fingerprint, name: kind.as_ptr() as u64, name_len: kind.len() as u64, element_size: 1 };
        let desc = std::ptr::from_ref(&desc) as u64;
        let args = [name.as_ptr() as u64, name.len() as u64, address, len, desc, 0];
        self.call(number::SLOT_PUBLISH, args).map(drop)
    }
}

/// The slot of an event that has not been taken.
fn given(name: &str, number: u64) -> String {
    EventSlot { name, number, state: EventState::Given }.to_string()
}

impl Shared {
    /// The filled slot whose name follows this one; an empty name comes before all others.
    pub fn next_filled_slot(&self, name: &str) -> Result<Option<(String, FilledSlot)>, Errno> {
        let mut filled = FilledSlot::default();
        let mut text = [0_u8; SLOT_NAME_MAX];
        let (out, to) = (&raw mut filled as u64, text.as_mut_ptr() as u64);
        let args = [name.as_ptr() as u64, name.len() as u64, out, to, text.len() as u64, 0];
        let len = self.call(number::SLOT_NEXT, args)? as usize;
        let name = text.get(..len).ok_or(Errno::Invalid)?;
        Ok((len > 0).then(|| (String::from_utf8_lossy(name).into_owned(), filled)))
    }
}
