//! [`SlotVec`]: a slice that grows before it is handed on.

#![allow(unsafe_code, reason = "elements are written to memory that came as an address")]

use super::buffer::Parts;
use super::data::{SlotContent, SlotData, TEXT, Tag};
use super::raw::{Raw, Taken, out_of_memory};
use super::{Fate, SlotBuffer, SlotError, checked_name};
use alloc::string::String;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use monohull_abi::layout::PAGE;

/// A growable array in a slot buffer. It travels as `[T]`: what was made as a `SlotVec<T>` can be taken over as a
/// `SlotBuffer<[T]>`, and the other way round.
///
/// Like a [`SlotBuffer`], it is published when it goes out of scope if it was made here, and freed if it was taken over.
pub struct SlotVec<T: SlotData> {
    raw: Raw,
    len: usize,
    name: String,
    fate: Fate,
    /// The type it is published as.
    tag: &'static Tag,
    _element: PhantomData<T>,
}

impl<T: SlotData> SlotVec<T> {
    const SIZE: u64 = size_of::<T>() as u64;

    /// Makes an empty one, to be handed on under `name`.
    ///
    /// Ends the instance if there is no memory for it, as `Vec` does; so do all methods that need more.
    ///
    /// # Panics
    /// If the name is empty or longer than 255 bytes.
    #[track_caller]
    pub fn with_slot(name: &str) -> SlotVec<T> {
        SlotVec::with_slot_capacity(name, 0)
    }

    /// Makes an empty one with room for `capacity` elements.
    #[track_caller]
    pub fn with_slot_capacity(name: &str, capacity: usize) -> SlotVec<T> {
        const { assert!(align_of::<T>() <= PAGE as usize, "the type's alignment is larger than a page") }
        let name = checked_name(name);
        // A page is the least that a buffer costs.
        let bytes = (capacity as u64).saturating_mul(Self::SIZE).max(PAGE);
        let raw = Raw::alloc(&name, bytes, align_of::<T>()).unwrap_or_else(|error| out_of_memory(&error));
        SlotVec { raw, len: 0, name, fate: Fate::Publish, tag: <[T]>::TAG, _element: PhantomData }
    }

    /// Takes the elements of a slot; parks until the slot has been filled.
    ///
    /// # Errors
    /// As [`SlotBuffer::from_slot`].
    pub fn from_slot(name: &str) -> Result<SlotVec<T>, SlotError> {
        SlotBuffer::<[T]>::from_slot(name).map(SlotVec::from)
    }

    /// Takes over what lies in a slot now; `None` if it is empty.
    ///
    /// # Errors
    /// As [`SlotBuffer::try_from_slot`].
    pub fn try_from_slot(name: &str) -> Result<Option<SlotVec<T>>, SlotError> {
        Ok(SlotBuffer::<[T]>::try_from_slot(name)?.map(SlotVec::from))
    }

    /// Elements that fit without asking for more memory.
    pub fn capacity(&self) -> usize {
        match Self::SIZE {
            0 => usize::MAX,
            size => (self.raw.capacity() / size) as usize,
        }
    }

    /// Makes room for `more` elements; at least doubles the memory when it needs more.
    pub fn reserve(&mut self, more: usize) {
        if more <= self.capacity() - self.len {
            return;
        }
        let needed = (self.len as u64).saturating_add(more as u64).saturating_mul(Self::SIZE);
        let roomy = needed.max(self.raw.capacity().saturating_mul(2));
        let grown = self.raw.resize(&self.name, roomy).or_else(|_| self.raw.resize(&self.name, needed));
        if let Err(error) = grown {
            out_of_memory(&error)
        }
    }

    /// Adds an element.
    pub fn push(&mut self, value: T) {
        self.reserve(1);
        self.raw.touch();
        // SAFETY: there is room for an element behind the last one.
        unsafe { self.raw.start::<T>().add(self.len).write(value) };
        self.len += 1;
    }

