//! What records must say, so that a domain can be made of them.
//!
//! The records may come from a worker that an attacker controls, or from a file that was edited. A restore would use them as they are:
//! a thread of the *system's* instance would have no address checked, a stack pointer outside of the thread's own stack would be
//! another thread's, and one slot for two threads would make one overwrite the other. So everything that follows from the records
//! themselves is checked here. What needs more is the restore's to check: that plan and images are the registered
//! ones, stack sizes and limits those of the plan, and what modules and the engine keep in their bytes.
//!
//! Contents of user pages need no check: they can be no worse than what a hostile function writes itself.

use crate::error::Error;
use crate::hash::Hash;
use crate::host::Layout;
use crate::pages::{Content, Run};
use crate::record::{
    CHAIN_MAX, ChainRecord, Contents, EXTENDED_BYTES, Frame, Identity, InstanceRecord, MappedRange, MappedState,
    ModuleRecord, PageRange, Resumption, SchedulerRecord, ThreadRecord, ThreadState, WaitOn,
};
use crate::requests;
use monohull_abi::ABI_VERSION;
use monohull_abi::call::SYSTEM_INSTANCE;
use monohull_abi::event::{event_queue_of, is_event_list};
use monohull_abi::file::{FILE_SIZE_MAX, MAPPINGS_MAX, PATH_MAX};
use monohull_abi::layout::{
    ARENA_BASE, ARENA_END, CELL_COUNT, CELL_SIZE, CELLS_BASE, FILES_BASE, FILES_END, MAPPINGS_OFFSET, MAX_STACK_SIZE,
    MIN_STACK_SIZE, PAGE, THREAD_HEADER_SIZE, THREAD_STACKS_OFFSET, cell_base,
};
use monohull_abi::network::QUEUES_MAX;
use monohull_abi::number::{self, EVENT_WAIT, FUTEX_WAIT, NANOSLEEP, QUEUE_WAIT, SLOT_TAKE, SYSTEM_ONLY, THREAD_JOIN};
use monohull_abi::types::SLOT_NAME_MAX;
use monohull_report::text::quoted;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The most bytes of a name.
pub const NAME_MAX: usize = 4096;
/// The most bytes of a file's name (`NAME_MAX`).
const FILE_NAME_MAX: usize = 255;
/// The most functions, and the most modules.
const FEW: usize = 4096;
/// The most threads, timers and instances that wait: thread numbers have so many indices.
const MANY: usize = 1 << 20;
/// Words of a processor's features.
const PROCESSOR_WORDS: usize = 64;

type Result<T = ()> = std::result::Result<T, Error>;

/// Checks everything that can be checked by the records alone.
pub(crate) fn check(contents: &Contents, runs: &[Run]) -> Result {
    identity(&contents.identity)?;
    chain(contents)?;
    if Hash::of(&contents.plan) != contents.identity.plan {
        return Err(Error::wrong("the plan", "it is not the one whose hash the checkpoint has"));
    }
    at_most("functions", contents.functions.len(), FEW)?;
    contents.functions.iter().try_for_each(|function| name("a function", &function.name, 1..=NAME_MAX))?;
    let cells = files(contents, instances(contents)?)?;
    requests::check(contents)?;
    handlers(contents, &cells)?;
    let threads = threads(&contents.threads, &cells)?;
    registers(contents, &cells, &threads)?;
    scheduler(&contents.scheduler, &threads)?;
    let module_pages = modules(&contents.modules)?;
    runs.iter().try_for_each(|run| place(run, &cells, &module_pages, contents.identity.parent.is_some()))
}

pub(crate) fn at_most(what: &str, there: usize, most: usize) -> Result {
    match there <= most {
        true => Ok(()),
        false => Err(Error::wrong(what, format_args!("there are {there}; the most is {most}"))),
    }
}

fn name(what: &str, name: &str, length: std::ops::RangeInclusive<usize>) -> Result {
    match length.contains(&name.len()) {
        true => Ok(()),
        false => {
            let reason = format_args!("its name has {} bytes, and may have {length:?}", name.len());
            Err(Error::wrong(what, reason))
        }
    }
}

