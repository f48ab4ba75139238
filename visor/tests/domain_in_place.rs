//! A run that is captured while it goes on: it ends as one that is not, and so does each continuation that was taken on the way.

#[path = "support/extent.rs"]
mod extent;
mod support;

use extent::is_exhaustive;
use monohull_abi::layout::{FILES_BASE, FILES_SIZE, PAGE};
use monohull_visor::domain::checkpoint::record::PageRun;
use monohull_visor::domain::checkpoint::{Answer, Base, Continuation, Keeper, Rejected, RestoreError, Suspended};
use monohull_visor::domain::keys;
use monohull_visor::engine::{Event, HostError, Ready, RunOptions};
use monohull_visor::report::{RunReport, Silent, Status};
use monohull_visor::worker::{read_continuation, seal_continuation};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use support::{ready, report, text};

/// What is answered to a capture; `None`: nothing, ever.
type Answers = Box<dyn FnMut(&Suspended) -> Option<Answer> + Send>;

/// Keeps every capture, with the pages that it leaves to the one before, and answers at once.
struct Kept {
    captures: Mutex<Vec<Suspended>>,
    /// How many pages each of them had itself, and how many it left out.
    counts: Mutex<Vec<(u64, u64)>>,
    /// How many of the former are of files in memory.
    of_files: Mutex<Vec<u64>>,
    /// The pages of the capture that the next one is compared with.
    base: Mutex<Option<BTreeMap<u64, Vec<u8>>>>,
    answers: Mutex<Answers>,
    answer: Mutex<Option<Answer>>,
}

/// Puts the pages that a capture has left out among the others. All of its pages.
fn complete(continuation: &mut Continuation, base: Option<&BTreeMap<u64, Vec<u8>>>) -> BTreeMap<u64, Vec<u8>> {
    let mut pages = BTreeMap::new();
    for run in &continuation.pages {
        for (address, bytes) in (run.address..).step_by(PAGE as usize).zip(run.bytes.chunks(PAGE as usize)) {
            let before = base.and_then(|base| base.get(&address));
            assert_ne!(before.map(Vec::as_slice), Some(bytes), "{address:#x} has not changed");
            pages.insert(address, bytes.to_vec());
        }
    }
    for (start, bytes) in std::mem::take(&mut continuation.unchanged) {
        for address in (start..start + bytes).step_by(PAGE as usize) {
            let before = base.and_then(|base| base.get(&address)).expect("the one before has it");
            assert!(pages.insert(address, before.clone()).is_none(), "{address:#x} is there twice");
        }
    }
    let runs = pages.iter().map(|(address, bytes)| PageRun { address: *address, bytes: bytes.clone() });
    continuation.pages = runs.collect();
    pages
}

/// How many pages of files in memory it has.
fn pages_of_files(captured: &Suspended) -> u64 {
    let runs = captured.continuation.pages.iter().filter(|run| run.address >= FILES_BASE);
    runs.map(|run| run.bytes.len() as u64 / PAGE).sum()
}

impl Kept {
    /// All are kept, and nothing has come.
    fn all() -> Arc<Kept> {
        Kept::answering(|captured| Some(kept(captured.events_taken.clone(), Vec::new())))
    }

    fn answering(answers: impl FnMut(&Suspended) -> Option<Answer> + Send + 'static) -> Arc<Kept> {
        let answers: Answers = Box::new(answers);
        Arc::new(Kept {
            captures: Mutex::default(),
            counts: Mutex::default(),
            of_files: Mutex::default(),
            base: Mutex::default(),
            answers: Mutex::new(answers),
            answer: Mutex::default(),
        })
    }

    fn captures(&self) -> MutexGuard<'_, Vec<Suspended>> {
        self.captures.lock().expect("captures")
    }
}

