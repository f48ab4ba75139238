//! Slot hostcalls. A [`Raw`] buffer knows addresses and bytes; which type lies there is its owner's business.

use super::SlotError;
use super::data::Tag;
#[cfg(test)]
use super::host as sys;
#[cfg(not(test))]
use crate::sys;
use alloc::string::String;
use monohull_abi::Errno;
use monohull_abi::effect::EFFECT_SLOT_LEN;
use monohull_abi::number;
use monohull_abi::types::{SlotView, TAKE_NOW, TypeDesc};

/// A buffer of the arena that this instance owns. Dropping it does nothing: its owner publishes or frees it.
pub(super) struct Raw {
    address: u64,
    capacity: u64,
    /// It was taken over, and has not been written to.
    untouched: bool,
}

/// Why a request was refused, or a continuation was not made or not used.
pub(crate) type Refused = (Errno, String);

/// What came out of a slot.
pub(super) struct Taken {
    pub(super) raw: Raw,
    /// Elements in use; they lie inside the buffer.
    pub(super) count: usize,
    /// As which type.
    pub(super) tag: &'static Tag,
    /// It is the report of a failed handler.
    pub(super) is_failure: bool,
}

impl Taken {
    /// Puts it back as it was, because it holds no valid values; should that fail, it is freed.
    #[cold]
    pub(super) fn put_back(self, name: &str, why: String) -> SlotError {
        if self.raw.publish(name, self.count as u64, self.tag).is_err() {
            self.raw.free();
        }
        SlotError::new(name, Errno::Invalid, why)
    }
}

impl Raw {
    pub(super) fn alloc(name: &str, bytes: u64, align: usize) -> Result<Raw, SlotError> {
        let address = sys::call(number::SLOT_ALLOC, [bytes.max(1), align as u64]).map_err(|errno| last(name, errno))?;
        Ok(Raw { address, capacity: bytes, untouched: false })
    }

    /// Takes a slot's buffer over if it holds one of the `accepted` types. Parks until it is there, or gives `None` if
    /// `now` is set.
    pub(super) fn take(name: &str, accepted: &[&'static Tag], now: bool) -> Result<Option<Taken>, SlotError> {
        let mut mismatch = None;
        for tag in accepted {
            match Self::take_as(name, tag, now) {
                Err(error) if error.errno() == Errno::WrongType => mismatch = mismatch.or(Some(error)),
                decided => return decided,
            }
        }
        mismatch.map_or(Ok(None), Err)
    }

    fn take_as(name: &str, tag: &'static Tag, now: bool) -> Result<Option<Taken>, SlotError> {
        let mut view = SlotView::default();
        let desc = describe(tag);
        let (desc, out) = ((&raw const desc) as u64, (&raw mut view) as u64);
        let flags = if now { TAKE_NOW } else { 0 };
        match sys::call(number::SLOT_TAKE, [name.as_ptr() as u64, name.len() as u64, desc, out, flags]) {
            Ok(answer) => {
                let raw = Raw { address: view.address, capacity: view.capacity, untouched: true };
                let fits = view.count.checked_mul(tag.element_size).is_some_and(|bytes| bytes <= view.capacity);
                if fits {
                    return Ok(Some(Taken { raw, count: view.count as usize, tag, is_failure: answer == 1 }));
                }
                raw.free();
                let why = alloc::format!("slot `{name}` claims more than its buffer holds");
                Err(SlotError::new(name, Errno::Invalid, why))
            }
            Err(Errno::NotFound) if now => Ok(None),
            Err(errno) => Err(last(name, errno)),
        }
    }

    /// A second handle on the same buffer, for an owner that is about to give up the first one.
    pub(super) fn duplicate(&self) -> Raw {
        Raw { ..*self }
    }

    pub(super) fn start<T>(&self) -> *mut T {
        self.address as *mut T
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// To be called before every write. Only the first one of a buffer that was taken over costs a hostcall.
    pub(super) fn touch(&mut self) {
        if self.untouched {
            self.untouched = false;
            // It can only be refused if the buffer were not this instance's, and then the write is its own fault.
            let _ = sys::call(number::SLOT_MARK_WRITTEN, [self.address]);
        }
    }

    pub(super) fn resize(&mut self, name: &str, bytes: u64) -> Result<(), SlotError> {
        self.address = sys::call(number::SLOT_RESIZE, [self.address, bytes]).map_err(|errno| last(name, errno))?;
        self.capacity = bytes;
        self.untouched = false;
        Ok(())
    }

    /// Hands the buffer on; if that is refused, it stays this instance's.
    pub(super) fn publish(&self, name: &str, count: u64, tag: &Tag) -> Result<(), SlotError> {
        let desc = describe(tag);
        let args = [name.as_ptr() as u64, name.len() as u64, self.address, count, (&raw const desc) as u64];
        sys::call(number::SLOT_PUBLISH, args).map(drop).map_err(|errno| last(name, errno))
    }

    /// Gives the buffer away as a request for an effect: the name of the slot of the reply. If that is refused, it stays this instance's.
    pub(super) fn perform(&self, effect: &str, count: u64) -> Result<[u8; EFFECT_SLOT_LEN], Refused> {
        let mut name = [0; EFFECT_SLOT_LEN];
        let args = [effect.as_ptr() as u64, effect.len() as u64, self.address, count, name.as_mut_ptr() as u64];
        sys::call(number::PERFORM, args).map_err(|errno| (errno, sys::last_error_message()))?;
        Ok(name)
    }

    /// A buffer that is a continuation, and the name of the slot of what it is used with.
    pub(super) fn continuation() -> Result<(Raw, [u8; EFFECT_SLOT_LEN]), Refused> {
        let mut name = [0; EFFECT_SLOT_LEN];
        let made = sys::call(number::CONTINUATION, [name.as_mut_ptr() as u64]);
        let address = made.map_err(|errno| (errno, sys::last_error_message()))?;
        Ok((Raw { address, capacity: 1, untouched: false }, name))
    }

    /// Uses this continuation with elements of one byte; if that is refused, both buffers stay this instance's.
    pub(super) fn resume(&self, value: &Raw, count: u64) -> Result<(), Refused> {
        let used = sys::call(number::RESUME, [self.address, value.address, count]);
        used.map(drop).map_err(|errno| (errno, sys::last_error_message()))
    }

    pub(super) fn free(&self) {
        // As in `touch`: refused only if there is nothing to free.
        let _ = sys::call(number::SLOT_FREE, [self.address]);
    }
}

/// Ends the instance, because it cannot have more memory.
#[cold]
pub(super) fn out_of_memory(error: &SlotError) -> ! {
    crate::end::flush();
    let what = alloc::format!("a slot buffer ({})", error.message());
    sys::fail(monohull_abi::types::AbortKind::OutOfMemory, &what)
}

fn describe(tag: &Tag) -> TypeDesc {
    let name = tag.name.as_str();
    TypeDesc {
        fingerprint: tag.fingerprint,
        name: name.as_ptr() as u64,
        name_len: name.len() as u64,
        element_size: tag.element_size,
    }
}

/// The error of the last hostcall, with the host's explanation if it has one.
#[cold]
fn last(name: &str, errno: Errno) -> SlotError {
    SlotError::new(name, errno, sys::last_error_message())
}