fn identity(identity: &Identity) -> Result {
    if identity.abi != ABI_VERSION {
        return Err(Error::OtherAbi { found: identity.abi, ours: ABI_VERSION });
    }
    let (found, ours) = (identity.layout, Layout::HERE);
    let words = [
        ("page", found.page, ours.page),
        ("info_base", found.info_base, ours.info_base),
        ("cells_base", found.cells_base, ours.cells_base),
        ("cell_size", found.cell_size, ours.cell_size),
        ("cell_count", found.cell_count, ours.cell_count),
        ("arena_base", found.arena_base, ours.arena_base),
        ("arena_size", found.arena_size, ours.arena_size),
    ];
    if let Some((name, found, ours)) = words.into_iter().find(|(_, found, ours)| found != ours) {
        return Err(Error::OtherLayout { name, found, ours });
    }
    at_most("words of the processor's features", identity.processor.words.len(), PROCESSOR_WORDS)?;
    name("the label", &identity.label, 0..=NAME_MAX)?;
    name("the workflow", &identity.workflow, 1..=NAME_MAX)?;
    name("the tenant", &identity.tenant, 0..=NAME_MAX)?;
    name("the program's version", &identity.program, 0..=NAME_MAX)?;
    if identity.parent.as_ref().is_some_and(|parent| parent.id == identity.id) {
        return Err(Error::wrong("the parent", "it is the checkpoint itself"));
    }
    Ok(())
}

/// The parent's file is a name and no path, and there are not too many before it.
fn chain(contents: &Contents) -> Result {
    let Some(ChainRecord { file, depth }) = &contents.chain else { return Ok(()) };
    if contents.identity.parent.is_none() {
        return Err(Error::wrong("the parent", "its file is named, and there is none"));
    }
    let is_plain = !file.contains(['/', '\0']) && file != "." && file != "..";
    if !is_plain || !(1..=FILE_NAME_MAX).contains(&file.len()) {
        return Err(Error::wrong("the parent", "its name is not that of a file in the same folder"));
    }
    match (1..=CHAIN_MAX).contains(depth) {
        true => Ok(()),
        false => {
            let reason = format_args!("there are {depth} checkpoints before this one, and may be 1 to {CHAIN_MAX}");
            Err(Error::wrong("the parent", reason))
        }
    }
}

/// An instance and the addresses it has.
struct Cell<'c> {
    record: &'c InstanceRecord,
    base: u64,
    free_stacks: BTreeSet<u32>,
    /// The pages that are there of what it has mapped of files, in ascending order.
    of_files: Vec<PageRange>,
}

/// The instances, by their cells.
struct Cells<'c>(Vec<Option<Cell<'c>>>);

impl<'c> Cells<'c> {
    /// The instance with this number.
    fn instance(&self, id: u32) -> Option<&Cell<'c>> {
        self.0[(id & 0xff) as usize].as_ref().filter(|cell| cell.record.id == id)
    }

    /// The instance that has these pages.
    fn owner(&self, pages: &Range<u64>) -> Option<&Cell<'c>> {
        let index = pages.start.checked_sub(CELLS_BASE)? / CELL_SIZE;
        self.0.get(usize::try_from(index).ok()?)?.as_ref().filter(|cell| cell.has(pages))
    }
}

impl Cell<'_> {
    /// A stack without its guard page.
    fn stack(&self, slot: Option<u32>) -> Range<u64> {
        let size = self.record.stack_size;
        let start = match slot {
            None => self.base,
            Some(slot) => self.base + THREAD_STACKS_OFFSET + u64::from(slot) * size,
        };
        start + PAGE..start + size
    }

    /// Whether these pages may have contents: they are neither guards nor beyond what the instance has.
    fn has(&self, pages: &Range<u64>) -> bool {
        let within = |range: Range<u64>| range.start <= pages.start && pages.end <= range.end;
        let stacks = self.base + THREAD_STACKS_OFFSET;
        if pages.start >= self.base + MAPPINGS_OFFSET {
            let before = self.of_files.partition_point(|there| there.start <= pages.start);
            let last = before.checked_sub(1).map(|index| self.of_files[index]);
            return last.is_some_and(|there| within(there.start..there.end()));
        }
        if pages.start >= stacks {
            let slot = (pages.start - stacks) / self.record.stack_size;
            return slot < u64::from(self.record.stacks) && within(self.stack(Some(slot as u32)));
        }
        // Behind the main stack's guard, stack, image and heap lie without gaps: a run may go across their ends.
        within(self.stack(None).start..self.record.heap_end) || self.has_mapped(pages)
    }
}

