//! From a domain at rest to its continuation.

use super::changes::{Found, Parts};
use super::check::{Rejected, check};
use super::file_pages::{self, Unreadable};
use super::record::{Continuation, InstanceRecord, MappedRecord, ModuleRecord, RangeState, ThreadRecord, ThreadState};
use super::{Suspended, names, pages};
use crate::address_space::{Access, AddressSpaceError};
use crate::driver::Driver;
use crate::host_time::monotonic_ns;
use crate::hostcall::RecordError;
use crate::instance::{Instance, Usage};
use crate::ranges::joined;
use crate::sched::{Resources, Scheduler, Unfit};
use crate::shared::Shared;
use monohull_abi::effect::{EffectPart, EffectSlot};
use monohull_abi::event::EVENT_SEPARATOR;
use monohull_abi::event::{CANCEL_EVENT, CHILD_EVENT};
use monohull_abi::layout::CELL_SIZE;
use monohull_abi::module::NEVER;
use monohull_abi::number;
use monohull_report::escape::shown;
use monohull_sys::written_pages::Mappings;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A domain cannot be captured as it is.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum CaptureError {
    #[error("{instance} is in a call that cannot be captured: {call}")]
    Call { instance: String, call: String },
    #[error("thread {thread:#x} of {instance} has its stack pointer outside its stack, or not aligned")]
    StackPointer { instance: String, thread: u32 },
    #[error("{instance} has mapped {}, which cannot be read", shown(path))]
    MappedFile { instance: String, path: String },
    #[error("pages of a file of the module {module} cannot be read: the host has no memory for them")]
    File { module: String },
    #[error("memory of {instance} that came with its checkpoint cannot be read: {source}")]
    Unread { instance: String, source: std::io::Error },
    #[error("{instance} has mapped memory that it has made inaccessible, which cannot be read: {source}")]
    HiddenMemory { instance: String, source: AddressSpaceError },
    #[error("{instance} has checkpoints of its own, which would not be gone back to in another process")]
    Checkpoints { instance: String },
    #[error("{instance} waits for a slot or an event whose name is no longer in its memory")]
    Name { instance: String },
    #[error("{instance} is being ended")]
    Ending { instance: String },
    #[error("it is in a state that cannot be gone on with: {0}")]
    Unfit(#[from] Rejected),
    #[error(transparent)]
    Module(#[from] RecordError),
    #[error("there are no random bytes: {0}")]
    Random(std::io::Error),
}

/// What the domain does after a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    /// It ends. All pages are in the capture, but for those that it has not read since it has gone on from another.
    Ends,
    /// It stands still, and may go on. The same; if they are many, pages that are as in the last capture from which it has gone on are left out, too.
    Stays,
    /// It goes on. Pages that are as in the last capture which was kept are left out.
    GoesOn,
}

/// What threads of an instance wait for.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Wait {
    /// Its step, and which of the step's instances it is.
    pub step: String,
    /// See `step`.
    pub index: u32,
    /// Its function.
    pub function: String,
    /// A description of what is waited for.
    pub what: String,
    /// The name of the event, if it is one.
    pub event: Option<String>,
    /// The end of the wait (wall clock, ns since 1970), if it has one.
    pub until: Option<u64>,
}

