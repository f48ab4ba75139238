//! Whether a continuation can be restored. It is untrusted: every field is checked.
//!
//! What is kept out of the records needs no check: a thread's record lies inside its instance's, so it can name no other, and not
//! the system; limits, stack sizes and slot lists are the plan's. User memory needs none either: it can be no worse than what a
//! hostile function writes.

use super::record::{Continuation, InstanceRecord, Lineage, RequestsRecord, ThreadRecord, ThreadState};
use crate::fault::{HandlerError, is_code};
use crate::instance::{InstanceConfig, cell_of};
use crate::sched::{CHUNK, INDEX_BITS, THREADS_MAX, WAITS};
use monohull_abi::effect::{PERFORMS_MAX, PERFORMS_TOGETHER};
use monohull_abi::event::{event_queue_of, is_event_list};
use monohull_abi::file::{FILE_SIZE_MAX, MAPPINGS_MAX, PATH_MAX};
use monohull_abi::layout::{
    CELL_COUNT, CELL_SIZE, MAPPINGS_OFFSET, PAGE, THREAD_HEADER_SIZE, THREAD_STACKS_OFFSET, cell_base,
};
use monohull_abi::module::SYSTEM_INSTANCE;
use monohull_abi::network::QUEUES_MAX;
use monohull_abi::number::{self, SYSTEM_ONLY};
use monohull_abi::types::{MAP_RANGES_MAX, SLOT_NAME_MAX};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Why a continuation is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum Rejected {
    #[error("an instance has the impossible id {0:#x}")]
    InstanceId(u32),
    #[error("two instances have the same cell")]
    CellTwice,
    #[error("an instance is not as the workflow has it")]
    Plan,
    #[error("the heap of an instance has an impossible size")]
    Heap,
    #[error("an instance has more memory than its limit")]
    MemoryLimit,
    #[error("an instance has mapped memory where it cannot have any, or in a way that is never captured")]
    MappedMemory,
    #[error("an instance has a file mapped where it cannot have one, or in a way in which none is captured")]
    MappedFile,
    #[error("an instance has other files mapped than its module has")]
    ModuleFiles,
    #[error("an instance has an impossible fault handler: {0}")]
    FaultHandler(#[from] HandlerError),
    #[error("the stacks of an instance do not fit together with its threads")]
    Stacks,
    #[error("an instance has no main thread, or several")]
    MainThread,
    #[error("an instance has more threads than its limit")]
    ThreadLimit,
    #[error("the numbers of threads are not those of a table")]
    ThreadNumbers,
    #[error("a thread has its stack pointer outside its stack, or not aligned")]
    StackPointer,
    #[error("a thread is in the call {0}, in which no thread is captured")]
    Call(u32),
    #[error("a thread that was interrupted would go on outside of its code")]
    Interrupted,
    #[error("a thread has registers as no interrupted thread on this processor has them")]
    Registers,
    #[error("a thread waits in a way in which its call does not")]
    Wait,
    #[error("a thread waits for memory of another instance")]
    FutexAddress,
    #[error("a thread has the name of a slot or an event for which it does not wait, or has none")]
    Name,
    #[error("a thread waits for the end of a thread that its instance does not have")]
    Join,
    #[error("the lists of threads do not have each thread once")]
    Order,
    #[error("a reply waits for an instance that is not there, or more of them than may")]
    Requests,
    #[error("output costs more than is possible")]
    Output,
    #[error("the pages of slot buffers are not those that their module has")]
    ModulePages,
    #[error("contents of memory lie outside the memory of functions")]
    Pages,
    #[error("it has only what has changed since another capture")]
    Incomplete,
    #[error("a time lies before the capture")]
    Time,
    #[error("it is a copy with an impossible number")]
    Copy,
}

/// An instance's record and what the plan says of it.
pub(super) type Planned<'c> = (&'c InstanceRecord, &'c InstanceConfig);

/// Checks everything that can be checked before memory is mapped.
pub(super) fn check<P>(continuation: &Continuation<P>, instances: &[Planned<'_>]) -> Result<(), Rejected> {
    let Lineage { copy, copies, .. } = continuation.lineage;
    if copy > copies || (copy == 0) != (copies == 0) {
        return Err(Rejected::Copy);
    }
    let mut cells = HashSet::new();
    for (record, config) in instances {
        let cell = cell_of(record.id);
        if record.id == SYSTEM_INSTANCE || record.id >> 8 == 0 || cell >= CELL_COUNT {
            return Err(Rejected::InstanceId(record.id));
        }
        if !cells.insert(cell) {
            return Err(Rejected::CellTwice);
        }
        if let Some(thread) = record.threads.iter().find(|thread| thread.state == ThreadState::Unserved) {
            return Err(Rejected::Call(thread.call));
        }
        check_instance(record, config)?;
    }
    check_requests(&continuation.requests, |asker| instances.iter().any(|(record, _)| record.id == asker))?;
    let threads = || instances.iter().flat_map(|(record, _)| record.threads.iter().map(|thread| (record.id, thread)));
    check_numbers(threads().map(|(_, thread)| thread.number), &continuation.scheduler.free)?;
    check_order(continuation, &threads().map(|(id, thread)| (thread.number, (id, thread))).collect())
}

/// No instance has more replies waiting than it may.
fn check_requests(record: &RequestsRecord, is_there: impl Fn(u32) -> bool) -> Result<(), Rejected> {
    let RequestsRecord { answered, .. } = record;
    let in_order = answered.windows(2).all(|pair| pair[0] < pair[1]);
    let good = answered.iter().all(|(asker, number)| *number != 0 && is_there(*asker));
    let of_each = || answered.chunk_by(|one, next| one.0 == next.0).map(<[_]>::len);
    match in_order && good && answered.len() <= PERFORMS_TOGETHER && of_each().all(|count| count <= PERFORMS_MAX) {
        true => Ok(()),
        false => Err(Rejected::Requests),
    }
}

/// Whether all runs, by address and length, are whole pages, none twice, each inside one of these ranges.
pub(super) fn check_runs(
    runs: impl IntoIterator<Item = (u64, u64)>,
    writable: &mut [Range<u64>],
) -> Result<(), Rejected> {
    writable.sort_unstable_by_key(|range| range.start);
    let mut last = 0;
    for (address, len) in runs {
        let end = address.checked_add(len).ok_or(Rejected::Pages)?;
        let whole = address.is_multiple_of(PAGE) && len.is_multiple_of(PAGE) && len > 0 && address >= last;
        // Memory that is contiguous may be of several kinds.
        let (mut at, mut index) = (address, writable.partition_point(|range| range.end <= address));
        while at < end && writable.get(index).is_some_and(|range| range.start <= at) {
            at = writable[index].end.max(at);
            index += 1;
        }
        if !whole || at < end {
            return Err(Rejected::Pages);
        }
        last = end;
    }
    Ok(())
}

pub(super) fn check_instance(record: &InstanceRecord, config: &InstanceConfig) -> Result<(), Rejected> {
    let InstanceConfig { labels, index, count, stack_size, .. } = config;
    let planned = (labels.step.as_str(), labels.function.as_str(), *index, *count, *stack_size);
    if planned != (record.step.as_str(), record.function.as_str(), record.index, record.count, record.stack_size) {
        return Err(Rejected::Plan);
    }
    if !record.heap.is_multiple_of(PAGE) || record.heap > THREAD_STACKS_OFFSET {
        return Err(Rejected::Heap);
    }
    check_mapped(record)?;
    check_files(record)?;
    let kept = record.lines.iter().map(|(_, text)| text.len() as u64).sum::<u64>();
    if kept > config.output_limit
        || kept > record.lines_cost
        || record.lines.iter().any(|(stream, _)| !(1..=2).contains(stream))
    {
        return Err(Rejected::Output);
    }
    if record.threads.len() > config.max_threads.max(1) as usize {
        return Err(Rejected::ThreadLimit);
    }
    if record.threads.iter().filter(|thread| thread.stack.is_none()).count() != 1 {
        return Err(Rejected::MainThread);
    }
    // Each stack that was ever used has a thread or is free.
    let used = record.threads.iter().filter_map(|thread| thread.stack).chain(record.free_stacks.iter().copied());
    let used: Vec<u32> = used.collect();
    let distinct: HashSet<u32> = used.iter().copied().filter(|slot| *slot < record.stacks).collect();
    let room = (MAPPINGS_OFFSET - THREAD_STACKS_OFFSET) / config.stack_size;
    if used.len() != record.stacks as usize || distinct.len() != used.len() || u64::from(record.stacks) > room {
        return Err(Rejected::Stacks);
    }
    record.threads.iter().try_for_each(|thread| check_thread(record, config, thread))
}

/// Ranges of whole pages, upwards and without overlaps, between heap and thread stacks. A page stays free behind the heap.
fn check_mapped(record: &InstanceRecord) -> Result<(), Rejected> {
    let mut free_from = record.heap_start.saturating_add(record.heap).saturating_add(PAGE);
    let end = cell_base(cell_of(record.id)) + THREAD_STACKS_OFFSET;
    if record.mapped.len() > MAP_RANGES_MAX {
        return Err(Rejected::MappedMemory);
    }
    for mapped in &record.mapped {
        let range = mapped.range();
        let whole = range.start.is_multiple_of(PAGE) && range.end.is_multiple_of(PAGE) && !range.is_empty();
        if !whole || range.start < free_from || range.end > end {
            return Err(Rejected::MappedMemory);
        }
        free_from = range.end;
    }
    Ok(())
}

/// Parts of files behind the thread stacks, upwards. Behind each a page stays free. What is there of one are pages of its own, upwards and
/// with gaps between them.
fn check_files(record: &InstanceRecord) -> Result<(), Rejected> {
    let base = cell_base(cell_of(record.id));
    let (mut free_from, end) = (base + MAPPINGS_OFFSET, base + CELL_SIZE);
    if record.files.len() > MAPPINGS_MAX {
        return Err(Rejected::MappedFile);
    }
    for file in &record.files {
        let is_part = file.offset.checked_add(file.len).is_some_and(|end| end <= FILE_SIZE_MAX);
        let fits = file.len > 0 && file.len <= CELL_SIZE && file.start.is_multiple_of(PAGE);
        let range = if fits { file.range() } else { return Err(Rejected::MappedFile) };
        if !is_part || range.start < free_from || range.end > end || file.path.len() > PATH_MAX {
            return Err(Rejected::MappedFile);
        }
        let mut first = range.start;
        for there in file.there() {
            let whole = there.start.is_multiple_of(PAGE) && there.end.is_multiple_of(PAGE) && !there.is_empty();
            if !whole || there.start < first || there.end > range.end {
                return Err(Rejected::MappedFile);
            }
            first = there.end + PAGE;
        }
        free_from = range.end + PAGE;
    }
    Ok(())
}

fn check_thread(record: &InstanceRecord, config: &InstanceConfig, thread: &ThreadRecord) -> Result<(), Rejected> {
    let base = cell_base(cell_of(record.id));
    let stack = match thread.stack {
        None => base,
        Some(slot) => base + THREAD_STACKS_OFFSET + u64::from(slot) * config.stack_size,
    };
    // The word at the stack pointer is where the thread goes on.
    let inside = stack + PAGE..=stack + config.stack_size - THREAD_HEADER_SIZE - 8;
    if !inside.contains(&thread.user_rsp) || !thread.user_rsp.is_multiple_of(8) {
        return Err(Rejected::StackPointer);
    }
    let waits = matches!(thread.state, ThreadState::Waits { .. });
    let is_name = |name: &str| match thread.call {
        number::SLOT_TAKE => (1..=SLOT_NAME_MAX).contains(&name.len()),
        _ => is_event_list(name),
    };
    let by_name = waits && matches!(thread.call, number::SLOT_TAKE | number::EVENT_WAIT);
    if thread.name.is_some() != by_name || !thread.name.as_deref().is_none_or(is_name) {
        return Err(Rejected::Name);
    }
    if let Some(registers) = &thread.registers {
        let image_base = base + config.stack_size;
        if !is_code(&config.image.image, image_base, registers.ip, 1) {
            return Err(Rejected::Interrupted);
        }
        let right = (thread.state, thread.call) == (ThreadState::Returns(0), 0);
        registers.registers().ok().filter(|_| right).ok_or(Rejected::Registers)?;
    }
    if let ThreadState::Returns(_) = thread.state {
        return if thread.call == 0 { Ok(()) } else { Err(Rejected::Call(thread.call)) };
    }
    // What a function could call as well.
    if thread.state == ThreadState::Unserved && thread.call < SYSTEM_ONLY {
        return Ok(());
    }
    if !WAITS.contains(&thread.call) {
        return Err(Rejected::Call(thread.call));
    }
    let has_end = matches!(thread.state, ThreadState::TimedOut | ThreadState::Waits { until: Some(_) });
    if has_end && matches!(thread.call, number::THREAD_JOIN | number::SLOT_TAKE) {
        return Err(Rejected::Wait);
    }
    match thread.call {
        number::QUEUE_WAIT if thread.args[0] >= QUEUES_MAX as u64 => Err(Rejected::Wait),
        number::FUTEX_WAIT if !(base..base + MAPPINGS_OFFSET).contains(&thread.args[0]) => Err(Rejected::FutexAddress),
        number::THREAD_JOIN => {
            let target = |other: &&ThreadRecord| u64::from(other.number) == thread.args[0];
            let joined = record.threads.iter().find(target);
            // A thread that was woken may find that the other has ended.
            let ended = joined.is_none() && thread.state == ThreadState::Woken && thread.args[0] <= u32::MAX.into();
            let valid = joined.is_some_and(|other| other.number != thread.number);
            if valid || ended { Ok(()) } else { Err(Rejected::Join) }
        }
        _ => Ok(()),
    }
}

/// Each entry of a table has one number, used or free, and the table has a size to which it grows.
fn check_numbers(used: impl Iterator<Item = u32>, free: &[u32]) -> Result<(), Rejected> {
    let index = |number: u32| number & ((1 << INDEX_BITS) - 1);
    let indices: Vec<u32> = used.chain(free.iter().copied()).map(index).collect();
    let distinct: HashSet<u32> = indices.iter().copied().collect();
    let whole = distinct.len() == indices.len() && indices.iter().all(|index| (*index as usize) < indices.len());
    match whole && indices.len().is_multiple_of(CHUNK) && indices.len() <= THREADS_MAX as usize {
        true => Ok(()),
        false => Err(Rejected::ThreadNumbers),
    }
}

/// Each thread is once in the list in which its state belongs; those of one queue wait for the same thing.
fn check_order<P>(
    continuation: &Continuation<P>,
    threads: &HashMap<u32, (u32, &ThreadRecord)>,
) -> Result<(), Rejected> {
    let order = &continuation.scheduler;
    let waits = |thread: &ThreadRecord| matches!(thread.state, ThreadState::Waits { .. });
    let queued = |thread: &ThreadRecord| waits(thread) && thread.call != number::NANOSLEEP;
    let find = |number: &u32| threads.get(number).copied().ok_or(Rejected::Order);
    let mut seen = HashSet::new();
    for number in &order.ready {
        if waits(find(number)?.1) || !seen.insert(*number) {
            return Err(Rejected::Order);
        }
    }
    for queue in &order.queues {
        let first = what(find(queue.first().ok_or(Rejected::Order)?)?);
        for number in queue {
            let thread = find(number)?;
            if !queued(thread.1) || what(thread) != first || !seen.insert(*number) {
                return Err(Rejected::Order);
            }
        }
    }
    let sleeping = threads.values().filter(|(_, thread)| waits(thread) && !queued(thread)).count();
    if seen.len() + sleeping != threads.len() {
        return Err(Rejected::Order);
    }
    let ends = threads.values().filter_map(|(_, thread)| match thread.state {
        ThreadState::Waits { until } => until,
        _ => None,
    });
    // A timer that was due at the capture was served before.
    if ends.chain(order.timers.iter().map(|(at, _)| *at)).any(|at| at < continuation.clock) {
        return Err(Rejected::Time);
    }
    Ok(())
}

/// What a thread waits for: the call, and a name or the instance's own thing.
fn what((id, thread): (u32, &ThreadRecord)) -> (u32, Option<&str>, (u32, u64)) {
    match thread.call {
        number::SLOT_TAKE => (thread.call, thread.name.as_deref(), (0, 0)),
        number::EVENT_WAIT => (thread.call, thread.name.as_deref().map(event_queue_of), (0, 0)),
        call => (call, None, (id, thread.args[0])),
    }
}