impl Keeper for Kept {
    fn keep(&self, mut captured: Suspended) {
        let answer = (self.answers.lock().expect("answers"))(&captured);
        let mut base = self.base.lock().expect("the one before");
        let left_out = captured.continuation.unchanged.iter().map(|(_, bytes)| bytes / PAGE).sum();
        self.of_files.lock().expect("counts").push(pages_of_files(&captured));
        let pages = complete(&mut captured.continuation, base.as_ref());
        self.counts.lock().expect("counts").push((pages.len() as u64 - left_out, left_out));
        match answer.as_ref().map(|answer| answer.next) {
            Some(Base::This) => *base = Some(pages),
            Some(Base::None) => *base = None,
            Some(Base::Before) | None => {}
        }
        self.captures().push(captured);
        *self.answer.lock().expect("answer") = answer;
    }

    fn has_answer(&self) -> bool {
        self.answer.lock().expect("answer").is_some()
    }

    fn take_answer(&self) -> Option<Answer> {
        self.answer.lock().expect("answer").take()
    }

    fn wait_for_answer(&self) -> Option<Answer> {
        self.take_answer()
    }
}

/// The answer to a capture that was kept.
fn kept(taken: Vec<u64>, events: Vec<Event>) -> Answer {
    Answer { next: Base::This, taken, sent: 0, events }
}

/// Runs a workflow to its end.
fn run(ready: &Ready, continuation: Option<Continuation>, kept: Option<(&Arc<Kept>, Duration)>) -> RunReport {
    let options = RunOptions { halt: kept.map(|(_, every)| every), ..RunOptions::default() };
    let keeper = kept.map(|(kept, _)| kept.clone() as Arc<dyn Keeper>);
    let end = ready.run_kept(continuation, None, keeper, &options, Arc::new(Silent));
    let report = report(end.expect("the host can hold a domain"));
    assert_eq!(report.status, Status::Done, "{:#?}", report.error);
    // A test that is to show something with keys in force shows nothing if this program keeps them out of force.
    assert_eq!(report.isolation == "mpk", keys::by_default(), "{:?}", report.isolation_note);
    report
}

/// Goes on with a continuation in sealed memory, as the process of a worker does, to the end.
fn run_mapped(ready: &Ready, continuation: Continuation, kept: Option<(&Arc<Kept>, Duration)>) -> RunReport {
    let options = RunOptions { halt: kept.map(|(_, every)| every), ..RunOptions::default() };
    let keeper = kept.map(|(kept, _)| kept.clone() as Arc<dyn Keeper>);
    let memory = seal_continuation(continuation).expect("memory");
    let rest = read_continuation(memory, None).expect("a continuation");
    let end = ready.run_captured(Some(rest), None, keeper, &options, Arc::new(Silent));
    let report = report(end.expect("the host can hold a domain"));
    assert_eq!(report.status, Status::Done, "{:#?}", report.error);
    report
}

/// What a run gives that is not captured, and how often others are, to be captured so many times or a little more often, however fast the
/// machine is.
fn uncaptured(ready: &Ready, times: u32) -> (RunReport, Duration) {
    let begin = Instant::now();
    (run(ready, None, None), begin.elapsed() / times)
}

/// A few of so many: the first, the last, and one between them.
fn some_of(count: usize) -> BTreeSet<usize> {
    (0..=2).map(|part| (count - 1) * part / 2).collect()
}

/// The continuation of a capture as another process would go on with it, after a kill at that moment.
fn after_a_kill(captured: &Suspended) -> Continuation {
    let mut continuation = captured.continuation.clone();
    continuation.lineage.generation += 1;
    continuation
}

/// Steps that run at the same time; the first fills the result.
fn computes(carriers: u32, steps: &[(&str, u64)]) -> Value {
    let step = |(index, (how, rounds)): (usize, &(&str, u64))| json!({ "name": format!("s{index}"), "function": "preempted", "args": { "how": how, "rounds": rounds } });
    json!({
        "name": "in-place",
        "functions": { "preempted": { "image": "preempted" } },
        "steps": steps.iter().enumerate().map(step).collect::<Vec<_>>(),
        "outputs": ["result"],
        "limits": { "carriers": carriers, "timeout": "1h" },
    })
}

