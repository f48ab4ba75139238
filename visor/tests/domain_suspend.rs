//! A workflow that only waits is captured, its domain is torn down, and another one goes on with it.

mod support;

use monohull_abi::layout::{
    ARENA_BASE, CARRIER_BASE, CELL_COUNT, CELL_SIZE, FILES_BASE, INFO_BASE, PAGE, THREAD_STACKS_OFFSET, cell_base,
};
use monohull_abi::number::{EXIT, FUTEX_WAIT, NANOSLEEP, QUEUE_WAIT, SLOT_TAKE, THREAD_JOIN};
use monohull_visor::domain::checkpoint::record::RangeState::{self, Hidden, Read, ReadWrite, Reserved};
use monohull_visor::domain::checkpoint::record::{FaultHandler, MappedRecord, ThreadRecord, ThreadState};
use monohull_visor::domain::checkpoint::{Continuation, Rejected, RestoreError};
use monohull_visor::domain::fault::HandlerError;
use monohull_visor::engine::{HostError, Ready, RunEnd, RunOptions};
use monohull_visor::report::{FailureKind, RunReport, Silent, Status};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use support::untimed::without_times;
use support::{ready, report, suspended, text};

/// Shorter waits are waited out.
const LEAST: Duration = Duration::from_millis(20);

fn run(ready: &Ready, continuation: Option<Continuation>, suspend: bool) -> RunEnd {
    let least = suspend.then_some(LEAST);
    ready.run_from(continuation, least, &RunOptions::default(), Arc::new(Silent)).expect("the host can hold a domain")
}

/// A step that naps, and one that waits for its slot.
fn sleepers(naps: u32, milliseconds: u64, carriers: u32) -> Value {
    let args = |takes: &str, fills: &str, naps: u32| json!({ "naps": naps, "milliseconds": milliseconds, "takes": takes, "fills": fills });
    json!({
        "name": "sleepers",
        "functions": { "sleeper": { "image": "sleeper" } },
        "steps": [
            { "name": "first", "function": "sleeper", "args": args("", "between", naps) },
            { "name": "second", "function": "sleeper", "args": args("between", "result", 1) },
        ],
        "outputs": ["result"],
        "limits": { "carriers": carriers, "timeout": "60s" },
    })
}

/// Goes on from each continuation as soon as there is one. The last report, and how often the workflow was suspended.
fn run_with_interruptions(ready: &Ready) -> (RunReport, u32) {
    go_on(ready, run(ready, None, true))
}

/// The same from this end of a run.
fn go_on(ready: &Ready, mut end: RunEnd) -> (RunReport, u32) {
    let mut times = 0;
    while let RunEnd::Suspended(suspended) = end {
        times += 1;
        end = run(ready, Some(suspended.continuation), true);
    }
    (report(end), times)
}

#[test]
fn a_workflow_that_was_suspended_reports_what_an_uninterrupted_one_does() {
    for carriers in [1, 2, 4] {
        let ready = ready(&sleepers(4, 60, carriers));
        let _one = support::one_at_a_time();
        let uninterrupted = report(run(&ready, None, false));
        assert_eq!(uninterrupted.status, Status::Done, "{:#?}", uninterrupted.error);
        let (resumed, times) = run_with_interruptions(&ready);
        assert!(times >= 4, "suspended {times} times");
        assert_eq!(without_times(&resumed), without_times(&uninterrupted));
        assert_eq!((uninterrupted.suspended, resumed.suspended.map(|s| s.times)), (None, Some(times.into())));
    }
}

/// What a workflow is away for is no time that its run has taken, and its report has both.
#[test]
fn the_report_says_how_long_a_workflow_was_away() {
    const HOUR: u64 = 3_600_000_000_000;
    let ready = ready(&sleepers(2, 60, 1));
    let _one = support::one_at_a_time();
    let mut first = suspended(run(&ready, None, true)).continuation;
    first.wall -= HOUR;
    let mut second = suspended(run(&ready, Some(first), true)).continuation;
    second.wall -= 2 * HOUR;
    let resumed = report(run(&ready, Some(second), false));
    let away = resumed.suspended.expect("it was away");
    assert_eq!(away.times, 2);
    let hours = |hours: u64| hours * HOUR / 1000;
    assert!((hours(3)..hours(4)).contains(&away.away_us), "{away:?}");
    assert!(resumed.duration_us < hours(1), "{}", resumed.duration_us);
}

