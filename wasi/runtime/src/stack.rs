//! How much of the stack a program may use, and how much of it is left: an interpreter that knows can raise an exception of its language
//! where a recursion has no end, and not meet the trap that ends the instance.
//!
//! ```text
//!   the step's `stack`    | the program's | what this runtime needs below it |
//!                           └ stack_left() ──▶ bytes
//! ```
//!
//! What a program keeps in its memory is not all of its stack. Most of it is the compiled code's, where the program cannot see it.

use crate::host::call;
use crate::imports::Imports;
use crate::preview1::State;
use crate::slots::MODULE;
use core::hint::black_box;
use monohull_abi::number::GET_INFO;
use monohull_abi::types::Info;
use wasmtime::Result;

/// What the runtime keeps of a large stack for itself: for functions that the program calls, and what led to the program.
const KEPT: usize = 256 << 10;

/// Bytes of the stack that the program may use. An endless recursion ends with a trap behind them.
pub(crate) fn of_program() -> usize {
    let all = call(GET_INFO, [Info::StackSize as u64]).map_or(0, |size| size as usize);
    all - KEPT.min(all / 2)
}

/// An address of the caller's frame, or close to it.
#[inline(always)]
fn here() -> usize {
    let local = 0u8;
    black_box(&raw const local).addr()
}

/// Gives the function its name. The program is to be called from the caller of this.
pub(crate) fn link(imports: &mut Imports<'_, State>) -> Result<()> {
    let (entered, size) = (here(), of_program());
    imports.provide(MODULE, "stack_left", move || {
        // The stack grows downwards.
        size.saturating_sub(entered.saturating_sub(here())) as u32
    })?;
    Ok(())
}
