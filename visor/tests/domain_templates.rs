//! Templates in one process: an instance begins where another one was ready, and a template that is not what it should be is refused.

mod support;

use monohull_visor::domain::checkpoint::record::ThreadState;
use monohull_visor::domain::checkpoint::{Continuation, TemplateUse};
use monohull_visor::engine::{HostError, Ready, RunEnd, RunOptions};
use monohull_visor::report::{RunReport, Silent, StartKind, Status};
use serde_json::{Value, json};
use std::sync::Arc;
use support::{ready, report, suspended, text};

fn prepared(args: Value) -> Value {
    json!({
        "name": "prepared",
        "functions": { "prepared": { "image": "prepared" } },
        "files": [{ "at": "/", "memory": "1MiB" }],
        "steps": [{ "name": "main", "function": "prepared", "args": args }],
        "inputs": ["in"],
        "outputs": ["out"],
    })
}

/// The function's arguments, with what it does too early.
fn args(before: &str) -> Value {
    json!({ "entries": 1000, "before": before, "label": "l" })
}

fn try_run(ready: &Ready, template: TemplateUse, input: &str) -> Result<RunEnd, HostError> {
    let inline_inputs = vec![("in".to_owned(), input.as_bytes().to_vec())];
    let options = RunOptions { template, inline_inputs, ..RunOptions::default() };
    ready.run_from(None, None, &options, Arc::new(Silent))
}

#[track_caller]
fn done(ready: &Ready, template: TemplateUse, input: &str) -> RunReport {
    let report = report(try_run(ready, template, input).expect("the host can hold a domain"));
    assert_eq!(report.status, Status::Done, "{:#?}", report.error);
    report
}

/// A line of what it has written down.
#[track_caller]
fn value<'r>(report: &'r RunReport, name: &str) -> &'r str {
    let line = text(report, "out").lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("no {name}: {}", text(report, "out")))
}

#[track_caller]
fn template(ready: &Ready) -> Continuation {
    suspended(try_run(ready, TemplateUse::Make, "not to be seen").expect("the host can hold a domain")).continuation
}

#[test]
fn an_instance_goes_on_where_another_one_was_ready() {
    let ready = ready(&prepared(args("")));
    let _one = support::one_at_a_time();
    let ordinary = done(&ready, TemplateUse::No, "some text");
    let start = |report: &RunReport| report.start.as_ref().map(|start| start.kind);
    assert_eq!((start(&ordinary), value(&ordinary, "template")), (Some(StartKind::Main), "false"));
    let made = template(&ready);
    for page in &made.pages {
        assert!(!page.bytes.windows(14).any(|bytes| bytes == b"not to be seen"), "a template has no input");
    }
    let from = || TemplateUse::From(Arc::new(made.clone().into()));
    let later = [done(&ready, from(), "some text"), done(&ready, from(), "some text")];
    for report in &later {
        assert_eq!((start(report), value(report, "template")), (Some(StartKind::Template), "true"));
        for same in ["sum", "label", "seen"] {
            assert_eq!(value(report, same), value(&ordinary, same), "{same}");
        }
        assert_eq!((value(report, "seen"), value(report, "backwards")), ("", "false"));
        let lines = |report: &RunReport| report.steps[0].instances[0].lines.clone();
        assert_eq!(lines(report), lines(&ordinary));
    }
    for own in ["random", "invocation"] {
        assert_ne!(value(&later[0], own), value(&later[1], own), "{own} is each instance's own");
    }
    let other = done(&ready, from(), "another text");
    assert_ne!(value(&other, "sum"), value(&ordinary, "sum"), "the input is the later instance's");
}

