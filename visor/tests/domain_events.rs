//! Events from outside: functions wait for them, the domain is captured meanwhile, and another one is given what has arrived.

mod support;

use monohull_visor::domain::checkpoint::{Continuation, Rejected, RestoreError};
use monohull_visor::engine::{Event, HostError, Ready, RunEnd, RunOptions};
use monohull_visor::report::{Silent, Status};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use support::{ready, report, suspended, text};

/// Shorter waits are waited out.
const LEAST: Duration = Duration::from_millis(20);

/// A workflow of one step with these arguments, and so many carriers.
fn inbox(args: Value, carriers: u32) -> Value {
    json!({
        "name": "inbox",
        "functions": { "inbox": { "image": "inbox" } },
        "steps": [{ "name": "inbox", "function": "inbox", "args": args }],
        "outputs": ["log"],
        "limits": { "carriers": carriers },
    })
}

/// Events by name and content, numbered in their order.
fn events(said: &[(&str, &str)]) -> Vec<Event> {
    let event = |(number, (name, bytes)): (u64, &(&str, &str))| Event {
        number,
        name: (*name).to_owned(),
        bytes: bytes.as_bytes().to_vec(),
    };
    (0..).zip(said).map(event).collect()
}

fn try_run(
    ready: &Ready,
    continuation: Option<Continuation>,
    events: Vec<Event>,
    suspend: bool,
) -> Result<RunEnd, HostError> {
    let options = RunOptions { events, ..RunOptions::default() };
    ready.run_from(continuation, suspend.then_some(LEAST), &options, Arc::new(Silent))
}

fn run(ready: &Ready, continuation: Option<Continuation>, events: Vec<Event>) -> RunEnd {
    try_run(ready, continuation, events, true).expect("the host can hold a domain")
}

/// What it has written down.
#[track_caller]
fn log(end: RunEnd) -> String {
    let report = report(end);
    assert_eq!(report.status, Status::Done, "{:#?}", report.error);
    text(&report, "log").to_owned()
}

#[test]
fn a_wait_is_captured_and_goes_on_with_its_event() {
    for carriers in [1, 4] {
        let ready = ready(&inbox(json!({ "events": ["a", "b"], "fills": "log" }), carriers));
        let _one = support::one_at_a_time();
        let first = suspended(run(&ready, None, Vec::new()));
        let [wait] = &first.waits[..] else { panic!("{:?}", first.waits) };
        assert_eq!((wait.what.as_str(), wait.event.as_deref(), wait.until), ("for event `a`", Some("a"), None));
        assert_eq!((first.until, &first.events_taken), (None, &vec![]));
        // Woken for nothing it waits as before, and an event of another name stays with the one who gave it.
        let again = suspended(run(&ready, Some(first.continuation), events(&[("b", "2")])));
        assert_eq!((again.waits.len(), &again.events_taken), (1, &vec![]));
        let second = suspended(run(&ready, Some(again.continuation), events(&[("a", "1"), ("a", "later")])));
        assert_eq!((second.waits[0].event.as_deref(), &second.events_taken), (Some("b"), &vec![0]));
        let end = run(&ready, Some(second.continuation), events(&[("a", "later"), ("b", "2")]));
        assert_eq!(log(end), "a: 1\nb: 2\n");
    }
}

#[test]
fn events_that_were_sent_before_the_wait_are_kept_in_their_order() {
    let ready = ready(&inbox(json!({ "events": ["a", "b", "a"], "fills": "log" }), 2));
    let _one = support::one_at_a_time();
    assert_eq!(log(run(&ready, None, events(&[("a", "1"), ("a", "2"), ("b", "")]))), "a: 1\nb: \na: 2\n");
}

#[test]
fn those_who_wait_for_one_name_get_its_events_in_order() {
    let ready = ready(&inbox(json!({ "events": ["a", "a", "a"], "fills": "log", "together": true }), 1));
    let _one = support::one_at_a_time();
    let first = suspended(run(&ready, None, Vec::new()));
    let second = suspended(run(&ready, Some(first.continuation), events(&[("a", "1"), ("a", "2")])));
    assert_eq!(second.events_taken, [0, 1]);
    assert_eq!(log(run(&ready, Some(second.continuation), events(&[("a", "3")]))), "a: 1\na: 2\na: 3\n");
}