/// Loops over all registers, hostcalls and threads, side by side: what goes wrong with a register is a panic.
#[test]
fn a_computation_goes_on_after_each_capture_and_from_each() {
    let _one = support::one_at_a_time();
    let steps = [("compute", 20_000_000), ("registers", 1500), ("threads", 2_000_000), ("calls", 15_000)];
    let (expected, every) = uncaptured(&ready(&computes(2, &steps)), 10);
    for carriers in [1, 4] {
        let (ready, kept) = (ready(&computes(carriers, &steps)), Kept::all());
        let ended = run(&ready, None, Some((&kept, every)));
        assert_eq!(text(&ended, "result"), text(&expected, "result"), "with {carriers} carriers");
        assert!(ended.not_suspended.is_none(), "{:?}", ended.not_suspended);
        let captures = kept.captures();
        assert!(captures.len() > 2, "captured {} times", captures.len());
        let interrupted = captures.iter().flat_map(|captured| &captured.continuation.instances);
        assert!(interrupted.flat_map(|instance| &instance.threads).any(|thread| thread.registers.is_some()));
        for at in some_of(captures.len()) {
            let ended = run(&ready, Some(after_a_kill(&captures[at])), None);
            assert_eq!(text(&ended, "result"), text(&expected, "result"), "from capture {at} with {carriers} carriers");
        }
    }
}

/// How many steps [`changes_memory`] does, and how many of its captures are gone on from; with `--full` ten times as many, and all.
const STEPS: u64 = 40_000;
const FROM: usize = 6;

/// Keeps captures; of `turns` of them one, number `lost`, is not kept, and the one after number `whole` has all pages.
fn kept_in_turns(turns: u64, lost: u64, whole: u64) -> Arc<Kept> {
    let mut number = 0;
    Kept::answering(move |captured| {
        number += 1;
        let next = match number % turns {
            turn if turn == lost => Base::Before,
            turn if turn == whole => Base::None,
            _ => Base::This,
        };
        let taken = if next == Base::Before { Vec::new() } else { captured.events_taken.clone() };
        Some(Answer { next, taken, sent: 0, events: Vec::new() })
    })
}

/// Runs one that writes, drops, grows, maps and hands on memory, and knows what each page must hold. Some captures are not kept, and some are
/// the last before a whole one.
fn changes_memory(steps: u64, from: usize) {
    let _one = support::one_at_a_time();
    let mut document = computes(2, &[("memory", steps), ("memory", steps / 2)]);
    document["steps"][1]["function"] = json!("compute");
    document["functions"]["compute"] = document["functions"]["preempted"].clone();
    document["steps"][1]["args"] = json!({ "how": "registers", "rounds": steps / 100 });
    let ready = ready(&document);
    let (expected, every) = uncaptured(&ready, 25);
    let kept = kept_in_turns(7, 3, 5);
    let ended = run(&ready, None, Some((&kept, every)));
    assert_eq!(text(&ended, "result"), text(&expected, "result"));
    let (captures, counts) = (kept.captures(), kept.counts.lock().expect("counts").clone());
    assert!(captures.len() > 7, "captured {} times", captures.len());
    let (stored, left_out) = counts.iter().fold((0, 0), |sum, (own, left)| (sum.0 + own, sum.1 + left));
    assert!(left_out > 0 && counts[0].1 == 0, "{stored} pages were stored and {left_out} left out: {counts:?}");
    let step = captures.len().div_ceil(from).max(1);
    for at in (0..captures.len()).step_by(step) {
        let ended = run(&ready, Some(after_a_kill(&captures[at])), None);
        assert_eq!(text(&ended, "result"), text(&expected, "result"), "from capture {at} of {}", captures.len());
    }
}

