//! Earlier checkpoints of invocations, and going on from them: copies, and the way back.
//!
//! ```text
//!                     the history of `one`, at most `keep` checkpoints          fork(one, at 2, [two, three])
//!   start ─▶ 1 ─▶ 2 ─▶ 3                                                          two:   2 ─▶ 3 ─▶ …
//!                 └──────────▶ 4 (= 2) ─▶ 5 ─▶ …      rewind(one, to 2)           three: 2 ─▶ 3 ─▶ …
//! ```
//!
//! A *generation* is the number of a checkpoint in its invocation. It only rises: a rewind makes a new one from the files of an old one, and
//! what was left behind stays in the history. So the newest checkpoint is the one that is gone on from, and a number never means two.
//!
//! Checkpoints and images are shared by copies, by the names of their files. A file is removed when no history names it.
//!
//! A function may give a checkpoint a *label*, and have copies made of its own invocation: both happen in the transaction that commits the checkpoint.
//! One with a label is kept longer than those without.
//!
//! **Time.** A checkpoint that an invocation waits in has timers that go on. One that was left behind has none: an invocation that goes on
//! from it has the time that was left when it was committed, from now on. [`Kept::moved`] is by how much that is later than at the
//! capture, and a restore of the checkpoint moves the captured wall clock by as much.

use crate::{Checkpoint, Entry, InvocationId, MetaError, Status, Wait};
use monohull_abi::branch::is_label;
use monohull_report::text::quoted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// How many checkpoints of an invocation are kept, if nothing else is asked for.
pub const KEEP: u32 = 16;
/// The most that are kept.
pub const KEEP_MAX: u32 = 1000;

/// A checkpoint in the history of an invocation. Times are in ns since 1970.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// Its number.
    pub generation: u64,
    /// The older one that the invocation went back to, of which this is a copy.
    pub rewound_to: Option<u64>,
    /// When it was committed, or gone back to.
    pub at: u64,
    /// How much later than at its capture its timers count from.
    pub moved: i64,
    /// Its file.
    pub checkpoint: Checkpoint,
    /// When an invocation goes on from it by itself.
    pub due: Option<u64>,
    /// What is waited for.
    pub waits: Vec<Wait>,
    /// What had been published.
    pub published: BTreeMap<String, String>,
    /// What a function calls it.
    pub label: Option<String>,
}

/// A checkpoint, as a command or a request names it: its number, or the label that a function has given it.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(untagged, expecting = "expected the number of a checkpoint, or a label")]
pub enum Point {
    /// Its number.
    Generation(u64),
    /// Its label, of which there may be several.
    Label(String),
}

/// An invocation does not have such a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoCheckpoint {
    /// What was asked for.
    pub point: Point,
    /// The numbers of those that it has.
    pub has: Vec<u64>,
}

impl Point {
    /// It in a history, which begins with the oldest: of a label the last one.
    pub fn find(&self, history: Vec<Kept>) -> Result<Kept, NoCheckpoint> {
        let is_it = |kept: &Kept| match self {
            Point::Generation(generation) => kept.generation == *generation,
            Point::Label(label) => kept.label.as_ref() == Some(label),
        };
        let has = history.iter().map(|kept| kept.generation).collect();
        history.into_iter().rev().find(is_it).ok_or_else(|| NoCheckpoint { point: self.clone(), has })
    }
}

impl FromStr for Point {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Point, Self::Err> {
        match text.parse() {
            Ok(generation) => Ok(Point::Generation(generation)),
            Err(_) if is_label(text) => Ok(Point::Label(text.to_owned())),
            Err(_) => Err("expected the number of a checkpoint, or a label"),
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Point::Generation(generation) => generation.fmt(to),
            Point::Label(label) => to.write_str(&quoted(label)),
        }
    }
}

impl fmt::Display for NoCheckpoint {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has: Vec<_> = self.has.iter().map(u64::to_string).collect();
        let has = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
        write!(to, "no checkpoint {}: it has {has}", self.point)
    }
}

/// Where an invocation comes from, and how much of its history is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lineage {
    /// The invocation that it is a copy of, and the generation that it was made from.
    pub parent: Option<(InvocationId, u64)>,
    /// When that one was started: another one of its name, after it was removed, is not meant. `None` in a store of an earlier version.
    pub parent_started: Option<u64>,
    /// Which copy it is, from 1; 0 if it is none.
    pub copy: u32,
    /// How many were made together with it; 0 if it is none.
    pub copies: u32,
    /// How many checkpoints are kept.
    pub keep: u32,
}

impl Default for Lineage {
    fn default() -> Lineage {
        Lineage { parent: None, parent_started: None, copy: 0, copies: 0, keep: KEEP }
    }
}

/// Copies to make of an invocation.
#[derive(Clone, Copy, Debug)]
pub struct Fork<'a> {
    /// The invocation.
    pub id: &'a InvocationId,
    /// The generation to copy; without one the newest.
    pub at: Option<u64>,
    /// The names of the copies.
    pub copies: &'a [InvocationId],
    /// They go on by hand alone.
    pub paused: bool,
}

/// What came of a fork or a rewind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Branched<T> {
    /// It is done.
    Done(T),
    /// There is no invocation of this name.
    Unknown,
    /// An invocation of this status cannot be: it runs, or has not begun, or keeps no checkpoints any more.
    Refused(Status),
    /// It has no such checkpoint. The ones it has are these.
    NoCheckpoint(Vec<u64>),
}

