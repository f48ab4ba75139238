//! A server's templates: who gets one, who makes one, and that nothing of an invocation is in it.

mod serve_support;
#[path = "support/words.rs"]
mod words;

use serde_json::{Value, json};
use serve_support::{Server, eventually, image_bytes, single};

fn workflow(name: &str, before: &str, label: &str) -> Value {
    let more = json!({ "args": { "entries": 1000, "before": before, "label": label } });
    let mut document = single(name, "prepared", &more);
    document["inputs"] = json!(["in"]);
    document["outputs"] = json!(["out"]);
    document
}

/// What an invocation has written down, and what its report says of the start.
#[track_caller]
fn invoke(server: &Server, workflow: &str, input: &str) -> (Value, Value) {
    let answer = server.post(&format!("/invoke/{workflow}"), input.as_bytes()).expect(200);
    let id = &answer.headers["x-invocation-id"];
    let start = server.get(&format!("/invocations/{id}")).expect(200).json()["report"]["start"].clone();
    let pairs = answer.text();
    let pairs = pairs.lines().filter_map(|line| line.split_once('='));
    (pairs.map(|(name, value)| (name.to_owned(), Value::from(value))).collect(), start)
}

fn metric(server: &Server, name: &str) -> u64 {
    let text = server.get("/metrics").expect(200).text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().expect("a number"))
}

/// Waits until there are so many templates.
fn has_templates(server: &Server, count: u64) {
    eventually("templates are made", || metric(server, "monohull_templates") == count);
}

/// Waits until a workflow has a template. If one cannot be made at the moment, the next invocation asks for it again.
fn starts_from_template(server: &Server, name: &str) {
    eventually("it starts from a template", || invoke(server, name, "text").1 == template_start());
}

fn main_start() -> Value {
    json!({ "kind": "main" })
}

fn template_start() -> Value {
    json!({ "kind": "template" })
}

#[test]
fn later_invocations_start_from_a_template_and_answer_the_same() {
    for process in ["per-invocation", "reused"] {
        let server = Server::start_with(&["--prefork", "2", "--process", process]);
        server.put_example("prepared");
        server.put_workflow(&workflow("letters", "", "a"));
        let (ordinary, start) = invoke(&server, "letters", "the first input");
        assert_eq!((&start, &ordinary["template"]), (&main_start(), &"false".into()), "{process}");
        starts_from_template(&server, "letters");
        let [main, template] = ["main", "template"].map(|kind| format!("monohull_starts_total{{start=\"{kind}\"}}"));
        let before = (metric(&server, &main), metric(&server, &template));
        let mut drawn = Vec::new();
        for _ in 0..3 {
            let (later, start) = invoke(&server, "letters", "the first input");
            assert_eq!((&start, &later["template"]), (&template_start(), &"true".into()), "{process}");
            assert_eq!((&later["sum"], &later["label"]), (&ordinary["sum"], &ordinary["label"]));
            assert_eq!(later["seen"], "", "inputs of others are nowhere");
            drawn.push(later["random"].clone());
        }
        assert!(drawn[0] != drawn[1] && drawn[1] != drawn[2] && drawn[0] != drawn[2], "{drawn:?}");
        assert_eq!((metric(&server, &main), metric(&server, &template)), (before.0, before.1 + 3));
        assert!(metric(&server, "monohull_template_bytes") > 4096);
    }
}

/// The first step starts from the template, and the second from its image: it gets the first one's slot as in any invocation.
#[test]
fn a_workflow_of_several_steps_starts_from_a_template_of_the_first() {
    for process in ["per-invocation", "reused"] {
        let server = Server::start_with(&["--prefork", "2", "--process", process]);
        server.put_example("prepared");
        server.put_example("sleeper");
        let mut document = workflow("steps", "", "a");
        document["functions"]["second"] = json!({ "image": "function:sleeper" });
        document["steps"].as_array_mut().expect("a list").push(json!({
            "name": "second",
            "function": "second",
            "after": ["main"],
            "args": { "naps": 0, "milliseconds": 0, "takes": "out", "fills": "end" },
        }));
        document["outputs"] = json!(["end"]);
        server.put_workflow(&document);
        let (ordinary, start) = invoke(&server, "steps", "the first input");
        assert_eq!((&start, &ordinary["template"]), (&main_start(), &"false".into()), "{process}");
        starts_from_template(&server, "steps");
        let mut drawn = vec![ordinary["random"].clone()];
        for _ in 0..3 {
            let (later, start) = invoke(&server, "steps", "the first input");
            assert_eq!((&start, &later["template"]), (&template_start(), &"true".into()), "{process}");
            for same in ["sum", "label", "seen", "backwards"] {
                assert_eq!(later[same], ordinary[same], "{process}: {same}");
            }
            assert!(!drawn.contains(&later["random"]), "{drawn:?}");
            drawn.push(later["random"].clone());
        }
        let other = invoke(&server, "steps", "another input").0;
        assert_ne!(other["sum"], ordinary["sum"], "the input is the later invocation's");
    }
}

