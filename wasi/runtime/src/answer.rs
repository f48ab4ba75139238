//! What the functions of [`durable`](crate::durable), [`continuation`](crate::continuation) and [`one_shot`](crate::one_shot) answer: a number, or why not.
//!
//! It is what those of `function/include/monohull.h` return to a native program: 0 or more, or a negative error number of the hostcall interface.
//! The explanation of the last error is kept for `last_error`.

use crate::errno::WasiError;
use crate::guest::Guest;
use crate::host::explanation;
use crate::preview1::{State, memory_of};
use crate::slots::Slots;
use alloc::string::{String, ToString};
use core::fmt;
use monohull_abi::Errno;
use monohull_std::durable::EventError;
use wasmtime::{Caller, Result};

/// Longest name or list of names in bytes. What the system knows is shorter.
const NAME_MAX: u32 = 4096;

/// Why a call is refused.
pub(crate) struct Refusal {
    errno: Errno,
    why: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.why {
            "" => self.errno.fmt(f),
            why => f.write_str(why),
        }
    }
}

impl Refusal {
    pub(crate) fn new(errno: Errno, why: &str) -> Refusal {
        Refusal { errno, why: why.to_string() }
    }

    /// What the system has said to the last hostcall.
    pub(crate) fn of_system(errno: Errno) -> Refusal {
        Refusal { errno, why: explanation() }
    }
}

impl From<WasiError> for Refusal {
    fn from(error: WasiError) -> Refusal {
        match error {
            WasiError::FAULT => Refusal::new(Errno::Fault, "an address leads out of the program's memory"),
            WasiError::ILSEQ => Refusal::new(Errno::Invalid, "a text is not UTF-8"),
            WasiError::BADF => Refusal::new(Errno::BadDescriptor, "no buffer has this handle"),
            _ => Refusal::new(Errno::Invalid, &error.to_string()),
        }
    }
}

impl From<EventError> for Refusal {
    fn from(error: EventError) -> Refusal {
        Refusal::new(error.errno(), error.message())
    }
}

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
