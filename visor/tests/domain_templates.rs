//! Templates in one process: an instance begins where another one was ready, and a template that is not what it should be is refused.

mod support;
#[path = "support/words.rs"]
mod words;

use monohull_abi::number::{
    EXIT, FILE_OPEN, GET_INFO, GET_STRING_LEN, GETRANDOM, PUBLISH, SLOT_TAKE, STDIO_WRITE, SYSTEM_ONLY, THREAD_SPAWN,
};
use monohull_visor::domain::checkpoint::record::{ThreadRecord, ThreadState};
use monohull_visor::domain::checkpoint::{Continuation, Lineage, TemplateUse};
use monohull_visor::engine::{HostError, Ready, RunEnd, RunOptions};
use monohull_visor::report::{RunReport, Silent, StartKind, Status, StepReport};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
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
    template_in(ready, 0)
}

/// One of the instance that begins in this cell.
#[track_caller]
fn template_in(ready: &Ready, cell: usize) -> Continuation {
    let made = try_run(ready, TemplateUse::Make(cell), "not to be seen").expect("the host can hold a domain");
    suspended(made).continuation
}

/// The first instance starts from it.
fn first_from(made: Continuation) -> TemplateUse {
    TemplateUse::From(vec![(0, Arc::new(made.into()))])
}

/// Where an instance began, by what the report says of it.
fn start_of(report: &RunReport, step: usize, index: usize) -> Option<StartKind> {
    report.steps[step].instances[index].start.as_ref().map(|start| start.kind)
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
    let from = || first_from(made.clone());
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
        let report = report(try_run(&ready, TemplateUse::Make(0), "").expect("the host can hold a domain"));
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
    let later = done(&of_memory, first_from(made), "some text");
    assert_eq!(value(&later, "template"), "true");
    document.as_object_mut().expect("an object").remove("files");
    template(&ready(&document));
    let folder = tempfile::tempdir().expect("a folder");
    document["files"] = json!([{ "at": "/", "directory": folder.path() }]);
    let of_the_host = ready(&document);
    let report = report(try_run(&of_the_host, TemplateUse::Make(0), "").expect("the host can hold a domain"));
    let message = report.error.expect("there is none").message;
    assert_eq!(message, "main[0] (function prepared) has called FILE_STAT before it was ready");
}

/// The function, then one that passes its text on behind more, beside others; and with `again` the function once more.
fn of_several_steps(before: &str, again: bool) -> Value {
    let mut document = prepared(args(before));
    document["functions"]["sleeper"] = json!({ "image": "sleeper" });
    document["functions"]["no-op"] = json!({ "image": "no-op" });
    let fills = if again { "in" } else { "out" };
    let passes_on = json!({ "naps": 0, "milliseconds": 0, "takes": "out", "fills": fills });
    let steps = document["steps"].as_array_mut().expect("a list");
    steps.push(json!({ "name": "second", "function": "sleeper", "after": ["main"], "args": passes_on }));
    steps.push(json!({ "name": "beside", "function": "no-op", "after": ["main"], "instances": 3 }));
    if again {
        steps.push(json!({ "name": "last", "function": "prepared", "after": ["second"], "args": args("print") }));
    }
    document
}

#[test]
fn of_several_steps_the_first_starts_from_the_template_and_the_others_get_its_slots() {
    let ready = ready(&of_several_steps("", false));
    let _one = support::one_at_a_time();
    let ordinary = done(&ready, TemplateUse::No, "some text");
    let start = |report: &RunReport| report.start.as_ref().map(|start| start.kind);
    assert_eq!((start(&ordinary), value(&ordinary, "template")), (Some(StartKind::Main), "false"));
    let made = template(&ready);
    let of: Vec<_> = made.instances.iter().map(|instance| (instance.step.as_str(), instance.attempt)).collect();
    assert_eq!(of, [("main", 1)], "no other step has begun");
    assert!(made.modules.iter().all(|module| module.pages.is_empty()), "and there is no slot");
    for _ in 0..2 {
        let later = done(&ready, first_from(made.clone()), "some text");
        assert_eq!((start(&later), value(&later, "template")), (Some(StartKind::Template), "true"));
        for same in ["sum", "label", "seen", "backwards"] {
            assert_eq!(value(&later, same), value(&ordinary, same), "{same}");
        }
        for own in ["random", "invocation"] {
            assert_ne!(value(&later, own), value(&ordinary, own), "{own}");
        }
        let last = |report: &RunReport| text(report, "out").lines().last().map(str::to_owned);
        assert_eq!(last(&later), last(&ordinary), "the second step's line");
        for (step, before) in later.steps.iter().zip(&ordinary.steps) {
            let lines = |step: &StepReport| step.instances.iter().map(|one| one.lines.clone()).collect::<Vec<_>>();
            assert_eq!(lines(step), lines(before), "{}", step.name);
        }
    }
    let mut edited = made;
    edited.instances[0].token = 1 << 32;
    let run = try_run(&ready, first_from(edited), "some text");
    assert!(run.is_err_and(|error| error.is_continuations()), "it says that it is another step's");
}

