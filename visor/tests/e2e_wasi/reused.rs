//! Programs in processes of a server that are used again: each invocation begins with its memory as the program has it.

use super::serve_support::{Server, eventually, single};
use super::support::Function;
use serde_json::json;
use std::fs;

/// Counts in its memory, in a global, in memory that it has grown by and in a slot of its table; publishes the sum of what it has found, and counts.
const COUNTS: &str = r#"(module
    (import "monohull" "slot_publish" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "out") (data (i32.const 8) "0")
    (global $count (mut i32) (i32.const 0))
    (table $table 2 funcref)
    (elem declare func $main)
    (func $main (export "_start") (local $found i32) (local $grown i32)
        (local.set $grown (i32.mul (memory.grow (i32.const 16)) (i32.const 65536)))
        (local.set $found (i32.add (i32.load (i32.const 16)) (global.get $count)))
        (local.set $found (i32.add (local.get $found) (i32.load (i32.add (local.get $grown) (i32.const 900000)))))
        (local.set $found (i32.add (local.get $found) (i32.eqz (ref.is_null (table.get $table (i32.const 1))))))
        (i32.store8 (i32.const 8) (i32.add (i32.const 48) (local.get $found)))
        (i32.store (i32.const 16) (i32.const 1))
        (global.set $count (i32.const 1))
        (i32.store (i32.add (local.get $grown) (i32.const 900000)) (i32.const 1))
        (table.set $table (i32.const 1) (ref.func $main))
        (drop (call $publish (i32.const 0) (i32.const 3) (i32.const 8) (i32.const 1) (i32.const 1)))))"#;

#[test]
fn a_process_that_is_used_again_has_nothing_of_the_last_invocation() {
    let function = Function::new(COUNTS);
    let server = Server::start_with(&["--prefork", "2", "--process", "reused"]);
    let image = fs::read(function.folder.path().join("app.so")).expect("built");
    server.ask("PUT", "/functions/counts", &image).expect(201);
    server.put_workflow(&single("counts", "counts", &json!({ "outputs": ["out"] })));
    for before in 0..5 {
        let answer = server.post("/invoke/counts", b"").expect(200);
        assert_eq!(answer.text(), "0", "invocation {before}");
        let id = answer.headers["x-invocation-id"].clone();
        let report = server.get(&format!("/invocations/{id}")).expect(200).json()["report"].clone();
        assert_eq!(report["process"], json!({ "kind": "reused", "before": before }), "{report:#}");
        eventually("the process is reset", || server.get("/healthz").json()["kept_workers"] == 1);
    }
}
