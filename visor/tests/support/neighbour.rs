//! A WebAssembly program that tries all over the address space, and a neighbour that notices what is written to its memory.

use serde_json::{Value, json};

/// Has a megabyte of a pattern while the attacker runs, and says afterwards whether it is as it was.
pub(crate) fn victim(then: &str) -> String {
    format!(
        r#"(module
            (import "monohull" "slot_publish" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
            (import "monohull" "slot_take" (func $take (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 17)
            (data (i32.const 0) "updoneout")
            (func $must (param i32) (if (local.get 0) (then unreachable)))
            (func (export "_start") (local $at i32) (local $same i32)
                (memory.fill (i32.const 65536) (i32.const 0x5a) (i32.const 1048576))
                (call $must (call $publish (i32.const 0) (i32.const 2) (i32.const 0) (i32.const 2) (i32.const 0)))
                (call $must (call $take (i32.const 2) (i32.const 4) (i32.const 1) (i32.const 32)))
                {then}
                (local.set $same (i32.const 1))
                (local.set $at (i32.const 65536))
                (loop $next
                    (if (i32.ne (i32.load (local.get $at)) (i32.const 0x5a5a5a5a)) (then (local.set $same (i32.const 0))))
                    (local.set $at (i32.add (local.get $at) (i32.const 4)))
                    (br_if $next (i32.lt_u (local.get $at) (i32.const 1114112))))
                (i32.store (i32.const 64) (local.get $same))
                (call $must (call $publish (i32.const 6) (i32.const 3) (i32.const 64) (i32.const 4) (i32.const 0)))))"#
    )
}

/// What no program may do, and how the trap is called. Its first memory has 1 page and addresses of 32 bits, its second one those of 64, which
/// name all that the process has: below its own memory, far above, and at the places where a process usually has its own code and stacks.
pub(crate) fn attacks() -> Vec<(String, &'static str)> {
    let bounds = "out of bounds memory access";
    let mut attacks = Vec::new();
    let (page, guard, four) = (1_i64 << 16, 32_i64 << 20, 4_i64 << 30);
    for address in [
        page,
        page + guard,
        four,
        four + guard,
        64 * four,
        0x5555_5555_4000,
        0x7fff_ffff_e000,
        1 << 47,
        i64::MIN,
        -1,
        -8,
        -4096,
        -guard,
        -guard - 8,
        -four,
        -16 * four,
        -0x5555_5555_4000,
    ] {
        attacks.push((format!("(drop (i64.load $wide (i64.const {address})))"), bounds));
        attacks.push((format!("(i64.store $wide (i64.const {address}) (i64.const -1))"), bounds));
    }
    for (address, offset) in
        [(1_u32 << 16, 0_u32), (u32::MAX, 0), (u32::MAX - 7, u32::MAX), (0, u32::MAX), (u32::MAX, 1 << 25)]
    {
        attacks.push((format!("(drop (i64.load $own offset={offset} (i32.const {address})))"), bounds));
        attacks.push((format!("(i64.store $own offset={offset} (i32.const {address}) (i64.const -1))"), bounds));
    }
    for index in [1_u32, 1 << 20, 1 << 31, u32::MAX] {
        attacks.push((format!("(call_indirect (i32.const {index}))"), "undefined element"));
    }
    attacks
}

/// Each attempt of the attacker is one attack, and the last one is the control: the same instructions, where they may reach.
pub(crate) fn attacker() -> String {
    let attacks = attacks();
    let bodies: String = attacks
        .iter()
        .zip(1..)
        .map(|((body, _), attempt)| {
            format!("(if (i32.eq (call $attempt) (i32.const {attempt})) (then {body} return))\n")
        })
        .collect();
    format!(
        r#"(module
            (import "monohull" "slot_publish" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
            (import "monohull" "slot_take" (func $take (param i32 i32 i32 i32) (result i32)))
            (import "monohull" "attempt" (func $attempt (result i32)))
            (memory $own (export "memory") 1)
            (memory $wide i64 1)
            (table 1 funcref)
            (elem (i32.const 0) $called)
            (data (i32.const 0) "updone")
            (func $must (param i32) (if (local.get 0) (then unreachable)))
            (func $called (i64.store $wide (i64.const 65520) (i64.const 42)))
            (func (export "_start")
                (call $must (call $take (i32.const 0) (i32.const 2) (i32.const 1) (i32.const 32)))
                {bodies}
                (call_indirect (i32.const 0))
                (if (i64.ne (i64.load $wide (i64.const 65520)) (i64.const 42)) (then unreachable))
                (i64.store $own offset=65520 (i32.const 8) (i64.const 43))
                (if (i64.ne (i64.load $own offset=8 (i32.const 65520)) (i64.const 43)) (then unreachable))
                (call $must (call $publish (i32.const 2) (i32.const 4) (i32.const 2) (i32.const 4) (i32.const 0)))))"#
    )
}

/// A workflow of both.
pub(crate) fn document() -> Value {
    let retry = json!({ "max_attempts": attacks().len() + 1, "interval": "1ms", "backoff_rate": 1 });
    json!({
        "name": "test",
        "functions": { "attacker": { "image": "attacker.so" }, "victim": { "image": "victim.so" } },
        "steps": [
            { "name": "attacker", "function": "attacker", "retry": retry },
            { "name": "victim", "function": "victim" },
        ],
        "outputs": ["out"],
        "limits": { "carriers": 2 },
        "unread": "ignore",
    })
}

/// In the report of the workflow each attack is a trap of its own, and a failure of the function.
#[track_caller]
pub(crate) fn are_traps(report: &Value) {
    let failed = report["steps"][0]["instances"][0]["failed_attempts"].as_array().expect("attempts");
    assert_eq!(failed.len(), attacks().len(), "{report:#}");
    for ((body, expected), failed) in attacks().iter().zip(failed) {
        let error = failed["error"].to_string();
        assert!(error.contains(expected) && error.contains("function"), "{body}: {error}");
    }
}