    /// Removes the last element.
    pub fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        self.raw.touch();
        // SAFETY: it was an element until just now, and is not read again.
        Some(unsafe { self.raw.start::<T>().add(self.len).read() })
    }

    /// Adds copies of elements.
    pub fn extend_from_slice(&mut self, more: &[T])
    where
        T: Copy,
    {
        self.reserve(more.len());
        self.raw.touch();
        // SAFETY: there is room for as many elements behind the last one; `more` cannot be part of this buffer, which
        // is borrowed mutably.
        unsafe { self.raw.start::<T>().add(self.len).copy_from_nonoverlapping(more.as_ptr(), more.len()) };
        self.len += more.len();
    }

    /// Forgets the elements from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Forgets all elements, and keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Hands the elements on; see [`SlotBuffer::publish`].
    ///
    /// # Errors
    /// [`Errno::Exists`](monohull_abi::Errno::Exists) if the slot is filled. The buffer is freed then.
    pub fn publish(mut self) -> Result<(), SlotError> {
        let name = core::mem::take(&mut self.name);
        self.hand_on(&name)
    }

    /// Hands the elements on under another name.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub fn hand_on(mut self, name: &str) -> Result<(), SlotError> {
        self.fate = Fate::Free;
        self.raw.publish(name, self.len as u64, self.tag)?;
        self.fate = Fate::Nothing;
        Ok(())
    }

    /// Frees the buffer, whether it was made or taken over.
    pub fn discard(mut self) {
        self.fate = Fate::Free;
    }
}

impl SlotVec<u8> {
    /// Bytes that came out of a slot as text.
    pub(super) fn from_text(name: &str, taken: Taken) -> SlotVec<u8> {
        let Taken { raw, count, .. } = taken;
        SlotVec { raw, len: count, name: String::from(name), fate: Fate::Free, tag: TEXT, _element: PhantomData }
    }

    /// The same bytes, published as text.
    pub(super) fn into_text(mut self) -> SlotVec<u8> {
        self.tag = TEXT;
        self
    }
}

impl<T: SlotData> From<SlotBuffer<[T]>> for SlotVec<T> {
    fn from(buffer: SlotBuffer<[T]>) -> SlotVec<T> {
        let Parts { raw, count, name, fate } = buffer.into_parts();
        SlotVec { raw, len: count, name, fate, tag: <[T]>::TAG, _element: PhantomData }
    }
}

impl<T: SlotData> Deref for SlotVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the buffer is this handle's alone and holds `len` elements: written here, or checked when it was taken
        // over.
        unsafe { core::slice::from_raw_parts(self.raw.start(), self.len) }
    }
}

impl<T: SlotData> DerefMut for SlotVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.raw.touch();
        // SAFETY: as above; nothing else refers to the buffer while this handle is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.raw.start(), self.len) }
    }
}

impl<T: SlotData> Extend<T> for SlotVec<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        let values = values.into_iter();
        self.reserve(values.size_hint().0);
        values.for_each(|value| self.push(value));
    }
}

impl<'a, T: SlotData + Copy> Extend<&'a T> for SlotVec<T> {
    fn extend<I: IntoIterator<Item = &'a T>>(&mut self, values: I) {
        self.extend(values.into_iter().copied());
    }
}

impl<'a, T: SlotData> IntoIterator for &'a SlotVec<T> {
    type Item = &'a T;
    type IntoIter = core::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: SlotData> Drop for SlotVec<T> {
    fn drop(&mut self) {
        match self.fate {
            Fate::Publish => {
                if let Err(error) = self.raw.publish(&self.name, self.len as u64, self.tag) {
                    panic!("{error}");
                }
            }
            Fate::Free => self.raw.free(),
            Fate::Nothing => {}
        }
    }
}

impl<T: SlotData + fmt::Debug> fmt::Debug for SlotVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
