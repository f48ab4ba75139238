//! Arguments, environment variables, random bytes.

use super::Call;
use crate::arguments;
use crate::errno::WasiError;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use monohull_std::env;

/// The program's arguments.
pub(super) fn arguments() -> Vec<String> {
    arguments::of_step().iter().map(|word| format!("{word}\0")).collect()
}

/// The step's environment.
pub(super) fn variables() -> Vec<String> {
    env::vars().map(|(name, value)| format!("{name}={value}\0")).collect()
}

/// How many texts there are, and their bytes.
fn sizes(texts: &[String]) -> Result<(u32, u32), WasiError> {
    let bytes: usize = texts.iter().map(String::len).sum();
    Ok((texts.len() as u32, u32::try_from(bytes).map_err(|_| WasiError::NOMEM)?))
}

impl Call<'_> {
    pub(super) fn args_sizes_get(&mut self, count: u32, bytes: u32) -> Result<(), WasiError> {
        let sizes = sizes(&self.state.arguments)?;
        self.guest.store_u32(count, sizes.0)?;
        self.guest.store_u32(bytes, sizes.1)
    }

    pub(super) fn args_get(&mut self, pointers: u32, bytes: u32) -> Result<(), WasiError> {
        let Call { guest, state } = self;
        store_texts(guest, &state.arguments, pointers, bytes)
    }

    pub(super) fn environ_sizes_get(&mut self, count: u32, bytes: u32) -> Result<(), WasiError> {
        let sizes = sizes(&self.state.environment)?;
        self.guest.store_u32(count, sizes.0)?;
        self.guest.store_u32(bytes, sizes.1)
    }

    pub(super) fn environ_get(&mut self, pointers: u32, bytes: u32) -> Result<(), WasiError> {
        let Call { guest, state } = self;
        store_texts(guest, &state.environment, pointers, bytes)
    }

    pub(super) fn random_get(&mut self, pointer: u32, len: u32) -> Result<(), WasiError> {
        monohull_std::random::fill(self.guest.bytes_mut(pointer, len)?);
        Ok(())
    }
}

/// Writes the texts one behind the other, and a pointer to each.
fn store_texts(
    guest: &mut crate::guest::Guest<'_>,
    texts: &[String],
    pointers: u32,
    bytes: u32,
) -> Result<(), WasiError> {
    let mut at = bytes;
    for (text, index) in texts.iter().zip(0u32..) {
        let pointer = index.checked_mul(4).and_then(|offset| pointers.checked_add(offset)).ok_or(WasiError::FAULT)?;
        guest.store_u32(pointer, at)?;
        guest.store(at, text.as_bytes())?;
        at = at.checked_add(text.len() as u32).ok_or(WasiError::FAULT)?;
    }
    Ok(())
}
