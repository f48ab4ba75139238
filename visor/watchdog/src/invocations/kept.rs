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

/// The processes that wait.
pub(crate) struct KeptWorkers {
    waiting: Mutex<VecDeque<Waiting>>,
    /// The most that wait.
    limit: usize,
    seed: RandomState,
}

struct Waiting {
    run: KeptRun,
    until: Instant,
}

impl KeptWorkers {
    /// None, and at most so many later.
    pub(crate) fn new(limit: usize) -> KeptWorkers {
        KeptWorkers { waiting: Mutex::default(), limit: limit.max(1), seed: RandomState::new() }
    }

    /// One that serves this workflow: the one that was used last, whose memory is most likely in a cache.
    pub(crate) fn take(&self, workflow: &Arc<Ready>) -> Option<KeptRun> {
        loop {
            let mut waiting = self.lock();
            let index = waiting.iter().rposition(|waiting| waiting.run.worker().serves(workflow))?;
            let taken = waiting.remove(index)?;
            drop(waiting);
            if taken.until > Instant::now() && is_silent(&taken.run) {
                return Some(taken.run);
            }
        }
    }

    /// Keeps one. If there are too many then, one ends: of the workflow that has most, the one that has not been used for longest. Many calls of one
    /// workflow do not end what others have.
    pub(crate) fn put(&self, run: KeptRun) {
        let pid = run.worker().pid() as u64;
        let spread = Duration::from_millis(self.spread(pid, run.worker().served(), IDLE_MAX.as_millis() as u64));
        let until = Instant::now() + IDLE_MAX - spread;
        let mut waiting = self.lock();
        waiting.push_back(Waiting { run, until });
        let too_many = waiting.len() > self.limit;
        let first =
            if too_many { first_of_most(waiting.iter().map(|waiting| waiting.run.worker().version())) } else { None };
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
        let now = Instant::now();
        let mut waiting = self.lock();
        let (stay, go) = std::mem::take(&mut *waiting)
            .into_iter()
            .partition(|waiting| waiting.until > now && waiting.run.worker().is_needed() && is_silent(&waiting.run));
        *waiting = stay;
        drop(waiting);
        drop::<VecDeque<Waiting>>(go);
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

    fn lock(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
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
fn is_silent(run: &KeptRun) -> bool {
    let silent = run.worker().is_waiting();
    if !silent {
        tracing::warn!(
            pid = run.worker().pid(),
            "killed: a process that waited for another invocation has ended or spoken"
        );
    }
    silent
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that began together end one after the other, and none has more invocations than there may be, or waits for longer.
    #[test]
    fn processes_are_retired_at_different_times_within_the_limits() {
        let kept = KeptWorkers::new(1);
        let last = |pid| (0..INVOCATIONS_MAX).find(|served| !kept.may_stay(pid, *served)).expect("it ends") + 1;
        let served: Vec<u64> = (1..=100).map(last).collect();
        let least = INVOCATIONS_MAX - INVOCATIONS_MAX / SPREAD;
        assert!(served.iter().all(|count| (least..=INVOCATIONS_MAX).contains(count)), "{served:?}");
        assert_eq!(last(1), last(1), "it is the same for the same process");
        let different: std::collections::HashSet<_> = served.iter().collect();
        assert!(different.len() > 50, "{served:?}");
        let idle = IDLE_MAX.as_millis() as u64;
        let earlier: Vec<u64> = (1..=100).map(|pid| kept.spread(pid, 7, idle)).collect();
        assert!(earlier.iter().all(|less| *less < idle / SPREAD), "{earlier:?}");
    }

    #[test]
    fn the_workflow_that_has_most_gives_one_up_and_of_that_the_one_unused_for_longest() {
        for (all, first) in
            [("", None), ("a", Some(0)), ("abbb", Some(1)), ("babcb", Some(0)), ("cabba", Some(1)), ("abcd", Some(0))]
        {
            assert_eq!(first_of_most(all.chars()), first, "{all}");
        }
    }
}