/// A wall clock that was set back takes nothing back: what was to be waited for is, from the time of the capture on, and the domain's own clock
/// does not go back.
#[test]
fn a_clock_that_was_set_back_meanwhile_does_not_take_the_domain_back() {
    const DAY: u64 = 24 * 3_600_000_000_000;
    let ready = ready(&sleepers(3, 60, 1));
    let _one = support::one_at_a_time();
    let uninterrupted = report(run(&ready, None, false));
    let (mut end, mut times, mut clock) = (run(&ready, None, true), 0, 0);
    while let RunEnd::Suspended(suspended) = end {
        let mut continuation = suspended.continuation;
        assert!(continuation.clock > clock, "{} after {clock}", continuation.clock);
        clock = continuation.clock;
        // It is a day earlier now than it was at the capture.
        continuation.wall += DAY;
        times += 1;
        end = run(&ready, Some(continuation), true);
    }
    let resumed = report(end);
    assert!(times >= 3, "suspended {times} times");
    // The function measures its naps itself.
    assert_eq!(without_times(&resumed), without_times(&uninterrupted));
    let away = resumed.suspended.expect("it was suspended");
    assert_eq!((away.times, away.away_us), (times, 0), "no time that was not");
}

#[test]
fn waits_are_reported_by_step_and_function() {
    let ready = ready(&sleepers(1, 3_600_000, 2));
    let _one = support::one_at_a_time();
    let suspended = suspended(run(&ready, None, true));
    let waits: Vec<_> =
        suspended.waits.iter().map(|wait| (wait.step.as_str(), wait.what.as_str(), wait.until)).collect();
    assert!(
        waits.iter().any(|(step, what, until)| (*step, *what) == ("first", "in a sleep") && until.is_some()),
        "{waits:?}"
    );
    assert!(waits.contains(&("second", "for a slot", None)), "{waits:?}");
    let pages: usize = suspended.continuation.pages.iter().map(|run| run.bytes.len() / 4096).sum();
    assert!(pages < 40, "{pages} pages of two small functions");
    let threads = suspended.continuation.instances.iter().flat_map(|instance| &instance.threads);
    let slots: Vec<_> = threads.filter_map(|thread| thread.name.as_deref()).collect();
    assert_eq!(slots, ["between"], "the one that is waited for");
    // The workflow's own timeout comes before the end of the nap.
    assert!(suspended.until < waits.iter().filter_map(|(_, _, until)| *until).min());
}

/// A failed attempt and the pause before the next one are part of the continuation.
#[test]
fn a_pause_between_two_attempts_is_gone_on_with() {
    let document = json!({
        "name": "retried",
        "functions": { "misbehave": { "image": "misbehave" } },
        "steps": [{ "name": "fails", "function": "misbehave", "args": { "how": "panic" },
            "retry": { "max_attempts": 3, "interval": "60ms" } }],
    });
    let ready = ready(&document);
    let _one = support::one_at_a_time();
    let uninterrupted = report(run(&ready, None, false));
    let (resumed, times) = run_with_interruptions(&ready);
    assert!(times >= 2, "suspended {times} times");
    assert_eq!(resumed.steps[0].instances[0].failed_attempts.len(), 2);
    assert_eq!(without_times(&resumed), without_times(&uninterrupted));
}

