//! Programs with several memories: each reserves addresses, of which a function has so many.

use super::components::command;
use super::support::Function;
use serde_json::{Value, json};

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
        // More memory does not help, and memories that reserve nothing do.
        assert!(!said.contains("the step's `memory`"), "{said}");
        let report = run(&text, &["--explicit-checks"]);
        assert_eq!(report["status"], "done", "{report:#}");
    }
    let page = include_str!("../../../docs/wasi.md");
    assert!(page.contains(&format!("there is room for {MOST} memories")), "docs/wasi.md says how many");
}
