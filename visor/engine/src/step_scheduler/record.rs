//! The state of a run as plain data, for its continuation, and back.
//!
//! What follows from the rest is not kept: which steps have ended, what they block, how many instances are open. A changed
//! record can change what a run has printed, how often it tried and whether it was told to end, and nothing else: a state that no run can have is refused.

use super::effects::Serving;
use super::timeline::Timeline;
use super::{Attempt, BEGIN, FAILED_KEPT_MAX, State, StepScheduler, token};
use monohull_abi::effect::{EFFECT_DEPTH_MAX, PERFORMS_TOGETHER, PerformId};
use monohull_domain::checkpoint::Continuation;
use monohull_domain::host_time::{monotonic_ns, wall_ns};
use monohull_domain::instance::{InstanceConfig, Usage};
use monohull_domain::{Domain, Handled, Shared};
use monohull_report::{FailedAttempt, Failure, Line, Suspensions};
use monohull_workflow::plan::Instances;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// Raised when the record changes.
const VERSION: u32 = 1;
/// More attempts than any run has.
const ATTEMPTS_MAX: u32 = 1 << 30;

/// The state of a run.
#[derive(Serialize, Deserialize)]
struct Record {
    version: u32,
    /// From the request to the capture.
    elapsed_us: u64,
    steps: Vec<StepRecord>,
    /// Steps with instances that the domain does not have yet, the next first.
    queue: Vec<usize>,
    /// Attempts that were followed by another: step, instance, and what is reported of them.
    failed: Vec<(usize, u32, Vec<FailedAttempt>)>,
    /// What handlers of effects are doing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    serving: Vec<ServingRecord>,
    /// How often it had gone on from an earlier capture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    suspended: Option<Suspensions>,
    /// Moments that its report names, by the wall clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    timeline: Vec<(String, u64)>,
    /// From the request to the first instruction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cold_start_us: Option<u64>,
    /// Whether a function had taken the event that tells the workflow to end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    told_to_end: bool,
}

/// What one does.
#[derive(Serialize, Deserialize)]
struct ServingRecord {
    step: usize,
    index: u32,
    request: u64,
    depth: u32,
    cancelled: bool,
}

#[derive(Serialize, Deserialize)]
struct StepRecord {
    started: bool,
    next: u32,
    instances: Vec<InstanceRecord>,
    #[serde(default, skip_serializing_if = "is_none")]
    handled: u64,
}

fn is_none(handled: &u64) -> bool {
    *handled == 0
}

#[derive(Serialize, Deserialize)]
struct InstanceRecord {
    attempts: u32,
    failures: u32,
    last: Option<LastRecord>,
    before: Option<Spent>,
    lines: Vec<Line>,
    lines_dropped: bool,
}

/// The last attempt, if it has ended.
#[derive(Serialize, Deserialize)]
struct LastRecord {
    id: u32,
    result: Result<(), Box<Failure>>,
    bytes_in: u64,
    bytes_out: u64,
}

/// What an attempt used before its run was captured, in µs: ticks mean nothing in another process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Spent {
    /// From the request to its first instruction.
    pub(super) start_us: u64,
    /// Mapping and relocating.
    pub(super) load_us: u64,
    /// On carriers.
    pub(super) run_us: u64,
    /// Parked.
    pub(super) park_us: u64,
}

/// The state of a run cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It cannot be read.
    #[error("the state of its run cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// Another version wrote it.
    #[error("the state of its run has version {0}, which this version of Monohull does not know")]
    Version(u32),
    /// It does not belong to this workflow.
    #[error("the state of its run does not fit the workflow: {0}")]
    Unfit(&'static str),
}

