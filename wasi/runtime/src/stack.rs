//! How much of the stack is left, for interpreters: a program in theirs that recurses without end should get an exception of its language,
//! and not the trap that ends the instance.
//!
//! ```text
//!   stack_left() ──▶ bytes
//! ```
//!
//! What a program keeps in its memory is not all of its stack. Most of it is the compiled code's, where the program cannot see it.

use crate::preview1::State;
use crate::slots::MODULE;
use core::hint::black_box;
use monohull_wasi_settings::STACK_SIZE;
use wasmtime::{Linker, Result};

/// An address of the caller's frame, or close to it.
#[inline(always)]
fn here() -> usize {
    let local = 0u8;
    black_box(&raw const local).addr()
}

/// Gives the function its name. The program is to be called from the caller of this.
pub(crate) fn link(linker: &mut Linker<State>) -> Result<()> {
    let entered = here();
    linker.func_wrap(MODULE, "stack_left", move || {
        // The stack grows downwards.
        STACK_SIZE.saturating_sub(entered.saturating_sub(here())) as u32
    })?;
    Ok(())
}
