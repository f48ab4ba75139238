//! `wasi:io/poll`: waits until one of several things has happened.
//!
//! Files and streams are always ready, but for the standard input. So what is ever waited for is a clock, or that.

use super::{Caller, State, resource, stdin};
use crate::host::{now, sleep};
use alloc::vec::Vec;
use monohull_abi::types::Clock;
use wasmtime::component::{Linker, Resource};
use wasmtime::{Result, ensure};

/// What can be waited for.
pub(super) enum Pollable {
    /// It has happened.
    Ready,
    /// A time of the monotonic clock, in ns.
    At(u64),
    /// That the standard input can be read.
    Input,
}

impl Pollable {
    /// The ns that are left at a time.
    fn left(&self, now: u64) -> u64 {
        match self {
            Pollable::Ready => 0,
            Pollable::At(time) => time.saturating_sub(now),
            Pollable::Input => {
                if stdin::has_come() {
                    0
                } else {
                    u64::MAX
                }
            }
        }
    }
}

pub(super) fn link(linker: &mut Linker<State>) -> Result<()> {
    let mut poll = linker.instance("wasi:io/poll@0.2.0")?;
    resource::<Pollable>(&mut poll, "pollable")?;
    poll.func_wrap("[method]pollable.ready", |caller: Caller<'_>, (this,): (Resource<Pollable>,)| {
        let left = caller.data().table.get(&this)?.left(now(Clock::Monotonic)?);
        Ok((left == 0,))
    })?;
    poll.func_wrap("[method]pollable.block", |caller: Caller<'_>, (this,): (Resource<Pollable>,)| {
        wait(caller.data(), &[this]).map(drop)
    })?;
    poll.func_wrap("poll", |caller: Caller<'_>, (list,): (Vec<Resource<Pollable>>,)| {
        ensure!(!list.is_empty(), "`wasi:io/poll#poll` was called with an empty list");
        Ok((wait(caller.data(), &list)?,))
    })?;
    Ok(())
}

/// Waits for the first of several things: which of them have happened then.
fn wait(state: &State, list: &[Resource<Pollable>]) -> Result<Vec<u32>> {
    let list = list.iter().map(|one| state.table.get(one)).collect::<core::result::Result<Vec<_>, _>>()?;
    let start = now(Clock::Monotonic)?;
    let shortest = list.iter().map(|one| one.left(start)).min().unwrap_or(0);
    let has_come = match list.iter().any(|one| matches!(one, Pollable::Input)) {
        _ if shortest == 0 => false,
        true => stdin::wait(shortest),
        false => sleep(shortest).map(|()| false)?,
    };
    let end = now(Clock::Monotonic)?;
    let end = if has_come { end } else { end.max(start.saturating_add(shortest)) };
    Ok(list.iter().zip(0..).filter(|(one, _)| one.left(end) == 0).map(|(_, index)| index).collect())
}
