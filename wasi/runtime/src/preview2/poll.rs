//! `wasi:io/poll`: waits until one of several things has happened.
//!
//! Files and streams are always ready, but for the standard input and connections. So what is ever waited for is a clock, these, the answer to a
//! request, or a socket.

use super::changes::{self, Awaited};
use super::readiness::Readiness;
use super::{Caller, State, resource, stdin};
use crate::host::{now, sleep};
use crate::sockets::{self, Socket};
use alloc::sync::Arc;
use alloc::vec;
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
    /// A socket.
    Socket(Arc<dyn Readiness>),
}

impl Pollable {
    /// The ns that are left at a time, as far as this is known without a look at sockets.
    fn left(&self, now: u64) -> u64 {
        match self {
            Pollable::At(time) => time.saturating_sub(now),
            _ if self.has_come() => 0,
            _ => u64::MAX,
        }
    }

    /// Whether it has happened, if it is no matter of time.
    fn has_come(&self) -> bool {
        match self {
            Pollable::Ready => true,
            Pollable::At(_) | Pollable::Socket(_) => false,
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
        let list = [caller.data().table.get(&this)?];
        Ok((!ready(&list, now(Clock::Monotonic)?, 0)?.is_empty(),))
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
    if !list.iter().any(|one| one.can_come() || one.has_come()) {
        bail!(
            "the component waits for the answer to a request whose body it has not finished (`outgoing-body.finish`)"
        );
    }
    loop {
        // A socket that is ready may not be so for what is waited for.
        let ready = ready(&list, now(Clock::Monotonic)?, u64::MAX)?;
        if !ready.is_empty() {
            return Ok(ready);
        }
    }
}

/// Which of several things have happened, after a wait for the first of them from `start` on, of at most so many ns.
fn ready(list: &[&Pollable], start: u64, most: u64) -> Result<Vec<u32>> {
    let mut come: Vec<bool> = vec![false; list.len()];
    let mut awaited: Vec<(usize, Arc<Socket>, u32)> = Vec::new();
    for (index, one) in list.iter().enumerate() {
        if let Pollable::Socket(of) = one {
            match of.awaits() {
                Some((socket, wanted)) => awaited.push((index, socket, wanted)),
                None => come[index] = true,
            }
        }
    }
    let shortest = match come.contains(&true) {
        true => 0,
        false => list.iter().map(|one| one.left(start)).fold(most, u64::min),
    };
    let has_come = || list.iter().any(|one| one.has_come());
    let has_changes = list.iter().any(|one| matches!(one, Pollable::Input | Pollable::Change(_)));
    let asked: Vec<(&Socket, u32)> = awaited.iter().map(|(_, socket, wanted)| (&**socket, *wanted)).collect();
    let found = match (has_changes, asked.is_empty()) {
        (_, true) if shortest == 0 => vec![],
        (true, true) => {
            changes::wait(shortest, has_come);
            vec![]
        }
        (false, true) => {
            sleep(shortest)?;
            vec![]
        }
        (true, false) => changes::wait_with_sockets(&asked, shortest, has_come)?,
        (false, false) => sockets::wait(&asked, shortest)?,
    };
    let is_woken = found.iter().any(|found| *found != 0);
    for ((index, ..), _) in awaited.iter().zip(found).filter(|(_, found)| *found != 0) {
        come[*index] = matches!(list[*index], Pollable::Socket(of) if of.has_come());
    }
    let end = now(Clock::Monotonic)?;
    // A clock's time has come if nothing else is why it was not waited for.
    let end = match is_woken || has_come() || shortest == u64::MAX {
        true => end,
        false => end.max(start.saturating_add(shortest)),
    };
    let has_happened = |(index, one): &(usize, &&Pollable)| come[*index] || one.left(end) == 0;
    Ok(list.iter().enumerate().filter(has_happened).map(|(index, _)| index as u32).collect())
}