/// The second step's start is the expensive one: it has a template, and the first and the last need none.
#[test]
fn a_later_step_starts_from_its_own_template() {
    let ready = ready(&later_step("", json!([])));
    let _one = support::one_at_a_time();
    let ordinary = done(&ready, TemplateUse::No, "some text");
    assert_eq!((start_of(&ordinary, 1, 0), value(&ordinary, "template")), (Some(StartKind::Main), "false"));
    assert_eq!(start_of(&ordinary, 0, 0), None, "it says nothing");
    assert_eq!(ordinary.start.as_ref().map(|start| start.kind), Some(StartKind::Main), "the first that says something");
    let made = template_in(&ready, 1);
    let of: Vec<_> = made.instances.iter().map(|instance| (instance.step.as_str(), instance.attempt)).collect();
    assert_eq!(of, [("main", 1)], "no other step has begun");
    assert!(made.modules.iter().all(|module| module.pages.is_empty()), "there is no slot");
    for page in &made.pages {
        assert!(!page.bytes.windows(14).any(|bytes| bytes == b"not to be seen"), "a template has no input");
    }
    let from = || TemplateUse::From(vec![(1, Arc::new(made.clone().into()))]);
    let later = [done(&ready, from(), "some text"), done(&ready, from(), "some text")];
    for later in &later {
        assert_eq!((start_of(later, 1, 0), value(later, "template")), (Some(StartKind::Template), "true"));
        assert_eq!((start_of(later, 0, 0), start_of(later, 2, 0)), (None, None));
        assert_eq!(later.start.as_ref().map(|start| start.kind), Some(StartKind::Template));
        for same in ["sum", "label", "seen", "backwards"] {
            assert_eq!(value(later, same), value(&ordinary, same), "{same}");
        }
        for (step, before) in later.steps.iter().zip(&ordinary.steps) {
            let lines = |step: &StepReport| step.instances.iter().map(|one| one.lines.clone()).collect::<Vec<_>>();
            assert_eq!(lines(step), lines(before), "{}", step.name);
        }
    }
    for own in ["random", "invocation"] {
        assert_ne!(value(&later[0], own), value(&later[1], own), "{own} is each instance's own");
    }
    let other = done(&ready, from(), "another text");
    assert_ne!(
        value(&other, "sum"),
        value(&ordinary, "sum"),
        "the slot is the one that this run's first step has filled"
    );
    let wrong = try_run(&ready, TemplateUse::Make(3), "");
    assert!(matches!(wrong, Err(HostError::NoTemplate)), "there is no fourth instance");
}

/// A step that passes the input on behind more; the function; and a step that passes on what that has written down.
fn later_step(before: &str, files: Value) -> Value {
    let mut document = prepared(args(before));
    document["files"] = files;
    document["functions"]["sleeper"] = json!({ "image": "sleeper" });
    let passes_on = |slot| json!({ "naps": 1, "milliseconds": 1, "takes": slot, "fills": slot });
    let steps = document["steps"].as_array_mut().expect("a list");
    steps[0]["after"] = json!(["first"]);
    steps.push(json!({ "name": "first", "function": "sleeper", "args": passes_on("in") }));
    let last = passes_on("out");
    steps.push(json!({ "name": "last", "function": "sleeper", "after": ["main"], "args": last }));
    document
}

