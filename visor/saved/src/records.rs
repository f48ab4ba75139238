//! A continuation as the typed records of a checkpoint, and back.
//!
//! ```text
//!   Continuation of the domain                checkpoint
//!   clock, wall                               identity
//!   instances { …, threads }            ◀──▶  instances, threads (with their instance and position)
//!   scheduler, pending, started, deadline     scheduler
//!   modules { bytes, pages }                  module, one section for each
//!   pages { address, bytes }                  runs, pages: zero pages without contents, equal ones once
//!   unchanged { address, bytes }         ───▶ runs: pages of the parent. They come back as pages
//!   driver                                    engine
//! ```
//!
//! The format has words for what no suspended workflow has: calls that have not been served. What a
//! continuation could not take over is refused when it is read, and never dropped. Times and amounts that were used before the capture are
//! in the engine's state, so their words in the records are zero.

use monohull_abi::layout::PAGE;
use monohull_abi::number;
use monohull_checkpoint::record::{
    AnsweredRecord, Frame, HandlerRecord, InstanceRecord, LineRecord, MappedFileRecord, MappedRange, MappedState,
    ModuleRecord, PageRange, PendingRecord, RegistersRecord, RequestsRecord, Resumption, SchedulerRecord, ThreadRecord,
    ThreadState, Timer, TimerRecord, UsageRecord, WaitOn,
};
use monohull_checkpoint::{Chain, Error, Heat, Pages, ReadAt};
use monohull_domain::checkpoint::record as domain;
use monohull_domain::checkpoint::{Continuation, Lineage};
use monohull_domain::ranges::joined;
use std::collections::HashMap;
use std::ops::Range;

use super::NotOurs;

/// The records of a checkpoint that are the domain's.
pub(super) struct Records {
    pub(super) instances: Vec<InstanceRecord>,
    pub(super) threads: Vec<ThreadRecord>,
    pub(super) scheduler: SchedulerRecord,
    pub(super) modules: Vec<ModuleRecord>,
    pub(super) handlers: Vec<HandlerRecord>,
    pub(super) registers: Vec<RegistersRecord>,
    pub(super) files: Vec<MappedFileRecord>,
    pub(super) requests: Option<RequestsRecord>,
}

impl Records {
    /// The records of a continuation whose workflow has these functions.
    pub(super) fn of(continuation: &Continuation, functions: &[&str]) -> Result<Records, String> {
        let mut records = Records {
            instances: Vec::new(),
            threads: Vec::new(),
            scheduler: scheduler(continuation),
            modules: continuation.modules.iter().map(module).collect(),
            handlers: Vec::new(),
            registers: Vec::new(),
            files: Vec::new(),
            requests: requests(&continuation.requests),
        };
        for record in &continuation.instances {
            let function = functions.iter().position(|name| *name == record.function);
            let function = function.ok_or("an instance has a function that the workflow does not have")?;
            records.instances.push(instance(record, function as u32)?);
            records.handlers.extend(record.fault_handler.map(|domain::FaultHandler { entry, start, bytes }| {
                HandlerRecord { instance: record.id, entry, start, bytes }
            }));
            records.files.extend(record.files.iter().map(|file| self::file(record.id, file)));
            for (position, thread) in (0..).zip(&record.threads) {
                records.threads.push(self::thread(record.id, position, thread)?);
                records.registers.extend(thread.registers.as_deref().map(|given| registers(thread.number, given)));
            }
        }
        records.handlers.sort_unstable_by_key(|handler| handler.instance);
        records.registers.sort_unstable_by_key(|registers| registers.thread);
        records.files.sort_by_key(|file| (file.instance, file.start));
        Ok(records)
    }
}

/// The pages of a continuation.
pub(super) fn pages(continuation: &Continuation) -> Result<Pages<'_>, Error> {
    let mut pages = Pages::new();
    let touched = continuation.touched.iter();
    let touched = joined(touched.map(|(start, bytes)| *start..start.saturating_add(*bytes)).collect());
    for run in &continuation.pages {
        for (range, heat) in by_heat(run.address..run.address.saturating_add(run.bytes.len() as u64), &touched) {
            let bytes = &run.bytes[(range.start - run.address) as usize..(range.end - run.address) as usize];
            pages.here(range.start, bytes, heat)?;
        }
    }
    for (address, count) in unchanged(continuation) {
        pages.parent(address, count)?;
    }
    Ok(pages)
}