/// A request that is done once, however often it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// Its key, which the client has chosen.
    pub key: &'a str,
    /// All that it asks for.
    pub asks: &'a [u8],
}

/// As many requests with keys are remembered for each invocation.
pub const REQUESTS_KEPT: u32 = 1000;

/// What came of a request with a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Once<T> {
    /// It was not made before, and this came of it.
    Now(T),
    /// It was done before, at this generation.
    Before(u64),
    /// The key is that of a request which asks for something else.
    KeyTaken,
}

/// What became of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copied {
    /// It is new.
    New,
    /// It was there: the same copy of the same generation.
    Same,
    /// The name is another's.
    Taken,
}

/// The copies that were made of an invocation and are still there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Forks {
    /// The first of them, in order.
    pub first: Vec<InvocationId>,
    /// How many there are.
    pub count: u64,
}

/// Numbers for copies that none has: so many names of the form `ID-NUMBER` are free. They go on where those of earlier copies end, or at a gap between them;
/// only a few of the taken ones are looked at, unless one was given back at a place where the search looks.
pub fn free_numbers<E>(count: u32, mut is_free: impl FnMut(u64) -> Result<bool, E>) -> Result<Vec<u64>, E> {
    // The next one is free, and the one before it is taken.
    let (mut taken, mut next) = (0, 1);
    while !is_free(next)? {
        (taken, next) = (next, 2 * next);
    }
    while next - taken > 1 {
        let between = taken.midpoint(next);
        if is_free(between)? { next = between } else { taken = between }
    }
    let mut free = Vec::new();
    while free.len() < count as usize {
        if is_free(next)? {
            free.push(next);
        }
        next += 1;
    }
    Ok(free)
}

/// The transactions on histories. [`Meta`](crate::Meta) has them too.
pub trait History {
    /// Keeps so many checkpoints of an invocation, from its next commit on: at least 1, at most [`KEEP_MAX`].
    fn keep(&mut self, id: &InvocationId, checkpoints: u32) -> Result<(), MetaError>;

    /// Where an invocation comes from.
    fn lineage(&self, id: &InvocationId) -> Result<Lineage, MetaError>;

    /// The copies that were made of an invocation and are still there: at most so many of them by name.
    fn forks(&self, id: &InvocationId, most: usize) -> Result<Forks, MetaError>;

    /// The checkpoints of an invocation, the oldest first. One that has completed or was cancelled has none.
    fn history(&self, id: &InvocationId) -> Result<Vec<Kept>, MetaError>;

    /// The timeline of an invocation: of the [`ENTRIES_KEPT`](crate::ENTRIES_KEPT) that are kept and whose numbers are below `before` at most `most`, the newest; the
    /// oldest of these first.
    fn timeline(&self, id: &InvocationId, before: u64, most: usize) -> Result<Vec<Entry>, MetaError>;

    /// Makes copies of an invocation that waits, is paused or has failed; what became of each, in their order. All that are made are made
    /// at once. The same again is no error, so that a caller who got no answer may repeat it.
    ///
    /// The caller prevents that files are removed meanwhile ([`Store::adding`](crate::Store::adding)).
    fn fork(&mut self, fork: Fork<'_>, now: u64) -> Result<Branched<Vec<Copied>>, MetaError>;

    /// Takes an invocation that waits, is paused or has failed back to a checkpoint that it has: the generation that it has now.
    fn rewind(&mut self, id: &InvocationId, to: u64, paused: bool, now: u64) -> Result<Branched<u64>, MetaError>;

    /// The names of all files of checkpoints that a history names.
    fn files(&self) -> Result<Vec<String>, MetaError>;
}

/// Whether copies can be made of an invocation of this status, and whether it can go back.
pub const fn has_branches(status: Status) -> bool {
    matches!(status, Status::Suspended | Status::Paused | Status::Failed)
}

impl Kept {
    /// The same, with the time that was left at its commit from now on.
    pub(crate) fn anew(mut self, now: u64) -> Kept {
        let by = i128::from(now) - i128::from(self.at);
        let by = by.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        let later = |at: u64| at.saturating_add_signed(by);
        (self.at, self.moved) = (now, self.moved.saturating_add(by));
        self.due = self.due.map(later);
        for wait in &mut self.waits {
            wait.until = wait.until.map(later);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn free(count: u32, taken: &BTreeSet<u64>) -> (Vec<u64>, usize) {
        let mut looked = 0;
        let numbers = free_numbers(count, |number| {
            looked += 1;
            Ok::<_, ()>(!taken.contains(&number))
        });
        (numbers.expect("no errors"), looked)
    }

    #[test]
    fn numbers_go_on_where_those_that_are_taken_end() {
        assert_eq!(free(3, &BTreeSet::new()).0, [1, 2, 3]);
        for last in [1, 2, 3, 7, 8, 1000, 1_000_000] {
            let (numbers, looked) = free(2, &(1..=last).collect());
            assert_eq!(numbers, [last + 1, last + 2]);
            assert!(looked < 50, "{looked} of {last}");
        }
    }

    #[test]
    fn numbers_that_are_taken_are_left_out() {
        let taken: BTreeSet<u64> = (1..2000).filter(|number| number % 3 != 0 || number % 5 == 0).collect();
        let (numbers, _) = free(100, &taken);
        let different: BTreeSet<_> = numbers.iter().copied().collect();
        assert!(different.len() == 100 && different.is_disjoint(&taken), "{numbers:?}");
    }
}
