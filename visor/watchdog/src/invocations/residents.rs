//! Processes that stay with invocations which wait.
//!
//! ```text
//! waits ─▶ checkpoint ─▶ [ least recently used | … | most recently used ] ─▶ its wait is over: goes on in its process
//!                          ended first: until the low watermark, once all have more memory than the high one
//! ```
//!
//! One that has stayed for long at one wait is ended by a sweep: what it has in memory may never be needed, and its checkpoint serves as well.
//!
//! Bounds of memory are looked at once the commit is made: to ask for the memory of a process takes some hundred microseconds. So that of one which was looked at a
//! moment ago counts as it was then, until a sweep.
//!
//! Nothing is lost with a process that is ended: what it stays with is its checkpoint, which is on the disk or is being written. So a process
//! is given up whenever there is a doubt, and the invocation is restored.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use monohull_durable::{Claim, InvocationId};
use monohull_engine::Ready;
use monohull_saved::Base;

use crate::settings::Residence;

/// What the bounds are about.
pub(crate) trait Process {
    /// Whether it is there, and has said nothing.
    fn is_there(&self) -> bool;

    /// Bytes of memory that it has for itself.
    fn memory(&self) -> u64;

    /// Its processor time so far, in ticks of 10 ms.
    fn processor_ticks(&self) -> u64;

    /// When its memory was looked at last, and what it was then.
    fn seen(&mut self) -> &mut Option<(Instant, u64)>;

    /// What gives both, also without the process at hand.
    fn gauge(&self) -> Gauge;
}

/// Gives the memory of a process, and its processor time.
pub(crate) type Gauge = Box<dyn FnOnce() -> (u64, u64) + Send>;

/// The most processor time of a process that stands still: it is not asked to do anything, and sends nothing. What runs all the same is not
/// what it says it is, and no limit of an invocation would end it.
const TICKS_MAX: u64 = 20;

/// One that goes on again and again is not looked at more often: that would take a tenth of the time of its waits.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A wait of an invocation. No two waits are the same, also if an id is used again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WaitOf {
    pub(crate) id: InvocationId,
    /// The claim in which it came to the wait.
    pub(crate) epoch: u64,
    pub(crate) generation: u64,
    /// The file of its checkpoint.
    pub(crate) checkpoint: String,
    /// What it was started with: among others when, and as which span of a trace.
    pub(crate) start: Arc<[u8]>,
}

impl WaitOf {
    /// Whether a claim is the next one after the wait, of an invocation that is where it was then.
    fn is_ended_by(&self, claim: &Claim) -> bool {
        let WaitOf { id, epoch, generation, checkpoint, start } = self;
        let file = claim.checkpoint.as_ref().map(|checkpoint| &checkpoint.file);
        let is_where = claim.generation == *generation && file == Some(checkpoint) && claim.start[..] == start[..];
        claim.held.id == *id && claim.held.epoch == epoch + 1 && is_where
    }
}

/// A process that stays with an invocation.
pub(crate) struct Resident<P> {
    pub(crate) of: WaitOf,
    pub(crate) process: P,
    /// The version of its workflow.
    pub(crate) ready: Arc<Ready>,
    /// The document of that.
    pub(crate) document: Bytes,
    /// Which of how many copies the invocation is.
    pub(crate) copy: (u32, u32),
    /// Whether its time is up when its process has it; if not, its checkpoint has none.
    pub(crate) keeps_deadline: bool,
    /// Its checkpoint, if the next one may take pages from that.
    pub(crate) base: Option<Base>,
    /// What it has of secrets and grants was read after that.
    pub(crate) since: Instant,
    /// When it came to the wait.
    pub(crate) waits_since: Instant,
    /// When the wait is over by itself (ns since 1970).
    pub(crate) due: Option<u64>,
}

impl<P> Resident<P> {
    /// Whether it has stayed for longer than it may. One that goes on within the same time again need not be restored for that.
    fn is_idle(&self, idle: Duration, now: u64) -> bool {
        let soon = now.saturating_add(u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX));
        self.waits_since.elapsed() >= idle && self.due.is_none_or(|due| due > soon)
    }
}

/// Why processes were ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ended {
    /// They were too many.
    pub(crate) number: u64,
    /// They had too much memory.
    pub(crate) memory: u64,
    /// They had stayed for long at one wait.
    pub(crate) idle: u64,
    /// They had ended by themselves, had spoken, or did not stand still.
    pub(crate) died: u64,
    /// Their invocations were changed.
    pub(crate) changed: u64,
}

/// The processes that stay.
pub(crate) struct Residents<P> {
    held: Mutex<Held<P>>,
    /// Without it there are none.
    bounds: Option<Residence>,
}

/// The memory of a process when it was looked at last.
#[derive(Clone, Copy)]
struct Looked {
    bytes: u64,
    /// Its processor time then, the first time; none if it was not looked at yet.
    ticks: Option<u64>,
    /// When it was put here it may not have freed the copy of its checkpoint. After that it does nothing, and has as much for ever.
    may_be_less: bool,
}