/// The parts of a run, whole pages if it has such, that were touched and that were not. What is `touched` is in order and does not overlap; else it may
/// be anything.
fn by_heat(run: Range<u64>, touched: &[Range<u64>]) -> Vec<(Range<u64>, Heat)> {
    let mut parts = Vec::new();
    let mut at = run.start;
    let first = touched.partition_point(|range| range.end <= run.start);
    for range in touched[first..].iter().take_while(|range| range.start < run.end) {
        let start = range.start.max(at) / PAGE * PAGE;
        let end = range.end.min(run.end) / PAGE * PAGE;
        if start >= end || start < at {
            continue;
        }
        parts.extend([(at..start, Heat::Rest), (start..end, Heat::Active)]);
        at = end;
    }
    parts.push((at..run.end, Heat::Rest));
    parts.retain(|(part, _)| !part.is_empty());
    parts
}

/// The pages that are as they were in the capture before: addresses and numbers of pages.
pub(super) fn unchanged(continuation: &Continuation) -> impl Iterator<Item = (u64, u64)> {
    continuation.unchanged.iter().map(|(start, bytes)| (*start, bytes / PAGE))
}

fn instance(record: &domain::InstanceRecord, function: u32) -> Result<InstanceRecord, String> {
    let line = |(stream, text): &(u32, String)| {
        let stream = u8::try_from(*stream).map_err(|_| "an instance has printed on a stream that does not exist")?;
        Ok::<_, String>(LineRecord { stream, text: text.clone() })
    };
    Ok(InstanceRecord {
        id: record.id,
        function,
        token: record.token,
        step: record.step.clone(),
        index: record.index,
        count: record.count,
        attempt: record.attempt,
        stack_size: record.stack_size,
        heap_start: record.heap_start,
        heap_end: record.heap_start.saturating_add(record.heap),
        stacks: record.stacks,
        free_stacks: record.free_stacks.clone(),
        mapped: record.mapped.iter().map(mapped).collect(),
        deadline: record.deadline,
        refusal: record.refusal.clone(),
        usage: UsageRecord { bytes_in: record.passed.0, bytes_out: record.passed.1, ..UsageRecord::default() },
        lines: record.lines.iter().map(line).collect::<Result<_, _>>()?,
        lines_cost: record.lines_cost,
        lines_full: record.lines_full,
    })
}

fn mapped(record: &domain::MappedRecord) -> MappedRange {
    let state = match record.state {
        domain::RangeState::Reserved => MappedState::Reserved,
        domain::RangeState::Hidden => MappedState::Hidden,
        domain::RangeState::Read => MappedState::Read,
        domain::RangeState::ReadWrite => MappedState::ReadWrite,
    };
    MappedRange { pages: PageRange { start: record.start, count: record.bytes / PAGE }, state }
}

fn mapped_back(record: &MappedRange) -> domain::MappedRecord {
    let state = match record.state {
        MappedState::Reserved => domain::RangeState::Reserved,
        MappedState::Hidden => domain::RangeState::Hidden,
        MappedState::Read => domain::RangeState::Read,
        MappedState::ReadWrite => domain::RangeState::ReadWrite,
    };
    let start = record.pages.start;
    domain::MappedRecord { start, bytes: record.pages.end() - start, state }
}

fn file(instance: u32, record: &domain::MappedFileRecord) -> MappedFileRecord {
    let domain::MappedFileRecord { start, len, offset, path, writable, there } = record;
    let there = there.iter().map(|(start, bytes)| PageRange { start: *start, count: bytes / PAGE }).collect();
    let (start, bytes, offset, writable) = (*start, *len, *offset, *writable);
    MappedFileRecord { instance, start, bytes, offset, path: path.clone(), writable, there }
}

fn file_back(record: &MappedFileRecord) -> domain::MappedFileRecord {
    let MappedFileRecord { start, bytes, offset, path, writable, there, .. } = record;
    let there = there.iter().map(|range| (range.start, range.end() - range.start)).collect();
    let (start, len, offset, writable) = (*start, *bytes, *offset, *writable);
    domain::MappedFileRecord { start, len, offset, path: path.clone(), writable, there }
}

fn thread(instance: u32, position: u32, record: &domain::ThreadRecord) -> Result<ThreadRecord, String> {
    let state = match record.state {
        domain::ThreadState::Returns(value) => ThreadState::Ready(Resumption::Value(value)),
        domain::ThreadState::Woken => ThreadState::Ready(Resumption::Woken),
        domain::ThreadState::TimedOut => ThreadState::Ready(Resumption::TimedOut),
        domain::ThreadState::Waits { until } => ThreadState::Waiting { on: wait(record)?, deadline: until },
        domain::ThreadState::Unserved => {
            return Err(format!("thread {:#x} has made a call that has not been served", record.number));
        }
    };
    let frame = Frame { user_rsp: record.user_rsp, value: 0, number: record.call, args: record.args };
    let (stack, number) = (record.stack, record.number);
    Ok(ThreadRecord { number, instance, stack, position, waits: 0, frame, state, run_ns: 0, park_ns: 0 })
}

