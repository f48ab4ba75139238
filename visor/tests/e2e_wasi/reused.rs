//! Programs in processes of a server that are used again: each invocation begins with its memory as the program has it.

use super::serve_support::{Server, eventually, single};
use super::support::{CHECKS, Function};
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
        eventually("the process is reset", || {
            let log = server.log();
            assert!(!log.contains("could not be used again"), "{log}");
            server.get("/healthz").json()["kept_workers"] == 1
        });
    }
}

/// Its memory begins with a megabyte of data, of which each instance and each attempt finds all as the program has it, and changes a part.
#[test]
fn data_that_instances_share_is_changed_for_each_alone() {
    let data: String = (0..1 << 20).map(|at: u32| char::from(b'a' + (at / 4096 % 26) as u8)).collect();
    let sum: u32 = data.bytes().map(u32::from).sum();
    let text = format!(
        r#"(module
            (import "monohull" "attempt" (func $attempt (result i32)))
            (memory (export "memory") 32)
            (data (i32.const 3000) "{data}") (data (i32.const 1500000) "out")
            (func (export "_start") (local $at i32) (local $sum i32)
                (loop $next
                    (local.set $sum (i32.add (local.get $sum) (i32.load8_u offset=3000 (local.get $at))))
                    (i32.store8 offset=3000 (local.get $at) (i32.const 0))
                    (br_if $next
                        (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 1))) (i32.const 1048576))))
                (if (i32.ne (local.get $sum) (i32.const {sum})) (then (loop $wrong (br $wrong))))
                (if (i32.lt_u (call $attempt) (i32.const 3)) (then unreachable))))"#
    );
    let retry = json!({ "max_attempts": 3, "interval": "1ms", "backoff_rate": 1 });
    for options in CHECKS {
        let report =
            Function::built(&text, options).run(json!({ "instances": 4, "retry": retry, "timeout": "60s" }), json!({}));
        assert_eq!(report["status"], "done", "{report:#}");
    }
}