/// A thousand threads, each with a name of its own and one that they share.
#[test]
fn many_wait_at_a_time() {
    let names: Vec<String> = (0..500).map(|number| format!("event {}", number / 2)).collect();
    let ready = ready(&inbox(json!({ "events": names, "fills": "log", "together": true }), 2));
    let _one = support::one_at_a_time();
    let waiting = suspended(run(&ready, None, Vec::new()));
    assert_eq!(waiting.waits.iter().filter(|wait| wait.event.is_some()).count(), 250);
    let sent: Vec<(&str, &str)> = names.iter().rev().map(|name| (name.as_str(), "x")).collect();
    let log = log(run(&ready, Some(waiting.continuation), events(&sent)));
    assert_eq!(log.lines().count(), 500);
    assert!(log.lines().all(|line| line.ends_with(": x")), "{log}");
}

#[test]
fn a_timeout_ends_a_wait_and_an_event_that_is_there_goes_before_it() {
    let ready = ready(&inbox(json!({ "events": ["a", "b"], "fills": "log", "timeout_ms": 300 }), 2));
    let _one = support::one_at_a_time();
    let first = suspended(run(&ready, None, Vec::new()));
    assert!(first.until.is_some() && first.waits[0].until == first.until, "{:?}", first.waits);
    std::thread::sleep(Duration::from_millis(400));
    // Both have happened while it was away.
    let second = suspended(run(&ready, Some(first.continuation), events(&[("a", "in time")])));
    assert_eq!(second.events_taken, [0]);
    let mut end = RunEnd::Suspended(Box::new(second));
    while let RunEnd::Suspended(suspended) = end {
        std::thread::sleep(Duration::from_millis(50));
        end = run(&ready, Some(suspended.continuation), Vec::new());
    }
    assert_eq!(log(end), "a: in time\nb is late\n");
}

#[test]
fn a_look_does_not_wait() {
    let ready = ready(&inbox(json!({ "events": ["a", "b", "a"], "fills": "log", "poll": true }), 2));
    let _one = support::one_at_a_time();
    assert_eq!(log(run(&ready, None, events(&[("a", "1")]))), "a: 1\nb is late\na is late\n");
}

#[test]
fn a_run_that_receives_no_events_is_told_so() {
    let ready = ready(&inbox(json!({ "events": ["a", "a"], "fills": "log" }), 2));
    let _one = support::one_at_a_time();
    let end = try_run(&ready, None, events(&[("a", "1")]), false).expect("the host can hold a domain");
    let log = log(end);
    assert!(log.starts_with("a: 1\nevent `a` cannot arrive: this run receives none."), "{log}");
    // After the wait was captured, it is one in which nothing else happens.
    let waiting = suspended(run(&ready, None, Vec::new()));
    let end = try_run(&ready, Some(waiting.continuation), Vec::new(), false).expect("the host can hold a domain");
    assert!(self::log(end).starts_with("event `a` cannot arrive: nothing else runs"));
}

/// One that was captured is waited out where it is not captured again; the next one is refused as in any run that receives none.
#[test]
fn a_wait_with_an_end_ends_in_a_run_that_is_not_captured_again() {
    for carriers in [1, 2] {
        let ready = ready(&inbox(json!({ "events": ["a", "b"], "fills": "log", "timeout_ms": 200 }), carriers));
        let _one = support::one_at_a_time();
        let go_on = |events| {
            let waiting = suspended(run(&ready, None, Vec::new()));
            try_run(&ready, Some(waiting.continuation), events, false).expect("the host can hold a domain")
        };
        let refused = "event `b` cannot arrive: this run receives none.";
        assert!(log(go_on(Vec::new())).starts_with(&format!("a is late\n{refused}")));
        assert!(log(go_on(events(&[("a", "1")]))).starts_with(&format!("a: 1\n{refused}")));
    }
}