fn registers(thread: u32, record: &domain::RegistersRecord) -> RegistersRecord {
    let domain::RegistersRecord { ip, sp, flags, general, extended } = record;
    RegistersRecord { thread, ip: *ip, sp: *sp, flags: *flags, general: *general, extended: extended.clone() }
}

fn registers_back(record: &RegistersRecord) -> domain::RegistersRecord {
    let RegistersRecord { ip, sp, flags, general, extended, .. } = record;
    domain::RegistersRecord { ip: *ip, sp: *sp, flags: *flags, general: *general, extended: extended.clone() }
}

fn wait(record: &domain::ThreadRecord) -> Result<WaitOn, String> {
    let [first, ..] = record.args;
    Ok(match record.call {
        number::NANOSLEEP => WaitOn::Time,
        number::FUTEX_WAIT => WaitOn::Futex { address: first },
        number::THREAD_JOIN => {
            WaitOn::Thread { number: first.try_into().map_err(|_| "a thread waits for one without a number")? }
        }
        number::SLOT_TAKE => {
            WaitOn::Slot { name: record.name.clone().ok_or("a thread waits for a slot without a name")? }
        }
        number::EVENT_WAIT => {
            WaitOn::Event { name: record.name.clone().ok_or("a thread waits for an event without a name")? }
        }
        number::QUEUE_WAIT => WaitOn::Queue { number: first },
        call => return Err(format!("a thread waits in hostcall {call}")),
    })
}

fn scheduler(continuation: &Continuation) -> SchedulerRecord {
    let order = &continuation.scheduler;
    let run = continuation.run_deadline.map(|at| TimerRecord { at, what: Timer::Run });
    let driver = order.timers.iter().map(|(at, token)| TimerRecord { at: *at, what: Timer::Driver(*token) });
    let pending = continuation.pending.iter();
    SchedulerRecord {
        ready: order.ready.clone(),
        queues: order.queues.clone(),
        free: order.free.clone(),
        timers: run.into_iter().chain(driver).collect(),
        pending: pending.map(|(token, attempt)| PendingRecord { token: *token, attempt: *attempt }).collect(),
        started: continuation.started,
    }
}

fn requests(record: &domain::RequestsRecord) -> Option<RequestsRecord> {
    let answered =
        record.answered.iter().map(|(instance, number)| AnsweredRecord { instance: *instance, number: *number });
    (*record != domain::RequestsRecord::default())
        .then(|| RequestsRecord { last: record.last, answered: answered.collect() })
}

fn requests_back(record: &RequestsRecord) -> domain::RequestsRecord {
    let answered = record.answered.iter().map(|request| (request.instance, request.number));
    domain::RequestsRecord { last: record.last, answered: answered.collect() }
}

fn module(record: &domain::ModuleRecord) -> ModuleRecord {
    let pages = record.pages.iter().map(|(start, bytes)| PageRange { start: *start, count: bytes / PAGE });
    ModuleRecord { name: record.name.clone(), bytes: record.bytes.clone(), pages: pages.collect() }
}

/// The continuation of a checkpoint without its pages, with this state of the driver.
pub(super) fn continuation<S: ReadAt>(chain: &Chain<S>, driver: Vec<u8>) -> Result<Continuation<()>, NotOurs> {
    let contents = chain.newest().contents();
    if !chain.is_whole() {
        return Err("it has only what differs from another checkpoint, whose file it does not name".to_owned().into());
    }
    let mut threads: HashMap<u32, Vec<&ThreadRecord>> = HashMap::new();
    for thread in &contents.threads {
        threads.entry(thread.instance).or_default().push(thread);
    }
    let mut instances = Vec::new();
    for record in &contents.instances {
        let threads = threads.remove(&record.id).unwrap_or_default();
        let function = contents.functions.get(record.function as usize).map(|function| function.name.clone());
        let handler = contents.handlers.iter().find(|handler| handler.instance == record.id);
        let mut instance = instance_back(record, function.unwrap_or_default(), threads)?;
        let files = contents.files.iter().filter(|file| file.instance == record.id);
        instance.files = files.map(file_back).collect();
        for thread in &mut instance.threads {
            let known = contents.registers.binary_search_by_key(&thread.number, |registers| registers.thread);
            let of_thread = known.ok().map(|index| &contents.registers[index]);
            thread.registers = of_thread.map(|registers| Box::new(registers_back(registers)));
        }
        instance.fault_handler = handler.map(|HandlerRecord { entry, start, bytes, .. }| domain::FaultHandler {
            entry: *entry,
            start: *start,
            bytes: *bytes,
        });
        instances.push(instance);
    }
    let record = &contents.scheduler;
    let (mut run_deadline, mut timers) = (None, Vec::new());
    for timer in &record.timers {
        match timer.what {
            Timer::Driver(token) => timers.push((timer.at, token)),
            Timer::Run if run_deadline.is_none() => run_deadline = Some(timer.at),
            Timer::Run => return Err("the run has two deadlines".to_owned().into()),
        }
    }
    Ok(Continuation {
        lineage: Lineage { generation: contents.identity.generation, ..Lineage::default() },
        clock: contents.identity.domain_ns,
        wall: contents.identity.wall_ns,
        run_deadline,
        started: record.started,
        instances,
        pending: record.pending.iter().map(|pending| (pending.token, pending.attempt)).collect(),
        scheduler: domain::SchedulerRecord {
            ready: record.ready.clone(),
            queues: record.queues.clone(),
            free: record.free.clone(),
            timers,
        },
        modules: contents.modules.iter().map(module_back).collect(),
        requests: contents.requests.as_ref().map(requests_back).unwrap_or_default(),
        driver,
        pages: (),
        unchanged: Vec::new(),
        touched: touched(chain),
    })
}