impl Cell<'_> {
    /// Whether these are mapped pages with memory behind them. Ranges may lie side by side: a run may go across their ends.
    fn has_mapped(&self, pages: &Range<u64>) -> bool {
        let mapped = &self.record.mapped;
        let before = mapped.partition_point(|mapped| mapped.pages.start <= pages.start);
        let mut has = pages.start;
        for range in mapped.get(before.saturating_sub(1)..).unwrap_or_default() {
            let holds = range.state != MappedState::Reserved && (range.pages.start..range.pages.end()).contains(&has);
            if has >= pages.end || !holds {
                break;
            }
            has = range.pages.end();
        }
        has >= pages.end
    }
}

/// One for each instance at most, whose addresses lie in the image.
fn handlers(contents: &Contents, cells: &Cells<'_>) -> Result {
    let mut last = None;
    for handler in &contents.handlers {
        let wrong = |reason: &str| Err(Error::wrong(format_args!("fault handler of {:#x}", handler.instance), reason));
        if last >= Some(handler.instance) {
            return wrong("it is there twice, or not in order");
        }
        last = Some(handler.instance);
        let cell = cells.0.get((handler.instance & 0xff) as usize).and_then(Option::as_ref);
        let Some(cell) = cell.filter(|cell| cell.record.id == handler.instance) else {
            return wrong("its instance is not there");
        };
        let image = cell.base + cell.record.stack_size..cell.record.heap_start;
        let code = handler.start..handler.start.saturating_add(handler.bytes);
        if code.is_empty() || code.start < image.start || code.end > image.end || !image.contains(&handler.entry) {
            return wrong("it is not in the image");
        }
        if code.contains(&handler.entry) {
            return wrong("it lies in the code that it is for");
        }
    }
    Ok(())
}

fn instances(contents: &Contents) -> Result<Cells<'_>> {
    at_most("instances", contents.instances.len(), CELL_COUNT)?;
    let mut cells: Vec<Option<Cell<'_>>> = (0..CELL_COUNT).map(|_| None).collect();
    for record in &contents.instances {
        let wrong = |reason: &str| Err(Error::wrong(format_args!("instance {:#x}", record.id), reason));
        if record.id == SYSTEM_INSTANCE {
            return wrong("this number is the system's own");
        }
        let index = (record.id & 0xff) as usize;
        let base = cell_base(index);
        if cells[index].is_some() {
            return wrong("another instance is in the same cell");
        }
        if record.function as usize >= contents.functions.len() {
            return wrong("it runs a function that is not there");
        }
        name("a step", &record.step, 1..=NAME_MAX)?;
        if record.index >= record.count || record.attempt == 0 {
            return wrong("its index is not below the step's number of instances, or its attempt is 0");
        }
        let stack = record.stack_size;
        if !stack.is_power_of_two() || !(MIN_STACK_SIZE..=MAX_STACK_SIZE).contains(&stack) {
            return wrong("its stacks have a size that no stack may have");
        }
        let heap_may = base + stack..=base + THREAD_STACKS_OFFSET;
        let aligned = record.heap_start.is_multiple_of(PAGE) && record.heap_end.is_multiple_of(PAGE);
        if !aligned || !heap_may.contains(&record.heap_start) || !heap_may.contains(&record.heap_end) {
            return wrong("its heap is not in its cell, or not made of pages");
        }
        if record.heap_start > record.heap_end {
            return wrong("its heap ends before it begins");
        }
        // A page stays free between heap and mapped memory.
        let mut free_from = record.heap_end + PAGE;
        for MappedRange { pages, .. } in &record.mapped {
            let (aligned, end) = (pages.start.is_multiple_of(PAGE), pages.end());
            if !aligned || pages.count == 0 || pages.start < free_from || end > base + THREAD_STACKS_OFFSET {
                return wrong("mapped memory is not between its heap and its thread stacks, or not in order");
            }
            free_from = end;
        }
        if u64::from(record.stacks) > (MAPPINGS_OFFSET - THREAD_STACKS_OFFSET) / stack {
            return wrong("it has more thread stacks than its cell has room for");
        }
        let free_stacks: BTreeSet<u32> = record.free_stacks.iter().copied().collect();
        if free_stacks.len() != record.free_stacks.len()
            || free_stacks.last().is_some_and(|last| *last >= record.stacks)
        {
            return wrong("a free stack is named twice, or is none of its stacks");
        }
        if record.lines.iter().any(|line| !matches!(line.stream, 1 | 2)) {
            return wrong("it has printed a line on a stream that does not exist");
        }
        cells[index] = Some(Cell { record, base, free_stacks, of_files: Vec::new() });
    }
    Ok(Cells(cells))
}