/// Instances that wait for a cell are part of the continuation: those that have one sleep meanwhile.
#[test]
fn instances_that_wait_for_a_cell_are_gone_on_with() {
    const MANY: u32 = 300;
    const HOUR: u64 = 3_600_000;
    /// Until all have begun. They begin one after the other, and what is due so soon is waited for.
    const BEGUN: Duration = Duration::from_secs(60);
    let wakes = |milliseconds: u64| {
        let args = json!({ "what": "wake", "count": milliseconds, "bytes": 4096, "pages": 1 });
        ready(&json!({
            "name": "many",
            "functions": { "probe": { "image": "bench-probe" } },
            "steps": [{
                "name": "many", "function": "probe", "instances": MANY, "memory": "1MiB", "stack": "16KiB", "args": args,
            }],
            "limits": { "carriers": 2 },
        }))
    };
    let _one = support::one_at_a_time();
    let uninterrupted = report(run(&wakes(1), None, false));
    assert_eq!(uninterrupted.status, Status::Done, "{:#?}", uninterrupted.error);
    let ready = wakes(HOUR);
    let (mut rest, mut waiting) = (None, Vec::new());
    let resumed = loop {
        let end = ready.run_from(rest, Some(BEGUN), &RunOptions::default(), Arc::new(Silent));
        match end.expect("the host can hold a domain") {
            RunEnd::Suspended(suspended) => {
                let mut continuation = suspended.continuation;
                waiting.push((continuation.instances.len(), continuation.pending.len()));
                // As if it had lain there until the first of them wakes.
                continuation.wall = 0;
                rest = Some(continuation);
            }
            end => break report(end),
        }
    };
    assert_eq!(waiting.first(), Some(&(CELL_COUNT, MANY as usize - CELL_COUNT)), "all cells are in use");
    assert!(waiting.last().is_some_and(|(_, pending)| *pending == 0), "{waiting:?}");
    assert_eq!(without_times(&resumed), without_times(&uninterrupted));
}

/// What only relocation writes, and the pages below stacks, are no function's to write to after a restore either: of its own relocated constants,
/// of the main stack, and of the stack of a thread that was there at the capture. Another instance goes on beside it.
#[test]
fn what_was_read_only_or_a_guard_is_that_after_a_restore() {
    const MINUTE: u64 = 60_000;
    for (how, kind, owner) in [
        ("write-relro", FailureKind::MemoryFault, "its own relocated data, which is read-only"),
        ("write-guard", FailureKind::StackOverflow, "the guard page of its own stack"),
        ("write-guard-of-thread", FailureKind::StackOverflow, "the guard page of its own stack"),
    ] {
        let mut document = sleepers(4, 30 * MINUTE, 2);
        document["functions"]["misbehave"] = json!({ "image": "misbehave" });
        // It fails for the second time after the others have ended.
        document["steps"].as_array_mut().expect("steps").push(json!({
            "name": "fails", "function": "misbehave", "args": { "how": how, "nap": MINUTE },
            "retry": { "max_attempts": 2, "interval": "10h" },
        }));
        document["limits"]["timeout"] = json!("100h");
        let ready = ready(&document);
        let _one = support::one_at_a_time();
        let mut rest = suspended(run(&ready, None, true)).continuation;
        let threads = |rest: &Continuation| rest.instances.iter().map(|instance| instance.threads.len()).sum::<usize>();
        while threads(&rest) < 5 {
            rest = suspended(run(&ready, Some(rest), true)).continuation;
        }
        let options = RunOptions { skip_time: true, ..RunOptions::default() };
        let end = ready.run_from(Some(rest), None, &options, Arc::new(Silent));
        let report = report(end.expect("the host can hold a domain"));
        let others = report.steps.iter().filter(|step| step.name != "fails");
        assert!(others.clone().all(|step| step.status == Status::Done), "{how}: {:#?}", report.error);
        let said = others.flat_map(|step| &step.instances[0].lines).filter(|line| line.text.ends_with(" … slept"));
        assert_eq!(said.count(), 4 + 1, "{how}");
        let failed = report.steps.iter().find(|step| step.name == "fails").expect("it began");
        let [first] = &failed.instances[0].failed_attempts[..] else { panic!("{how}: {failed:#?}") };
        for failure in [&first.error, &report.error.expect("it fails")] {
            assert_eq!((failure.kind, failure.address_of.as_deref()), (kind, Some(owner)), "{how}: {failure:#?}");
        }
    }
}