#[test]
fn memory_of_each_kind_is_what_it_was_however_it_changes() {
    match is_exhaustive() {
        false => changes_memory(STEPS, FROM),
        true => changes_memory(10 * STEPS, usize::MAX),
    }
}

/// The same, of files in memory of which one fills the result.
fn works_on_files(how: &str, rounds: u64) -> Value {
    let mut document = computes(2, &[(how, rounds)]);
    document["files"] = json!([{ "at": "/work", "memory": "64MiB" }]);
    document
}

/// Files in memory of each size that are written, cut, extended, renamed and removed. The run knows what each page must hold.
#[test]
fn files_in_memory_are_what_they_were_however_they_change() {
    let _one = support::one_at_a_time();
    let ready = ready(&works_on_files("files", STEPS));
    let (expected, every) = uncaptured(&ready, 15);
    let kept = kept_in_turns(5, 2, 4);
    let ended = run(&ready, None, Some((&kept, every)));
    assert_eq!(text(&ended, "result"), text(&expected, "result"));
    let (captures, counts) = (kept.captures(), kept.counts.lock().expect("counts").clone());
    assert!(captures.len() > 5, "captured {} times", captures.len());
    assert!(counts.iter().any(|(_, left_out)| *left_out > 0), "{counts:?}");
    for at in (0..captures.len()).step_by(captures.len().div_ceil(FROM)) {
        let again = Kept::all();
        for ended in [
            run(&ready, Some(after_a_kill(&captures[at])), Some((&again, every))),
            run_mapped(&ready, after_a_kill(&captures[at]), None),
        ] {
            assert_eq!(text(&ended, "result"), text(&expected, "result"), "from capture {at} of {}", captures.len());
        }
    }
}

/// The pages of files in memory.
fn pages_of_ramfs(continuation: &mut Continuation) -> &mut Vec<(u64, u64)> {
    &mut continuation.modules.iter_mut().find(|module| module.name == "ramfs").expect("it is in use").pages
}

