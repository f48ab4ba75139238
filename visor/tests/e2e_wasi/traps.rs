//! Traps, and the limits of memory and time.

use super::support::{CHECKS, Function, failure, program, words_of};
use serde_json::{Value, json};

#[test]
fn traps_are_failures_of_the_function() {
    for (body, expected) in [
        ("unreachable", "unreachable"),
        ("(drop (i32.load (i32.const 65533)))", "out of bounds memory access"),
        ("(i64.store offset=0xffffffff (i32.const -1) (i64.const 1))", "out of bounds memory access"),
        ("(drop (i32.div_u (i32.const 1) (i32.load (i32.const 0))))", "integer divide by zero"),
        (
            "(drop (i32.div_s (i32.const 0x80000000) (i32.sub (i32.load (i32.const 0)) (i32.const 1))))",
            "integer overflow",
        ),
        ("call $again", "call stack exhausted"),
    ] {
        for options in CHECKS {
            let error = failure(body, options, json!({}));
            assert_eq!(error["blame"], "function", "{body}: {error:#}");
            let message = error["message"].as_str().expect("a message");
            assert!(message.contains(expected), "{body}: {message}");
            // Where it was: the function's name in the program.
            let place = if body == "call $again" { "again" } else { "inner" };
            assert!(message.contains(place), "{body}: {message}");
        }
    }
}

#[test]
fn every_edge_of_the_memory_is_a_trap() {
    // Two pages, of which the second has been added. An address, and a constant offset: within the guard, at its end, beyond.
    let access = |address: u32, offset: u32| {
        let text = format!(
            "(module (memory (export \"memory\") 1)
                (func (export \"_start\")
                    (drop (memory.grow (i32.const 1)))
                    (i32.store (i32.const 131068) (i32.const 7))
                    (if (i32.ne (i32.load offset=131068 (i32.const 0)) (i32.const 7)) (then unreachable))
                    (drop (i32.load offset={offset} (i32.const {address})))
                    (i32.store offset={offset} (i32.const {address}) (i32.const 1))))"
        );
        let mut said = Vec::new();
        for options in CHECKS {
            let report = Function::built(&text, options).run(json!({}), json!({}));
            said.push(report["error"]["message"].as_str().unwrap_or_default().to_owned());
        }
        said
    };
    for (address, offset) in [(131068, 0), (0, 131068), (65536, 65532)] {
        assert_eq!(access(address, offset), ["", ""], "{address} + {offset}");
    }
    let guard = 32 << 20;
    for (address, offset) in [
        (131069, 0),
        (131072, 0),
        (1, 131068),
        (u32::MAX, 0),
        (u32::MAX - 3, 4),
        (u32::MAX, u32::MAX),
        (u32::MAX, guard - 4),
        (u32::MAX, guard),
        (u32::MAX, guard + 1),
        (0, u32::MAX),
    ] {
        for said in access(address, offset) {
            assert!(said.contains("out of bounds memory access"), "{address} + {offset}: {said}");
        }
    }
}

