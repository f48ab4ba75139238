//! Processes that wait for another invocation of their workflow.
//!
//! ```text
//! ended as done ─▶ resetting ─▶ [ least recently used | … | most recently used ] ─▶ invocation of the same workflow
//!                                 goes first, of the workflow             idle for too long, workflow changed, said something: killed
//!                                 that has most, when there are too many
//! ```

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::invocations::workers::KeptRun;
use monohull_engine::Ready;

/// The most invocations of one process. The cost of a new one, some half a millisecond, is less than a hundredth of what they take; what
/// a process accumulates, holes in its allocator's memory say, is bounded.
const INVOCATIONS_MAX: u64 = 1000;
/// How long a process waits for its next invocation.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Limits are lower by up to this part of them, a different one for each process: those that began together do not end together.
const SPREAD: u64 = 4;

/// A process that can serve another invocation. It ends when this is dropped.
pub(crate) trait Kept {
    fn pid(&self) -> i32;
    /// How many invocations it has served.
    fn served(&self) -> u64;
    /// Which version of which workflow it serves.
    fn version(&self) -> usize;
    /// Whether it serves this one.
    fn serves(&self, workflow: &Arc<Ready>) -> bool;
    /// Whether the workflow is there still.
    fn is_needed(&self) -> bool;
    /// Whether it is there and has said nothing.
    fn is_waiting(&self) -> bool;
}

impl Kept for KeptRun {
    fn pid(&self) -> i32 {
        self.worker().pid()
    }

    fn served(&self) -> u64 {
        self.worker().served()
    }

    fn version(&self) -> usize {
        self.worker().version()
    }

    fn serves(&self, workflow: &Arc<Ready>) -> bool {
        self.worker().serves(workflow)
    }

    fn is_needed(&self) -> bool {
        self.worker().is_needed()
    }

    fn is_waiting(&self) -> bool {
        self.worker().is_waiting()
    }
}

/// The processes that wait.
pub(crate) struct KeptWorkers<R = KeptRun> {
    waiting: Mutex<VecDeque<Waiting<R>>>,
    /// The most that wait.
    limit: usize,
    seed: RandomState,
}

struct Waiting<R> {
    run: R,
    until: Instant,
}

impl<R: Kept> KeptWorkers<R> {
    /// None, and at most so many later.
    pub(crate) fn new(limit: usize) -> KeptWorkers<R> {
        KeptWorkers { waiting: Mutex::default(), limit: limit.max(1), seed: RandomState::new() }
    }

    /// One that serves this workflow: the one that was used last, whose memory is most likely in a cache.
    pub(crate) fn take(&self, workflow: &Arc<Ready>) -> Option<R> {
        self.take_at(workflow, Instant::now())
    }

    fn take_at(&self, workflow: &Arc<Ready>, now: Instant) -> Option<R> {
        loop {
            let mut waiting = self.lock();
            let index = waiting.iter().rposition(|waiting| waiting.run.serves(workflow))?;
            let taken = waiting.remove(index)?;
            drop(waiting);
            if taken.until > now && is_silent(&taken.run) {
                return Some(taken.run);
            }
        }
    }

    /// Keeps one. If there are too many then, one ends: of the workflow that has most, the one that has not been used for longest. Many calls of one
    /// workflow do not end what others have.
    pub(crate) fn put(&self, run: R) {
        self.put_at(run, Instant::now());
    }

    fn put_at(&self, run: R, now: Instant) {
        let spread = Duration::from_millis(self.spread(run.pid() as u64, run.served(), IDLE_MAX.as_millis() as u64));
        let until = now + IDLE_MAX - spread;
        let mut waiting = self.lock();
        waiting.push_back(Waiting { run, until });
        let too_many = waiting.len() > self.limit;
        let first = if too_many { first_of_most(waiting.iter().map(|waiting| waiting.run.version())) } else { None };
        let oldest = first.and_then(|index| waiting.remove(index));
        drop(waiting);
        // A process is killed without the lock.
        drop(oldest);
    }

    /// Whether a process that has served so many invocations may serve another one after the next.
    pub(crate) fn may_stay(&self, pid: i32, served: u64) -> bool {
        served + 1 < INVOCATIONS_MAX - self.spread(pid as u64, 0, INVOCATIONS_MAX)
    }

    /// Ends those that have waited for too long, whose workflow is gone or has another version, or that have said something.
    pub(crate) fn sweep(&self) {
        self.sweep_at(Instant::now());
    }

    fn sweep_at(&self, now: Instant) {
        let mut waiting = self.lock();
        let (stay, go) = std::mem::take(&mut *waiting)
            .into_iter()
            .partition(|waiting| waiting.until > now && waiting.run.is_needed() && is_silent(&waiting.run));
        *waiting = stay;
        drop(waiting);
        drop::<VecDeque<Waiting<R>>>(go);
    }

    /// Ends all of them.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// A part of `limit`, at most [`SPREAD`]'s: the same for the same numbers.
    fn spread(&self, pid: u64, number: u64, limit: u64) -> u64 {
        self.seed.hash_one((pid, number)) % (limit / SPREAD)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Waiting<R>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which is the first of those that are most often there; of several that are, the first.
fn first_of_most<T: Eq + Hash>(all: impl Iterator<Item = T>) -> Option<usize> {
    let mut counts: HashMap<T, (usize, usize)> = HashMap::new();
    for (index, one) in all.enumerate() {
        counts.entry(one).or_insert((0, index)).0 += 1;
    }
    let most = counts.into_values().max_by_key(|(count, index)| (*count, Reverse(*index)));
    most.map(|(_, index)| index)
}

/// Whether it waits. A process that has ended, or that speaks before it has a job, is killed when it is dropped.
fn is_silent(run: &impl Kept) -> bool {
    let silent = run.is_waiting();
    if !silent {
        tracing::warn!(pid = run.pid(), "killed: a process that waited for another invocation has ended or spoken");
    }
    silent
}

#[cfg(test)]
mod tests;
