//! Continuations as values, for programs: what modules import from the module `monohull` for that.
//!
//! ```text
//!   continuation(number) ──▶ handle       number: u64, by which the program waits
//!   continuation_wait(number, out)        out: handle u32, length u32, as of a slot
//!   continuation_take(slot, slot_len, wait) ──▶ handle
//!   continuation_publish(handle, slot, slot_len)       continuation_resume(handle, value, value_len)
//!   continuation_free(handle, at_once)
//! ```
//!
//! A program has a handle; the address of the buffer that is the continuation stays here. The number is the program's to keep: the system
//! lets an instance wait for its own continuations alone, whatever number the program makes up.

use crate::answer::{name, with, with_state};
use crate::durable::{held, room};
use crate::imports::Imports;
use crate::owned_continuations::{Continuation, wait};
use crate::preview1::State;
use crate::slots::{MODULE, Taken};
use wasmtime::{Caller, Result};

/// Gives the functions their names.
pub(crate) fn link(imports: &mut Imports<'_, State>) -> Result<()> {
    imports.provide(MODULE, "continuation", |mut caller: Caller<'_, State>, number: u32| {
        with_state(&mut caller, |guest, state| {
            // Before there is one.
            guest.bytes(number, 8)?;
            let (made, id) = Continuation::make()?;
            guest.store_u64(number, id)?;
            Ok(state.continuations.insert(made))
        })
    })?;
    imports.provide(MODULE, "continuation_wait", |mut caller: Caller<'_, State>, number: u64, out: u32| {
        with(&mut caller, |guest, slots| {
            room(guest, out)?;
            held(guest, slots, out, Taken::Bytes(wait(number)?))?;
            Ok(0)
        })
    })?;
    imports.provide(
        MODULE,
        "continuation_take",
        |mut caller: Caller<'_, State>, slot: u32, slot_len: u32, wait: u32| {
            with_state(&mut caller, |guest, state| {
                let taken = Continuation::take(name(guest, slot, slot_len)?, wait != 0)?;
                Ok(state.continuations.insert(taken))
            })
        },
    )?;
    imports.provide(
        MODULE,
        "continuation_publish",
        |mut caller: Caller<'_, State>, handle: u32, slot: u32, slot_len: u32| {
            with_state(&mut caller, |guest, state| {
                let slot = name(guest, slot, slot_len)?;
                state.continuations.at(handle, |continuation| continuation.publish(slot))?;
                Ok(0)
            })
        },
    )?;
    imports.provide(
        MODULE,
        "continuation_resume",
        |mut caller: Caller<'_, State>, handle: u32, value: u32, value_len: u32| {
            with_state(&mut caller, |guest, state| {
                let value = guest.bytes(value, value_len)?;
                state.continuations.at(handle, |continuation| continuation.resume(value))?;
                Ok(0)
            })
        },
    )?;
    imports.provide(MODULE, "continuation_free", |mut caller: Caller<'_, State>, handle: u32, at_once: u32| {
        with_state(&mut caller, |_, state| {
            state.continuations.free(handle, at_once != 0)?;
            Ok(0)
        })
    })?;
    Ok(())
}