#[test]
fn a_memory_without_pages_and_calls_of_nothing_are_traps() {
    for (text, expected) in [
        (
            "(module (memory (export \"memory\") 0) (func (export \"_start\") (drop (i32.load (i32.const 0)))))",
            "out of bounds memory access",
        ),
        (
            "(module (memory (export \"memory\") 1) (table 2 funcref)
                (func (export \"_start\") (call_indirect (i32.const 1))))",
            "uninitialized element",
        ),
        (
            "(module (memory (export \"memory\") 1) (table 2 funcref)
                (func (export \"_start\") (call_indirect (i32.const 2))))",
            "undefined element",
        ),
    ] {
        for options in CHECKS {
            let report = Function::built(text, options).run(json!({}), json!({}));
            let said = report["error"]["message"].as_str().unwrap_or_default();
            assert!(said.contains(expected), "{text}: {report:#}");
        }
    }
}

#[test]
fn a_memory_larger_than_the_limit_is_an_error_that_says_so() {
    let module = "(module (memory (export \"memory\") 4096) (func (export \"_start\")))";
    let component = "(component (core module $m (memory 4096)) (core instance (instantiate $m))
        (instance $i) (export \"wasi:cli/run@0.2.0\" (instance $i)))";
    for options in CHECKS {
        for text in [module, component] {
            let report = Function::built(text, options).run(json!({ "memory": "16MiB" }), json!({}));
            let message = report["error"]["message"].as_str().unwrap_or_default();
            assert!(message.starts_with("out of memory: the program begins with 256 MiB"), "{report:#}");
        }
        let function = Function::built(module, options);
        let report = function.run(json!({ "memory": "16MiB" }), json!({}));
        assert_eq!(
            (&report["status"], &report["error"]["blame"]),
            (&json!("failed"), &json!("function")),
            "{report:#}"
        );
        let report = function.run(json!({ "memory": "300MiB" }), json!({}));
        assert_eq!(report["status"], "done", "{report:#}");
    }
}

#[test]
fn an_endless_loop_ends_at_the_deadline() {
    let error = failure("(loop (br 0))", &[], json!({ "timeout": "300ms" }));
    assert_eq!((error["kind"].as_str(), error["blame"].as_str()), (Some("timeout"), Some("function")), "{error:#}");
    assert!(error["ip"]["symbol"].as_str().is_some_and(|name| name.starts_with("inner + 0x")), "{error:#}");
}

/// Where a program is that does not end, by the names that its functions have in it, if they have any.
#[test]
fn an_endless_loop_is_told_by_the_names_of_the_program() {
    let text =
        "(module (import \"wasi_snapshot_preview1\" \"sched_yield\" (func (result i32))) (memory (export \"memory\") 1)
        (func $_ZN3app4spin17h0123456789abcdefE (loop (br 0))) (func (call 1)) (func (export \"_start\") (call 2)))";
    for options in CHECKS {
        let report = Function::built(text, options).run(json!({ "timeout": "300ms" }), json!({}));
        let error = &report["error"];
        let named =
            |place: &Value| place["symbol"].as_str().and_then(|name| name.split(" + ").next()).map(str::to_owned);
        let callers = error["backtrace"].as_array().expect("callers").iter().take(2).map(named);
        let names: Vec<String> = [named(&error["ip"])].into_iter().chain(callers).flatten().collect();
        assert_eq!(names, ["app::spin", "<wasm function 2>", "<wasm function 3>"], "{report:#}");
    }
}

/// A memory that is copied to grow ends at a half, or at a quarter.
#[test]
fn memory_grows_to_the_limit_and_not_beyond() {
    // In steps of one page; what comes out is how many there were, and whether all that was written is there.
    let body = "(local $at i32)
        (loop $more
            (if (i32.ne (memory.grow (i32.const 1)) (i32.const -1))
                (then
                    (i32.store (i32.const 1024) (i32.add (i32.load (i32.const 1024)) (i32.const 1)))
                    (i32.store (i32.shl (i32.load (i32.const 1024)) (i32.const 16)) (i32.load (i32.const 1024)))
                    (br $more))))
        (local.set $at (i32.load (i32.const 1024)))
        (loop $next
            (if (i32.ne (i32.load (i32.shl (local.get $at) (i32.const 16))) (local.get $at)) (then unreachable))
            (local.set $at (i32.sub (local.get $at) (i32.const 1)))
            (br_if $next (local.get $at)))";
    for options in CHECKS {
        let function = Function::built(&program("", body, 1), options);
        for limit in [16, 64, 256] {
            let report = function.run(json!({ "memory": format!("{limit}MiB") }), json!({ "outputs": ["out"] }));
            let pages = u64::from(words_of(&report)[0]);
            // The runtime itself needs no more than that.
            assert!((limit * 16 - 16..limit * 16).contains(&pages), "{options:?}, {limit} MiB: {pages} pages");
        }
    }
}

/// Two memories that grow in turn, of which one has addresses of 64 bits: each is where it was.
#[test]
fn memories_that_grow_in_turn_have_all_of_the_limit_together() {
    let body = "(local $n i32)
        (loop $more
            (br_if $more (i32.and
                (i32.ne (memory.grow $one (i32.const 16)) (i32.const -1))
                (i64.ne (memory.grow $other (i64.const 16)) (i64.const -1)))))
        (i32.store (i32.const 1024) (memory.size $one))
        (i32.store (i32.const 1028) (i32.wrap_i64 (memory.size $other)))";
    let text = program("", body, 2).replace(
        "(memory (export \"memory\") 1)",
        "(memory (export \"memory\") 1) (memory $one 1) (memory $other i64 1)",
    );
    for options in CHECKS {
        let report = Function::built(&text, options).run(json!({ "memory": "64MiB" }), json!({ "outputs": ["out"] }));
        let pages: u32 = words_of(&report).iter().sum();
        assert!((1024 - 48..1024).contains(&pages), "{options:?}: {pages} pages");
    }
}
