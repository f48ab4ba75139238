//! Effects: steps that handle what others ask for, what becomes of a request when something fails, and what is refused.
//!
//! The function `effects` asks and handles in all the ways that are tried here.

#[path = "support/program.rs"]
mod program;
mod support;

use monohull_visor::domain::checkpoint::record::RequestsRecord;
use monohull_visor::domain::checkpoint::{Continuation, Rejected, RestoreError};
use monohull_visor::engine::{HostError, RunEnd, RunOptions, StateError};
use monohull_visor::report::{RunReport, Silent, Status, StepReport};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use support::{run, text};

/// A workflow of a step that asks in this way, and of steps that handle effects: the effect, how, and more fields of the step.
fn workflow(asks: &Value, handlers: &[(&str, &Value, &Value)]) -> Value {
    let mut steps = vec![json!({ "name": "asks", "function": "effects", "args": asks })];
    for (effect, args, more) in handlers {
        let mut step =
            json!({ "name": format!("for-{effect}"), "function": "effects", "args": args, "handles": effect });
        for (field, value) in more.as_object().expect("fields of a step") {
            step[field] = value.clone();
        }
        steps.push(step);
    }
    json!({
        "name": "effects",
        "functions": { "effects": { "image": "effects" } },
        "steps": steps,
        "outputs": ["result"],
        "limits": { "timeout": "300s" },
    })
}

fn nothing() -> Value {
    json!({})
}

fn ask(effect: &str) -> Value {
    json!({ "how": "ask", "effect": effect, "request": "what" })
}

#[track_caller]
fn step<'r>(report: &'r RunReport, name: &str) -> &'r StepReport {
    report.steps.iter().find(|step| step.name == name).unwrap_or_else(|| panic!("no step {name}"))
}

/// What an asker has got, from a handler of this kind.
#[track_caller]
fn asked(how: &str, more: &Value) -> (String, RunReport) {
    let report = run(&workflow(&ask("blob"), &[("blob", &json!({ "how": how }), more)]));
    (text(&report, "result").to_owned(), report)
}

#[test]
fn a_reply_is_what_the_handler_has_filled() {
    let (said, report) = asked("shout", &nothing());
    assert_eq!(said, "WHAT");
    let handler = step(&report, "for-blob");
    assert_eq!((handler.status, handler.handled, handler.instances.len()), (Status::Done, 1, 1));
    assert_eq!(handler.instances[0].lines[0].text, "asked for what");
    assert_eq!(step(&report, "asks").handled, 0);
}

#[test]
fn a_large_request_comes_back_without_a_copy() {
    let asks = json!({ "how": "large", "effect": "blob", "bytes": 3 << 20 });
    let report = run(&workflow(&asks, &[("blob", &json!({ "how": "echo" }), &nothing())]));
    assert_eq!(text(&report, "result"), "the same buffer");
}

#[test]
fn each_thread_of_an_instance_has_its_reply() {
    for carriers in [1, 4] {
        let asks = json!({ "how": "many", "effect": "blob", "times": 60 });
        let mut document = workflow(&asks, &[("blob", &json!({ "how": "echo" }), &nothing())]);
        document["limits"]["carriers"] = carriers.into();
        let report = run(&document);
        assert_eq!(text(&report, "result"), "60 replies");
        let handler = step(&report, "for-blob");
        assert!(handler.handled == 60 && (1..=60).contains(&handler.instances.len()), "{handler:?}");
    }
}

/// More instances ask than there are cells: there is always one for a handler.
#[test]
fn those_that_wait_leave_room_for_handlers() {
    let mut document = workflow(
        &json!({ "how": "ask-only", "effect": "outer", "request": "x" }),
        &[
            ("outer", &json!({ "how": "forward", "effect": "inner" }), &nothing()),
            ("inner", &json!({ "how": "sleep", "milliseconds": 1 }), &nothing()),
        ],
    );
    (document["steps"][0]["instances"], document["outputs"]) = (json!(700), json!([]));
    let report = run(&document);
    assert_eq!(report.status.name(), "done", "{:#?}", report.error);
    assert_eq!((step(&report, "for-outer").handled, step(&report, "for-inner").handled), (700, 700));
}

#[test]
fn an_effect_without_a_handler_is_an_error_that_names_it() {
    let report = run(&workflow(&ask("blod"), &[("blob", &json!({ "how": "echo" }), &nothing())]));
    assert_eq!(text(&report, "result"), "NotFound: no step of the workflow handles effect `blod`");
    assert_eq!((step(&report, "for-blob").handled, step(&report, "for-blob").status), (0, Status::Cancelled));
}