struct Held<P> {
    /// In the order of their last use, by a number that only rises.
    by_use: BTreeMap<u64, (Resident<P>, Looked)>,
    by_id: HashMap<InvocationId, u64>,
    next: u64,
    bytes: u64,
    /// When all were ended the last time.
    cleared: Option<Instant>,
}

impl<P: Process> Residents<P> {
    /// None, and later as many as the bounds permit.
    pub(crate) fn new(bounds: Option<Residence>) -> Residents<P> {
        let held = Held { by_use: BTreeMap::new(), by_id: HashMap::new(), next: 0, bytes: 0, cleared: None };
        Residents { held: Mutex::new(held), bounds }
    }

    /// Whether there may be any.
    pub(crate) fn is_on(&self) -> bool {
        self.bounds.is_some()
    }

    /// Keeps a process. Those that are too many then are ended, and so is this one if all others were while it ran.
    pub(crate) fn put(&self, resident: Resident<P>) -> Ended {
        let Some(bounds) = &self.bounds else { return Ended { number: 1, ..Ended::default() } };
        let mut ended = Ended::default();
        let mut gone = Vec::new();
        let mut held = self.lock();
        if held.is_outdated(resident.since) {
            // It is killed without the lock.
            drop(held);
            return Ended { changed: 1, ..Ended::default() };
        }
        let before = held.remove_of(&resident.of.id);
        ended.changed += u64::from(before.is_some());
        gone.extend(before);
        held.add(resident, Looked { bytes: 0, ticks: None, may_be_less: true });
        while held.by_use.len() > bounds.number {
            gone.extend(held.pop());
            ended.number += 1;
        }
        // Processes are killed without the lock.
        drop(held);
        ended
    }

    /// Looks at the memory of a process that is kept, if it is here still. If all have too much then, those that were not used for longest are
    /// ended.
    pub(crate) fn weigh(&self, wait: &WaitOf) -> Ended {
        self.look(wait, LOOK_EVERY)
    }

    /// The same. What was seen of it less than `again` ago counts.
    fn look(&self, wait: &WaitOf, again: Duration) -> Ended {
        let Some(bounds) = &self.bounds else { return Ended::default() };
        let known = {
            let mut held = self.lock();
            let Some(process) = held.process_of(wait) else { return Ended::default() };
            match *process.seen() {
                Some((at, bytes)) if at.elapsed() < again => Ok(bytes),
                _ => Err(process.gauge()),
            }
        };
        let (bytes, ticks) = match known {
            Ok(bytes) => (bytes, None),
            Err(gauge) => {
                let (bytes, ticks) = gauge();
                (bytes, Some(ticks))
            }
        };
        let mut ended = Ended::default();
        let mut gone = Vec::new();
        let mut held = self.lock();
        if ticks.is_some()
            && let Some(process) = held.process_of(wait)
        {
            *process.seen() = Some((Instant::now(), bytes));
        }
        held.note(wait, Looked { bytes, ticks, may_be_less: true });
        if held.bytes > bounds.high {
            // What counts as it was a moment ago was not looked at.
            held.look_again(wait, ticks.is_some());
        }
        if held.bytes > bounds.high {
            while held.bytes > bounds.low
                && let Some(oldest) = held.pop()
            {
                gone.push(oldest);
                ended.memory += 1;
            }
        }
        // Processes are killed without the lock.
        drop(held);
        ended
    }

    /// The process that stays with what was claimed, if there is one still. One with something else of the same name is ended.
    pub(crate) fn take(&self, claim: &Claim) -> (Option<Resident<P>>, Ended) {
        let found = self.lock().remove_of(&claim.held.id);
        let mut ended = Ended::default();
        let found = found.filter(|found| {
            let (is_of, is_there) = (found.of.is_ended_by(claim), found.process.is_there());
            ended.changed += u64::from(!is_of);
            ended.died += u64::from(is_of && !is_there);
            is_of && is_there
        });
        (found, ended)
    }

    /// Ends the process of an invocation that has changed.
    pub(crate) fn end(&self, id: &InvocationId) -> Ended {
        let found = self.lock().remove_of(id);
        Ended { changed: found.is_some().into(), ..Ended::default() }
    }

    /// Ends the process of this wait.
    pub(crate) fn end_of(&self, wait: &WaitOf) -> Ended {
        let mut held = self.lock();
        let is_there = held.find(&wait.id).is_some_and(|resident| resident.of == *wait);
        let found = if is_there { held.remove_of(&wait.id) } else { None };
        drop(held);
        Ended { changed: found.is_some().into(), ..Ended::default() }
    }

