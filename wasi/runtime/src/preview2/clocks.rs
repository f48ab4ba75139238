//! `wasi:clocks`: the time since 1970, and one that only moves forward.

use super::poll::Pollable;
use super::types::Datetime;
use super::{Caller, State};
use crate::host::now;
use monohull_abi::types::Clock;
use wasmtime::Result;
use wasmtime::component::Linker;

pub(super) fn link(linker: &mut Linker<State>) -> Result<()> {
    let mut clock = linker.instance("wasi:clocks/monotonic-clock@0.2.0")?;
    clock.func_wrap("now", |_: Caller<'_>, (): ()| Ok((now(Clock::Monotonic)?,)))?;
    clock.func_wrap("resolution", |_: Caller<'_>, (): ()| Ok((1_u64,)))?;
    clock.func_wrap("subscribe-instant", |mut caller: Caller<'_>, (time,): (u64,)| {
        Ok((caller.data_mut().table.push(Pollable::At(time))?,))
    })?;
    clock.func_wrap("subscribe-duration", |mut caller: Caller<'_>, (ns,): (u64,)| {
        let time = now(Clock::Monotonic)?.saturating_add(ns);
        Ok((caller.data_mut().table.push(Pollable::At(time))?,))
    })?;
    let mut clock = linker.instance("wasi:clocks/wall-clock@0.2.0")?;
    clock.func_wrap("now", |_: Caller<'_>, (): ()| Ok((Datetime::from_ns(now(Clock::Realtime)?),)))?;
    clock.func_wrap("resolution", |_: Caller<'_>, (): ()| Ok((Datetime::from_ns(1),)))?;
    Ok(())
}