#[test]
fn what_is_an_instances_own_leaves_a_function_without_a_template() {
    let _one = support::one_at_a_time();
    for (before, call) in [
        ("print", "STDIO_WRITE"),
        ("random", "GETRANDOM"),
        ("slot", "SLOT_TAKE"),
        ("thread", "THREAD_SPAWN"),
        ("file", "FILE_OPEN"),
        ("invocation", "GET_STRING for the id of the invocation"),
        ("migration", "GET_STRING for what was handed over to the invocation"),
        ("publish", "PUBLISH"),
    ] {
        let ready = ready(&prepared(args(before)));
        let report = report(try_run(&ready, TemplateUse::Make, "").expect("the host can hold a domain"));
        let message = report.error.expect("there is none").message;
        assert_eq!(message, format!("main[0] (function prepared) has called {call} before it was ready"), "{before}");
        assert!(report.steps[0].instances.iter().all(|instance| instance.lines.is_empty()), "nothing is printed");
        assert_eq!(done(&ready, TemplateUse::No, "some text").status, Status::Done, "{before}: it works all the same");
    }
    // Time passes, which is no secret.
    template(&ready(&prepared(args("sleep"))));
}

/// In memory there is nothing yet, so that is the answer for every instance. What the host has is not.
#[test]
fn files_may_be_asked_for_where_there_are_none_and_not_where_the_host_has_some() {
    let _one = support::one_at_a_time();
    let mut document = prepared(args("missing"));
    let of_memory = ready(&document);
    let made = template(&of_memory);
    let later = done(&of_memory, TemplateUse::From(Arc::new(made.into())), "some text");
    assert_eq!(value(&later, "template"), "true");
    document.as_object_mut().expect("an object").remove("files");
    template(&ready(&document));
    let folder = tempfile::tempdir().expect("a folder");
    document["files"] = json!([{ "at": "/", "directory": folder.path() }]);
    let of_the_host = ready(&document);
    let report = report(try_run(&of_the_host, TemplateUse::Make, "").expect("the host can hold a domain"));
    let message = report.error.expect("there is none").message;
    assert_eq!(message, "main[0] (function prepared) has called FILE_STAT before it was ready");
}

#[test]
fn a_function_that_is_never_ready_has_no_template() {
    let _one = support::one_at_a_time();
    let never = ready(&json!({
        "name": "never",
        "functions": { "no-op": { "image": "no-op" } },
        "steps": [{ "name": "main", "function": "no-op" }],
    }));
    let end = report(try_run(&never, TemplateUse::Make, "").expect("the host can hold a domain"));
    assert_eq!(end.error.expect("there is none").message, "it has ended and was not ready before");
}

#[test]
fn an_edited_template_is_refused_before_anything_runs() {
    let ready = ready(&prepared(args("")));
    let _one = support::one_at_a_time();
    let made = template(&ready);
    type Edit = fn(&mut Continuation);
    let edits: [(&str, Edit); 11] = [
        ("no instance", |made| made.instances.clear()),
        ("another function", |made| made.instances[0].function = "other".to_owned()),
        ("another step", |made| made.instances[0].token = 7),
        ("two threads", |made| {
            let thread = made.instances[0].threads[0].clone();
            made.instances[0].threads.push(thread);
        }),
        ("a stack pointer elsewhere", |made| made.instances[0].threads[0].user_rsp = 8),
        ("a call under way", |made| made.instances[0].threads[0].state = ThreadState::Woken),
        ("a larger heap than there is room for", |made| made.instances[0].heap = 1 << 40),
        ("a heap elsewhere", |made| made.instances[0].heap_start += 4096),
        ("a page in code", |made| made.pages[0].address = made.instances[0].heap_start - (1 << 30)),
        ("a page in trusted memory", |made| made.pages[0].address = 0x1000_0021_0000),
        ("half a page", |made| made.pages[0].bytes.truncate(100)),
    ];
    for (what, edit) in edits {
        let mut edited = made.clone();
        edit(&mut edited);
        match try_run(&ready, TemplateUse::From(Arc::new(edited.into())), "some text") {
            Err(error) => assert!(error.is_continuations(), "{what}: {error}"),
            Ok(_) => panic!("{what}: it is not refused"),
        }
    }
    let report = done(&ready, TemplateUse::From(Arc::new(made.into())), "some text");
    assert_eq!(value(&report, "template"), "true", "the template itself is as good as before");
}