/// Three steps, of which the second has the expensive start, and two of them at once. It alone has a template then, and each its own.
#[test]
fn later_steps_and_several_at_once_start_from_their_templates() {
    for process in ["per-invocation", "reused"] {
        let server = Server::start_with(&["--prefork", "2", "--process", process]);
        server.put_example("prepared");
        server.put_example("sleeper");
        let mut document = workflow("steps", "", "a");
        document["functions"]["pass"] = json!({ "image": "function:sleeper" });
        let passes_on = |slot: &str| json!({ "naps": 0, "milliseconds": 0, "takes": slot, "fills": slot });
        let mut heavy = document["steps"][0].clone();
        heavy["after"] = json!(["first"]);
        document["steps"] = json!([
            { "name": "first", "function": "pass", "args": passes_on("in") },
            heavy,
            { "name": "last", "function": "pass", "after": ["main"], "args": passes_on("out") },
        ]);
        server.put_workflow(&document);
        let start = |id: &str, step: usize| {
            let report = server.get(&format!("/invocations/{id}")).expect(200).json()["report"].clone();
            (report["steps"][step]["name"].clone(), report["steps"][step]["instances"][0]["start"].clone())
        };
        let (ordinary, kind) = invoke(&server, "steps", "the first input");
        assert_eq!((&kind, &ordinary["template"]), (&main_start(), &"false".into()), "{process}");
        starts_from_template(&server, "steps");
        has_templates(&server, 1);
        let mut drawn = vec![ordinary["random"].clone(), ordinary["invocation"].clone()];
        for _ in 0..3 {
            let answer = server.post("/invoke/steps", b"the first input").expect(200);
            let id = answer.headers["x-invocation-id"].clone();
            assert!(answer.text().contains("template=true"), "{process}: {}", answer.text());
            for (step, name, kind) in
                [(0, "first", Value::Null), (1, "main", template_start()), (2, "last", Value::Null)]
            {
                assert_eq!(start(&id, step), (name.into(), kind), "{process}");
            }
            let (later, kind) = invoke(&server, "steps", "the first input");
            assert_eq!((&kind, &later["template"]), (&template_start(), &"true".into()), "{process}");
            for same in ["sum", "label", "seen", "backwards"] {
                assert_eq!(later[same], ordinary[same], "{process}: {same}");
            }
            for own in ["random", "invocation"] {
                assert!(!drawn.contains(&later[own]), "{process}: {own} is each invocation's own");
                drawn.push(later[own].clone());
            }
        }
        let other = invoke(&server, "steps", "another input").0;
        assert_ne!(other["sum"], ordinary["sum"], "the input is the later invocation's");
        // Another version has nothing of this one.
        document["steps"][1]["args"]["label"] = json!("another");
        server.put_workflow(&document);
        let (told, kind) = invoke(&server, "steps", "the first input");
        assert_eq!((&kind, &told["label"]), (&main_start(), &"another".into()), "{process}");
    }
}

/// No function of it says that it is ready. What counts words does so in three instances at once.
#[test]
fn all_instances_of_a_fan_out_start_from_templates() {
    for process in ["per-invocation", "reused"] {
        let server = Server::start_with(&["--prefork", "2", "--process", process]);
        for function in ["split", "map", "reduce", "merge"] {
            server.put_example(&format!("word-count-{function}"));
        }
        server.put_workflow(&words::document(|name| json!({ "image": format!("function:word-count-{name}") })));
        let run = |text: &str| {
            let answer = server.post("/invoke/words", text.as_bytes()).expect(200);
            let id = &answer.headers["x-invocation-id"];
            let report = server.get(&format!("/invocations/{id}")).expect(200).json()["report"].clone();
            let steps = report["steps"].as_array().expect("steps").clone();
            let instances = steps.iter().flat_map(|step| step["instances"].as_array().expect("instances").clone());
            (answer.text(), instances.map(|instance| instance["start"].clone()).collect::<Vec<_>>())
        };
        let (text, other) = ("the fox and the dog and the bird", "one more text, of more words");
        let (counts, starts) = run(text);
        assert_eq!(starts, vec![main_start(); 6], "{process}");
        eventually("all start from templates", || run(text).1 == vec![template_start(); 6]);
        has_templates(&server, 6);
        let (others, _) = run(other);
        for _ in 0..3 {
            assert_eq!(run(text), (counts.clone(), vec![template_start(); 6]), "{process}");
            assert_eq!(run(other).0, others, "{process}");
        }
        assert_ne!(counts, others);
    }
}