/// What has been before it in its workflow is not common to all instances: it may have made files.
#[test]
fn a_later_step_may_not_ask_for_files_where_others_may_have_made_some() {
    let _one = support::one_at_a_time();
    let memory = json!([{ "at": "/", "memory": "1MiB" }]);
    let asks = ready(&later_step("missing", memory.clone()));
    let report = report(try_run(&asks, TemplateUse::Make(1), "").expect("the host can hold a domain"));
    let message = report.error.expect("there is none").message;
    assert_eq!(message, "main[0] (function prepared) has called FILE_STAT before it was ready");
    template_in(&ready(&later_step("", memory.clone())), 1);
    template_in(&ready(&later_step("missing", json!([]))), 1);
    let mut blind = later_step("missing", memory);
    blind["steps"][0]["files"] = json!([]);
    template_in(&ready(&blind), 1);
    for (before, call) in [("print", "STDIO_WRITE"), ("slot", "SLOT_TAKE"), ("publish", "PUBLISH")] {
        let early = ready(&later_step(before, json!([])));
        let report = support::report(try_run(&early, TemplateUse::Make(1), "").expect("the host can hold a domain"));
        let message = report.error.expect("there is none").message;
        assert_eq!(message, format!("main[0] (function prepared) has called {call} before it was ready"), "{before}");
    }
}

/// It is 0 where the template is made, and another number in an invocation that has gone on by the time the step starts.
#[test]
fn a_later_step_may_not_ask_how_often_the_workflow_has_gone_on() {
    let _one = support::one_at_a_time();
    let mut document = later_step("generation", json!([]));
    let message = "main[0] (function prepared) has called GET_INFO for how often the workflow has gone on or was copied before it was ready";
    assert_eq!(template_in_vain(&ready(&document), 1), message);
    // Where nothing has been before it, it may.
    template(&ready(&prepared(args("generation"))));
    // One that need not say that it is ready asks as its first call, in each invocation.
    document["template"] = json!("after-first-wait");
    let asks = ready(&document);
    let made = template_in(&asks, 1);
    let thread = &made.instances[0].threads[0];
    assert_eq!((thread.state, thread.call), (ThreadState::Unserved, GET_INFO));
    let later = done(&asks, TemplateUse::From(vec![(1, Arc::new(made.into()))]), "some text");
    assert_eq!(start_of(&later, 1, 0), Some(StartKind::Template));
}

/// A run can do without a template, also when a part of it has run already.
#[test]
fn a_later_steps_template_that_was_edited_is_left_out() {
    let ready = ready(&later_step("", json!([])));
    let _one = support::one_at_a_time();
    let ordinary = done(&ready, TemplateUse::No, "some text");
    let made = template_in(&ready, 1);
    let first = template_in_vain(&ready, 0);
    assert_eq!(first, "first[0] (function sleeper) has called SLOT_TAKE before it was ready");
    for (what, edit) in EDITS {
        let mut edited = made.clone();
        edit(&mut edited);
        let later = done(&ready, TemplateUse::From(vec![(1, Arc::new(edited.into()))]), "some text");
        let start = later.steps[1].instances[0].start.as_ref().unwrap_or_else(|| panic!("{what}: no start"));
        assert_eq!((start.kind, value(&later, "template")), (StartKind::Main, "false"), "{what}");
        assert!(start.no_template.is_some(), "{what}: it is said why");
        for same in ["sum", "label", "seen", "backwards"] {
            assert_eq!(value(&later, same), value(&ordinary, same), "{what}: {same}");
        }
        for (step, before) in later.steps.iter().zip(&ordinary.steps) {
            assert_eq!(step.instances[0].lines, before.instances[0].lines, "{what}: {} has run once", step.name);
        }
    }
    // It is another instance's, whichever it says that it is of.
    for cell in [0, 2] {
        let others = TemplateUse::From(vec![(cell, Arc::new(made.clone().into()))]);
        match try_run(&ready, others, "some text") {
            Err(error) => assert!(cell == 0 && error.is_continuations(), "nothing has run: {error}"),
            Ok(end) => {
                let report = report(end);
                assert_eq!((cell, report.status), (2, Status::Done), "{:#?}", report.error);
                assert_eq!(start_of(&report, 2, 0), Some(StartKind::Main));
            }
        }
    }
}

/// Why there is no template of the instance that begins in this cell.
#[track_caller]
fn template_in_vain(ready: &Ready, cell: usize) -> String {
    let end = report(try_run(ready, TemplateUse::Make(cell), "").expect("the host can hold a domain"));
    end.error.expect("there is none").message
}

