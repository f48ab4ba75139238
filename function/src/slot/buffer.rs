//! [`SlotBuffer`]: one value or a slice, in a slot or on its way.

#![allow(unsafe_code, reason = "memory that came as an address is seen as the type its slot was found to hold")]

use super::data::{SlotContent, SlotData};
use super::raw::{Raw, Refused, Taken, out_of_memory};
use super::{Fate, SlotError, checked_name, indexed_name};
use alloc::string::String;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use monohull_abi::Errno;
use monohull_abi::effect::EFFECT_SLOT_LEN;
use monohull_abi::layout::PAGE;

/// A value (`SlotBuffer<T>`) or a slice (`SlotBuffer<[T]>`) that travels between functions without being copied.
///
/// ```no_run
/// use monohull::slot::SlotBuffer;
///
/// # fn main() -> Result<(), monohull::slot::SlotError> {
/// let mut squares = SlotBuffer::<[u64]>::with_slot_len("squares", 1000);
/// for (i, square) in squares.iter_mut().enumerate() {
///     *square = (i * i) as u64;
/// }
/// drop(squares); // now they are in the slot
///
/// let squares = SlotBuffer::<[u64]>::from_slot("squares")?; // in another function, usually
/// assert_eq!(squares[12], 144);
/// # Ok(())
/// # }
/// ```
pub struct SlotBuffer<T: SlotContent + ?Sized> {
    raw: Raw,
    count: usize,
    name: String,
    fate: Fate,
    _content: PhantomData<T>,
}

impl<T: SlotData> SlotBuffer<T> {
    /// Makes a buffer with the type's default value, to be handed on under `name`.
    ///
    /// Ends the instance if there is no memory for it, as `Box::new` does.
    ///
    /// # Panics
    /// If the name is empty or longer than 255 bytes; so do the other `with_slot…`.
    #[track_caller]
    pub fn with_slot(name: &str) -> SlotBuffer<T>
    where
        T: Default,
    {
        SlotBuffer::with_slot_value(name, T::default())
    }

    /// Makes a buffer with a value.
    #[track_caller]
    pub fn with_slot_value(name: &str, value: T) -> SlotBuffer<T> {
        let buffer = Self::make(name, 1).unwrap_or_else(|error| out_of_memory(&error));
        // SAFETY: the new buffer is this handle's alone, large enough, and aligned to a page.
        unsafe { buffer.raw.start::<T>().write(value) };
        buffer
    }

    /// Makes a buffer of zeros; refused at compile time if zeros are no value of the type. Good for large types, which
    /// never lie on the stack this way.
    #[track_caller]
    pub fn with_slot_zeroed(name: &str) -> SlotBuffer<T> {
        const { assert!(T::ZERO_VALID, "zeros are no valid value of this type") }
        Self::make(name, 1).unwrap_or_else(|error| out_of_memory(&error))
    }
}

impl<T: SlotData> SlotBuffer<[T]> {
    /// Makes a slice of `len` zeros, to be handed on under `name`; refused at compile time if zeros are no value of the
    /// type. Costs the same for every length: memory is touched when it is used.
    #[track_caller]
    pub fn with_slot_len(name: &str, len: usize) -> SlotBuffer<[T]> {
        Self::try_with_slot_len(name, len).unwrap_or_else(|error| out_of_memory(&error))
    }

    /// As [`with_slot_len`](Self::with_slot_len), but fails if there is no memory for it.
    #[track_caller]
    pub fn try_with_slot_len(name: &str, len: usize) -> Result<SlotBuffer<[T]>, SlotError> {
        const { assert!(T::ZERO_VALID, "zeros are no valid value of this type") }
        Self::make(name, len)
    }