/// 16 MiB in a file of which one page changes: the next capture has that page. What no file has any more is in none, nor is a hole.
#[test]
fn a_changed_page_of_a_file_is_one_page_of_a_capture() {
    const LARGE: u64 = 4096;
    const SECRET: u64 = 0x5ec2_e75e_c2e7_5ec2;
    let _one = support::one_at_a_time();
    let ready = ready(&works_on_files("one-page", 800_000));
    let (expected, every) = uncaptured(&ready, 20);
    let kept = Kept::all();
    let ended = run(&ready, None, Some((&kept, every)));
    assert_eq!(text(&ended, "result"), text(&expected, "result"));
    let (captures, of_files) = (kept.captures(), kept.of_files.lock().expect("counts").clone());
    // The large file has been written, and the other one has one page that is no hole.
    let whole: Vec<_> = (0..captures.len()).filter(|at| pages_of_files(&captures[*at]) == LARGE + 1).collect();
    assert!(whole.len() > 3, "captured {} times, {} of them after the file was written", captures.len(), whole.len());
    for at in &whole[1..] {
        assert!(of_files[*at] < 8, "capture {at}: {} pages", of_files[*at]);
    }
    for captured in captures.iter() {
        let record = captured.continuation.modules.iter().find(|module| module.name == "ramfs");
        assert!(record.is_none_or(|record| record.bytes.len() < 1024), "the record has what files contain");
    }
    for run in captures.iter().flat_map(|captured| &captured.continuation.pages).filter(|run| run.address >= FILES_BASE)
    {
        for page in run.bytes.chunks_exact(PAGE as usize) {
            assert!(page.iter().any(|byte| *byte != 0), "a page of zeros");
            assert_ne!(page[..8], SECRET.to_le_bytes(), "a page of a removed file");
        }
    }
    let begin = after_a_kill(&captures[*whole.last().expect("there are some")]);
    for ended in [run(&ready, Some(begin.clone()), None), run_mapped(&ready, begin.clone(), None)] {
        assert_eq!(text(&ended, "result"), text(&expected, "result"));
    }
    // Contents are only for pages that a file has.
    let chunk = |c: &Continuation| c.pages.iter().position(|run| run.address >= FILES_BASE).expect("a file");
    type Change<'c> = &'c dyn Fn(&mut Continuation);
    let changes: [(Rejected, Change<'_>); 8] = [
        (Rejected::Pages, &|c| c.pages.last_mut().expect("a run").address += 1 << 40),
        (Rejected::Pages, &|c| c.pages.last_mut().expect("a run").address = FILES_BASE + FILES_SIZE - PAGE),
        (Rejected::Pages, &|c| c.pages.last_mut().expect("a run").bytes.extend([1; PAGE as usize])),
        (Rejected::Pages, &|c| _ = c.pages.last_mut().expect("a run").bytes.pop()),
        (Rejected::Pages, &|c| c.pages.push(c.pages[chunk(c)].clone())),
        (Rejected::Pages, &|c| c.modules.retain(|module| module.name == "mm")),
        (Rejected::ModulePages, &|c| _ = pages_of_ramfs(c).pop()),
        (Rejected::ModulePages, &|c| pages_of_ramfs(c).push((FILES_BASE + (1 << 40), PAGE))),
    ];
    for (index, (expected, change)) in changes.into_iter().enumerate() {
        let mut bad = begin.clone();
        change(&mut bad);
        match ready.run_from(Some(bad), None, &RunOptions::default(), Arc::new(Silent)) {
            Err(HostError::Restore(RestoreError::Rejected(rejected))) if rejected == expected => {}
            Err(error) => panic!("change {index} is refused otherwise: {error}"),
            Ok(_) => panic!("change {index} is accepted, which should be refused: {expected}"),
        }
    }
}

/// Memory that is a mapping of a continuation's is captured like memory of its own, whatever is done with it meanwhile: written to, dropped, given
/// away, or only read.
#[test]
fn memory_that_is_mapped_from_a_continuation_is_captured_as_what_it_is() {
    let _one = support::one_at_a_time();
    let ready = ready(&computes(2, &[("memory", STEPS / 4)]));
    let (expected, mut every) = uncaptured(&ready, 6);
    let is_mapped = || std::fs::read_to_string("/proc/self/maps").expect("mappings").contains("memfd:monohull-pages");
    // However fast it is this time, there is a capture that will do.
    let mut captured = |run: &dyn Fn(&Arc<Kept>, Duration) -> RunReport, will_do: &dyn Fn(&Kept, bool) -> bool| loop {
        let seen = Arc::new(AtomicBool::new(false));
        let sees = seen.clone();
        let kept = Kept::answering(move |captured| {
            sees.fetch_or(is_mapped(), Ordering::Relaxed);
            Some(self::kept(captured.events_taken.clone(), Vec::new()))
        });
        let ended = run(&kept, every);
        assert_eq!(text(&ended, "result"), text(&expected, "result"));
        if will_do(&kept, seen.load(Ordering::Relaxed)) {
            break kept;
        }
        every /= 2;
    };
    let is_large = |captured: &Suspended| {
        let heap = captured
            .continuation
            .instances
            .first()
            .map_or(0..0, |first| first.heap_start..first.heap_start + first.heap);
        let pages = captured.continuation.pages.iter().filter(|run| heap.contains(&run.address));
        pages.map(|run| run.bytes.len()).sum::<usize>() > 1 << 20
    };
    let large = |kept: &Kept| kept.captures().iter().position(is_large);
    let first = captured(&|kept, every| run(&ready, None, Some((kept, every))), &|kept, _| large(kept).is_some());
    let at = large(&first).expect("there is one");
    let begin = after_a_kill(&first.captures()[at]);
    let go_on = |kept: &Arc<Kept>, every| run_mapped(&ready, begin.clone(), Some((kept, every)));
    let later = captured(&go_on, &|_, seen| seen);
    assert!(!is_mapped(), "nothing of it is left");
    let last = later.captures().len() - 1;
    for after in BTreeSet::from([0, last / 2, last]) {
        let begin = after_a_kill(&later.captures()[after]);
        for ended in [run(&ready, Some(begin.clone()), None), run_mapped(&ready, begin, None)] {
            assert_eq!(text(&ended, "result"), text(&expected, "result"), "from {after} of {last}");
        }
    }
}

/// A capture has what was written since the one before, and no more.
#[test]
fn captures_have_what_has_changed() {
    let _one = support::one_at_a_time();
    let (ready, kept) = (ready(&computes(1, &[("compute", 200_000_000)])), Kept::all());
    let (_, every) = uncaptured(&ready, 10);
    run(&ready, None, Some((&kept, every)));
    let counts = kept.counts.lock().expect("counts").clone();
    assert!(counts.len() > 2, "captured {} times", counts.len());
    let (Some((_, none)), Some((own, left_out))) = (counts.first(), counts.last()) else { panic!("it was captured") };
    assert_eq!(*none, 0, "the first one is whole");
    // It computes in registers, so most pages stay as they are.
    assert!(*left_out > 0, "{own} pages are in the last one: {counts:?}");
}

/// The times of a workflow's clock rise from capture to capture, as do its instances' ids, and no capture has changed what comes after it.
#[test]
fn captures_follow_each_other() {
    let _one = support::one_at_a_time();
    let (ready, kept) = (ready(&computes(2, &[("compute", 60_000_000), ("threads", 5_000_000)])), Kept::all());
    let (_, every) = uncaptured(&ready, 10);
    run(&ready, None, Some((&kept, every)));
    let captures = kept.captures();
    assert!(captures.len() > 3, "captured {} times", captures.len());
    for pair in captures.windows(2) {
        let [earlier, later] = [&pair[0].continuation, &pair[1].continuation];
        assert!(later.clock > earlier.clock && later.wall >= earlier.wall);
        assert!(later.started >= earlier.started);
        assert_eq!(later.lineage, earlier.lineage, "it was not resumed");
    }
}

/// All that a run gives, but for times and for the order in which modules were loaded.
fn result(report: &RunReport) -> Value {
    let lines = |step: &str| {
        let step = report.steps.iter().find(|found| found.name == step).expect("a step");
        serde_json::to_value(&step.instances[0].lines).expect("JSON")
    };
    json!({ "output": report.output, "works": lines("works"), "collects": lines("collects") })
}

/// Threads, locks, condition variables, slots, open files, sleeps and unfinished lines.
#[test]
fn a_run_with_all_kinds_of_state_does_not_differ_in_a_byte() {
    let _one = support::one_at_a_time();
    let workflow = |carriers: u32| {
        let args = |role: &str| json!({ "role": role, "naps": 60, "milliseconds": 2 });
        ready(&json!({
            "name": "interrupted",
            "functions": { "interrupted": { "image": "interrupted" } },
            "steps": [
                { "name": "works", "function": "interrupted", "args": args("works") },
                { "name": "collects", "function": "interrupted", "args": args("collects") },
            ],
            "outputs": ["result"],
            "files": [{ "at": "/work", "memory": "1MiB" }],
            "limits": { "carriers": carriers },
        }))
    };
    let (expected, every) = uncaptured(&workflow(2), 20);
    let expected = result(&expected);
    let text = expected.to_string();
    assert!(text.contains("sleeps are long enough: true") && !text.contains(": false"), "{text}");
    for carriers in [1, 4] {
        let (ready, kept) = (workflow(carriers), Kept::all());
        let ended = run(&ready, None, Some((&kept, every)));
        assert_eq!(result(&ended), expected, "with {carriers} carriers");
        let captures = kept.captures();
        assert!(captures.len() > 3, "captured {} times", captures.len());
        for at in some_of(captures.len()) {
            let ended = run(&ready, Some(after_a_kill(&captures[at])), None);
            assert_eq!(result(&ended), expected, "from capture {at} with {carriers} carriers");
        }
    }
}

#[test]
fn there_is_no_second_capture_before_the_first_is_answered() {
    let _one = support::one_at_a_time();
    let (ready, kept) = (ready(&computes(2, &[("compute", 60_000_000)])), Kept::answering(|_| None));
    run(&ready, None, Some((&kept, Duration::from_millis(1))));
    assert_eq!(kept.captures().len(), 1);
}

fn event(number: u64, name: &str) -> Event {
    Event { number, name: name.to_owned(), bytes: format!("{number}").into_bytes() }
}

/// Events come with an answer, are given to functions that wait, and are named as taken until a capture with them is kept.
#[test]
fn events_that_come_meanwhile_are_given_and_each_is_in_one_place() {
    let _one = support::one_at_a_time();
    let workflow = ready(&json!({
        "name": "in-place",
        "functions": { "inbox": { "image": "inbox" }, "preempted": { "image": "preempted" } },
        "steps": [
            { "name": "inbox", "function": "inbox", "args": { "events": ["a", "b"], "fills": "log" } },
            { "name": "computes", "function": "preempted", "args": { "how": "compute", "rounds": 200_000_000 } },
        ],
        "outputs": ["log", "result"],
        "limits": { "carriers": 2, "timeout": "1h" },
    }));
    let (_, every) = uncaptured(&ready(&computes(2, &[("compute", 200_000_000)])), 40);
    let (mut first, mut with_a) = (true, 0);
    let kept = Kept::answering(move |captured| {
        let taken = captured.events_taken.clone();
        with_a += usize::from(taken.contains(&0));
        Some(match (std::mem::take(&mut first), taken.contains(&0), with_a) {
            (true, ..) => self::kept(taken, vec![event(0, "a")]),
            // The first that has it is lost.
            (_, true, 1) => Answer::default(),
            (_, true, _) => self::kept(taken, vec![event(1, "b")]),
            _ => self::kept(taken, Vec::new()),
        })
    });
    let go_on = |continuation, keeper: Option<Arc<dyn Keeper>>, events| {
        let halt = keeper.is_some().then_some(every);
        let options = RunOptions { halt, events, ..RunOptions::default() };
        // Only with this they are waited for.
        let suspend = Some(Duration::from_secs(3600));
        report(workflow.run_kept(continuation, suspend, keeper, &options, Arc::new(Silent)).expect("it can be run"))
    };
    let ended = go_on(None, Some(kept.clone()), Vec::new());
    assert_eq!(text(&ended, "log"), "a: 0\nb: 1\n");
    let captures = kept.captures();
    let mut named: Vec<_> = captures.iter().map(|captured| captured.events_taken.as_slice()).collect();
    named.retain(|taken| !taken.is_empty());
    assert_eq!(named, [&[0][..], &[0], &[1]], "the first one was not kept");
    // After a kill the mailbox has what no capture that was kept has.
    let with = |number: u64| captures.iter().rposition(|captured| captured.events_taken.contains(&number));
    let (with_a, with_b) = (with(0).expect("it was taken"), with(1).expect("it was taken"));
    let mailboxes = [(0, vec![event(0, "a"), event(1, "b")]), (with_a, vec![event(1, "b")]), (with_b, Vec::new())];
    for (at, mailbox) in mailboxes {
        let again = go_on(Some(after_a_kill(&captures[at])), None, mailbox);
        assert_eq!(text(&again, "log"), text(&ended, "log"), "from capture {at}");
        assert_eq!(text(&again, "result"), text(&ended, "result"), "from capture {at}");
    }
}
