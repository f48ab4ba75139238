//! What the functions of [`durable`](crate::durable), [`continuation`](crate::continuation) and [`one_shot`](crate::one_shot) answer: a number, or why not.
//!
//! It is what those of `function/include/monohull.h` return to a native program: 0 or more, or a negative error number of the hostcall interface.
//! The explanation of the last error is kept for `last_error`.

use crate::guest::Guest;
use crate::preview1::{State, memory_of};
use crate::refusal::Refusal;
use crate::slots::Slots;
use monohull_abi::Errno;
use wasmtime::{Caller, Result};

/// Longest name or list of names in bytes. What the system knows is shorter.
const NAME_MAX: u32 = 4096;

/// A name in the program's memory.
pub(crate) fn name<'a>(guest: &'a Guest<'_>, pointer: u32, len: u32) -> Result<&'a str, Refusal> {
    if len > NAME_MAX {
        return Err(Refusal::new(Errno::Invalid, "a name is too long"));
    }
    Ok(guest.text(pointer, len)?)
}

/// Runs a function on the program's memory and buffers. What it refuses can be asked for.
pub(crate) fn with(
    caller: &mut Caller<'_, State>,
    body: impl FnOnce(&mut Guest<'_>, &mut Slots) -> Result<u32, Refusal>,
) -> Result<i32> {
    with_state(caller, |guest, state| body(guest, &mut state.slots))
}

/// The same with all that functions keep between calls.
pub(crate) fn with_state(
    caller: &mut Caller<'_, State>,
    body: impl FnOnce(&mut Guest<'_>, &mut State) -> Result<u32, Refusal>,
) -> Result<i32> {
    let (memory, state) = memory_of(caller)?;
    Ok(match body(&mut Guest(memory), state) {
        Ok(number) => number as i32,
        Err(Refusal { errno, why }) => {
            state.explanation = why;
            errno.to_value() as i32
        }
    })
}
