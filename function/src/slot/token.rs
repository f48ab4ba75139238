//! The buffers that are continuations. What is in them means nothing.

use super::SlotError;
use super::buffer::SlotBuffer;
use super::data::CONTINUATION;
use super::raw::{Raw, Refused};
use monohull_abi::effect::EFFECT_SLOT_LEN;

/// Such a buffer. It is freed when it is dropped.
pub(crate) struct Token {
    raw: Raw,
    /// It is this instance's still.
    owned: bool,
}

impl Token {
    /// A new one, and the name of the slot of what it is used with.
    pub(crate) fn make() -> Result<(Token, [u8; EFFECT_SLOT_LEN]), Refused> {
        Raw::continuation().map(|(raw, name)| (Token { raw, owned: true }, name))
    }

    /// Takes one from a slot: parks until there is one, or gives `None` if `now` is set.
    pub(crate) fn take(slot: &str, now: bool) -> Result<Option<Token>, SlotError> {
        let taken = Raw::take(slot, &[CONTINUATION], now)?;
        Ok(taken.map(|taken| Token { raw: taken.raw, owned: true }))
    }

    pub(crate) fn publish(mut self, slot: &str) -> Result<(), SlotError> {
        self.raw.publish(slot, 1, CONTINUATION)?;
        self.owned = false;
        Ok(())
    }

    /// The instance that waits goes on with this.
    pub(crate) fn resume(mut self, value: SlotBuffer<[u8]>) -> Result<(), Refused> {
        value.use_with(&self.raw)?;
        self.owned = false;
        Ok(())
    }

    /// Frees it at once, although it was an input.
    pub(crate) fn discard(mut self) {
        self.raw.touch();
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if self.owned {
            self.raw.free();
        }
    }
}