/// A checkpoint names the slot that is waited for. If the name is gone the workflow is not suspended, and goes on.
#[test]
fn a_slot_whose_name_was_overwritten_is_in_the_way() {
    let document = json!({
        "name": "renames",
        "functions": { "misbehave": { "image": "misbehave" } },
        "steps": [{ "name": "renames", "function": "misbehave", "args": { "how": "rename-slot" } }],
    });
    let ready = ready(&document);
    let _one = support::one_at_a_time();
    let first = suspended(run(&ready, None, true)).continuation;
    let names: Vec<_> = first.instances[0].threads.iter().filter_map(|thread| thread.name.as_deref()).collect();
    assert_eq!(names, ["xxxx"]);
    // It may be suspended again before the first sleep is over.
    let (resumed, _) = go_on(&ready, run(&ready, Some(first), true));
    assert_eq!(resumed.status, Status::Done, "{:#?}", resumed.error);
    let why = resumed.not_suspended.expect("a reason");
    assert!(
        why.contains("renames") && why.contains("waits for a slot or an event whose name is no longer in its memory"),
        "{why}"
    );
}

/// A stack pointer is the function's own choice. One that no checkpoint may have is found at the capture, and the workflow goes on.
#[test]
fn a_stack_pointer_that_is_not_aligned_or_on_another_stack_is_in_the_way_and_its_thread_named() {
    for how in ["unaligned-sleep", "own-stack-sleep"] {
        let document = json!({
            "name": "tilted",
            "functions": { "misbehave": { "image": "misbehave" } },
            "steps": [{ "name": "sleeps", "function": "misbehave", "args": { "how": how } }],
        });
        let ready = ready(&document);
        let _one = support::one_at_a_time();
        let ended = report(run(&ready, None, true));
        assert_eq!(ended.status, Status::Done, "{:#?}", ended.error);
        let why = ended.not_suspended.expect("a reason");
        let words = "of sleeps[0] (function misbehave) has its stack pointer outside its stack, or not aligned";
        assert!(why.starts_with("thread 0x") && why.ends_with(words), "{why}");
    }
}

/// A deadlocked function is reported as usual, and so is a workflow whose timeout passes while it is suspended.
#[test]
fn deadlocks_and_timeouts_are_those_of_an_uninterrupted_run() {
    let document = json!({
        "name": "late",
        "functions": { "misbehave": { "image": "misbehave" } },
        "steps": [{ "name": "sleeps", "function": "misbehave", "args": { "how": "sleep" }, "timeout": "100ms" }],
    });
    let ready = ready(&document);
    let _one = support::one_at_a_time();
    let continuation = suspended(run(&ready, None, true)).continuation;
    std::thread::sleep(Duration::from_millis(150));
    let resumed = report(run(&ready, Some(continuation), false));
    assert_eq!(resumed.error.expect("its time is up").kind, FailureKind::Timeout);
}

/// The pages of slot buffers.
fn pages_of_mm(continuation: &mut Continuation) -> &mut Vec<(u64, u64)> {
    &mut continuation.modules.iter_mut().find(|module| module.name == "mm").expect("it is in use").pages
}

fn range(start: u64, bytes: u64, state: RangeState) -> MappedRecord {
    MappedRecord { start, bytes, state }
}