/// An instance sleeps while another one of its step waits; and what a failed attempt had taken comes back for the next one.
#[test]
fn an_attempt_that_failed_gives_its_events_to_the_next_one() {
    let mut document = inbox(json!({ "events": ["a", "b", "c"], "fills": "log", "fails_after": 2 }), 2);
    document["steps"][0]["retry"] = json!({ "max_attempts": 2, "interval": "60ms" });
    let ready = ready(&document);
    let _one = support::one_at_a_time();
    let first = suspended(run(&ready, None, events(&[("a", "1")])));
    assert_eq!(first.events_taken, [0], "in another continuation than the failure");
    let second = suspended(run(&ready, Some(first.continuation), events(&[("x", ""), ("b", "2")])));
    let mut end = RunEnd::Suspended(Box::new(second));
    let mut rounds = 0;
    while let RunEnd::Suspended(suspended) = end {
        std::thread::sleep(Duration::from_millis(70));
        rounds += 1;
        assert!(rounds < 20, "{:?}", suspended.waits);
        let third = Event { number: 70, name: "c".to_owned(), bytes: b"3".to_vec() };
        end = run(&ready, Some(suspended.continuation), vec![third]);
    }
    assert_eq!(log(end), "a: 1\nb: 2\nc: 3\n");
}

/// A domain has 256 places: of the instances that wait for one, and of the steps behind them, none begins once a function was told to end.
#[test]
fn nothing_begins_once_it_was_told_to_end() {
    const FAN: usize = 700;
    let step = |name: &str, function: &str, args: Value| json!({ "name": name, "function": function, "args": args });
    // Some of the others begin meanwhile, and take some milliseconds of a processor each.
    let told = step("told", "inbox", json!({ "events": ["a", "cancel:"], "fills": "told", "nap_ms": 50 }));
    let mut fan = step("fan", "preempted", json!({ "how": "threads", "rounds": 1_000_000 }));
    fan["instances"] = json!(FAN);
    let mut joins = step("joins", "inbox", json!({ "events": [], "fills": "log" }));
    joins["after"] = json!(["fan"]);
    let mut document = inbox(json!({}), 2);
    document["functions"]["preempted"] = json!({ "image": "preempted" });
    document["steps"] = json!([told, fan, joins]);
    let ready = ready(&document);
    let _one = support::one_at_a_time();
    let report = report(
        try_run(&ready, None, events(&[("a", ""), ("cancel:", "")]), false).expect("the host can hold a domain"),
    );
    assert_eq!((report.status, report.told_to_end), (Status::Done, true), "{:#?}", report.error);
    assert!(report.output.is_empty());
    let fan = &report.steps[1].instances;
    let begun = fan.iter().filter(|one| one.attempts == 1).count();
    assert!(fan.iter().all(|one| (one.status == Status::Done) == (one.attempts == 1)), "what has begun ends well");
    assert_eq!(fan.len(), FAN);
    assert!((1..FAN).contains(&begun), "{begun}");
    let statuses: Vec<_> = report.steps.iter().map(|step| step.status).collect();
    assert_eq!(statuses, [Status::Done, Status::Cancelled, Status::Cancelled]);
    assert!(report.steps[2].instances.is_empty());
}

#[test]
fn a_record_with_another_name_is_refused() {
    let ready = ready(&inbox(json!({ "events": ["a"], "fills": "log" }), 1));
    let _one = support::one_at_a_time();
    let waiting = suspended(run(&ready, None, Vec::new())).continuation;
    for name in [None, Some(String::new()), Some("a\0".to_owned()), Some("x".repeat(129))] {
        let mut bad = waiting.clone();
        bad.instances[0].threads[0].name = name;
        match try_run(&ready, Some(bad), Vec::new(), true) {
            Err(HostError::Restore(RestoreError::Rejected(Rejected::Name))) => {}
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it was taken"),
        }
    }
    // Another name that an event can have is for readers alone: the function's own memory decides.
    let mut other = waiting;
    other.instances[0].threads[0].name = Some("b".to_owned());
    assert_eq!(log(run(&ready, Some(other), events(&[("a", "1"), ("b", "2")]))), "a: 1\n");
}