    /// Forgets those that have ended by themselves, and ends those that have spoken or do not stand still, and those that have stayed for long. Those
    /// that were not looked at since they wait are looked at. `now` is that of the wall clock (ns since 1970).
    pub(crate) fn sweep(&self, now: u64) -> Ended {
        let Some(bounds) = &self.bounds else { return Ended::default() };
        let mut held = self.lock();
        let rests = |(resident, looked): &(Resident<P>, Looked)| {
            resident.process.is_there()
                && looked.ticks.is_none_or(|ticks| resident.process.processor_ticks() <= ticks + TICKS_MAX)
        };
        let died = held.remove_if(|held| !rests(held));
        let idle = held.remove_if(|(resident, _)| resident.is_idle(bounds.idle, now));
        let is_unseen = |(_, looked): &&(Resident<P>, Looked)| looked.ticks.is_none();
        let unseen: Vec<_> = held.by_use.values().filter(is_unseen).map(|(resident, _)| resident.of.clone()).collect();
        // Processes are killed without the lock.
        drop(held);
        let gone = Ended { died: died.len() as u64, idle: idle.len() as u64, ..Ended::default() };
        drop((died, idle));
        let memory = unseen.iter().map(|wait| self.look(wait, Duration::ZERO).memory).sum();
        Ended { memory, ..gone }
    }

    /// Whether all were ended after `since`: what has been read before that must not be used any longer.
    pub(crate) fn is_outdated(&self, since: Instant) -> bool {
        self.lock().is_outdated(since)
    }

    /// Ends all of them, and from now on each whose run has begun before.
    pub(crate) fn clear(&self) -> Ended {
        let mut held = self.lock();
        held.cleared = Some(Instant::now());
        let all = std::mem::take(&mut held.by_use);
        held.by_id.clear();
        held.bytes = 0;
        drop(held);
        Ended { changed: all.len() as u64, ..Ended::default() }
    }

    /// How many there are, and their memory.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let held = self.lock();
        (held.by_use.len() as u64, held.bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Held<P>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Process> Held<P> {
    fn is_outdated(&self, since: Instant) -> bool {
        self.cleared.is_some_and(|cleared| since <= cleared)
    }

    fn add(&mut self, resident: Resident<P>, looked: Looked) {
        self.by_id.insert(resident.of.id.clone(), self.next);
        self.by_use.insert(self.next, (resident, looked));
        self.next += 1;
        self.bytes += looked.bytes;
    }

    /// Notes what was seen of the process of a wait, if it is here still.
    fn note(&mut self, wait: &WaitOf, seen: Looked) {
        let used = self.by_id.get(&wait.id).copied();
        let held = used.and_then(|used| self.by_use.get_mut(&used)).filter(|(resident, _)| resident.of == *wait);
        if let Some((_, looked)) = held {
            self.bytes = self.bytes - looked.bytes + seen.bytes;
            *looked = seen;
        }
    }

    fn process_of(&mut self, wait: &WaitOf) -> Option<&mut P> {
        let used = self.by_id.get(&wait.id)?;
        let (resident, _) = self.by_use.get_mut(used)?;
        (resident.of == *wait).then_some(&mut resident.process)
    }

    fn find(&self, id: &InvocationId) -> Option<&Resident<P>> {
        self.by_id.get(id).and_then(|used| self.by_use.get(used)).map(|(resident, _)| resident)
    }

    fn remove_of(&mut self, id: &InvocationId) -> Option<Resident<P>> {
        let used = *self.by_id.get(id)?;
        self.remove(used)
    }

    fn remove(&mut self, used: u64) -> Option<Resident<P>> {
        let (resident, looked) = self.by_use.remove(&used)?;
        self.by_id.remove(&resident.of.id);
        self.bytes -= looked.bytes;
        Some(resident)
    }

    /// Takes those of which this is true.
    fn remove_if(&mut self, is_one: impl Fn(&(Resident<P>, Looked)) -> bool) -> Vec<Resident<P>> {
        let found: Vec<u64> = self.by_use.iter().filter(|(_, held)| is_one(held)).map(|(used, _)| *used).collect();
        found.into_iter().filter_map(|used| self.remove(used)).collect()
    }

    /// Takes the one that was not used for longest.
    fn pop(&mut self) -> Option<Resident<P>> {
        let used = *self.by_use.keys().next()?;
        self.remove(used)
    }

    /// Looks at the memory of those once more that may have less than they had; but for those that were not looked at yet, which count as nothing, and for
    /// that of this wait, which has just come here, if it `was_looked_at` now.
    fn look_again(&mut self, wait: &WaitOf, was_looked_at: bool) {
        for (resident, looked) in self.by_use.values_mut() {
            let is_this = resident.of == *wait;
            if !looked.may_be_less || looked.bytes == 0 || (is_this && was_looked_at) {
                continue;
            }
            let bytes = resident.process.memory();
            *resident.process.seen() = Some((Instant::now(), bytes));
            // That which has just come here may not have freed its copy yet.
            *looked = Looked { bytes, may_be_less: is_this, ..*looked };
        }
        self.bytes = self.by_use.values().map(|(_, looked)| looked.bytes).sum();
    }
}

#[cfg(test)]
mod tests;