/// What an edited continuation would give its author: the numbers name the field that was changed.
#[test]
fn a_continuation_is_checked_as_a_message_from_a_stranger() {
    let ready = ready(&sleepers(1, 3_600_000, 1));
    let _one = support::one_at_a_time();
    let good = suspended(run(&ready, None, true)).continuation;
    let sleeps = |thread: &ThreadRecord| thread.call == NANOSLEEP;
    let joins = |thread: &ThreadRecord| thread.call == THREAD_JOIN;
    let takes = |thread: &ThreadRecord| thread.call == SLOT_TAKE;
    let futex = |thread: &ThreadRecord| thread.call == FUTEX_WAIT;
    type Change = Box<dyn Fn(&mut Continuation)>;
    let with = |which: fn(&ThreadRecord) -> bool, change: fn(&mut ThreadRecord)| -> Change {
        Box::new(move |c| {
            let threads = c.instances.iter_mut().flat_map(|instance| &mut instance.threads);
            change(threads.into_iter().find(|thread| which(thread)).expect("there is such a thread"));
        })
    };
    // Ranges that begin somewhere between the end of the heap and the thread stacks.
    let mapped = |ranges: fn(u64, u64) -> Vec<MappedRecord>| -> Change {
        Box::new(move |c| {
            let instance = &mut c.instances[0];
            let top = cell_base(instance.id as usize & 0xff) + THREAD_STACKS_OFFSET;
            instance.mapped = ranges(instance.heap_start + instance.heap, top);
        })
    };
    let handler = |words: fn(u64) -> (u64, u64, u64)| -> Change {
        Box::new(move |c| {
            let (entry, start, bytes) = words(c.instances[0].heap_start);
            c.instances[0].fault_handler = Some(FaultHandler { entry, start, bytes });
        })
    };
    let changes: Vec<(Rejected, Change)> = vec![
        // A capture of a run that went on, without those before it.
        (Rejected::Incomplete, Box::new(|c| c.unchanged.push((c.pages[0].address, c.pages[0].bytes.len() as u64)))),
        (Rejected::InstanceId(u32::MAX), Box::new(|c| c.instances[0].id = u32::MAX)),
        (Rejected::InstanceId(0), Box::new(|c| c.instances[0].id = 0)),
        (Rejected::CellTwice, Box::new(|c| c.instances[1].id = c.instances[0].id + 256)),
        (Rejected::Plan, Box::new(|c| c.instances[0].step.push('x'))),
        (Rejected::Plan, Box::new(|c| c.instances[0].function.clear())),
        (Rejected::Plan, Box::new(|c| c.instances[0].index += 1)),
        (Rejected::Plan, Box::new(|c| c.instances[0].count += 1)),
        (Rejected::Plan, Box::new(|c| c.instances[0].stack_size /= 2)),
        (Rejected::Heap, Box::new(|c| c.instances[0].heap_start += PAGE)),
        (Rejected::Heap, Box::new(|c| c.instances[0].heap += 1)),
        (Rejected::Heap, Box::new(|c| c.instances[0].heap = 1 << 40)),
        (Rejected::MemoryLimit, Box::new(|c| c.instances[0].heap = 8 << 30)),
        (Rejected::MappedMemory, mapped(|heap_end, _| vec![range(heap_end, PAGE, ReadWrite)])),
        (Rejected::MappedMemory, mapped(|_, top| vec![range(top - PAGE + 8, PAGE - 8, ReadWrite)])),
        (Rejected::MappedMemory, mapped(|_, top| vec![range(top - PAGE, 0, Reserved)])),
        (Rejected::MappedMemory, mapped(|_, top| vec![range(top - PAGE, 2 * PAGE, ReadWrite)])),
        (Rejected::MappedMemory, mapped(|_, top| vec![range(top - PAGE, u64::MAX, Reserved)])),
        (Rejected::MappedMemory, mapped(|_, top| vec![range(top + CELL_SIZE - PAGE, PAGE, ReadWrite)])),
        (
            Rejected::MappedMemory,
            mapped(|_, top| vec![range(CARRIER_BASE, PAGE, ReadWrite), range(top - PAGE, PAGE, Read)]),
        ),
        (
            Rejected::MappedMemory,
            mapped(|_, top| vec![range(top - PAGE, PAGE, Read), range(top - PAGE, PAGE, ReadWrite)]),
        ),
        (Rejected::MappedMemory, mapped(|_, top| vec![range(top - PAGE, 2 * PAGE, Hidden)])),
        (Rejected::MemoryLimit, mapped(|_, top| vec![range(top - (8 << 30), 8 << 30, ReadWrite)])),
        (Rejected::MemoryLimit, mapped(|_, top| vec![range(top - (8 << 30), 8 << 30, Hidden)])),
        (Rejected::FaultHandler(HandlerError::Entry), handler(|heap| (heap, heap, PAGE))),
        (Rejected::FaultHandler(HandlerError::Entry), handler(|heap| (CARRIER_BASE, heap, PAGE))),
        (Rejected::FaultHandler(HandlerError::Entry), handler(|_| (0, 0, u64::MAX))),
        (Rejected::Stacks, Box::new(|c| c.instances[0].stacks += 1)),
        (Rejected::Stacks, Box::new(|c| c.instances[0].free_stacks.push(0))),
        (Rejected::Stacks, Box::new(|c| c.instances[0].threads[2].stack = c.instances[0].threads[1].stack)),
        (Rejected::MainThread, Box::new(|c| c.instances[0].threads[1].stack = None)),
        (Rejected::ThreadNumbers, Box::new(|c| c.scheduler.free.push(1 << 19))),
        (Rejected::ThreadNumbers, Box::new(|c| c.instances[0].threads[0].number = c.instances[0].threads[1].number)),
        (Rejected::StackPointer, with(sleeps, |thread| thread.user_rsp = 0x7fff_0000_0000)),
        (Rejected::StackPointer, with(sleeps, |thread| thread.user_rsp += 4)),
        (Rejected::StackPointer, with(sleeps, |thread| thread.user_rsp += 1 << 36)),
        (Rejected::Call(200), with(sleeps, |thread| thread.call = 200)),
        (Rejected::Call(EXIT), with(sleeps, |thread| thread.call = EXIT)),
        // As a template has it, and nothing else.
        (Rejected::Call(NANOSLEEP), with(sleeps, |thread| thread.state = ThreadState::Unserved)),
        (Rejected::Call(FUTEX_WAIT), with(futex, |thread| thread.state = ThreadState::Returns(0))),
        (Rejected::Wait, with(joins, |thread| thread.state = ThreadState::TimedOut)),
        (Rejected::Wait, with(sleeps, |thread| (thread.call, thread.args[0]) = (QUEUE_WAIT, 64))),
        (Rejected::Order, with(sleeps, |thread| (thread.call, thread.args[0]) = (QUEUE_WAIT, 63))),
        (Rejected::FutexAddress, with(futex, |thread| thread.args[0] = 0x1000)),
        (Rejected::FutexAddress, with(futex, |thread| thread.args[0] += 1 << 36)),
        (Rejected::Name, with(takes, |thread| thread.name = None)),
        (Rejected::Name, with(takes, |thread| thread.name = Some(String::new()))),
        (Rejected::Name, with(takes, |thread| thread.name = Some("x".repeat(256)))),
        (Rejected::Name, with(sleeps, |thread| thread.name = Some("between".to_owned()))),
        (Rejected::Join, with(joins, |thread| thread.args[0] = thread.number.into())),
        (Rejected::Join, with(joins, |thread| thread.args[0] = u64::MAX)),
        (Rejected::Copy, Box::new(|c| c.lineage.copy = 1)),
        (Rejected::Copy, Box::new(|c| c.lineage.copies = 1)),
        (Rejected::Order, Box::new(|c| c.scheduler.queues.clear())),
        (Rejected::Order, Box::new(|c| c.scheduler.queues[0].push(c.instances[0].threads[0].number))),
        (Rejected::Order, Box::new(|c| c.scheduler.queues.push(Vec::new()))),
        (Rejected::Order, Box::new(|c| c.scheduler.ready.push(c.instances[0].threads[0].number))),
        (Rejected::Time, with(sleeps, |thread| thread.state = ThreadState::Waits { until: Some(0) })),
        (Rejected::Output, Box::new(|c| c.instances[0].lines.push((7, String::new())))),
        (Rejected::ModulePages, Box::new(|c| pages_of_mm(c).push((ARENA_BASE + PAGE * 64, PAGE)))),
        (Rejected::ModulePages, Box::new(|c| pages_of_mm(c).push((FILES_BASE, PAGE)))),
        (Rejected::Pages, Box::new(|c| c.pages.last_mut().expect("a run").address = FILES_BASE)),
        (Rejected::Pages, Box::new(|c| c.pages[0].address = 0x1000)),
        (Rejected::Pages, Box::new(|c| c.pages[0].address += 8)),
        (Rejected::Pages, Box::new(|c| _ = c.pages[0].bytes.pop())),
        (Rejected::Pages, Box::new(|c| c.pages[0].bytes.resize(64 << 20, 0))),
        (Rejected::Pages, Box::new(|c| c.pages.swap(0, 1))),
        // Code, the guard of a stack, the info page, the arena, trusted memory.
        (Rejected::Pages, Box::new(|c| c.pages[0].address = cell_base(0) + (1 << 20))),
        (Rejected::Pages, Box::new(|c| c.pages[0].address = cell_base(0))),
        (Rejected::Pages, Box::new(|c| c.pages[0].address = INFO_BASE)),
        (Rejected::Pages, Box::new(|c| c.pages.last_mut().expect("a run").address = ARENA_BASE)),
        (Rejected::Pages, Box::new(|c| c.pages[0].address = CARRIER_BASE)),
    ];
    for (index, (expected, change)) in changes.into_iter().enumerate() {
        let mut bad = good.clone();
        change(&mut bad);
        let end = ready.run_from(Some(bad), None, &RunOptions::default(), Arc::new(Silent));
        match end {
            Err(HostError::Restore(RestoreError::Rejected(rejected))) if rejected == expected => {}
            Err(error) => panic!("change {index} is refused otherwise: {error}"),
            Ok(_) => panic!("change {index} is accepted, which should be refused: {expected}"),
        }
    }
    let changes: [Change; 4] = [
        Box::new(|c| c.instances[0].token = 7 << 32),
        Box::new(|c| c.instances[0].attempt += 1),
        Box::new(|c| _ = c.instances.pop()),
        Box::new(|c| c.driver.truncate(10)),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut bad = good.clone();
        change(&mut bad);
        let end = ready.run_from(Some(bad), None, &RunOptions::default(), Arc::new(Silent));
        assert!(matches!(end, Err(HostError::State(_) | HostError::Restore(_))), "change {index}");
    }
    // The unchanged one is good.
    suspended(run(&ready, Some(good), true));
}