impl State {
    /// The state, while these instances live and have used so much.
    pub(super) fn save(&mut self, live: &[(u64, Usage)], domain: &Shared) -> Vec<u8> {
        let scale = self.clock.scale();
        let live: HashMap<u64, &Usage> = live.iter().map(|(token, usage)| (*token, usage)).collect();
        let spent = |usage: &Usage, before: Option<Spent>| Spent {
            start_us: before.map_or_else(|| self.taken_until(&scale, usage.started), |b| b.start_us),
            load_us: before.map_or(0, |b| b.load_us) + scale.us(usage.load),
            run_us: before.map_or(0, |b| b.run_us) + scale.us(usage.run),
            park_us: before.map_or(0, |b| b.park_us) + scale.us(usage.park),
        };
        let steps = self.steps.iter().enumerate().map(|(step, state)| {
            let instances = (0..).zip(&state.instances).map(|(index, instance)| {
                let usage = live.get(&token(step, index)).copied();
                let usage = usage.or(instance.last.as_ref().map(|last| &last.usage));
                InstanceRecord {
                    attempts: instance.attempts,
                    failures: instance.failures,
                    last: instance.last.as_ref().map(|last| LastRecord {
                        id: last.id,
                        result: last.result.clone(),
                        bytes_in: last.usage.bytes_in,
                        bytes_out: last.usage.bytes_out,
                    }),
                    before: usage.map(|usage| spent(usage, instance.before)),
                    lines: instance.lines.clone(),
                    lines_dropped: instance.lines_dropped,
                }
            });
            StepRecord {
                started: state.started,
                next: state.next,
                instances: instances.collect(),
                handled: state.handled,
            }
        });
        let steps = steps.collect();
        let record = Record {
            version: VERSION,
            elapsed_us: self.taken_until(&scale, monohull_domain::host_time::ticks()),
            steps,
            queue: self.queue.iter().copied().collect(),
            failed: self.failed.iter().map(|((step, index), failed)| (*step, *index, failed.clone())).collect(),
            serving: self.serving.iter().map(ServingRecord::of).collect(),
            suspended: self.suspended.if_any(),
            timeline: self.timeline.with(&scale, domain).record(),
            cold_start_us: Some(self.cold_start(&scale, domain.first_entry())).filter(|us| *us > 0),
            told_to_end: self.is_told_to_end(domain),
        };
        serde_json::to_vec(&record).expect("plain data is always JSON")
    }

    /// Takes the state of a captured run over, if it fits this workflow and the instances of the continuation.
    fn restore<P>(&mut self, continuation: &Continuation<P>) -> Result<(), StateError> {
        let record: Record = serde_json::from_slice(&continuation.driver)?;
        if record.version != VERSION {
            return Err(StateError::Version(record.version));
        }
        if record.steps.len() != self.steps.len() {
            return Err(StateError::Unfit("it has other steps"));
        }
        let told = record.told_to_end;
        self.told_to_end = told;
        let plan = self.plan.clone();
        for ((state, step), record) in self.steps.iter_mut().zip(&plan.steps).zip(record.steps) {
            let count = record.instances.len();
            let fits = match &step.instances {
                _ if step.handles.is_some() => {
                    count <= 2 * PERFORMS_TOGETHER && record.started == (count > 0) && record.next as usize == count
                }
                Instances::Fixed(fixed) => count == *fixed as usize || count == 0 && !record.started,
                Instances::Each { max, .. } => count <= *max as usize,
            };
            let counted = |instance: &InstanceRecord| instance.attempts.max(instance.failures) <= ATTEMPTS_MAX;
            if !fits || record.next as usize > count || !record.instances.iter().all(counted) {
                return Err(StateError::Unfit("a step has other instances"));
            }
            (state.started, state.next, state.handled) = (record.started, record.next, record.handled);
            state.instances = record.instances.into_iter().map(InstanceRecord::into_state).collect();
            let open = state.instances.iter().filter(|instance| !instance.is_over(told)).count() as u32;
            state.open = if step.handles.is_some() { 0 } else { open };
        }
        self.restore_serving(record.serving, continuation)?;
        let pauses = continuation.scheduler.timers.iter().filter(|(_, token)| *token == BEGIN).count();
        if pauses > 1 {
            return Err(StateError::Unfit("it begins more than once"));
        }
        self.restore_order(pauses == 0)?;
        self.restore_queue(record.queue)?;
        self.restore_handed_over(continuation)?;
        let kept = record.failed.iter().map(|(_, _, failed)| failed.len()).sum();
        let known = |(step, index, _): &(usize, u32, Vec<_>)| {
            self.steps.get(*step).is_some_and(|step| (*index as usize) < step.instances.len())
        };
        if kept > FAILED_KEPT_MAX || !record.failed.iter().all(known) {
            return Err(StateError::Unfit("it has failed attempts of unknown instances"));
        }
        self.failed_kept = kept;
        self.failed = BTreeMap::from_iter(record.failed.into_iter().map(|(step, index, all)| ((step, index), all)));
        self.elapsed_us = record.elapsed_us;
        let now = Instant::now();
        self.begin = now.checked_sub(Duration::from_micros(record.elapsed_us)).unwrap_or(now);
        self.suspended = record.suspended.unwrap_or_default();
        // A clock that was set back does not make it a time that was not.
        self.suspended.add(Duration::from_nanos(wall_ns().saturating_sub(continuation.wall)));
        self.gone_on = Some(monotonic_ns());
        self.timeline = Timeline::of(&record.timeline).ok_or(StateError::Unfit("it has moments that no run has"))?;
        self.cold_start_us = record.cold_start_us;
        Ok(())
    }

