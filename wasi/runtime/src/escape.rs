//! A way out of nested calls: what `setjmp` and `longjmp` do in C, for interpreters whose errors end many calls at once.
//!
//! WebAssembly has no such thing without its exceptions, which not all compilers make. So the runtime makes the call that may be left: an error
//! of a function of the host ends all calls of the program up to the one that the host has made.
//!
//! ```text
//!   program ── protect(function, argument) ──▶ runtime ── function(argument) ──▶ program ── … ── escape() ──▶ runtime
//!           ◀── 0: it has returned                                                                              │
//!           ◀── 1: it was left                       ◀── the error `Escape` ────────────────────────────────────┘
//! ```
//!
//! A trap, an exit and an exception are other errors and go on to the caller of the program. What a program keeps of its stack in its own
//! memory, it sets right itself.

use crate::imports::Imports;
use crate::preview1::State;
use crate::slots::MODULE;
use core::fmt;
use wasmtime::{Caller, Extern, Ref, Result, bail};

/// The table of functions, as linkers call it.
const TABLE: &str = "__indirect_function_table";

/// Travels as an error from `escape` to the last `protect`.
#[derive(Debug)]
struct Escape;

impl fmt::Display for Escape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the program called `escape` outside of `protect`")
    }
}

impl core::error::Error for Escape {}

/// Calls a function of the program's table.
fn protect(mut caller: Caller<'_, State>, index: u32, argument: u32) -> Result<u32> {
    let Some(Extern::Table(table)) = caller.get_export(TABLE) else {
        bail!("the program exports no table named `{TABLE}`, from which `protect` calls");
    };
    let Some(Ref::Func(Some(function))) = table.get(&mut caller, index.into()) else {
        bail!("the program's table has no function {index} for `protect`");
    };
    let Ok(function) = function.typed::<u32, ()>(&caller) else {
        bail!(
            "function {index} of the program's table is none for `protect`, which calls one with one parameter, an `i32`, and no result"
        );
    };
    match function.call(&mut caller, argument) {
        Ok(()) => Ok(0),
        Err(error) if error.downcast_ref::<Escape>().is_some() => Ok(1),
        Err(error) => Err(error),
    }
}

/// Gives the functions their names.
pub(crate) fn link(imports: &mut Imports<'_, State>) -> Result<()> {
    imports.provide(MODULE, "protect", protect)?;
    imports.provide(MODULE, "escape", || -> Result<()> { Err(Escape.into()) })?;
    Ok(())
}
