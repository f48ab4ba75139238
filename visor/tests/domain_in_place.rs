//! A run that is captured while it goes on: it ends as one that is not, and so does each continuation that was taken on the way.

mod support;

use monohull_visor::domain::checkpoint::{Answer, Continuation, Keeper, Suspended};
use monohull_visor::domain::keys;
use monohull_visor::engine::{Event, Ready, RunOptions};
use monohull_visor::report::{RunReport, Silent, Status};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use support::{ready, report, text};

/// What is answered to a capture; `None`: nothing, ever.
type Answers = Box<dyn FnMut(&Suspended) -> Option<Answer> + Send>;

/// Keeps every capture, and answers at once.
struct Kept {
    captures: Mutex<Vec<Suspended>>,
    answers: Mutex<Answers>,
    answer: Mutex<Option<Answer>>,
}

impl Kept {
    /// All are kept, and nothing has come.
    fn all() -> Arc<Kept> {
        Kept::answering(|captured| Some(Answer { taken: captured.events_taken.clone(), ..Answer::default() }))
    }

    fn answering(answers: impl FnMut(&Suspended) -> Option<Answer> + Send + 'static) -> Arc<Kept> {
        let answers: Answers = Box::new(answers);
        Arc::new(Kept { captures: Mutex::default(), answers: Mutex::new(answers), answer: Mutex::default() })
    }

    fn captures(&self) -> MutexGuard<'_, Vec<Suspended>> {
        self.captures.lock().expect("captures")
    }
}

impl Keeper for Kept {
    fn keep(&self, captured: Suspended) {
        let answer = (self.answers.lock().expect("answers"))(&captured);
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
            (true, ..) => Answer { taken, events: vec![event(0, "a")], ..Answer::default() },
            // The first that has it is lost.
            (_, true, 1) => Answer::default(),
            (_, true, _) => Answer { taken, events: vec![event(1, "b")], ..Answer::default() },
            _ => Answer { taken, ..Answer::default() },
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