    /// Steps have started whose predecessors have ended, and no others; none before the run has `begun` again. Of a workflow that was told to end
    /// some of these may not have.
    fn restore_order(&mut self, begun: bool) -> Result<(), StateError> {
        let ended: Vec<bool> = self.steps.iter().map(|step| step.started && step.open == 0).collect();
        let plan = self.plan.clone();
        for (state, step) in self.steps.iter_mut().zip(&plan.steps) {
            state.blocked_by = step.after.iter().filter(|before| !ended[**before]).count();
            let may_start = begun && state.blocked_by == 0;
            let fits = if self.told_to_end { may_start || !state.started } else { state.started == may_start };
            if step.handles.is_none() && !fits {
                return Err(StateError::Unfit("its steps are in an impossible order"));
            }
        }
        self.open_steps =
            ended.iter().zip(&plan.steps).filter(|(ended, step)| !**ended && step.handles.is_none()).count();
        match self.open_steps {
            0 => Err(StateError::Unfit("all of its steps have ended")),
            _ => Ok(()),
        }
    }

    /// Each handler that does something is an instance of its step, and handles the request of an instance that lives, or that has ended.
    fn restore_serving<P>(
        &mut self,
        serving: Vec<ServingRecord>,
        continuation: &Continuation<P>,
    ) -> Result<(), StateError> {
        let mut seen = HashSet::new();
        for record in serving {
            let known = self.steps.get(record.step).is_some_and(|step| (record.index as usize) < step.instances.len());
            let id = PerformId::from_raw(record.request)
                .filter(|id| known && self.is_handler(record.step) && seen.insert(*id));
            let id = id.ok_or(StateError::Unfit("a handler serves nothing that it can"))?;
            let handled = Handled { id, depth: record.depth };
            let serving = Serving { handled, cancelled: record.cancelled };
            if self.serving.insert((record.step, record.index), serving).is_some() {
                return Err(StateError::Unfit("a handler serves two requests"));
            }
        }
        let depths: HashMap<u64, u32> =
            self.serving.iter().map(|((step, index), serving)| (token(*step, *index), serving.handled.depth)).collect();
        for Serving { handled, cancelled } in self.serving.values() {
            let asker = continuation.instances.iter().find(|instance| instance.id == handled.id.asker);
            let depth = asker.map(|asker| depths.get(&asker.token).copied().unwrap_or(0) + 1);
            let fits = if *cancelled { depth.is_none() } else { depth == Some(handled.depth) };
            if !fits || !(1..=EFFECT_DEPTH_MAX).contains(&handled.depth) {
                return Err(StateError::Unfit("a handler serves an instance that does not wait for it"));
            }
        }
        Ok(())
    }

