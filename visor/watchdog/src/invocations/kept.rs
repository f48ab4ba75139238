//! Processes that wait for another invocation of their workflow.
//!
//! ```text
//! ended as done ─▶ resetting ─▶ [ least recently used | … | most recently used ] ─▶ invocation of the same workflow
//!                                 goes first, of the workflow             idle for too long, workflow changed, said something: killed
//!                                 that has most, when they are too many;
//!                                 of those with more than their share of
//!                                 memory, when they have too much
//! ```
//!
//! Their memory is looked at by a task of its own, a second after one has come: that takes longer than a small workflow runs. What is known of a process goes with it when it
//! serves another invocation.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

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
    /// Bytes of memory that it had for itself when that was looked at last; 0 if it was not.
    fn bytes(&mut self) -> &mut u64;
    /// What looks at that, also without the process at hand.
    fn gauge(&self) -> Gauge;
}

/// Gives the memory of a process.
pub(crate) type Gauge = Box<dyn FnOnce() -> u64 + Send>;

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

    fn bytes(&mut self) -> &mut u64 {
        &mut self.bytes
    }

    fn gauge(&self) -> Gauge {
        let gauge = self.worker().gauge();
        Box::new(move || gauge.private_memory())
    }
}

/// How many processes have ended because there were too many, or because they had too much memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Excess {
    pub(crate) number: u64,
    pub(crate) memory: u64,
}

/// The processes that wait.
pub(crate) struct KeptWorkers<R = KeptRun> {
    row: Mutex<Row<R>>,
    /// The most that wait.
    limit: usize,
    /// The most bytes of all that wait. 0: none does.
    memory: u64,
    /// One waits whose memory is to be looked at.
    unseen: Notify,
    seed: RandomState,
}

/// Those that wait, the one that was not used for longest first.
struct Row<R> {
    waiting: VecDeque<Waiting<R>>,
    /// What is known of the memory of all of them.
    bytes: u64,
}

struct Waiting<R> {
    run: R,
    until: Instant,
    /// Its memory was looked at since it waits, or is being looked at.
    is_seen: bool,
}

impl<R: Kept> KeptWorkers<R> {
    /// None, and at most so many later, with at most so many bytes of memory.
    pub(crate) fn new(limit: usize, memory: u64) -> KeptWorkers<R> {
        let row = Mutex::new(Row { waiting: VecDeque::new(), bytes: 0 });
        KeptWorkers { row, limit: limit.max(1), memory, unseen: Notify::new(), seed: RandomState::new() }
    }

    /// One that serves this workflow: the one that was used last, whose memory is most likely in a cache.
    pub(crate) fn take(&self, workflow: &Arc<Ready>) -> Option<R> {
        self.take_at(workflow, Instant::now())
    }

    fn take_at(&self, workflow: &Arc<Ready>, now: Instant) -> Option<R> {
        loop {
            let mut row = self.lock();
            let index = row.waiting.iter().rposition(|waiting| waiting.run.serves(workflow))?;
            let taken = row.remove(index)?;
            drop(row);
            if taken.until > now && is_silent(&taken.run) {
                return Some(taken.run);
            }
        }
    }

    /// Keeps one. If there are too many then, one ends: of the workflow that has most, the one that has not been used for longest. Many calls of one
    /// workflow do not end what others have.
    pub(crate) fn put(&self, run: R) -> Excess {
        self.put_at(run, Instant::now())
    }

    fn put_at(&self, mut run: R, now: Instant) -> Excess {
        let spread = Duration::from_millis(self.spread(run.pid() as u64, run.served(), IDLE_MAX.as_millis() as u64));
        let until = now + IDLE_MAX - spread;
        let mut row = self.lock();
        row.bytes += *run.bytes();
        row.waiting.push_back(Waiting { run, until, is_seen: false });
        let too_many = row.waiting.len() > self.limit;
        let of_number = if too_many { row.remove_of_most() } else { None };
        let of_memory = row.lighten(self.memory);
        drop(row);
        self.unseen.notify_one();
        let excess = Excess { number: of_number.is_some().into(), memory: of_memory.len() as u64 };
        // Processes are killed without the lock.
        drop((of_number, of_memory));
        excess
    }

    /// Waits until one has come whose memory is to be [looked at](Self::weigh).
    pub(crate) async fn unseen(&self) {
        self.unseen.notified().await;
    }

    /// Looks at the memory of those that was not looked at since they wait. While all together have too much, the one ends that has not been used for longest, of the
    /// workflows that have more than their share: that is the same for each. So large processes of one workflow do not end small ones of another.
    pub(crate) fn weigh(&self) -> Excess {
        let mut excess = Excess::default();
        while let Some((which, gauge)) = { self.lock().next_unseen() } {
            // It may serve an invocation meanwhile, and then that was not looked at.
            let bytes = gauge();
            let mut row = self.lock();
            row.note(which, bytes);
            let gone = row.lighten(self.memory);
            drop(row);
            excess.memory += gone.len() as u64;
        }
        excess
    }