    /// Makes a copy of a slice.
    #[track_caller]
    pub fn with_slot_from(name: &str, from: &[T]) -> SlotBuffer<[T]>
    where
        T: Copy,
    {
        let buffer = Self::make(name, from.len()).unwrap_or_else(|error| out_of_memory(&error));
        // SAFETY: the new buffer is this handle's alone, and has room for as many elements.
        unsafe { buffer.raw.start::<T>().copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        buffer
    }
}

impl SlotBuffer<[u8]> {
    /// Makes a copy of bytes; fails if there is no memory for it.
    #[track_caller]
    pub(crate) fn try_with_slot_from(name: &str, from: &[u8]) -> Result<SlotBuffer<[u8]>, SlotError> {
        let buffer = Self::make(name, from.len())?;
        // SAFETY: the new buffer is this handle's alone, and has room for as many bytes.
        unsafe { buffer.raw.start::<u8>().copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        Ok(buffer)
    }

    /// Gives the buffer away as a request for an effect: the name of the slot of the reply.
    pub(crate) fn perform(mut self, effect: &str) -> Result<[u8; EFFECT_SLOT_LEN], Refused> {
        self.fate = Fate::Free;
        let name = self.raw.perform(effect, self.count as u64);
        if name.is_ok() {
            self.fate = Fate::Nothing;
        }
        name
    }

    /// Gives the buffer away: a continuation is used with it.
    pub(super) fn use_with(mut self, continuation: &Raw) -> Result<(), Refused> {
        self.fate = Fate::Free;
        continuation.resume(&self.raw, self.count as u64)?;
        self.fate = Fate::Nothing;
        Ok(())
    }

    /// Waits for the reply to a request, or for what a continuation is used with, and whether it is the report of a failure.
    pub(crate) fn take_reply(name: &str) -> Result<(SlotBuffer<[u8]>, bool), SlotError> {
        match Raw::take(name, <[u8]>::ACCEPTED, false)? {
            Some(Taken { raw, count, is_failure, .. }) => {
                let name = String::from(name);
                Ok((SlotBuffer { raw, count, name, fate: Fate::Free, _content: PhantomData }, is_failure))
            }
            None => Err(SlotError::new(name, Errno::NotFound, String::new())),
        }
    }
}

impl<T: SlotContent + ?Sized> SlotBuffer<T> {
    /// Takes the buffer of a slot; parks until the slot has been filled.
    ///
    /// # Errors
    /// [`Errno::NeverFilled`] if no instance is left that could, [`Errno::WrongType`] if the slot holds something else,
    /// [`Errno::OutOfMemory`] if the buffer would exceed this instance's memory limit.
    pub fn from_slot(name: &str) -> Result<SlotBuffer<T>, SlotError> {
        match Self::take(name, false)? {
            Some(buffer) => Ok(buffer),
            None => Err(SlotError::new(name, Errno::NotFound, String::new())),
        }
    }

    /// Takes over what lies in a slot now; `None` if it is empty.
    ///
    /// # Errors
    /// As [`from_slot`](Self::from_slot), but never [`Errno::NeverFilled`].
    pub fn try_from_slot(name: &str) -> Result<Option<SlotBuffer<T>>, SlotError> {
        Self::take(name, true)
    }

    /// Takes `base.0`, `base.1`, … until one is not there. Does not park: use it in a step that runs after those that
    /// fill the slots.
    pub fn take_all(base: &str) -> TakeAll<T> {
        TakeAll { base: String::from(base), next: Some(0), _content: PhantomData }
    }

    /// Hands the buffer on, under the name it was made or found with. This is what dropping a buffer does that was made
    /// here, but returns errors.
    ///
    /// # Errors
    /// [`Errno::Exists`] if the slot is filled. The buffer is freed then.
    pub fn publish(mut self) -> Result<(), SlotError> {
        let name = core::mem::take(&mut self.name);
        self.hand_on(&name)
    }

    /// Hands the buffer on under another name, without copying it.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub fn hand_on(mut self, name: &str) -> Result<(), SlotError> {
        self.fate = Fate::Free;
        self.raw.publish(name, self.count as u64, T::TAG)?;
        self.fate = Fate::Nothing;
        Ok(())
    }

    /// Frees the buffer, whether it was made or taken over.
    pub fn discard(mut self) {
        self.fate = Fate::Free;
    }

