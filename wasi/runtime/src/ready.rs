//! A template of the program: its memory where it says that it is ready for its inputs, from which later instances start.
//!
//! ```text
//!   ready() ──▶ 1 if this instance has started here        common_random(pointer, len)
//! ```
//!
//! Nothing is prepared for it here. The program's memory and this runtime's are pages of one cell, and a template is all of them.

use crate::errno::WasiError;
use crate::guest::Guest;
use crate::host::call;
use crate::imports::Imports;
use crate::preview1::{State, memory_of};
use crate::slots::MODULE;
use monohull_abi::number::GETRANDOM;
use monohull_abi::types::RANDOM_SHARED;
use wasmtime::{Caller, Result};

/// Bytes of one call for random numbers.
const AT_ONCE: usize = 64 << 10;

/// Gives the functions their names.
pub(crate) fn link(imports: &mut Imports<'_, State>) -> Result<()> {
    imports.provide(MODULE, "ready", || u32::from(monohull_std::ready()))?;
    imports.provide(
        MODULE,
        "common_random",
        |mut caller: Caller<'_, State>, pointer: u32, len: u32| -> Result<u32> {
            let (memory, _) = memory_of(&mut caller)?;
            let drawn = Guest(memory).bytes_mut(pointer, len).and_then(draw);
            Ok(drawn.map_or_else(|error| error.0.into(), |()| 0))
        },
    )?;
    Ok(())
}

/// Random bytes that instances of one template may have in common.
fn draw(bytes: &mut [u8]) -> core::result::Result<(), WasiError> {
    for part in bytes.chunks_mut(AT_ONCE) {
        call(GETRANDOM, [part.as_mut_ptr() as u64, part.len() as u64, RANDOM_SHARED])?;
    }
    Ok(())
}