    /// Whether a process that has served so many invocations may serve another one after the next.
    pub(crate) fn may_stay(&self, pid: i32, served: u64) -> bool {
        self.memory > 0 && served + 1 < INVOCATIONS_MAX - self.spread(pid as u64, 0, INVOCATIONS_MAX)
    }

    /// Ends those that have waited for too long, whose workflow is gone or has another version, or that have said something.
    pub(crate) fn sweep(&self) {
        self.sweep_at(Instant::now());
    }

    fn sweep_at(&self, now: Instant) {
        let mut row = self.lock();
        let (stay, go) = row
            .take()
            .into_iter()
            .partition(|waiting| waiting.until > now && waiting.run.is_needed() && is_silent(&waiting.run));
        row.waiting = stay;
        row.bytes = row.waiting.iter_mut().map(|waiting| *waiting.run.bytes()).sum();
        drop(row);
        drop::<VecDeque<Waiting<R>>>(go);
    }

    /// Ends all of them.
    pub(crate) fn clear(&self) {
        let all = self.lock().take();
        drop(all);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// What is known of their memory, and the most that it may be.
    pub(crate) fn memory(&self) -> (u64, u64) {
        (self.lock().bytes, self.memory)
    }

    /// A part of `limit`, at most [`SPREAD`]'s: the same for the same numbers.
    fn spread(&self, pid: u64, number: u64, limit: u64) -> u64 {
        self.seed.hash_one((pid, number)) % (limit / SPREAD)
    }

    fn lock(&self) -> MutexGuard<'_, Row<R>> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Kept> Row<R> {
    fn remove(&mut self, index: usize) -> Option<Waiting<R>> {
        let mut removed = self.waiting.remove(index)?;
        self.bytes -= *removed.run.bytes();
        Some(removed)
    }

    fn take(&mut self) -> VecDeque<Waiting<R>> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Takes one: of the workflow that has most of them, the one that was not used for longest.
    fn remove_of_most(&mut self) -> Option<Waiting<R>> {
        let first = first_of_most(self.waiting.iter().map(|waiting| waiting.run.version()));
        first.and_then(|index| self.remove(index))
    }

    /// Takes as many as it takes for the others to have at most so many bytes.
    fn lighten(&mut self, most: u64) -> Vec<Waiting<R>> {
        let mut gone = Vec::new();
        while self.bytes > most {
            let all: Vec<_> =
                self.waiting.iter_mut().map(|waiting| (waiting.run.version(), *waiting.run.bytes())).collect();
            let Some(mut waiting) = first_above_share(&all, most).and_then(|index| self.remove(index)) else { break };
            let (pid, bytes, left) = (waiting.run.pid(), *waiting.run.bytes(), self.bytes);
            tracing::info!(
                pid,
                bytes,
                left,
                most,
                "ended: processes that wait for another invocation had too much memory"
            );
            gone.push(waiting);
        }
        gone
    }

    /// One whose memory was not looked at since it waits: which, and what looks at it.
    fn next_unseen(&mut self) -> Option<((i32, u64), Gauge)> {
        let waiting = self.waiting.iter_mut().find(|waiting| !waiting.is_seen)?;
        waiting.is_seen = true;
        Some(((waiting.run.pid(), waiting.run.served()), waiting.run.gauge()))
    }

    /// Notes the memory of a process that has served so many invocations, if it waits still.
    fn note(&mut self, which: (i32, u64), bytes: u64) {
        let is_it = |waiting: &&mut Waiting<R>| (waiting.run.pid(), waiting.run.served()) == which;
        if let Some(waiting) = self.waiting.iter_mut().find(is_it) {
            let before = std::mem::replace(waiting.run.bytes(), bytes);
            self.bytes = self.bytes - before + bytes;
        }
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

/// Which has more than `most` by itself; else the first of those whose kind has more than its share of that, which is the same for each, and that has any bytes.
fn first_above_share<T: Eq + Hash>(all: &[(T, u64)], most: u64) -> Option<usize> {
    let mut sums: HashMap<&T, u64> = HashMap::new();
    for (kind, bytes) in all {
        *sums.entry(kind).or_default() += bytes;
    }
    let share = most / sums.len().max(1) as u64;
    let is_too_large = |(_, bytes): &(T, u64)| *bytes > most;
    let is_above = |(kind, bytes): &(T, u64)| *bytes > 0 && sums[kind] > share;
    all.iter().position(is_too_large).or_else(|| all.iter().position(is_above))
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