    #[track_caller]
    fn make(name: &str, count: usize) -> Result<SlotBuffer<T>, SlotError> {
        const { assert!(align_of::<T::Element>() <= PAGE as usize, "the type's alignment is larger than a page") }
        let name = checked_name(name);
        // A product that does not fit is more than any memory.
        let bytes = (count as u64).saturating_mul(T::TAG.element_size);
        let raw = Raw::alloc(&name, bytes, align_of::<T::Element>())?;
        Ok(SlotBuffer { raw, count, name, fate: Fate::Publish, _content: PhantomData })
    }

    fn take(name: &str, now: bool) -> Result<Option<SlotBuffer<T>>, SlotError> {
        const { assert!(align_of::<T::Element>() <= PAGE as usize, "the type's alignment is larger than a page") }
        let Some(taken) = Raw::take(name, T::ACCEPTED, now)? else { return Ok(None) };
        if !T::can_be(taken.count as u64) || !is_valid::<T::Element>(&taken) {
            let why = alloc::format!("slot `{name}` holds bytes that are no valid `{}`", T::TAG.name.as_str());
            return Err(taken.put_back(name, why));
        }
        let Taken { raw, count, .. } = taken;
        Ok(Some(SlotBuffer { raw, count, name: String::from(name), fate: Fate::Free, _content: PhantomData }))
    }

    /// Takes the handle apart, which does nothing to the buffer.
    pub(super) fn into_parts(mut self) -> Parts {
        let parts = Parts {
            raw: self.raw.duplicate(),
            count: self.count,
            name: core::mem::take(&mut self.name),
            fate: self.fate,
        };
        self.fate = Fate::Nothing;
        parts
    }

    fn pointer(&self) -> *mut T {
        T::at(self.raw.start(), self.count)
    }
}

/// What a handle consists of.
pub(super) struct Parts {
    pub(super) raw: Raw,
    pub(super) count: usize,
    pub(super) name: String,
    pub(super) fate: Fate,
}

/// Whether all elements are valid values.
fn is_valid<E: SlotData>(taken: &Taken) -> bool {
    let first = taken.raw.start::<E>();
    // SAFETY: the elements lie inside the buffer, which starts at a page; no type is aligned to more.
    E::ALWAYS_VALID || (0..taken.count).all(|i| unsafe { E::is_valid(first.add(i)) })
}

impl<T: SlotContent + ?Sized> Deref for SlotBuffer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the buffer is this handle's alone, and holds `count` valid elements: written when it was made, or
        // checked when it was taken over.
        unsafe { &*self.pointer() }
    }
}

impl<T: SlotContent + ?Sized> DerefMut for SlotBuffer<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.raw.touch();
        // SAFETY: as above; nothing else refers to the buffer while this handle is borrowed mutably.
        unsafe { &mut *self.pointer() }
    }
}

impl<T: SlotContent + ?Sized> Drop for SlotBuffer<T> {
    fn drop(&mut self) {
        match self.fate {
            Fate::Publish => {
                if let Err(error) = self.raw.publish(&self.name, self.count as u64, T::TAG) {
                    panic!("{error}");
                }
            }
            Fate::Free => self.raw.free(),
            Fate::Nothing => {}
        }
    }
}

impl<T: SlotContent + fmt::Debug + ?Sized> fmt::Debug for SlotBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Takes indexed slots one after the other; see [`SlotBuffer::take_all`]. Ends after the first error.
pub struct TakeAll<T: SlotContent + ?Sized> {
    base: String,
    next: Option<usize>,
    _content: PhantomData<fn() -> SlotBuffer<T>>,
}

impl<T: SlotContent + ?Sized> Iterator for TakeAll<T> {
    type Item = Result<SlotBuffer<T>, SlotError>;

    fn next(&mut self) -> Option<Self::Item> {
        let index = self.next?;
        let taken = SlotBuffer::try_from_slot(&indexed_name(&self.base, index)).transpose();
        self.next = if matches!(taken, Some(Ok(_))) { Some(index + 1) } else { None };
        taken
    }
}