/// The libc starts before `main`, and reads arguments and the environment there: they are those of the workflow's version.
#[test]
fn programs_in_c_have_templates() {
    let server = Server::start_with(&["--prefork", "2"]);
    server.put_example("libc-ready");
    for label in ["first", "second"] {
        let mut document = single("table", "libc-ready", &json!({ "args": { "argv": [label] } }));
        document["steps"][0]["env"] = json!({ "LABEL": label });
        document["inputs"] = json!(["in"]);
        document["outputs"] = json!(["out"]);
        server.put_workflow(&document);
        let (ordinary, start) = invoke(&server, "table", "the first input");
        assert_eq!((&start, &ordinary["template"]), (&main_start(), &"false".into()), "{label}");
        starts_from_template(&server, "table");
        let mut drawn = vec![ordinary["random"].clone()];
        for _ in 0..3 {
            let (later, start) = invoke(&server, "table", "the first input");
            assert_eq!((&start, &later["template"]), (&template_start(), &"true".into()));
            for (name, value) in
                [("label", label), ("argument", label), ("seen", "0"), ("backwards", "0"), ("failures", "0")]
            {
                assert_eq!(later[name], value, "{name}");
            }
            assert_eq!(later["sum"], ordinary["sum"]);
            assert!(!drawn.contains(&later["random"]), "{drawn:?}");
            drawn.push(later["random"].clone());
        }
    }
}

/// Rust's own std draws the keys of its hash maps by a call that says that they are no secret of the instance's.
#[test]
fn programs_over_the_real_std_have_templates() {
    let server = Server::start_with(&["--prefork", "2"]);
    server.put_example("libc-std_ready");
    let mut document = single("map", "libc-std_ready", &json!({ "args": { "argv": ["first"] } }));
    document["steps"][0]["env"] = json!({ "LABEL": "second" });
    document["inputs"] = json!(["in"]);
    document["outputs"] = json!(["out"]);
    server.put_workflow(&document);
    let (ordinary, start) = invoke(&server, "map", "the first input");
    assert_eq!((&start, &ordinary["template"]), (&main_start(), &"false".into()));
    starts_from_template(&server, "map");
    let later: Vec<Value> = (0..3)
        .map(|_| {
            let (later, start) = invoke(&server, "map", "the first input");
            assert_eq!((&start, &later["template"]), (&template_start(), &"true".into()));
            for (name, value) in [
                ("label", "second"),
                ("argument", "first"),
                ("noted", "before after"),
                ("joined", "0"),
                ("entries", "27"),
            ] {
                assert_eq!(later[name], value, "{name}");
            }
            assert_eq!(later["sum"], ordinary["sum"]);
            later
        })
        .collect();
    for (one, other) in [(0, 1), (1, 2), (0, 2)] {
        assert_ne!(later[one]["random"], later[other]["random"], "each instance's own");
        assert_ne!(later[one]["later"], later[other]["later"], "as are the keys of other threads");
        for name in ["seed", "same"] {
            assert_eq!(
                later[one][name], later[other][name],
                "{name}: a thread draws keys once, here before it was ready"
            );
        }
    }
    assert_ne!(later[0]["seed"], ordinary["seed"]);
}

/// A function that knows nothing of templates, in a workflow that has one all the same: it begins where it asks for its input.
#[test]
fn a_function_that_never_says_that_it_is_ready_has_a_template_if_its_workflow_says_so() {
    for process in ["per-invocation", "reused"] {
        let server = Server::start_with(&["--prefork", "2", "--process", process]);
        server.put_example("echo");
        let mut document = single("echo", "echo", &json!({ "args": { "wait_ms": 1 } }));
        document["inputs"] = json!(["in"]);
        document["outputs"] = json!(["out"]);
        let start = |input: &str| {
            let answer = server.post("/invoke/echo", input.as_bytes()).expect(200);
            assert_eq!(answer.text(), input, "{process}");
            let id = &answer.headers["x-invocation-id"];
            server.get(&format!("/invocations/{id}")).expect(200).json()["report"]["start"].clone()
        };
        server.put_workflow(&document);
        assert_eq!(start("as usual"), Value::Null, "{process}");
        document["template"] = json!("after-first-wait");
        server.put_workflow(&document);
        assert_eq!(start("the first"), main_start(), "{process}");
        eventually("it starts from a template", || start("another") == template_start());
        for input in ["one", "two", "three"] {
            assert_eq!(start(input), template_start(), "{process}");
        }
    }
}