#[test]
fn a_step_asks_for_the_effects_of_its_list_alone() {
    let mut document = workflow(&ask("blob"), &[("blob", &json!({ "how": "echo" }), &nothing())]);
    document["steps"][0]["performs"] = json!(["blob"]);
    assert_eq!(text(&run(&document), "result"), "what");
    document["steps"][0]["performs"] = json!([]);
    let report = run(&document);
    let refused = "NotPermitted: effect `blob`: effect `blob` is not in the step's list `performs`";
    assert_eq!(text(&report, "result"), refused);
    assert_eq!(step(&report, "for-blob").handled, 0);
}

#[test]
fn the_failure_of_a_handler_is_told_to_the_asker() {
    for (how, more, said) in [
        ("fail", nothing(), "the handler of effect `blob`, for-blob[0], failed (error): nothing is known of what"),
        ("silent", nothing(), "the handler of effect `blob`, for-blob[0], ended without filling the slot `reply`"),
        ("endless", json!({ "timeout": "200ms" }), "the handler of effect `blob`, for-blob[0], failed (timeout): "),
    ] {
        let (told, report) = asked(how, &more);
        assert!(told.starts_with(&format!("Io: {said}")), "{told}");
        assert_eq!(report.status, Status::Done, "the asker decides what that means");
        assert_eq!(step(&report, "for-blob").status, Status::Done);
    }
}

#[test]
fn a_handler_is_tried_again_while_it_has_its_request() {
    let retry = json!({ "retry": { "max_attempts": 3, "interval": "1ms" } });
    let (said, report) = asked("fail-first", &retry);
    assert_eq!(said, "what at attempt 2");
    let instance = &step(&report, "for-blob").instances[0];
    assert_eq!((instance.attempts, instance.failed_attempts.len()), (2, 1));
    // What has been written to is not what was asked.
    let (said, report) = asked("use-up", &retry);
    assert!(said.ends_with("failed (error): the request is used up"), "{said}");
    assert_eq!(step(&report, "for-blob").instances[0].attempts, 1);
}

#[test]
fn handlers_ask_too_and_a_cycle_ends() {
    let forward = |effect: &str| json!({ "how": "forward", "effect": effect });
    let shout = json!({ "how": "shout" });
    let handlers = [("a", &forward("b"), &nothing()), ("b", &forward("c"), &nothing()), ("c", &shout, &nothing())];
    let report = run(&workflow(&ask("a"), &handlers));
    assert_eq!(text(&report, "result"), "WHAT");
    let report = run(&workflow(&ask("a"), &[("a", &forward("b"), &nothing()), ("b", &forward("a"), &nothing())]));
    let said = text(&report, "result");
    assert!(said.starts_with("Io: the handler of effect `a`, for-a[0], failed"), "{said}");
    assert!(said.contains("effect `a`: for-b[1] asks for effect `a` as the handler of a handler's request"), "{said}");
    assert_eq!((step(&report, "for-a").handled, step(&report, "for-b").handled), (2, 2));
}

#[test]
fn there_are_as_many_requests_as_may_be() {
    let asks = json!({ "how": "storm", "effect": "blob" });
    let report = run(&workflow(&asks, &[("blob", &json!({ "how": "echo" }), &nothing())]));
    assert_eq!(text(&report, "result"), "64 requests, then TooMany, 64 replies");
}

#[test]
fn slots_of_requests_are_not_forged() {
    let asks = json!({ "how": "forged", "effect": "blob" });
    let report = run(&workflow(&asks, &[("blob", &json!({ "how": "echo" }), &nothing())]));
    let refused = "the request: Invalid\nwhat the handler fills: Invalid\nthe reply of another instance: Invalid\nno number: Invalid\n\
        one digit more: Invalid\nfilled: Invalid\nits own: Ok(0)\n";
    assert_eq!(text(&report, "result"), refused);
}

