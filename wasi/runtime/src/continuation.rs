//! Going back, and effects, for programs: what they import from the module `monohull` for that.
//!
//! ```text
//!   capture(checkpoint, value, len) ──▶ how often it was gone back to        checkpoint: u64, len: u32, which is the room before
//!   rewind(checkpoint, value, value_len)       forget(checkpoint)
//!   perform(effect, effect_len, request, request_len, out) ──▶ 1 if the handler has failed        out: handle u32, length u32
//! ```
//!
//! A rewind makes all memory of the instance what it was: the program's, and this runtime's with what it knows of the program. The frames of both are
//! on the one stack.

use crate::answer::{name, with};
use crate::durable::{held, room};
use crate::host::plain;
use crate::imports::Imports;
use crate::preview1::State;
use crate::refusal::Refusal;
use crate::slots::{MODULE, Taken};
use alloc::format;
use monohull_abi::Errno;
use monohull_abi::number::{CAPTURE, REWIND};
use monohull_abi::types::{Captured, REWIND_FORGET};
use monohull_std::continuation::{self, PerformError};
use wasmtime::{Caller, Result};

/// Gives the functions their names.
pub(crate) fn link(imports: &mut Imports<'_, State>) -> Result<()> {
    imports.provide(MODULE, "capture", |mut caller: Caller<'_, State>, checkpoint: u32, value: u32, len: u32| {
        with(&mut caller, |guest, _| {
            guest.bytes(checkpoint, 8)?;
            let room = guest.load_u32(len)?;
            let place = guest.bytes_mut(value, room)?;
            let mut here = Captured::default();
            let args = [&raw mut here as u64, place.as_mut_ptr() as u64, place.len() as u64];
            plain(CAPTURE, args).map_err(Refusal::of_system)?;
            guest.store_u64(checkpoint, here.checkpoint)?;
            guest.store_u32(len, here.len as u32)?;
            Ok(here.rewinds as u32)
        })
    })?;
    imports.provide(
        MODULE,
        "rewind",
        |mut caller: Caller<'_, State>, checkpoint: u64, value: u32, value_len: u32| {
            with(&mut caller, |guest, _| {
                let value = guest.bytes(value, value_len)?;
                let args = [checkpoint, value.as_ptr() as u64, value.len() as u64, 0];
                // It has returned, so it is refused.
                Err(Refusal::of_system(plain(REWIND, args).err().unwrap_or(Errno::Invalid)))
            })
        },
    )?;
    imports.provide(MODULE, "forget", |mut caller: Caller<'_, State>, checkpoint: u64| {
        with(&mut caller, |_, _| {
            plain(REWIND, [checkpoint, 0, 0, REWIND_FORGET]).map_err(Refusal::of_system)?;
            Ok(0)
        })
    })?;
    imports.provide(
        MODULE,
        "perform",
        |mut caller: Caller<'_, State>, effect: u32, effect_len: u32, request: u32, request_len: u32, out: u32| {
            with(&mut caller, |guest, slots| {
                room(guest, out)?;
                let asked = continuation::perform(name(guest, effect, effect_len)?, guest.bytes(request, request_len)?);
                let (failed, reply) = match asked {
                    Ok(reply) => (0, Taken::Bytes(reply)),
                    Err(PerformError::Failed { report, .. }) => (1, Taken::Told(report.into_bytes())),
                    Err(PerformError::Refused { errno, message, .. }) => return Err(Refusal::new(errno, &message)),
                    Err(error) => return Err(Refusal::new(error.errno(), &format!("{error}"))),
                };
                held(guest, slots, out, reply)?;
                Ok(failed)
            })
        },
    )?;
    Ok(())
}