#[test]
fn a_template_is_of_one_workflow_and_of_one_version() {
    let server = Server::start_with(&["--prefork", "2"]);
    server.put_example("prepared");
    // The same function: only what it is told differs. Another tenant's secret is such an argument.
    for (name, label) in [("one", "secret of one"), ("other", "secret of the other")] {
        server.put_workflow(&workflow(name, "", label));
        let (_, start) = invoke(&server, name, "text");
        assert_eq!(start, main_start(), "{name} has nothing of another workflow");
    }
    for (name, label) in [("one", "secret of one"), ("other", "secret of the other")] {
        starts_from_template(&server, name);
        let (told, start) = invoke(&server, name, "text");
        assert_eq!((&start, &told["label"]), (&template_start(), &label.into()));
    }
    server.put_workflow(&workflow("one", "", "a new version"));
    let (told, start) = invoke(&server, "one", "text");
    assert_eq!((&start, &told["label"]), (&main_start(), &"a new version".into()));
    starts_from_template(&server, "one");
    has_templates(&server, 2);
    // A function that is changed: these bytes are another image, and do the same.
    let mut changed = image_bytes("prepared");
    changed.push(0);
    let put = server.ask("PUT", "/functions/prepared", &changed);
    assert!([200, 201].contains(&put.status), "{}", put.text());
    let (_, start) = invoke(&server, "one", "text");
    assert_eq!(start, main_start());
}

/// A server with one place for processes, in which one makes a template of the workflow `slow` for a minute.
#[track_caller]
fn making_a_template() -> Server {
    let server = Server::start_with(&["--prefork", "2", "--concurrency", "1"]);
    server.put_example("prepared");
    server.put_example("echo");
    server.put_workflow(&single("echo", "echo", &json!({ "inputs": ["in"], "outputs": ["out"] })));
    let mut slow = workflow("slow", "", "a");
    slow["steps"][0]["args"]["entries"] = json!(4_000_000_000_u64);
    server.put_workflow(&slow);
    assert_eq!(invoke(&server, "slow", "text").1, main_start());
    eventually("a template is being made", || running(&server) == 1);
    server
}

fn running(server: &Server) -> Value {
    server.get("/healthz").expect(200).json()["running"].clone()
}

/// The process that makes a template is one of those that may run, and ends when nothing will use what it makes.
#[test]
fn a_template_that_is_being_made_is_given_up_with_its_workflow() {
    let server = making_a_template();
    let running = || running(&server);
    server.ask("DELETE", "/workflows/slow", b"").expect(204);
    eventually("it is given up", || running() == 0);
    // The place is free before that is written down.
    eventually("it is told", || server.log().contains("it is not needed any more"));
    let log = server.log();
    assert!(!log.contains("a template has been made"), "{log}");
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
}

/// It would take a minute.
#[test]
fn a_template_that_is_being_made_leaves_its_place_to_calls() {
    let server = making_a_template();
    let running = || running(&server);
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
    eventually("it is told", || server.log().contains("a template is made later: calls wait"));
    // It is not begun again at once.
    assert_eq!(invoke(&server, "slow", "text").1, main_start());
    assert_eq!(running(), 0);
}

#[test]
fn a_function_that_begins_too_early_works_without_a_template_and_is_told_why() {
    let server = Server::start_with(&["--prefork", "2"]);
    server.put_example("prepared");
    for (before, call) in [("slot", "SLOT_TAKE"), ("random", "GETRANDOM"), ("print", "STDIO_WRITE")] {
        server.put_workflow(&workflow("early", before, ""));
        invoke(&server, "early", "text");
        let why = format!("main[0] (function f) has called {call} before it was ready");
        eventually("it is known that there is no template", || {
            let (_, start) = invoke(&server, "early", "text");
            start == json!({ "kind": "main", "no_template": why })
        });
    }
    assert_eq!(metric(&server, "monohull_templates"), 0);
}

#[test]
fn templates_are_bounded_and_the_one_that_was_not_used_for_longest_goes_first() {
    let server = Server::start_with(&["--prefork", "2", "--template-bytes", "0"]);
    server.put_example("prepared");
    server.put_workflow(&workflow("none", "", ""));
    for _ in 0..3 {
        assert_eq!(invoke(&server, "none", "text").1, main_start());
    }
    let server = Server::start_with(&["--prefork", "2"]);
    server.put_example("prepared");
    server.put_workflow(&workflow("size", "", ""));
    starts_from_template(&server, "size");
    // Room for two.
    let limit = (metric(&server, "monohull_template_bytes") * 5 / 2) >> 10;
    let server = Server::start_with(&["--prefork", "2", "--template-bytes", &format!("{limit}KiB")]);
    server.put_example("prepared");
    for (count, name) in [(1, "a"), (2, "b"), (2, "c")] {
        server.put_workflow(&workflow(name, "", ""));
        starts_from_template(&server, name);
        has_templates(&server, count);
        assert!(metric(&server, "monohull_template_bytes") <= limit << 10);
    }
    assert_eq!(invoke(&server, "c", "text").1, template_start());
    assert_eq!(invoke(&server, "b", "text").1, template_start());
    assert_eq!(invoke(&server, "a", "text").1, main_start(), "it was not used for longest");
}