    fn restore_queue(&mut self, queue: Vec<usize>) -> Result<(), StateError> {
        let waits = |step: &super::StepState| step.started && (step.next as usize) < step.instances.len();
        let wanted: HashSet<usize> =
            self.steps.iter().enumerate().filter(|(_, step)| waits(step)).map(|(index, _)| index).collect();
        let queued: HashSet<usize> = queue.iter().copied().collect();
        if queued != wanted || queue.len() != wanted.len() {
            return Err(StateError::Unfit("its queue does not have the steps that wait"));
        }
        self.queue = VecDeque::from(queue);
        Ok(())
    }

    /// Each instance that was handed over and has not succeeded lives, waits for a place, or waits for its next attempt.
    fn restore_handed_over<P>(&mut self, continuation: &Continuation<P>) -> Result<(), StateError> {
        let live = continuation.instances.iter().map(|instance| (instance.token, instance.attempt));
        let domains: Vec<(u64, u32)> = live.chain(continuation.pending.iter().copied()).collect();
        let timers = continuation.scheduler.timers.iter().map(|(_, token)| *token).filter(|token| *token != BEGIN);
        let tokens: Vec<u64> = domains.iter().map(|(token, _)| *token).chain(timers).collect();
        let mut open = HashSet::new();
        for (step, state) in self.steps.iter().enumerate() {
            let handed = (0..state.next).filter(|index| match self.is_handler(step) {
                true => self.serving.contains_key(&(step, *index)),
                false => !state.instances[*index as usize].is_over(self.told_to_end),
            });
            open.extend(handed.filter(|_| state.started).map(|index| token(step, index)));
        }
        if open != tokens.iter().copied().collect() || open.len() != tokens.len() {
            return Err(StateError::Unfit("its instances are not those of the domain"));
        }
        self.handed_over = domains.len();
        Ok(())
    }
}

impl ServingRecord {
    fn of(((step, index), serving): (&(usize, u32), &Serving)) -> ServingRecord {
        let Serving { handled: Handled { id, depth }, cancelled } = *serving;
        ServingRecord { step: *step, index: *index, request: id.to_raw(), depth, cancelled }
    }
}

impl InstanceRecord {
    fn into_state(self) -> super::InstanceState {
        let last = self.last.map(|LastRecord { id, result, bytes_in, bytes_out }| Attempt {
            id,
            result,
            usage: Usage { bytes_in, bytes_out, ..Usage::default() },
        });
        super::InstanceState {
            attempts: self.attempts,
            failures: self.failures,
            last,
            before: self.before,
            lines: self.lines,
            lines_dropped: self.lines_dropped,
        }
    }
}

impl super::InstanceState {
    /// Whether it has succeeded.
    fn is_done(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.result.is_ok())
    }

    /// The same, or of a workflow that was told to end that it is not begun.
    fn is_over(&self, told_to_end: bool) -> bool {
        self.is_done() || told_to_end && self.is_taken_back()
    }
}

impl StepScheduler {
    /// Takes the state of a captured run over.
    pub(in crate::step_scheduler) fn restore_state<P>(&self, continuation: &Continuation<P>) -> Result<(), StateError> {
        self.lock().restore(continuation)
    }

    /// Enters the requests of a captured run that are being handled.
    pub(crate) fn reopen_requests(&self, domain: &Domain) {
        self.lock().open_requests().into_iter().for_each(|id| domain.reopen_performed(id));
    }

    /// What the plan says of a captured instance, if it is one of the run's and at this attempt.
    pub(crate) fn config(&self, of: u64, attempt: u32) -> Option<InstanceConfig> {
        let state = self.lock();
        let (step, index) = super::parts(of);
        let instance = state.steps.get(step)?.instances.get(index as usize)?;
        (instance.attempts == attempt).then(|| state.config(step, index))
    }
}
