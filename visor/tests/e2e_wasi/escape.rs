//! Ways out of nested calls: `protect` and `escape`.

use super::support::{CHECKS, Function, words_of};
use serde_json::json;

/// A program whose table has these functions from 1 on, and whose `_start` is this.
fn program(table: &str, functions: &str, start: &str) -> String {
    format!(
        "(module
            (import \"monohull\" \"protect\" (func $protect (param i32 i32) (result i32)))
            (import \"monohull\" \"escape\" (func $escape))
            (import \"monohull\" \"slot_publish\" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
            (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
            (memory (export \"memory\") 1)
            (data (i32.const 1000) \"out\")
            {table}
            {functions}
            (func (export \"_start\") (local $n i32) {start}))"
    )
}

const FUNCTIONS: &str = "
    (func $returns (param i32) (i32.store (local.get 0) (i32.const 7)))
    (func $leaves (param i32)
        (if (i32.eqz (local.get 0)) (then (call $escape)))
        (call $leaves (i32.sub (local.get 0) (i32.const 1)))
        ;; Nothing returns to here.
        (i32.store (i32.const 2000) (i32.const 1)))
    (func $nested (param i32)
        (i32.store (local.get 0) (i32.add
            (call $protect (i32.const 2) (i32.const 10))
            (call $protect (i32.const 1) (i32.const 2004)))))
    (func $exits (param i32) (call $exit (i32.const 9)))
    (func $traps (param i32) unreachable)
    (func $other (param i64))";
const TABLE: &str = "(table (export \"__indirect_function_table\") 8 funcref)
    (elem (i32.const 1) $returns $leaves $nested $exits $traps $other)";

#[test]
fn an_escape_ends_all_calls_up_to_the_last_protect() {
    let start = "
        (i32.store (i32.const 1024) (call $protect (i32.const 1) (i32.const 1028)))
        (i32.store (i32.const 1032) (call $protect (i32.const 2) (i32.const 100)))
        (i32.store (i32.const 1036) (call $protect (i32.const 3) (i32.const 1040)))
        (loop $again
            (i32.store (i32.const 1044) (i32.add (i32.load (i32.const 1044)) (call $protect (i32.const 2) (i32.const 3))))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $n) (i32.const 10000))))
        (i32.store (i32.const 1048) (i32.load (i32.const 2000)))
        (if (call $publish (i32.const 1000) (i32.const 3) (i32.const 1024) (i32.const 28) (i32.const 0)) (then unreachable))";
    for options in CHECKS {
        let report =
            Function::built(&program(TABLE, FUNCTIONS, start), options).run(json!({}), json!({ "outputs": ["out"] }));
        assert_eq!(words_of(&report), [0, 7, 1, 0, 1, 10_000, 0]);
    }
}

#[test]
fn what_is_no_escape_ends_the_program() {
    let protect = |index: u32| format!("(drop (call $protect (i32.const {index}) (i32.const 0)))");
    let no_table = "(table 8 funcref) (elem (i32.const 1) $returns)";
    for (table, start, said) in [
        (TABLE, "(call $escape)".to_owned(), "outside of `protect`"),
        (TABLE, protect(0), "no function 0"),
        (TABLE, protect(99), "no function 99"),
        (TABLE, protect(4), "status 9"),
        (TABLE, protect(5), "unreachable"),
        (TABLE, protect(6), "function 6 of the program's table is none for `protect`"),
        (no_table, protect(1), "exports no table"),
    ] {
        let report = Function::new(&program(table, FUNCTIONS, &start)).run(json!({}), json!({}));
        let message = report["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(said), "{start}: {report:#}");
    }
}
