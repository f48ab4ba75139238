//! Programs with several memories: each reserves addresses, of which a function has so many. With explicit checks they reserve fewer, however
//! those are asked for.

use super::components::command;
use super::serve_support::Server;
use super::support::{Function, monohull, run_document, words};
use serde_json::{Value, json};
use std::fs;
use std::process::Output;
use tempfile::TempDir;

/// How many memories have room.
const MOST: usize = 7;

/// A module, or a component, with so many memories.
fn with_memories(count: usize) -> [String; 2] {
    let more = " (memory 1)".repeat(count - 1);
    let module = format!("(module (memory (export \"memory\") 1){more} (func (export \"_start\")))");
    let more = " (core instance (instantiate $another))".repeat(count - 1);
    let host = format!("(core instance $host) (core module $another (memory 1)) {more}");
    [module, command("", &host, "", "(i32.const 0)")]
}

fn run(text: &str, options: &[&str]) -> Value {
    Function::built(text, options).run(json!({ "memory": "64MiB" }), json!({}))
}

#[test]
fn a_program_has_as_many_memories_as_there_are_addresses_for() {
    for text in with_memories(MOST) {
        let report = run(&text, &[]);
        assert_eq!(report["status"], "done", "{report:#}");
    }
    for text in with_memories(MOST + 1) {
        let report = run(&text, &[]);
        assert_eq!(
            (&report["status"], &report["error"]["blame"]),
            (&json!("failed"), &json!("function")),
            "{report:#}"
        );
        let said = report["error"]["message"].as_str().unwrap_or_default();
        let wanted = format!("out of addresses: the program has {} memories, each of which reserves 4 GiB", MOST + 1);
        assert!(said.contains(&wanted) && said.contains(&format!("room for {MOST}.")), "{said}");
        assert!(said.contains("\"checks\": \"explicit\""), "{said}");
        // More memory does not help, and memories that reserve less do.
        assert!(!said.contains("the step's `memory`"), "{said}");
        let report = run(&text, &["--explicit-checks"]);
        assert_eq!(report["status"], "done", "{report:#}");
    }
    let page = include_str!("../../../docs/wasi.md");
    assert!(page.contains(&format!("there is room for {MOST} memories")), "docs/wasi.md says how many");
}

/// Each of them reserves what the step's memory may be, until there are too few addresses for it; then it is moved to grow.
#[test]
fn with_explicit_checks_many_memories_grow() {
    let count = 60;
    let grows = |index: usize| {
        format!(
            "(if (i32.eq (memory.grow {index} (i32.const 40)) (i32.const -1)) (then unreachable))
             (i32.store {index} (i32.const 2686972) (i32.add (i32.load {index} (i32.const 65532)) (i32.const 1)))
             (if (i32.ne (i32.load {index} (i32.const 2686972)) (i32.const 8)) (then unreachable))"
        )
    };
    let writes: String =
        (0..count).map(|index| format!("(i32.store {index} (i32.const 65532) (i32.const 7))")).collect();
    let all: String = (0..count).map(grows).collect();
    let more = " (memory 1)".repeat(count - 1);
    let text = format!("(module (memory (export \"memory\") 1){more} (func (export \"_start\") {writes} {all}))");
    let report = Function::built(&text, &["--explicit-checks"]).run(json!({ "memory": "1GiB" }), json!({}));
    assert_eq!(report["status"], "done", "{report:#}");
}

/// By a workflow file, by `run` of a program and by `deploy`. Both images are kept in the cache, each for itself.
#[test]
fn explicit_checks_are_asked_for_wherever_a_program_is_compiled() {
    let [text, _] = with_memories(MOST + 1);
    let folder = TempDir::new().expect("a folder");
    let program = folder.path().join("app.wasm");
    fs::write(&program, wat::parse_str(text).expect("a right program")).expect("written");
    let document = |checks: Option<&str>| {
        let mut document = json!({
            "name": "checks",
            "functions": { "app": { "image": "app.wasm" } },
            "steps": [{ "name": "app", "function": "app", "memory": "64MiB" }],
        });
        if let Some(checks) = checks {
            document["functions"]["app"]["checks"] = checks.into();
        }
        document
    };
    for (checks, ends) in
        [(None, "failed"), (Some("explicit"), "done"), (Some("guards"), "failed"), (Some("explicit"), "done")]
    {
        let report = run_document(folder.path(), &document(checks));
        assert_eq!(report["status"], ends, "{checks:?}: {report:#}");
    }

    let run = |options: &[&str]| {
        let mut arguments = vec!["run", program.to_str().expect("UTF-8"), "--json"];
        arguments.extend(options);
        serde_json::from_slice::<Value>(&monohull(&arguments).stdout).expect("a report")["status"].clone()
    };
    assert_eq!([run(&[]), run(&["--explicit-checks"])], ["failed", "done"]);

    let server = Server::start();
    let file = folder.path().join("test.json");
    let deploy = |checks| -> Output {
        fs::write(&file, document(checks).to_string()).expect("written");
        let address = format!("http://{}", server.address);
        monohull(&["deploy", file.to_str().expect("UTF-8"), "--server", &address])
    };
    for (checks, status) in [(None, 502), (Some("explicit"), 200)] {
        let deployed = deploy(checks);
        assert!(deployed.status.success(), "{}", words(&deployed.stderr));
        server.post("/invoke/checks", b"").expect(status);
    }
}

#[test]
fn checks_are_of_webassembly_programs_and_have_two_names() {
    let folder = TempDir::new().expect("a folder");
    let said = |image: &str, checks: &str, content: &[u8]| {
        fs::write(folder.path().join(image), content).expect("written");
        let document = json!({
            "name": "checks",
            "functions": { "app": { "image": image, "checks": checks } },
            "steps": [{ "name": "app", "function": "app" }],
        });
        let file = folder.path().join("test.json");
        fs::write(&file, document.to_string()).expect("written");
        let ended = monohull(&["validate", file.to_str().expect("UTF-8")]);
        assert!(!ended.status.success());
        words(&ended.stderr) + &words(&ended.stdout)
    };
    let wrong = said("app.py", "explicit", b"print(1)\n");
    assert!(wrong.contains("`\"checks\": \"explicit\"` is for a WebAssembly program, and this is none"), "{wrong}");
    let wrong = said("app.wasm", "none", b"");
    assert!(wrong.contains("`guards` or `explicit`"), "{wrong}");
    let file = folder.path().join("test.json");
    let ended = monohull(&["run", file.to_str().expect("UTF-8"), "--explicit-checks"]);
    assert!(words(&ended.stderr).contains("--explicit-checks"), "{}", words(&ended.stderr));
}