/// The workflow of [`words`] with this isolation.
fn fan_out(isolation: &str) -> Ready {
    let mut document = words::document(|name| json!({ "image": format!("word-count-{name}") }));
    document["isolation"] = isolation.into();
    ready(&document)
}

/// All instances of a fan-out have templates, each its own: addresses in its memory are of its cell, and it knows which of them it is.
#[test]
fn each_instance_of_a_fan_out_starts_from_its_own_template() {
    let _one = support::one_at_a_time();
    let input = "the fox and the dog and the bird";
    let run = |ready: &Ready, template| {
        let inline_inputs = vec![("text".to_owned(), input.as_bytes().to_vec())];
        let options = RunOptions { template, inline_inputs, ..RunOptions::default() };
        let report =
            report(ready.run_from(None, None, &options, Arc::new(Silent)).expect("the host can hold a domain"));
        assert_eq!(report.status, Status::Done, "{:#?}", report.error);
        report
    };
    for isolation in ["workflow", "function"] {
        let ready = fan_out(isolation);
        let ordinary = run(&ready, TemplateUse::No);
        let instances = ready.plan().template_instances();
        assert_eq!(instances, [(0, 0), (1, 0), (2, 0), (3, 0), (1, 1), (1, 2)]);
        let made: Vec<_> = (0..instances.len()).map(|cell| template_in(&ready, cell)).collect();
        for (made, (step, index)) in made.iter().zip(&instances) {
            let [one] = &made.instances[..] else { panic!("it has one instance") };
            assert_eq!((one.step.as_str(), one.token as u32), (ready.plan().steps[*step].name.as_str(), *index));
        }
        let all = |made: Vec<Continuation>| {
            TemplateUse::From((0..).zip(made.into_iter().map(|made| Arc::new(made.into()))).collect())
        };
        for _ in 0..3 {
            let later = run(&ready, all(made.clone()));
            assert_eq!(text(&later, "counts"), text(&ordinary, "counts"), "{isolation}");
            for (step, index) in &instances {
                let start = start_of(&later, *step, *index as usize);
                assert_eq!(start, Some(StartKind::Template), "{isolation}: {step} {index}");
            }
        }
        // Two that are exchanged are both left out.
        let mut exchanged = made.clone();
        exchanged.swap(1, 4);
        let later = run(&ready, all(exchanged));
        assert_eq!(text(&later, "counts"), text(&ordinary, "counts"), "{isolation}");
        let starts: Vec<_> = (0..3).map(|index| start_of(&later, 1, index)).collect();
        assert_eq!(starts, [Some(StartKind::Main), Some(StartKind::Main), Some(StartKind::Template)], "{isolation}");
    }
}

/// Others get its cell only where there is no other.
#[test]
fn the_cell_of_a_template_is_left_to_the_instance_that_starts_from_it() {
    let _one = support::one_at_a_time();
    let mut document = later_step("", json!([]));
    document["unread"] = json!({ "slots": { "beside*": "ignore" } });
    let steps = document["steps"].as_array_mut().expect("a list");
    for number in 0..4 {
        let name = format!("beside{number}");
        let naps = json!({ "naps": 1, "milliseconds": 200, "takes": "", "fills": name });
        steps.push(json!({ "name": name, "function": "sleeper", "args": naps }));
    }
    let ready = ready(&document);
    let name = |(step, _): &(usize, u32)| ready.plan().steps[*step].name == "main";
    let cell = ready.plan().template_instances().iter().position(name).expect("it may have one");
    assert!(cell < 5, "so many begin before it, and still have their cells when it begins");
    let made = template_in(&ready, cell);
    let later = done(&ready, TemplateUse::From(vec![(cell, Arc::new(made.into()))]), "some text");
    let step = later.steps.iter().position(|step| step.name == "main").expect("a step");
    assert_eq!((start_of(&later, step, 0), value(&later, "template")), (Some(StartKind::Template), "true"));
}