/// Parts of files lie behind the thread stacks, by instance and address, with a free page behind each.
fn files<'c>(contents: &'c Contents, mut cells: Cells<'c>) -> Result<Cells<'c>> {
    let (mut last, mut count, mut free_from) = (None, 0, 0);
    for file in &contents.files {
        let wrong = |reason: &str| Err(Error::wrong(format_args!("mapped file {}", quoted(&file.path)), reason));
        let cell = cells.0.get_mut((file.instance & 0xff) as usize).and_then(Option::as_mut);
        let Some(cell) = cell.filter(|cell| cell.record.id == file.instance) else {
            return wrong("its instance is not there");
        };
        if last.is_some_and(|last| last > file.instance) {
            return wrong("it is not in order");
        }
        if last != Some(file.instance) {
            (last, count, free_from) = (Some(file.instance), 0, cell.base + MAPPINGS_OFFSET);
        }
        count += 1;
        at_most("mapped files of an instance", count, MAPPINGS_MAX)?;
        if file.path.len() > PATH_MAX || file.offset.checked_add(file.bytes).is_none_or(|end| end > FILE_SIZE_MAX) {
            return wrong("no file has such a path, or so many bytes");
        }
        let (start, end) = (file.start, file.end());
        if !start.is_multiple_of(PAGE) || file.bytes == 0 || start < free_from || end > cell.base + CELL_SIZE {
            return wrong("it is not where its instance can have files, or not in order");
        }
        let mut first = start;
        for there in &file.there {
            if there.start < first || !there.start.is_multiple_of(PAGE) || there.count == 0 || there.end() > end {
                return wrong("the pages that are there are not its own, or not in order");
            }
            first = there.end() + PAGE;
        }
        cell.of_files.extend_from_slice(&file.there);
        free_from = end + PAGE;
    }
    Ok(cells)
}

fn threads<'c>(records: &'c [ThreadRecord], cells: &Cells<'_>) -> Result<BTreeMap<u32, &'c ThreadRecord>> {
    at_most("threads", records.len(), MANY - 1)?;
    let mut threads = BTreeMap::new();
    let mut indices = BTreeSet::new();
    let mut stacks = BTreeSet::new();
    let mut positions = BTreeSet::new();
    for record in records {
        let wrong = |reason: &str| Err(Error::wrong(format_args!("thread {:#x}", record.number), reason));
        let Some(cell) = cells.instance(record.instance) else { return wrong("its instance is not there") };
        if index_of(record.number) == MANY as u32 - 1 || !indices.insert(index_of(record.number)) {
            return wrong("another thread has this number, or no thread may have it");
        }
        if record.stack.is_some_and(|slot| slot >= cell.record.stacks || cell.free_stacks.contains(&slot)) {
            return wrong("its stack is free, or is none of its instance's");
        }
        if !stacks.insert((record.instance, record.stack)) {
            return wrong("another thread has the same stack");
        }
        if record.position as usize >= records.len() || !positions.insert((record.instance, record.position)) {
            return wrong("its position in the instance's list is taken, or too large");
        }
        if let Err(reason) = frame(&record.frame, cell.stack(record.stack)).and_then(|()| state(record, cell)) {
            return wrong(reason);
        }
        threads.insert(record.number, record);
    }
    // A thread can only wait for one that is there.
    for record in records {
        if let ThreadState::Waiting { on: WaitOn::Thread { number }, .. } = record.state
            && threads.get(&number).is_none_or(|other| other.instance != record.instance || number == record.number)
        {
            let subject = format_args!("thread {:#x}", record.number);
            return Err(Error::wrong(subject, "it waits for a thread that its instance does not have"));
        }
    }
    Ok(threads)
}

