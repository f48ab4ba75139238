//! [`SlotString`]: text that grows before it is handed on.

#![allow(unsafe_code, reason = "bytes that were found to be UTF-8 once are not looked at again")]

use super::data::{SlotContent, TEXT};
use super::raw::Raw;
use super::{SlotError, SlotVec};
use alloc::string::String;
use core::fmt;
use core::ops::Deref;
use monohull_abi::Errno;

/// Growable UTF-8 text in a slot buffer. It travels as text, and is also found where bytes were published that are
/// UTF-8, such as an input of the workflow.
///
/// Like a [`SlotBuffer`](super::SlotBuffer), it is published when it goes out of scope if it was made here, and freed
/// if it was taken over.
pub struct SlotString {
    /// Always UTF-8.
    bytes: SlotVec<u8>,
}

impl SlotString {
    /// Makes an empty one, to be handed on under `name`.
    ///
    /// # Panics
    /// If the name is empty or longer than 255 bytes.
    #[track_caller]
    pub fn with_slot(name: &str) -> SlotString {
        SlotString { bytes: SlotVec::with_slot(name).into_text() }
    }

    /// Takes the text of a slot; parks until the slot has been filled.
    ///
    /// # Errors
    /// As [`SlotBuffer::from_slot`](super::SlotBuffer::from_slot); [`Errno::Invalid`] if the slot holds bytes that are
    /// not UTF-8, which stay there.
    pub fn from_slot(name: &str) -> Result<SlotString, SlotError> {
        match Self::take(name, false)? {
            Some(text) => Ok(text),
            None => Err(SlotError::new(name, Errno::NotFound, String::new())),
        }
    }

    /// Takes over the text that lies in a slot now; `None` if it is empty.
    ///
    /// # Errors
    /// As [`from_slot`](Self::from_slot), but never [`Errno::NeverFilled`].
    pub fn try_from_slot(name: &str) -> Result<Option<SlotString>, SlotError> {
        Self::take(name, true)
    }

    /// Adds text.
    pub fn push_str(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Adds a character.
    pub fn push(&mut self, character: char) {
        self.push_str(character.encode_utf8(&mut [0; 4]));
    }

    /// Makes room for `more` bytes.
    pub fn reserve(&mut self, more: usize) {
        self.bytes.reserve(more);
    }

    /// Forgets the text, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // SAFETY: only texts are added, and what was taken over has been checked.
        unsafe { core::str::from_utf8_unchecked(&self.bytes) }
    }

    /// Hands the text on; see [`SlotBuffer::publish`](super::SlotBuffer::publish).
    ///
    /// # Errors
    /// [`Errno::Exists`] if the slot is filled. The buffer is freed then.
    pub fn publish(self) -> Result<(), SlotError> {
        self.bytes.publish()
    }

    /// Hands the text on under another name.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub fn hand_on(self, name: &str) -> Result<(), SlotError> {
        self.bytes.hand_on(name)
    }

    /// Frees the buffer, whether it was made or taken over.
    pub fn discard(self) {
        self.bytes.discard();
    }

    fn take(name: &str, now: bool) -> Result<Option<SlotString>, SlotError> {
        let Some(taken) = Raw::take(name, &[TEXT, <[u8]>::TAG], now)? else { return Ok(None) };
        // SAFETY: the bytes lie inside the buffer, which is this instance's alone.
        let bytes = unsafe { core::slice::from_raw_parts(taken.raw.start::<u8>(), taken.count) };
        if core::str::from_utf8(bytes).is_err() {
            return Err(taken.put_back(name, alloc::format!("slot `{name}` holds bytes that are not UTF-8")));
        }
        Ok(Some(SlotString { bytes: SlotVec::from_text(name, taken) }))
    }
}

impl Deref for SlotString {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Write for SlotString {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_str(text);
        Ok(())
    }
}

impl<'a> Extend<&'a str> for SlotString {
    fn extend<I: IntoIterator<Item = &'a str>>(&mut self, texts: I) {
        texts.into_iter().for_each(|text| self.push_str(text));
    }
}

impl Extend<char> for SlotString {
    fn extend<I: IntoIterator<Item = char>>(&mut self, characters: I) {
        characters.into_iter().for_each(|character| self.push(character));
    }
}

impl fmt::Debug for SlotString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for SlotString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}