/// Each step has its own, and is ready for itself.
#[test]
fn several_steps_of_one_function_have_templates_of_their_own() {
    let _one = support::one_at_a_time();
    let mut document = of_several_steps("", true);
    document["steps"][3]["args"] = json!({ "entries": 1000, "before": "", "label": "another" });
    let ready = ready(&document);
    let last = ready.plan().steps.iter().position(|step| step.name == "last").expect("a step");
    let cell = |step: usize| ready.plan().template_instances().iter().position(|of| *of == (step, 0)).expect("a cell");
    let [first, second] = [0, last].map(|step| (cell(step), Arc::new(template_in(&ready, cell(step)).into())));
    for (templates, kinds) in [
        (vec![first.clone()], [StartKind::Template, StartKind::Main]),
        (vec![second.clone()], [StartKind::Main, StartKind::Template]),
        (vec![first, second], [StartKind::Template, StartKind::Template]),
    ] {
        let report = done(&ready, TemplateUse::From(templates), "some text");
        assert_eq!([start_of(&report, 0, 0), start_of(&report, last, 0)], kinds.map(Some));
        assert_eq!(report.start.as_ref().map(|start| start.kind), Some(kinds[0]), "the first's");
        assert_eq!(value(&report, "template"), (kinds[1] == StartKind::Template).to_string(), "the last step's");
        assert_eq!((value(&report, "label"), value(&report, "seen")), ("another", ""));
    }
}

#[test]
fn a_function_that_is_never_ready_has_no_template() {
    let _one = support::one_at_a_time();
    let never = ready(&json!({
        "name": "never",
        "functions": { "no-op": { "image": "no-op" } },
        "steps": [{ "name": "main", "function": "no-op" }],
    }));
    let end = report(try_run(&never, TemplateUse::Make(0), "").expect("the host can hold a domain"));
    assert_eq!(end.error.expect("there is none").message, "it has ended and was not ready before");
}

/// The same workflow, whose function need not say that it is ready.
fn at_first_wait(before: &str) -> Ready {
    let mut document = prepared(args(before));
    document["template"] = json!("after-first-wait");
    ready(&document)
}

/// Whatever the function asks for first that is an instance's own is not served where the template is made, and once in each later instance.
#[test]
fn an_instance_goes_on_at_its_first_call_that_is_its_own() {
    let _one = support::one_at_a_time();
    for (before, call) in [
        ("print", STDIO_WRITE),
        ("random", GETRANDOM),
        ("slot", SLOT_TAKE),
        ("thread", THREAD_SPAWN),
        ("file", FILE_OPEN),
        ("publish", PUBLISH),
        // Questions about texts are answered in two calls.
        ("invocation", GET_STRING_LEN),
        ("migration", GET_STRING_LEN),
    ] {
        let ready = at_first_wait(before);
        let ordinary = done(&ready, TemplateUse::No, "some text");
        assert_eq!(ordinary.start.as_ref().map(|start| start.kind), Some(StartKind::Main), "{before}");
        let made = template(&ready);
        let thread = &made.instances[0].threads[0];
        assert_eq!((thread.state, thread.call), (ThreadState::Unserved, call), "{before}");
        let from = || first_from(made.clone());
        let later = [done(&ready, from(), "some text"), done(&ready, from(), "some text")];
        for report in &later {
            assert_eq!(report.start.as_ref().map(|start| start.kind), Some(StartKind::Template), "{before}");
            // Behind that call it is an instance like any other.
            assert_eq!(value(report, "template"), "false", "{before}");
            for same in ["sum", "label", "seen", "backwards"] {
                assert_eq!(value(report, same), value(&ordinary, same), "{before}: {same}");
            }
            let lines = |report: &RunReport| report.steps[0].instances[0].lines.clone();
            assert_eq!(lines(report), lines(&ordinary), "{before}: printed once");
            assert_eq!(report.published, ordinary.published, "{before}");
        }
        for own in ["random", "invocation"] {
            assert_ne!(value(&later[0], own), value(&later[1], own), "{before}: {own} is each instance's own");
        }
        let other = done(&ready, from(), "another text");
        assert_ne!(value(&other, "sum"), value(&ordinary, "sum"), "{before}: the input is the later instance's");
    }
}

