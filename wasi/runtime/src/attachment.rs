//! What is attached to a program, for the program: an interpreter finds there what it is to run.
//!
//! ```text
//!   attachment_length() ──▶ bytes        attachment_read(offset, pointer, len)
//! ```

use crate::errno::WasiError;
use crate::guest::Guest;
use crate::imports::Imports;
use crate::preview1::{State, memory_of};
use crate::slots::MODULE;
use wasmtime::{Caller, Result};

/// Gives the functions their names.
pub(crate) fn link(imports: &mut Imports<'_, State>, attachment: &'static [u8]) -> Result<()> {
    imports.provide(MODULE, "attachment_length", move || attachment.len() as u32)?;
    imports.provide(
        MODULE,
        "attachment_read",
        move |mut caller: Caller<'_, State>, offset: u32, pointer: u32, len: u32| -> Result<u32> {
            let (memory, _) = memory_of(&mut caller)?;
            let part = attachment.get(offset as usize..).and_then(|rest| rest.get(..len as usize));
            let read = part.ok_or(WasiError::INVAL).and_then(|part| Guest(memory).store(pointer, part));
            Ok(read.map_or_else(|error| error.0.into(), |()| 0))
        },
    )?;
    Ok(())
}