/// One for each thread at most, which is ready and goes on in its instance's image.
fn registers(contents: &Contents, cells: &Cells<'_>, threads: &BTreeMap<u32, &ThreadRecord>) -> Result {
    let mut last = None;
    for record in &contents.registers {
        let wrong = |reason: &str| Err(Error::wrong(format_args!("registers of thread {:#x}", record.thread), reason));
        if last >= Some(record.thread) {
            return wrong("they are there twice, or not in order");
        }
        last = Some(record.thread);
        let Some(thread) = threads.get(&record.thread) else { return wrong("it is not there") };
        if thread.state != ThreadState::Ready(Resumption::Value(0)) || thread.frame.number != 0 {
            return wrong("it waits, or has made a hostcall");
        }
        let Some(cell) = cells.instance(thread.instance) else { return wrong("its instance is not there") };
        if !(cell.base + cell.record.stack_size..cell.record.heap_start).contains(&record.ip) {
            return wrong("it would go on outside of its image");
        }
        if record.extended.len() != EXTENDED_BYTES {
            return wrong("they have another size");
        }
    }
    Ok(())
}

/// The index in a thread's number.
fn index_of(number: u32) -> u32 {
    number & (MANY as u32 - 1)
}

type Reason = std::result::Result<(), &'static str>;

fn frame(frame: &Frame, stack: Range<u64>) -> Reason {
    if frame.number >= SYSTEM_ONLY {
        return Err("it makes a hostcall that only the system may make");
    }
    let top = stack.end - THREAD_HEADER_SIZE - 8;
    if !frame.user_rsp.is_multiple_of(8) || !(stack.start..=top).contains(&frame.user_rsp) {
        return Err("its stack pointer is not on its stack");
    }
    Ok(())
}

fn state(record: &ThreadRecord, cell: &Cell<'_>) -> Reason {
    let (on, deadline) = match &record.state {
        ThreadState::Ready(Resumption::Value(_)) => return Ok(()),
        ThreadState::Ready(_) => {
            let known = number::module_of(record.frame.number).is_some();
            return if known { Ok(()) } else { Err("it makes a hostcall that does not exist") };
        }
        ThreadState::Waiting { on, deadline } => (on, deadline),
    };
    let call = match on {
        WaitOn::Time => NANOSLEEP,
        WaitOn::Futex { .. } => FUTEX_WAIT,
        WaitOn::Thread { .. } => THREAD_JOIN,
        WaitOn::Slot { .. } => SLOT_TAKE,
        WaitOn::Event { .. } => EVENT_WAIT,
        WaitOn::Queue { .. } => QUEUE_WAIT,
    };
    if record.frame.number != call {
        return Err("what it waits for does not belong to the hostcall that it makes");
    }
    match on {
        WaitOn::Time if deadline.is_none() => Err("it waits for nothing, without end"),
        WaitOn::Futex { address } if *address != record.frame.args[0] => Err("it waits for another word than it named"),
        WaitOn::Futex { address }
            if !address.is_multiple_of(4) || !(cell.base..cell.base + CELL_SIZE).contains(address) =>
        {
            Err("it waits for a word that is not its instance's")
        }
        WaitOn::Thread { number } if u64::from(*number) != record.frame.args[0] => {
            Err("it waits for another thread than it named")
        }
        WaitOn::Queue { number } if *number != record.frame.args[0] => Err("it waits in another queue than it named"),
        WaitOn::Queue { number } if *number >= QUEUES_MAX as u64 => Err("it waits in a queue that no instance has"),
        WaitOn::Slot { name } if name.is_empty() || name.len() > SLOT_NAME_MAX => {
            Err("it waits for a slot whose name is empty or too long")
        }
        WaitOn::Event { name } if !is_event_list(name) => Err("it waits for an event of a name that none can have"),
        _ => Ok(()),
    }
}

/// What those in one queue have in common: threads that wait for the first of several events are in one queue, whichever events these are.
/// Queues have numbers of their instance's own. Futex words are identified by their address, which only one instance has.
fn queue_of(instance: u32, on: &WaitOn) -> (Option<u32>, WaitOn) {
    match on {
        WaitOn::Event { name } => (None, WaitOn::Event { name: event_queue_of(name).to_owned() }),
        WaitOn::Queue { .. } => (Some(instance), on.clone()),
        on => (None, on.clone()),
    }
}