/// What a function has freed is in no checkpoint, though it lies in memory still: slot buffers, and stack below the stack pointer.
#[test]
fn what_was_freed_is_not_in_a_continuation() {
    let args = json!({ "role": "forgets", "naps": 0, "milliseconds": 3_600_000 });
    let ready = ready(&json!({
        "name": "forgets",
        "functions": { "interrupted": { "image": "interrupted" } },
        "steps": [{ "name": "forgets", "function": "interrupted", "args": args, "stack": "256KiB" }],
        "outputs": ["result"],
        "limits": { "timeout": "2h" },
    }));
    let _one = support::one_at_a_time();
    let mut continuation = suspended(run(&ready, None, true)).continuation;
    // A few such bytes may be a register that the function has put onto its stack.
    let places = |byte: u8| {
        let pieces =
            continuation.pages.iter().flat_map(|run| (run.address..).step_by(256).zip(run.bytes.chunks_exact(256)));
        let found = pieces.filter(|(_, piece)| piece.iter().all(|found| *found == byte));
        found.map(|(address, _)| format!("{address:#x}")).collect::<Vec<_>>()
    };
    assert!(!places(0x5c).is_empty(), "what it has is there");
    assert_eq!(places(0xa7), [""; 0], "what it had is not");
    continuation.wall = 0;
    assert_eq!(text(&report(run(&ready, Some(continuation), false)), "result"), "slept");
}

/// Each instance with a key of its own, where there are keys.
#[test]
fn a_workflow_of_instances_that_are_apart_goes_on_as_well() {
    let mut document = sleepers(3, 40, 2);
    document["isolation"] = json!("function");
    let ready = ready(&document);
    let _one = support::one_at_a_time();
    let uninterrupted = report(run(&ready, None, false));
    let (resumed, times) = run_with_interruptions(&ready);
    assert!(times >= 3, "suspended {times} times");
    assert_eq!(without_times(&resumed), without_times(&uninterrupted));
}