impl Shared {
    /// Captures the domain. Nothing runs, and the scheduler's lock is held. The domain stays as it is.
    pub(super) fn capture(
        &self,
        scheduler: &Scheduler<Arc<Instance>>,
        driver: Option<&mut (dyn Driver + 'static)>,
        then: Then,
    ) -> Result<Suspended, CaptureError> {
        let begin = monotonic_ns();
        let (clock, wall) = (self.clock.now(), self.clock.wall());
        let in_domain_time = |at| self.clock.of_host(at);
        let (mut threads, order) = scheduler.record(in_domain_time).map_err(|unfit| self.unfit(unfit))?;
        names::add(&mut threads, &order.queues).map_err(|id| CaptureError::Name { instance: self.name_of(id) })?;
        let mut threads: HashMap<u32, Vec<ThreadRecord>> = threads.into_iter().collect();
        // Before all of it is looked at.
        let touched = self.files.pager.all_touched();
        // As a rule it is a module that refuses: then no page is copied.
        let saved = self.save_modules()?;
        let mut captured = (Vec::new(), self.begin_pages(then)?);
        let mut live = Vec::new();
        for instance in self.instances.live() {
            let of_instance = threads.remove(&instance.id).ok_or_else(|| ending(&instance))?;
            captured.0.push(self.capture_instance(&instance, of_instance, &mut captured.1)?);
            let (run, park) = scheduler.ticks_of(instance.id);
            live.push((instance.config.token, Usage { run, park, ..self.instances.usage(&instance) }));
        }
        let (mut instances, mut found) = captured;
        let mut modules = Vec::new();
        for record in &mut instances {
            let files = self.files.pager.capture(record.id, |page, bytes| found.add(page, bytes));
            record.files =
                files.map_err(|path| CaptureError::MappedFile { instance: self.name_of(record.id), path })?;
        }
        for module in saved {
            let ranges = joined(module.pages);
            for range in ranges.iter().cloned() {
                // SAFETY: buffers of the arena that their module has named are readable, and nothing runs.
                unsafe { pages::of_range(range, &mut found) };
            }
            let names = joined(module.file_pages.iter().map(|pages| pages.names.clone()).collect());
            let memory = |range| self.files.stores.memory(range);
            file_pages::capture(module.file_pages, memory, &mut found)
                .map_err(|Unreadable| CaptureError::File { module: module.name.clone() })?;
            let ranges = ranges.iter().chain(&names).map(|range| (range.start, range.end - range.start)).collect();
            modules.push(ModuleRecord { name: module.name, bytes: module.bytes, pages: ranges });
        }
        let Parts { pages, unchanged, seen } = found.into_parts();
        let bytes =
            pages.iter().map(|run| run.bytes.len() as u64).chain(unchanged.iter().map(|(_, bytes)| *bytes)).sum();
        let run_deadline = Some(self.sched.run_deadline()).filter(|at| *at != NEVER).map(in_domain_time);
        let wall_at = |at: u64| by_the_wall(wall.saturating_add(at.saturating_sub(clock)));
        let waits = self.waits(&instances).into_iter().map(|wait| Wait { until: wait.until.and_then(wall_at), ..wait });
        let waits = waits.collect();
        let first = scheduler.live_timers().filter_map(|(at, _)| wall_at(in_domain_time(at))).min();
        // Those that are to be started may have to wait until another one ends, and its cell is free.
        let starts = scheduler.pending_instances().next().is_some_and(|config| self.has_lease(config));
        let goes_on = !order.ready.is_empty() || starts;
        let first = if goes_on { Some(wall) } else { first };
        let requests = self.effects.record(|asker| instances.iter().any(|instance| instance.id == asker));
        let continuation = Continuation {
            lineage: self.lineage(),
            clock,
            wall,
            run_deadline,
            started: self.instances.started(),
            instances,
            pending: scheduler.pending_instances().map(|config| (config.token, config.attempt)).collect(),
            scheduler: order,
            modules,
            requests,
            driver: driver.map(|driver| driver.save(&live, self)).unwrap_or_default(),
            pages,
            unchanged,
            touched,
        };
        self.check_captured(&continuation)?;
        self.changes.captured(seen, bytes);
        let events_taken = self.events_taken();
        let captured_in = Duration::from_nanos(monotonic_ns().saturating_sub(begin));
        let (published, sent) = (self.published(), self.sent());
        Ok(Suspended { continuation, waits, until: first, events_taken, published, sent, captured_in })
    }

    /// Before the pages are looked at.
    fn begin_pages(&self, then: Then) -> Result<Found, CaptureError> {
        let found = match then {
            Then::Stays if self.changes.are_worth_it() => {
                self.changes.begin().map(|found| found.leaving(self.files.pager.unread()))
            }
            Then::Ends | Then::Stays => Ok(Found::default().leaving(self.files.pager.unread())),
            Then::GoesOn => self.changes.begin(),
        };
        found.map_err(CaptureError::Random)
    }

    /// What a domain would refuse to go on with is not captured: a stack pointer, for one, is user code's own choice.
    fn check_captured(&self, continuation: &Continuation) -> Result<(), CaptureError> {
        let instance_of = |record: &InstanceRecord| {
            let ended = || CaptureError::Ending { instance: self.name_of(record.id) };
            self.instance(record.id).ok_or_else(ended)
        };
        let live = continuation.instances.iter().map(instance_of).collect::<Result<Vec<_>, _>>()?;
        let configs = live.iter().map(|instance| &instance.config);
        let planned: Vec<_> = continuation.instances.iter().zip(configs).collect();
        Ok(check(continuation, &planned)?)
    }

    fn capture_instance(
        &self,
        instance: &Instance,
        mut threads: Vec<ThreadRecord>,
        into: &mut Found,
    ) -> Result<InstanceRecord, CaptureError> {
        let mut cell = instance.cell.lock().expect("cell");
        let cell = cell.as_deref_mut().ok_or_else(|| ending(instance))?;
        // Going back drops pages that show what was, which `written_pages` would take for unwritten.
        if cell.points().is_some_and(|points| points.len() > 0) {
            return Err(CaptureError::Checkpoints { instance: instance.described() });
        }
        for thread in &mut threads {
            if let Some(registers) = &thread.registers {
                thread.user_rsp = pages::bound_of_use(cell, (thread.stack, registers.sp));
            }
        }
        let mapped: Vec<_> = cell.mapped().ranges().collect();
        let live = threads.iter().map(|thread| {
            let live = pages::live_stack(cell, (thread.stack, thread.user_rsp));
            let of_thread = || CaptureError::StackPointer { instance: instance.described(), thread: thread.number };
            live.filter(|_| thread.user_rsp.is_multiple_of(8)).ok_or_else(of_thread)
        });
        let live = live.collect::<Result<Vec<_>, _>>()?;
        if !into.has_unread() {
            let filled = self.space.fill_missing(&(cell.base()..cell.base() + CELL_SIZE));
            filled.map_err(|source| CaptureError::Unread { instance: instance.described(), source })?;
        }
        // SAFETY: all threads are off the carriers, and the scheduler's lock is held.
        unsafe { pages::of_cell(cell, &live, into) };
        let (space, key) = (&self.space, cell.key());
        let unreadable = |source| CaptureError::HiddenMemory { instance: instance.described(), source };
        for (range, state) in mapped.iter().filter(|(_, state)| state.is_charged()) {
            let is_hidden = *state == RangeState::Hidden;
            if is_hidden {
                space.protect(range.clone(), Access::Read, key).map_err(unreadable)?;
            }
            // SAFETY: as above; what is charged may be read.
            unsafe { pages::of_written(range.clone(), Mappings::Any, into) };
            if is_hidden {
                space.protect(range.clone(), Access::None, key).map_err(unreadable)?;
            }
        }
        let mapped = mapped.into_iter().map(|(range, state)| {
            let Range { start, end } = range;
            MappedRecord { start, bytes: end - start, state }
        });
        let (stacks, free_stacks) = cell.used_stacks();
        let heap = cell.heap();
        let output = instance.lines.lock().expect("lines");
        let usage = self.instances.usage(instance);
        Ok(InstanceRecord {
            id: instance.id,
            token: instance.config.token,
            step: instance.config.labels.step.clone(),
            function: instance.config.labels.function.clone(),
            index: instance.config.index,
            count: instance.config.count,
            attempt: instance.config.attempt,
            stack_size: instance.config.stack_size,
            deadline: Some(instance.deadline).filter(|at| *at != NEVER).map(|at| self.clock.of_host(at)),
            heap_start: heap.start,
            heap: heap.end - heap.start,
            stacks,
            free_stacks: free_stacks.to_vec(),
            mapped: mapped.collect(),
            files: Vec::new(),
            fault_handler: *instance.fault_handler.lock().expect("fault handler"),
            passed: (usage.bytes_in, usage.bytes_out),
            refusal: instance.explanations.refusal(),
            lines: output.lines.iter().map(|line| (line.stream, line.text.clone())).collect(),
            lines_cost: output.bytes(),
            lines_full: output.full,
            threads,
        })
    }

    /// What the threads wait for, in domain time. Equal waits of an instance are one.
    fn waits(&self, instances: &[InstanceRecord]) -> Vec<Wait> {
        let mut waits: Vec<Wait> = Vec::new();
        for record in instances {
            let Some(instance) = self.instance(record.id) else { continue };
            let config = &instance.config;
            for thread in &record.threads {
                let ThreadState::Waits { until } = thread.state else { continue };
                let what = match thread.call {
                    number::FUTEX_WAIT => "for another of its threads",
                    number::THREAD_JOIN => "for the end of a thread",
                    number::NANOSLEEP => "in a sleep",
                    number::QUEUE_WAIT => "for what is posted to a queue",
                    _ => match thread.name.as_deref().and_then(EffectSlot::parse).map(|slot| slot.part) {
                        Some(EffectPart::Resume) => "until its continuation is used",
                        Some(_) => "for the reply to a request",
                        None => "for a slot",
                    },
                };
                let wait = |what: String, event: Option<&str>| Wait {
                    step: config.labels.step.clone(),
                    index: config.index,
                    function: config.labels.function.clone(),
                    what,
                    event: event.map(str::to_owned),
                    until,
                };
                let events = thread.name.as_deref().filter(|_| thread.call == number::EVENT_WAIT);
                // Each event of a list ends the wait.
                let found: Vec<Wait> = match events.map(|names| names.split(EVENT_SEPARATOR)) {
                    Some(names) => names.map(|name| wait(waited_for(name), Some(name))).collect(),
                    None => vec![wait(what.to_owned(), None)],
                };
                for wait in found {
                    if !waits.contains(&wait) {
                        waits.push(wait);
                    }
                }
            }
        }
        waits
    }

    /// Which thread waits for something from outside, and for what.
    pub(super) fn waited_for_outside(&self, scheduler: &Scheduler<Arc<Instance>>) -> String {
        match scheduler.record(|at| self.clock.of_host(at)) {
            Err(unfit) => self.unfit(unfit).to_string(),
            Ok(_) => "a thread waits for something from outside".to_owned(),
        }
    }

    fn unfit(&self, Unfit { instance, call }: Unfit) -> CaptureError {
        let call = call.map(|call| u32::try_from(call).unwrap_or(u32::MAX));
        // Which socket it is that a thread waits for, or that a queue watches, its module knows.
        let is_of_sockets = |call| number::module_of(call) == Some("socket") || call == number::QUEUE_WAIT;
        if call.is_some_and(is_of_sockets)
            && let Err(refused) = self.save_modules()
        {
            return refused.into();
        }
        let name = self.name_of(instance);
        let call = match call {
            Some(call) => number::name_of(call).unwrap_or("an unknown call").to_owned(),
            None => "it is running".to_owned(),
        };
        CaptureError::Call { instance: name, call }
    }

    fn name_of(&self, id: u32) -> String {
        self.instance(id).map_or_else(|| "an instance".to_owned(), |instance| instance.described())
    }
}

/// The last time that a clock of the wall shows: a signed number of nanoseconds.
const LAST: u64 = i64::MAX as u64;
/// A sleep that ends at [`LAST`] may end this much later by the two clocks: they are not read at the same moment.
const BETWEEN_CLOCKS: u64 = 60_000_000_000;

/// A time by the wall's clock. None if it never comes, as the end of an event's timeout of centuries.
fn by_the_wall(at: u64) -> Option<u64> {
    (at <= LAST + BETWEEN_CLOCKS).then(|| at.min(LAST))
}

fn ending(instance: &Instance) -> CaptureError {
    CaptureError::Ending { instance: instance.described() }
}

/// What a wait for events of a name is for.
fn waited_for(event: &str) -> String {
    match event.strip_prefix(CHILD_EVENT) {
        Some(child) => format!("for child `{child}`"),
        None if event == CANCEL_EVENT => "to be cancelled".to_owned(),
        None => format!("for event `{event}`"),
    }
}