/// Generation and copy are those of the invocation, whatever those of the run were in which the template was made.
#[test]
fn an_instance_from_a_template_has_its_own_generation() {
    let ready = ready(&json!({
        "name": "forked",
        "template": "after-first-wait",
        "functions": { "forked": { "image": "forked" } },
        "steps": [{ "name": "main", "function": "forked", "args": { "rounds": 1, "milliseconds": 60 } }],
        "outputs": ["diary"],
    }));
    let _one = support::one_at_a_time();
    let run = |rest, template, suspend: bool| {
        let options = RunOptions { template, ..RunOptions::default() };
        let least = suspend.then_some(Duration::from_millis(20));
        ready.run_from(rest, least, &options, Arc::new(Silent)).expect("the host can hold a domain")
    };
    let mut made = suspended(run(None, TemplateUse::Make(0), false)).continuation;
    made.lineage = Lineage { generation: 7, copy: 2, copies: 3 };
    let from = || first_from(made.clone());
    let said = |end| {
        let report = report(end);
        let diary = text(&report, "diary").to_owned();
        let (said, ticket) = diary.trim_end().rsplit_once(", ticket ").expect("a ticket");
        (said.lines().last().expect("a line").to_owned(), ticket.to_owned())
    };
    let (first, second) = (said(run(None, from(), false)), said(run(None, from(), false)));
    assert_eq!((first.0.as_str(), second.0.as_str()), ("copy 0 of 0, generation 0", "copy 0 of 0, generation 0"));
    assert_ne!(first.1, second.1, "each draws its own");
    // It rises when that invocation goes on.
    let mut rest = suspended(run(None, from(), true)).continuation;
    assert_eq!(rest.lineage, Lineage::default());
    rest.lineage.generation += 1;
    assert_eq!(said(run(Some(rest), TemplateUse::No, false)).0, "copy 0 of 0, generation 1");
}

#[test]
fn a_function_that_says_so_earlier_goes_on_where_it_is_ready() {
    let _one = support::one_at_a_time();
    let ready = at_first_wait("");
    let made = template(&ready);
    assert_eq!(made.instances[0].threads[0].state, ThreadState::Returns(1));
    let later = done(&ready, first_from(made), "some text");
    assert_eq!(value(&later, "template"), "true");
}

/// A call that has not been served is one that the function could make. What it could not make is refused, and so is such a thread anywhere
/// but in a template.
#[test]
fn an_edited_call_is_refused_or_served_like_the_functions_own() {
    let _one = support::one_at_a_time();
    let ready = at_first_wait("slot");
    let made = template(&ready);
    let edited = |change: &dyn Fn(&mut ThreadRecord)| {
        let mut edited = made.clone();
        change(&mut edited.instances[0].threads[0]);
        try_run(&ready, first_from(edited), "some text")
    };
    for number in [SYSTEM_ONLY, SYSTEM_ONLY + 1, u32::MAX] {
        match edited(&|thread| thread.call = number) {
            Err(error) => assert!(error.is_continuations(), "{number}: {error}"),
            Ok(_) => panic!("{number}: it is not refused"),
        }
    }
    assert!(edited(&|thread| thread.name = Some("in".to_owned())).is_err_and(|error| error.is_continuations()));
    // A pointer to trusted memory, as any function may pass one, and an end.
    for (call, args) in [(SLOT_TAKE, [0x1000_0021_0000, 8, 0, 0, 0, 0]), (EXIT, [7, 0, 0, 0, 0, 0])] {
        let end = edited(&|thread| (thread.call, thread.args) = (call, args)).expect("the host can hold a domain");
        let report = report(end);
        assert_eq!(report.status, Status::Failed, "{call}");
        assert!(report.error.is_some_and(|error| error.step.as_deref() == Some("main")), "{call}");
    }
    let options = RunOptions { inline_inputs: vec![("in".to_owned(), Vec::new())], ..RunOptions::default() };
    let error = ready.run_from(Some(made), None, &options, Arc::new(Silent)).err().expect("it is no rest of a run");
    assert!(error.is_continuations(), "{error}");
}

type Edit = fn(&mut Continuation);

/// What may be wrong with a template.
const EDITS: [(&str, Edit); 11] = [
    ("no instance", |made| made.instances.clear()),
    ("another function", |made| made.instances[0].function = "other".to_owned()),
    ("another step", |made| made.instances[0].token = 7 << 32),
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

#[test]
fn an_edited_template_is_refused_before_anything_runs() {
    let ready = ready(&prepared(args("")));
    let _one = support::one_at_a_time();
    let made = template(&ready);
    for (what, edit) in EDITS {
        let mut edited = made.clone();
        edit(&mut edited);
        match try_run(&ready, first_from(edited), "some text") {
            Err(error) => assert!(error.is_continuations(), "{what}: {error}"),
            Ok(_) => panic!("{what}: it is not refused"),
        }
    }
    let report = done(&ready, first_from(made), "some text");
    assert_eq!(value(&report, "template"), "true", "the template itself is as good as before");
}