fn scheduler(record: &SchedulerRecord, threads: &BTreeMap<u32, &ThreadRecord>) -> Result {
    let wrong = |number: u32, reason: &str| Err(Error::wrong(format_args!("thread {number:#x}"), reason));
    at_most("timers", record.timers.len(), MANY)?;
    at_most("instances that wait for a cell", record.pending.len(), MANY)?;
    at_most("free thread numbers", record.free.len(), MANY)?;

    let mut queued = BTreeSet::new();
    for number in &record.ready {
        let ready = threads.get(number).is_some_and(|thread| matches!(thread.state, ThreadState::Ready(_)));
        if !ready || !queued.insert(*number) {
            return wrong(*number, "it is in the ready queue twice, or is not ready");
        }
    }
    let mut things = BTreeSet::new();
    for queue in &record.queues {
        let mut thing = None;
        for number in queue {
            let on = threads.get(number).and_then(|thread| match &thread.state {
                ThreadState::Waiting { on, .. } if *on != WaitOn::Time => Some(queue_of(thread.instance, on)),
                _ => None,
            });
            if on.is_none() || thing.is_some() && thing != on || !queued.insert(*number) {
                return wrong(*number, "it is in a queue of others' waits, or in two queues");
            }
            thing = on;
        }
        if thing.is_none_or(|thing| !things.insert(thing)) {
            return Err(Error::wrong("the queues of waits", "one is empty, or two are for the same thing"));
        }
    }
    let timed = |thread: &ThreadRecord| matches!(thread.state, ThreadState::Waiting { on: WaitOn::Time, .. });
    if let Some((number, _)) = threads.iter().find(|(number, thread)| !timed(thread) && !queued.contains(*number)) {
        return wrong(*number, "it is in no queue, so nothing would wake it");
    }

    let mut indices: BTreeSet<u32> = threads.keys().map(|number| index_of(*number)).collect();
    for number in &record.free {
        if !indices.insert(index_of(*number)) {
            return wrong(*number, "this number is free twice, or some thread has it");
        }
    }
    // The table of threads has no holes.
    match indices.last().is_none_or(|last| *last as usize == indices.len() - 1) {
        true => Ok(()),
        false => Err(Error::wrong("the free thread numbers", "one between them is neither free nor a thread's")),
    }
}

/// The pages of all modules, by ascending address and with gaps between them.
fn modules(records: &[ModuleRecord]) -> Result<Vec<PageRange>> {
    at_most("modules", records.len(), FEW)?;
    let mut names = BTreeSet::new();
    let mut pages = Vec::new();
    for record in records {
        name("a module", &record.name, 1..=NAME_MAX)?;
        let wrong = |reason: &str| Err(Error::wrong(format_args!("module {}", quoted(&record.name)), reason));
        if !names.insert(&record.name) {
            return wrong("it is there twice");
        }
        if record.version().is_none() {
            return wrong("its state does not begin with a version");
        }
        for range in &record.pages {
            let (start, end) = match range.start < FILES_BASE {
                true => (ARENA_BASE, ARENA_END),
                false => (FILES_BASE, FILES_END),
            };
            let room = end.saturating_sub(range.start) / PAGE;
            if range.start < start || !range.start.is_multiple_of(PAGE) || range.count > room {
                return wrong("it has pages outside of the buffer arena, which are none of files in memory");
            }
        }
        pages.extend_from_slice(&record.pages);
    }
    pages.sort();
    if !pages.windows(2).all(|two| two[0].end() <= two[1].start) {
        return Err(Error::wrong("the modules", "two have the same page"));
    }
    // Buffers may lie side by side: a run of pages may go across their ends.
    pages.dedup_by(|next, last| {
        let follows = last.end() == next.start;
        last.count += if follows { next.count } else { 0 };
        follows
    });
    Ok(pages)
}

/// Pages are of an instance or of a module.
fn place(run: &Run, cells: &Cells<'_>, modules: &[PageRange], has_parent: bool) -> Result {
    let pages = run.address..run.end();
    let of_a_module = || {
        let before = modules.partition_point(|range| range.start <= pages.start);
        let range = before.checked_sub(1).map(|index| modules[index]);
        range.is_some_and(|range| pages.end <= range.end())
    };
    let wrong = |reason| Err(Error::wrong(format_args!("page {:#x}", run.address), reason));
    if !of_a_module() && cells.owner(&pages).is_none() {
        return wrong("no instance and no module has the pages from here on");
    }
    match run.content {
        Content::Parent if !has_parent => wrong("it is taken from the parent, and there is none"),
        _ => Ok(()),
    }
}