/// A handler has its request, its reply, and what its step lists.
#[test]
fn a_handler_reaches_nothing_else() {
    let lists = json!({ "takes": [], "fills": [] });
    let mut document = workflow(&ask("blob"), &[("blob", &json!({ "how": "greedy" }), &lists)]);
    (document["inputs"], document["unread"]) = (json!(["secret"]), json!("ignore"));
    let ready = support::ready(&document);
    let inline_inputs = vec![("secret".to_owned(), b"of the workflow".to_vec())];
    let options = RunOptions { inline_inputs, ..RunOptions::default() };
    let _one = support::one_at_a_time();
    let report = ready.run(&options, Arc::new(Silent)).expect("a domain");
    let said = text(&report, "result");
    let zero = "the name of a slot does not begin with a zero byte";
    for line in [
        "again: the request has been taken".to_owned(),
        "take \"secret\": slot `secret` is not in the step's list `takes`".to_owned(),
        "take \"reply\": slot `reply` is not in the step's list `takes`".to_owned(),
        format!("take \"\\0p0000000100000001\": {zero}"),
        format!("take \"\\0r0000000100000001\": {zero}"),
        format!("take \"\\0a0000000100000001\": {zero}"),
        "fill \"request\": slot `request` is not in the step's list `fills`".to_owned(),
        "fill \"secret\": slot `secret` is not in the step's list `fills`".to_owned(),
        format!("fill \"\\0a0000000100000001\": {zero}"),
        format!("fill \"\\0r0000000100000001\": {zero}"),
    ] {
        assert!(said.lines().any(|said| said == line), "{line:?}:\n{said}");
    }
    assert_eq!(step(&report, "for-blob").instances[0].lines[0].text, "twice: slot `reply` is already filled");
}

/// Memory goes back behind a reply; the handler is asked again.
#[test]
fn going_back_behind_a_reply_asks_again() {
    let asks = json!({ "how": "rewind", "effect": "blob", "times": 3 });
    let report = run(&workflow(&asks, &[("blob", &json!({ "how": "echo" }), &nothing())]));
    assert_eq!(text(&report, "result"), "3");
    assert_eq!(step(&report, "for-blob").handled, 4);
}

/// Nothing waits for a handler whose asker has ended, in whatever way.
#[test]
fn the_end_of_an_asker_ends_its_handlers() {
    let leave = json!({ "how": "leave", "effect": "blob", "milliseconds": 50 });
    let mut document = workflow(&leave, &[("blob", &json!({ "how": "endless" }), &nothing())]);
    let next = json!({
        "name": "next", "function": "effects", "after": ["asks"],
        "args": { "how": "ask", "effect": "other", "request": "next" },
    });
    let other = json!({ "name": "for-other", "function": "effects", "args": { "how": "shout" }, "handles": "other" });
    for step in [next, other] {
        document["steps"].as_array_mut().expect("steps").push(step);
    }
    // The first result is taken away, so that there can be another.
    document["outputs"] = json!([]);
    document["unread"] = json!("ignore");
    document["steps"][0]["args"]["how"] = json!("leave-quietly");
    let report = run(&document);
    assert_eq!(report.status, Status::Done, "{:#?}", report.error);
    let handler = step(&report, "for-blob");
    assert_eq!((handler.handled, handler.instances[0].status), (1, Status::Cancelled));
    assert_eq!(step(&report, "for-other").handled, 1);
    // By its deadline, with another attempt that asks once more; the deadline of the handler is none of its own.
    let mut document = workflow(&ask("blob"), &[("blob", &json!({ "how": "endless" }), &nothing())]);
    document["steps"][0]["timeout"] = json!("200ms");
    document["steps"][0]["retry"] = json!({ "max_attempts": 2, "interval": "1ms" });
    let report = run(&document);
    let error = report.error.as_ref().expect("it has no reply in time");
    assert_eq!((error.kind.name(), error.step.as_deref()), ("timeout", Some("asks")));
    assert_eq!((step(&report, "asks").attempts, step(&report, "for-blob").handled), (2, 2));
}

/// The handler waits for what never comes, and its asker for the handler: both are told. If the handler fails first, that is its asker's reply.
#[test]
fn a_handler_that_waits_for_ever_is_a_deadlock() {
    let (said, _) = asked("wait", &nothing());
    let own = said.ends_with("no instance is left that could reply");
    assert!(own || said.ends_with("no instance is left that could fill slot `never`"), "{said}");
}

/// What an asker waits for.
const REPLY: &str = "for the reply to a request";

