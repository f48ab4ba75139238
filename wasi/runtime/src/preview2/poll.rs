//! `wasi:io/poll`: waits until one of several things has happened.
//!
//! Files and streams are always ready, but for the standard input. So what is ever waited for is a clock, that, or the answer to a request.

use super::changes::{self, Awaited};
use super::{Caller, State, resource, stdin};
use crate::host::{now, sleep};
use alloc::vec::Vec;
use monohull_abi::types::Clock;
use wasmtime::component::{Linker, Resource};
use wasmtime::{Result, bail, ensure};

/// What can be waited for.
pub(super) enum Pollable {
    /// It has happened.
    Ready,
    /// A time of the monotonic clock, in ns.
    At(u64),
    /// That the standard input can be read.
    Input,
    /// What a thread of the runtime brings about.
    Change(Awaited),
}

impl Pollable {
    /// The ns that are left at a time.
    fn left(&self, now: u64) -> u64 {
        match self {
            Pollable::Ready => 0,
            Pollable::At(time) => time.saturating_sub(now),
            Pollable::Input | Pollable::Change(_) => match self.has_come() {
                true => 0,
                false => u64::MAX,
            },
        }
    }

    /// Whether it has happened, if it is no matter of time.
    fn has_come(&self) -> bool {
        match self {
            Pollable::Ready => true,
            Pollable::At(_) => false,
            Pollable::Input => stdin::has_come(),
            Pollable::Change(change) => change.has_come(),
        }
    }

    /// Whether it can happen while the program waits.
    fn can_come(&self) -> bool {
        !matches!(self, Pollable::Change(change) if !change.can_come())
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
    if shortest > 0 {
        if !list.iter().any(|one| one.can_come()) {
            bail!(
                "the component waits for the answer to a request whose body it has not finished (`outgoing-body.finish`)"
            );
        }
        match list.iter().any(|one| matches!(one, Pollable::Input | Pollable::Change(_))) {
            true => changes::wait(shortest, || list.iter().any(|one| one.has_come())),
            false => sleep(shortest)?,
        }
    }
    let end = now(Clock::Monotonic)?;
    let has_come = list.iter().any(|one| one.has_come());
    let end = if has_come { end } else { end.max(start.saturating_add(shortest)) };
    Ok(list.iter().zip(0..).filter(|(one, _)| one.left(end) == 0).map(|(_, index)| index).collect())
}