/// What an earlier part of the run has touched.
fn touched<S: ReadAt>(chain: &Chain<S>) -> Vec<(u64, u64)> {
    let active = chain.pieces().iter().filter(|piece| chain.is_active(piece));
    active.map(|piece| (piece.run.address, piece.run.count * PAGE)).collect()
}

fn instance_back(
    record: &InstanceRecord,
    function: String,
    mut threads: Vec<&ThreadRecord>,
) -> Result<domain::InstanceRecord, String> {
    let wrong = |reason: &str| Err(format!("instance {:#x} {reason}", record.id));
    let UsageRecord { bytes_in, bytes_out, .. } = record.usage;
    if record.usage != (UsageRecord { bytes_in, bytes_out, ..UsageRecord::default() }) {
        return wrong("has used times outside of the engine's state");
    }
    threads.sort_by_key(|thread| thread.position);
    if !threads.iter().map(|thread| thread.position).eq(0..threads.len() as u32) {
        return wrong("has a gap in the list of its threads");
    }
    Ok(domain::InstanceRecord {
        id: record.id,
        token: record.token,
        step: record.step.clone(),
        function,
        index: record.index,
        count: record.count,
        attempt: record.attempt,
        stack_size: record.stack_size,
        deadline: record.deadline,
        heap_start: record.heap_start,
        heap: record.heap_end - record.heap_start,
        stacks: record.stacks,
        free_stacks: record.free_stacks.clone(),
        mapped: record.mapped.iter().map(mapped_back).collect(),
        files: Vec::new(),
        fault_handler: None,
        passed: (bytes_in, bytes_out),
        refusal: record.refusal.clone(),
        lines: record.lines.iter().map(|line| (line.stream.into(), line.text.clone())).collect(),
        lines_cost: record.lines_cost,
        lines_full: record.lines_full,
        threads: threads.into_iter().map(thread_back).collect::<Result<_, _>>()?,
    })
}

fn thread_back(record: &ThreadRecord) -> Result<domain::ThreadRecord, String> {
    let ThreadRecord { number, stack, frame, waits, run_ns, park_ns, .. } = record;
    if (*waits, *run_ns, *park_ns, frame.value) != (0, 0, 0, 0) {
        return Err(format!("thread {number:#x} has used times or a value that are not kept there"));
    }
    // What is waited for is among the arguments, and was compared with them when the file was read.
    let (state, name) = match &record.state {
        ThreadState::Ready(Resumption::Value(value)) => (domain::ThreadState::Returns(*value), None),
        ThreadState::Ready(Resumption::Woken) => (domain::ThreadState::Woken, None),
        ThreadState::Ready(Resumption::TimedOut) => (domain::ThreadState::TimedOut, None),
        ThreadState::Ready(Resumption::First) => {
            return Err(format!("thread {number:#x} has made a call that has not been served"));
        }
        ThreadState::Waiting { on, deadline } => {
            let name = match on {
                WaitOn::Slot { name } | WaitOn::Event { name } => Some(name.clone()),
                WaitOn::Time | WaitOn::Futex { .. } | WaitOn::Thread { .. } | WaitOn::Queue { .. } => None,
            };
            (domain::ThreadState::Waits { until: *deadline }, name)
        }
    };
    let (user_rsp, call, args) = (frame.user_rsp, frame.number, frame.args);
    Ok(domain::ThreadRecord { number: *number, stack: *stack, user_rsp, call, args, state, registers: None, name })
}

fn module_back(record: &ModuleRecord) -> domain::ModuleRecord {
    let pages = record.pages.iter().map(|range| (range.start, range.end() - range.start));
    domain::ModuleRecord { name: record.name.clone(), bytes: record.bytes.clone(), pages: pages.collect() }
}