/// A workflow in which a handler sleeps is a file meanwhile, and the request is handled in another process.
#[test]
fn a_request_outlives_its_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let nap = program::NAP;
    let document = workflow(
        &ask("outer"),
        &[
            ("outer", &json!({ "how": "forward", "effect": "inner" }), &nothing()),
            ("inner", &json!({ "how": "sleep", "milliseconds": nap }), &nothing()),
        ],
    );
    let suspended = program::suspend(folder.path(), "effects", &document);
    let waits = [("asks", REPLY), ("for-outer", REPLY), ("for-inner", "in a sleep")];
    assert!(waits.iter().all(|(step, what)| suspended.waits(step, what)), "{:#}", suspended.document);
    let described = suspended.described(folder.path());
    assert!(described.contains(&format!("waits {REPLY}")), "{described}");
    let resumed = program::monohull(folder.path(), &["resume", &suspended.checkpoint, "--json"]);
    assert_eq!(resumed.status.code(), Some(0), "{resumed:?}");
    assert_eq!(std::fs::read_to_string(folder.path().join("result.txt")).expect("the output"), "what");
    let report = program::document(&resumed);
    for step in report["steps"].as_array().expect("steps") {
        let handled = if step["name"] == "asks" { Value::Null } else { json!(1) };
        assert_eq!((&step["status"], &step["handled"]), (&json!("done"), &handled), "{step:#}");
    }
}

/// The state of a run says which handler serves whom; one that cannot be so is refused.
#[test]
fn a_forged_state_of_requests_is_refused() {
    let sleep = json!({ "how": "sleep", "milliseconds": 100 });
    let mut document = workflow(
        &ask("outer"),
        &[("outer", &json!({ "how": "forward", "effect": "inner" }), &nothing()), ("inner", &sleep, &nothing())],
    );
    // One carrier, so that the ids are these.
    document["limits"]["carriers"] = json!(1);
    let ready = support::ready(&document);
    let _one = support::one_at_a_time();
    let go_on = |from, suspend: bool| {
        let least = suspend.then_some(Duration::from_millis(20));
        ready.run_from(from, least, &RunOptions::default(), Arc::new(Silent))
    };
    let continuation = support::suspended(go_on(None, true).expect("a domain")).continuation;
    let state: Value = serde_json::from_slice(&continuation.driver).expect("JSON");
    assert_eq!(state["serving"].as_array().map(Vec::len), Some(2), "{state:#}");
    type Edit = fn(&mut Value);
    let edits: [Edit; 13] = [
        |state| state["serving"] = json!([]),
        |state| state["serving"][0]["request"] = json!(0),
        |state| state["serving"][0]["request"] = json!(u64::MAX),
        |state| state["serving"][0]["request"] = state["serving"][1]["request"].clone(),
        |state| state["serving"][0]["step"] = json!(0),
        |state| state["serving"][0]["step"] = json!(17),
        |state| state["serving"][0]["index"] = json!(1),
        |state| state["serving"][0]["depth"] = json!(0),
        |state| state["serving"][1]["depth"] = json!(1),
        |state| state["serving"][1]["depth"] = json!(5),
        |state| state["serving"][0]["cancelled"] = json!(true),
        |state| state["steps"][1]["started"] = json!(false),
        |state| state["steps"][1]["next"] = json!(0),
    ];
    for (number, edit) in edits.into_iter().enumerate() {
        let mut forged = (continuation.clone(), state.clone());
        edit(&mut forged.1);
        forged.0.driver = serde_json::to_vec(&forged.1).expect("JSON");
        match go_on(Some(forged.0), false) {
            Err(HostError::State(StateError::Unfit(_))) => {}
            Err(other) => panic!("{number}: {other}"),
            Ok(_) => panic!("{number}: {:#}", forged.1),
        }
    }
    // Neither have replies that wait an asker that is not there, and the numbers of requests go on.
    assert_eq!(continuation.requests, RequestsRecord { last: 2, answered: Vec::new() });
    let asker = continuation.instances[0].id;
    for answered in [vec![(asker ^ 0x100, 1)], vec![(asker, 0)], vec![(asker, 2), (asker, 1)], vec![(asker, 1); 2]] {
        let forged = Continuation { requests: RequestsRecord { last: 2, answered }, ..continuation.clone() };
        let refused = go_on(Some(forged), false);
        assert!(matches!(refused, Err(HostError::Restore(RestoreError::Rejected(Rejected::Requests)))));
    }
    // The positive control, which is suspended and goes on once more.
    let again = go_on(Some(continuation), true).expect("a domain");
    let report = match again {
        RunEnd::Report(report) => *report,
        RunEnd::Suspended(suspended) => {
            assert_eq!(suspended.continuation.requests.last, 2);
            support::report(go_on(Some(suspended.continuation), false).expect("a domain"))
        }
        RunEnd::HandedOver => unreachable!("it stands still nowhere"),
    };
    assert_eq!(text(&report, "result"), "what");
}
