//! Components, for WASI 0.2: what they are given and give, their traps, and wrong handles, addresses and names.
//!
//! Components here are written as text. One that gets what it must not get ends with the trap `unreachable`.

use super::programs::{built, refused, tour};
use super::support::{CHECKS, Function, monohull, run_with, words};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

#[test]
fn an_ordinary_component_runs() {
    // All that the interface for a program's end knows is success or failure.
    tour("wasi-component.so", "PermissionDenied", "status 1");
}

#[test]
fn the_documentation_has_every_interface() {
    let page = include_str!("../../../docs/wasi.md");
    let table = page.split("| interface | what it does here |").nth(1).and_then(|rest| rest.split("\n\n").next());
    let rows = table.expect("a table").lines().filter_map(|row| row.split('|').nth(1));
    let documented: BTreeSet<String> =
        rows.flat_map(|names| names.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
    // What is linked is named with its version; `mod.rs` names what a component exports.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wasi/runtime/src/preview2");
    let mut linked = BTreeSet::new();
    let files = |folder: &Path| fs::read_dir(folder).expect("a folder").map(|file| file.expect("an entry").path());
    let files = files(&folder).filter(|file| file.is_file() && !file.ends_with("mod.rs"));
    let more = ["http/mod.rs", "sockets/mod.rs", "sockets/tcp.rs", "sockets/udp.rs", "sockets/names.rs"];
    for file in files.chain(more.map(|file| folder.join(file))) {
        let text = fs::read_to_string(file).expect("UTF-8");
        linked.extend(text.split('"').filter_map(|part| part.strip_suffix("@0.2.0")).map(str::to_owned));
    }
    assert!(linked.len() > 15, "{linked:?}");
    assert_eq!(documented, linked);
}

/// A command whose `run` has this body and leaves 0, after `imports` of the component and with `host` as what its module imports.
pub(super) fn command(imports: &str, host: &str, module: &str, body: &str) -> String {
    format!(
        r#"(component $command
            {imports}
            (core module $memory
                (memory (export "memory") 1)
                ;; Lists that are returned lie from here on.
                (global $next (mut i32) (i32.const 4096))
                (func (export "realloc") (param i32 i32 i32 i32) (result i32)
                    global.get $next
                    (global.set $next (i32.add (global.get $next) (i32.and (i32.add (local.get 3) (i32.const 7)) (i32.const -8))))))
            (core instance $memory (instantiate $memory))
            (alias core export $memory "memory" (core memory $mem))
            (alias core export $memory "realloc" (core func $realloc))
            {host}
            (core module $main
                (import "memory" "memory" (memory 1))
                {module}
                (func $again call $again)
                (func $must (param i32) (if (i32.eqz (local.get 0)) (then unreachable)))
                (func (export "run") (result i32) {body}))
            (core instance $main (instantiate $main (with "memory" (instance $memory)) (with "host" (instance $host))))
            (func $run (result (result)) (canon lift (core func $main "run")))
            (instance $run (export "run" (func $run)))
            (export "wasi:cli/run@0.2.3" (instance $run)))"#
    )
}

/// A command without imports.
fn plain(body: &str) -> String {
    command("", "(core instance $host)", "", body)
}

/// What its report says of a component that fails.
#[track_caller]
fn failure(function: &Function, step: Value) -> String {
    let report = function.run(step, json!({ "files": [{ "at": "/work", "memory": "1MiB" }] }));
    assert_eq!((&report["status"], &report["error"]["blame"]), (&json!("failed"), &json!("function")), "{report:#}");
    report["error"]["message"].as_str().expect("a message").to_owned()
}

#[track_caller]
fn succeeds(function: &Function) {
    let report = function.run(json!({}), json!({ "files": [{ "at": "/work", "memory": "1MiB" }] }));
    assert_eq!(report["status"], "done", "{report:#}");
}

#[test]
fn traps_of_components_are_failures_of_the_function() {
    for options in CHECKS {
        succeeds(&Function::built(&plain("(i32.const 0)"), options));
        for (body, expected) in [
            ("unreachable", "unreachable"),
            ("(i32.load (i32.const 65533))", "out of bounds memory access"),
            ("(i32.load offset=0xffffffff (i32.const -1))", "out of bounds memory access"),
            ("(i32.div_u (i32.const 1) (i32.load (i32.const 0)))", "integer divide by zero"),
            ("call $again (i32.const 0)", "call stack exhausted"),
            // Its own failure, and what is neither.
            ("(i32.const 1)", "status 1"),
            ("(i32.const 7)", "discriminant"),
        ] {
            let said = failure(&Function::built(&plain(body), options), json!({}));
            assert!(said.contains(expected), "{body}: {said}");
        }
    }
}

#[test]
fn a_component_keeps_to_the_memory_and_the_time_of_its_step() {
    let grow = plain("(memory.grow (i32.const 4096)) (i32.ne (i32.const -1))");
    for options in CHECKS {
        let function = Function::built(&grow, options);
        // It could not grow, so it has succeeded; where it can it fails.
        let report = function.run(json!({ "memory": "16MiB" }), json!({}));
        assert_eq!(report["status"], "done", "{report:#}");
        assert!(failure(&function, json!({ "memory": "300MiB" })).contains("status 1"));
    }
    let report = Function::new(&plain("(loop (br 0)) unreachable")).run(json!({ "timeout": "300ms" }), json!({}));
    assert_eq!(report["error"]["kind"], "timeout", "{report:#}");
}

#[test]
fn a_component_without_what_it_needs_says_what() {
    let of = |imports: &str| command(imports, "(core instance $host)", "", "(i32.const 0)");
    for (text, expected) in [
        (of(r#"(import "acme:rockets/launch@1.0.0" (instance (export "fire" (func))))"#), "acme:rockets/launch@1.0.0"),
        (of(r#"(import "launch" (func))"#), "launch"),
        // Another version, another type, and a function that the interface does not have.
        (
            of(r#"(import "wasi:random/random@0.3.0" (instance (export "get-random-u64" (func (result u64)))))"#),
            "wasi:random/random@0.3.0",
        ),
        (
            of(r#"(import "wasi:random/random@0.2.0" (instance (export "get-random-u64" (func (result u32)))))"#),
            "get-random-u64",
        ),
        (of(r#"(import "wasi:random/random@0.2.9" (instance (export "get-luck" (func (result u64)))))"#), "get-luck"),
        (of(r#"(import "wasi:sockets/tcp@0.3.0" (instance (export "connect" (func))))"#), "wasi:sockets/tcp@0.3.0"),
    ] {
        let said = failure(&Function::new(&text), json!({}));
        assert!(said.contains(expected), "{text}: {said}");
    }
    // The control: the same with all that is needed, in any patch release of 0.2.
    succeeds(&Function::new(&of(
        r#"(import "wasi:random/random@0.2.9" (instance (export "get-random-u64" (func (result u64)))))"#,
    )));
}

#[test]
fn wrong_handles_and_addresses_of_components_are_failures() {
    let imports = r#"
        (import "wasi:io/poll@0.2.6" (instance $poll
            (export "pollable" (type $pollable (sub resource)))
            (export "poll" (func (param "in" (list (borrow $pollable))) (result (list u32))))))
        (alias export $poll "pollable" (type $pollable))
        (import "wasi:clocks/monotonic-clock@0.2.6" (instance $clock
            (alias outer $command $pollable (type $outer))
            (export "pollable" (type $pollable (eq $outer)))
            (export "subscribe-duration" (func (param "when" u64) (result (own $pollable))))))
        (import "wasi:random/random@0.2.6" (instance $random
            (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))"#;
    let host = r#"
        (core func $poll (canon lower (func $poll "poll") (memory $mem) (realloc $realloc)))
        (core func $wait (canon lower (func $clock "subscribe-duration")))
        (core func $drop (canon resource.drop $pollable))
        (core func $random (canon lower (func $random "get-random-bytes") (memory $mem) (realloc $realloc)))
        (core instance $host
            (export "poll" (func $poll)) (export "wait" (func $wait)) (export "drop" (func $drop)) (export "random" (func $random)))"#;
    let module = r#"
        (import "host" "poll" (func $poll (param i32 i32 i32)))
        (import "host" "wait" (func $wait (param i64) (result i32)))
        (import "host" "drop" (func $drop (param i32)))
        (import "host" "random" (func $random (param i64 i32)))"#;
    let function = |body: &str| Function::new(&command(imports, host, module, &format!("{body} (i32.const 0)")));
    // The control: two times are waited for, the second of which comes first; then both handles are given back.
    succeeds(&function(
        "(i32.store (i32.const 0) (call $wait (i64.const -1)))
         (i32.store (i32.const 4) (call $wait (i64.const 1000000)))
         (call $poll (i32.const 0) (i32.const 2) (i32.const 16))
         (call $must (i32.eq (i32.load (i32.const 20)) (i32.const 1)))
         (call $must (i32.eq (i32.load (i32.load (i32.const 16))) (i32.const 1)))
         (call $drop (i32.load (i32.const 0)))
         (call $drop (i32.load (i32.const 4)))
         (call $random (i64.const 32) (i32.const 16))
         (call $must (i32.eq (i32.load (i32.const 20)) (i32.const 32)))",
    ));
    for (body, expected) in [
        ("(call $poll (i32.const 0) (i32.const 0) (i32.const 16))", "empty list"),
        ("(i32.store (i32.const 0) (i32.const 77)) (call $poll (i32.const 0) (i32.const 1) (i32.const 16))", "handle"),
        ("(call $poll (i32.const 65532) (i32.const 2) (i32.const 16))", "out of bounds"),
        ("(call $poll (i32.const 0) (i32.const -1) (i32.const 16))", "out of bounds"),
        ("(call $random (i64.const 1) (i32.const 65532))", "out of bounds"),
        ("(call $random (i64.const -1) (i32.const 16))", "no memory"),
        ("(call $random (i64.const 65536) (i32.const 16))", "beyond end of memory"),
        ("(call $drop (i32.const 1))", "handle"),
        (
            "(i32.store (i32.const 0) (call $wait (i64.const 0)))
             (call $drop (i32.load (i32.const 0))) (call $drop (i32.load (i32.const 0)))",
            "handle",
        ),
    ] {
        let said = failure(&function(body), json!({}));
        assert!(said.contains(expected) && !said.contains("`unreachable`"), "{body}: {said}");
    }
}

/// `error-code` of `wasi:filesystem`.
pub(super) const CODES: [&str; 37] = [
    "access",
    "would-block",
    "already",
    "bad-descriptor",
    "busy",
    "deadlock",
    "quota",
    "exist",
    "file-too-large",
    "illegal-byte-sequence",
    "in-progress",
    "interrupted",
    "invalid",
    "io",
    "is-directory",
    "loop",
    "too-many-links",
    "message-size",
    "name-too-long",
    "no-device",
    "no-entry",
    "no-lock",
    "insufficient-memory",
    "insufficient-space",
    "not-directory",
    "not-empty",
    "not-recoverable",
    "unsupported",
    "no-tty",
    "no-such-device",
    "overflow",
    "not-permitted",
    "pipe",
    "read-only",
    "invalid-seek",
    "text-file-busy",
    "cross-device",
];

#[test]
fn paths_of_components_stay_beneath_their_directory() {
    let codes = CODES.map(|code| format!("{code:?}")).join(" ");
    let imports = format!(
        r#"
        (import "wasi:filesystem/types@0.2.0" (instance $types
            (export "descriptor" (type $descriptor (sub resource)))
            (type $codes (enum {codes}))
            (export "error-code" (type $error-code (eq $codes)))
            (export "[method]descriptor.create-directory-at"
                (func (param "self" (borrow $descriptor)) (param "path" string) (result (result (error $error-code)))))))
        (alias export $types "descriptor" (type $descriptor))
        (import "wasi:filesystem/preopens@0.2.0" (instance $preopens
            (alias outer $command $descriptor (type $outer))
            (export "descriptor" (type $descriptor (eq $outer)))
            (export "get-directories" (func (result (list (tuple (own $descriptor) string)))))))"#
    );
    let host = r#"
        (core func $create
            (canon lower (func $types "[method]descriptor.create-directory-at") (memory $mem) (realloc $realloc)))
        (core func $preopens (canon lower (func $preopens "get-directories") (memory $mem) (realloc $realloc)))
        (core instance $host (export "create" (func $create)) (export "preopens" (func $preopens)))"#;
    let paths = ["/work/x", "..", "../work/x", "work/../../x", "work/../..", "./..", "work/./../../work"];
    let code = |name: &str| CODES.iter().position(|code| *code == name).expect("a code");
    let cases = paths.iter().map(|path| (*path, Some(code("not-permitted")))).chain([
        // The control, and other errors.
        ("work/../work/b", None),
        ("work/a/../c", Some(code("no-entry"))),
        ("work/b", Some(code("exist"))),
        ("work/b/c/d", Some(code("no-entry"))),
        ("", Some(code("no-entry"))),
    ]);
    let (mut data, mut body) = (String::new(), String::new());
    for (path, expected) in cases {
        body += &format!(
            "(call $create (local.get $root) (i32.const {}) (i32.const {}) (i32.const 16))
             (call $must (i32.eq (i32.load8_u (i32.const 16)) (i32.const {})))\n",
            1024 + data.len(),
            path.len(),
            u32::from(expected.is_some())
        );
        if let Some(code) = expected {
            body += &format!("(call $must (i32.eq (i32.load8_u (i32.const 17)) (i32.const {code})))\n");
        }
        data += path;
    }
    let module = format!(
        r#"
        (import "host" "create" (func $create (param i32 i32 i32 i32)))
        (import "host" "preopens" (func $preopens (param i32)))
        (data (i32.const 1024) "{data}")"#
    );
    // The list's first tuple begins with the handle.
    let body = format!(
        "(local $root i32)
         (call $preopens (i32.const 16))
         (call $must (i32.eq (i32.load (i32.const 20)) (i32.const 1)))
         (local.set $root (i32.load (i32.load (i32.const 16))))
         {body} (i32.const 0)"
    );
    succeeds(&Function::new(&command(&imports, host, &module, &body)));
}

/// It waits for an event for a week, without a process, and then for another, which comes.
#[test]
fn components_have_durable_calls() {
    let imports = r#"
        (import "monohull:function/durable@0.1.0" (instance $durable
            (export "event" (func (param "names" (list string)) (param "timeout" (option u64))
                (result (result (option (tuple u32 (list u8))) (error string)))))
            (export "send" (func (param "invocation" string) (param "name" string) (param "bytes" (list u8)) (result (result (error string)))))
            (export "publish" (func (param "name" string) (param "text" string) (result (result (error string)))))
            (export "handed-over" (func (param "name" string) (result (option string))))
            (export "start" (func (param "workflow" string) (param "id" string) (param "input" (list u8)) (result (result (error string)))))
            (export "join" (func (param "id" string) (param "timeout" (option u64))
                (result (result (option (tuple u8 string (list (tuple string (list u8))))) (error string)))))
            (export "perform" (func (param "effect" string) (param "request" (list u8)) (result (result (list u8) (error string)))))
            (export "checkpoint" (func (param "label" string) (result (result bool (error string)))))
            (export "fork" (func (param "copies" u32) (result (result u32 (error string)))))
            (export "step-key" (func (param "name" string) (result string)))
            (export "retry" (func (param "key" string) (param "failures" u32) (param "attempts" u32) (result bool)))
            (export "callback" (func (result string)))
            (export "callback-url" (func (param "token" string) (result string)))
            (export "answer" (func (param "token" string) (param "timeout" (option u64)) (param "heartbeat" (option u64))
                (result (result (tuple u8 (list u8)) (error string)))))
            (export "generation" (func (result u64)))
            (export "invocation-id" (func (result string)))
            (export "ready" (func (result bool)))))"#;
    let memory = [
        "event",
        "send",
        "publish",
        "handed-over",
        "start",
        "join",
        "perform",
        "checkpoint",
        "fork",
        "invocation-id",
        "step-key",
        "retry",
        "callback",
        "callback-url",
        "answer",
    ];
    let plain = ["generation", "ready"];
    let lowered = memory.map(|name| {
        format!("(core func ${name} (canon lower (func $durable \"{name}\") (memory $mem) (realloc $realloc)))\n")
    });
    let lowered_plain = plain.map(|name| format!("(core func ${name} (canon lower (func $durable \"{name}\")))\n"));
    let names = memory.iter().chain(&plain);
    let exported: String = names.map(|name| format!("(export \"{name}\" (func ${name}))\n")).collect();
    let host = format!("{}{} (core instance $host {exported})", lowered.concat(), lowered_plain.concat());
    // Two names of events at 0, a text of one letter at 32. Where the answer goes, the first word says whether it is an error.
    let module = r#"
        (import "host" "event" (func $event (param i32 i32 i32 i64 i32)))
        (import "host" "send" (func $send (param i32 i32 i32 i32 i32 i32 i32)))
        (import "host" "publish" (func $publish (param i32 i32 i32 i32 i32)))
        (import "host" "handed-over" (func $handed (param i32 i32 i32)))
        (import "host" "start" (func $start (param i32 i32 i32 i32 i32 i32 i32)))
        (import "host" "join" (func $join (param i32 i32 i32 i64 i32)))
        (import "host" "perform" (func $perform (param i32 i32 i32 i32 i32)))
        (import "host" "checkpoint" (func $checkpoint (param i32 i32 i32)))
        (import "host" "fork" (func $fork (param i32 i32)))
        (import "host" "invocation-id" (func $id (param i32)))
        (import "host" "step-key" (func $step (param i32 i32 i32)))
        (import "host" "retry" (func $retry (param i32 i32 i32 i32) (result i32)))
        (import "host" "callback" (func $callback (param i32)))
        (import "host" "callback-url" (func $url (param i32 i32 i32)))
        (import "host" "answer" (func $answer (param i32 i32 i32 i64 i32 i64 i32)))
        (import "host" "generation" (func $generation (result i64)))
        (import "host" "ready" (func $ready (result i32)))
        (data (i32.const 0) "\20\00\00\00\01\00\00\00\21\00\00\00\04\00\00\00") (data (i32.const 32) "xpaid")
        (func $refused (param i32) (call $must (i32.load8_u (local.get 0))))
        (func $fine (param i32) (call $must (i32.eqz (i32.load8_u (local.get 0)))))"#;
    let body = "
        (call $must (i32.eqz (call $ready)))
        (call $id (i32.const 64)) (call $must (i32.eq (i32.load (i32.const 68)) (i32.const 3)))
        (call $handed (i32.const 32) (i32.const 1) (i32.const 64)) (call $fine (i32.const 64))
        (call $publish (i32.const 32) (i32.const 1) (i32.const 33) (i32.const 4) (i32.const 64)) (call $fine (i32.const 64))
        (call $publish (i32.const 32) (i32.const 0) (i32.const 33) (i32.const 4) (i32.const 64)) (call $refused (i32.const 64))
        (call $send (i32.const 32) (i32.const 1) (i32.const 33) (i32.const 4) (i32.const 32) (i32.const 1) (i32.const 64)) (call $refused (i32.const 64))
        (call $start (i32.const 32) (i32.const 1) (i32.const 33) (i32.const 4) (i32.const 32) (i32.const 1) (i32.const 64)) (call $refused (i32.const 64))
        (call $join (i32.const 32) (i32.const 1) (i32.const 1) (i64.const 0) (i32.const 64)) (call $fine (i32.const 64)) (call $fine (i32.const 68))
        (call $perform (i32.const 32) (i32.const 1) (i32.const 33) (i32.const 4) (i32.const 64)) (call $refused (i32.const 64))
        (call $fork (i32.const 0) (i32.const 64)) (call $refused (i32.const 64))
        (call $checkpoint (i32.const 32) (i32.const 1) (i32.const 64)) (call $fine (i32.const 64)) (call $fine (i32.const 68))
        ;; `one/app/0/x/0`, and the next one.
        (call $step (i32.const 32) (i32.const 1) (i32.const 64)) (call $must (i32.eq (i32.load (i32.const 68)) (i32.const 13)))
        (call $must (i32.eq (i32.load8_u (i32.add (i32.load (i32.const 64)) (i32.const 12))) (i32.const 0x30)))
        (call $must (call $retry (i32.load (i32.const 64)) (i32.load (i32.const 68)) (i32.const 1) (i32.const 2)))
        (call $must (i32.eqz (call $retry (i32.load (i32.const 64)) (i32.load (i32.const 68)) (i32.const 2) (i32.const 2))))
        (call $step (i32.const 32) (i32.const 1) (i32.const 64))
        (call $must (i32.eq (i32.load8_u (i32.add (i32.load (i32.const 64)) (i32.const 12))) (i32.const 0x31)))
        ;; A token, `/callbacks/one/` and it, and an answer that is not there in time. A word that is no token.
        (call $callback (i32.const 64)) (call $must (i32.eq (i32.load (i32.const 68)) (i32.const 41)))
        (call $url (i32.load (i32.const 64)) (i32.load (i32.const 68)) (i32.const 72))
        (call $must (i32.eq (i32.load (i32.const 76)) (i32.const 56)))
        (call $answer (i32.load (i32.const 64)) (i32.load (i32.const 68)) (i32.const 1) (i64.const 0) (i32.const 0) (i64.const 0) (i32.const 80))
        (call $fine (i32.const 80)) (call $must (i32.eq (i32.load8_u (i32.const 84)) (i32.const 2)))
        (call $answer (i32.const 32) (i32.const 1) (i32.const 1) (i64.const 0) (i32.const 0) (i64.const 0) (i32.const 80))
        (call $refused (i32.const 80))
        ;; One second, and a week.
        (i32.store (i32.const 256) (i32.const 77))
        (call $event (i32.const 0) (i32.const 1) (i32.const 1) (i64.const 604800000000000) (i32.const 64))
        (call $fine (i32.const 64)) (call $fine (i32.const 68))
        (call $must (i32.eq (i32.load (i32.const 256)) (i32.const 77)))
        (call $must (i64.gt_u (call $generation) (i64.const 0)))
        ;; The second of two, without an end.
        (call $event (i32.const 0) (i32.const 2) (i32.const 0) (i64.const 0) (i32.const 64))
        (call $fine (i32.const 64)) (call $must (i32.load8_u (i32.const 68)))
        (call $must (i32.eq (i32.load (i32.const 72)) (i32.const 1)))
        (call $must (i32.eq (i32.load (i32.const 80)) (i32.const 2)))
        (call $must (i32.eq (i32.load16_u (i32.load (i32.const 76))) (i32.const 0x3731)))
        (i32.const 0)";
    let function = Function::new(&command(imports, &host, module, body));
    let folder = function.folder.path();
    let document = json!({
        "name": "test", "functions": { "app": { "image": "app.so" } }, "steps": [{ "name": "app", "function": "app" }],
    });
    fs::write(folder.join("w.json"), document.to_string()).expect("written");
    let durable = |arguments: &[&str], code: i32| {
        let output = super::program::monohull(folder, &[arguments, &["--state", "state"]].concat());
        assert_eq!(output.status.code(), Some(code), "{output:?}");
    };
    durable(&["run", "w.json", "--id", "one", "--detach"], 4);
    durable(&["wake", "--skip-time"], 0);
    durable(&["send", "one", "paid", "--data", "17"], 0);
    durable(&["wake"], 0);
    let shown = super::program::monohull(folder, &["show", "one", "--state", "state", "--json"]);
    let shown = super::program::document(&shown);
    assert_eq!((&shown["status"], &shown["published"]["x"]), (&json!("completed"), &json!("paid")), "{shown:#}");
}

#[test]
fn components_take_and_fill_slots() {
    let imports = r#"
        (import "monohull:function/slots@0.1.0" (instance $slots
            (export "take" (func (param "name" string) (result (result (list u8) (error string)))))
            (export "try-take" (func (param "name" string) (result (result (option (list u8)) (error string)))))
            (export "publish" (func (param "name" string) (param "bytes" (list u8)) (result (result (error string)))))
            (export "publish-text" (func (param "name" string) (param "text" string) (result (result (error string)))))
            (export "instance-index" (func (result u32)))
            (export "instance-count" (func (result u32)))))"#;
    let names = ["take", "try-take", "publish", "publish-text"];
    let lowered = names.map(|name| {
        format!("(core func ${name} (canon lower (func $slots \"{name}\") (memory $mem) (realloc $realloc)))\n")
    });
    let exported = names.map(|name| format!("(export \"{name}\" (func ${name}))\n"));
    let host = format!("{} (core instance $host {})", lowered.concat(), exported.concat());
    // Names at 0 and 8; where the answer goes, the first word says whether it is an error.
    let module = r#"
        (import "host" "take" (func $take (param i32 i32 i32)))
        (import "host" "try-take" (func $try (param i32 i32 i32)))
        (import "host" "publish" (func $publish (param i32 i32 i32 i32 i32)))
        (import "host" "publish-text" (func $text (param i32 i32 i32 i32 i32)))
        (data (i32.const 0) "in") (data (i32.const 8) "out") (data (i32.const 16) "text") (data (i32.const 24) "none")"#;
    let body = "
        (call $take (i32.const 0) (i32.const 0) (i32.const 64))
        (call $must (i32.load8_u (i32.const 64)))
        (call $take (i32.const 0) (i32.const 256) (i32.const 64))
        (call $must (i32.load8_u (i32.const 64)))
        (call $take (i32.const 24) (i32.const 4) (i32.const 64))
        (call $must (i32.load8_u (i32.const 64)))
        (call $try (i32.const 0) (i32.const 2) (i32.const 64))
        (call $must (i32.eqz (i32.load8_u (i32.const 64))))
        (call $must (i32.load8_u (i32.const 68)))
        (call $publish (i32.const 8) (i32.const 3) (i32.load (i32.const 72)) (i32.load (i32.const 76)) (i32.const 80))
        (call $must (i32.eqz (i32.load8_u (i32.const 80))))
        (call $publish (i32.const 8) (i32.const 3) (i32.const 0) (i32.const 1) (i32.const 80))
        (call $must (i32.load8_u (i32.const 80)))
        (call $text (i32.const 16) (i32.const 4) (i32.load (i32.const 72)) (i32.const 5) (i32.const 80))
        (call $must (i32.eqz (i32.load8_u (i32.const 80))))
        (i32.const 0)";
    let function = Function::new(&command(imports, &host, module, body));
    fs::write(function.folder.path().join("in"), "hello world").expect("written");
    let document = json!({
        "name": "test",
        "functions": { "app": { "image": "app.so" } },
        "inputs": ["in"],
        "outputs": ["out", "text"],
        "steps": [{ "name": "app", "function": "app" }],
    });
    let input = format!("in={}", function.folder.path().join("in").display());
    let report = run_with(function.folder.path(), &document, &["--input", &input]);
    assert_eq!(report["status"], "done", "{report:#}");
    assert_eq!(report["output"]["out"]["text"], "hello world", "{report:#}");
    assert_eq!(report["output"]["text"]["text"], "hello", "{report:#}");
}

/// What no other step has filled yet is not ready. What is polled together with it is, in its time.
#[test]
fn components_poll_their_standard_input_together_with_clocks() {
    let imports = r#"
        (import "wasi:io/poll@0.2.6" (instance $poll
            (export "pollable" (type $pollable (sub resource)))
            (export "[method]pollable.ready" (func (param "self" (borrow $pollable)) (result bool)))
            (export "poll" (func (param "in" (list (borrow $pollable))) (result (list u32))))))
        (alias export $poll "pollable" (type $pollable))
        (import "wasi:io/error@0.2.6" (instance $errors (export "error" (type $error (sub resource)))))
        (alias export $errors "error" (type $error))
        (import "wasi:io/streams@0.2.6" (instance $streams
            (alias outer $command $pollable (type $outer))
            (alias outer $command $error (type $outer-error))
            (export "pollable" (type $pollable (eq $outer)))
            (export "error" (type $error (eq $outer-error)))
            (export "input-stream" (type $input (sub resource)))
            (type $why (variant (case "last-operation-failed" (own $error)) (case "closed")))
            (export "stream-error" (type $stream-error (eq $why)))
            (export "[method]input-stream.subscribe" (func (param "self" (borrow $input)) (result (own $pollable))))
            (export "[method]input-stream.read"
                (func (param "self" (borrow $input)) (param "len" u64) (result (result (list u8) (error $stream-error)))))))
        (alias export $streams "input-stream" (type $input))
        (import "wasi:cli/stdin@0.2.6" (instance $stdin
            (alias outer $command $input (type $outer))
            (export "input-stream" (type $input (eq $outer)))
            (export "get-stdin" (func (result (own $input))))))
        (import "wasi:clocks/monotonic-clock@0.2.6" (instance $clock
            (alias outer $command $pollable (type $outer))
            (export "pollable" (type $pollable (eq $outer)))
            (export "subscribe-duration" (func (param "when" u64) (result (own $pollable))))))
        (import "monohull:function/slots@0.1.0" (instance $slots
            (export "publish" (func (param "name" string) (param "bytes" (list u8)) (result (result (error string)))))))"#;
    let host = r#"
        (core func $poll (canon lower (func $poll "poll") (memory $mem) (realloc $realloc)))
        (core func $ready (canon lower (func $poll "[method]pollable.ready")))
        (core func $wait (canon lower (func $clock "subscribe-duration")))
        (core func $stdin (canon lower (func $stdin "get-stdin")))
        (core func $subscribe (canon lower (func $streams "[method]input-stream.subscribe")))
        (core func $read (canon lower (func $streams "[method]input-stream.read") (memory $mem) (realloc $realloc)))
        (core func $publish (canon lower (func $slots "publish") (memory $mem) (realloc $realloc)))
        (core instance $host
            (export "poll" (func $poll)) (export "ready" (func $ready)) (export "wait" (func $wait))
            (export "stdin" (func $stdin)) (export "subscribe" (func $subscribe)) (export "read" (func $read))
            (export "publish" (func $publish)))"#;
    let module = r#"
        (import "host" "poll" (func $poll (param i32 i32 i32)))
        (import "host" "ready" (func $ready (param i32) (result i32)))
        (import "host" "wait" (func $wait (param i64) (result i32)))
        (import "host" "stdin" (func $stdin (result i32)))
        (import "host" "subscribe" (func $subscribe (param i32) (result i32)))
        (import "host" "read" (func $read (param i32 i64 i32)))
        (import "host" "publish" (func $publish (param i32 i32 i32 i32 i32)))
        (data (i32.const 256) "in") (data (i32.const 264) "hello")
        ;; Polls the two at 0: one of them is ready, with this index.
        (func $first (param i32)
            (call $poll (i32.const 0) (i32.const 2) (i32.const 16))
            (call $must (i32.eq (i32.load (i32.const 20)) (i32.const 1)))
            (call $must (i32.eq (i32.load (i32.load (i32.const 16))) (local.get 0))))"#;
    let body = "(local $input i32)
        (local.set $input (call $stdin))
        (i32.store (i32.const 0) (call $subscribe (local.get $input)))
        (call $must (i32.eqz (call $ready (i32.load (i32.const 0)))))
        (i32.store (i32.const 4) (call $wait (i64.const 1000000)))
        (call $first (i32.const 1))
        ;; The other step hands on what this one gives it.
        (call $publish (i32.const 256) (i32.const 2) (i32.const 264) (i32.const 5) (i32.const 32))
        (call $must (i32.eqz (i32.load8_u (i32.const 32))))
        (i32.store (i32.const 4) (call $wait (i64.const -1)))
        (call $first (i32.const 0))
        (call $must (call $ready (i32.load (i32.const 0))))
        (call $read (local.get $input) (i64.const 100) (i32.const 32))
        (call $must (i32.eqz (i32.load8_u (i32.const 32))))
        (call $must (i32.eq (i32.load (i32.const 40)) (i32.const 5)))
        (call $must (i64.eq
            (i64.load (i32.load (i32.const 36))) (i64.load (i32.const 264))))
        ;; Its end is ready as well.
        (call $must (call $ready (i32.load (i32.const 0))))
        (call $read (local.get $input) (i64.const 100) (i32.const 32))
        (call $must (i32.load8_u (i32.const 32)))
        (i32.const 0)";
    let function = Function::new(&command(imports, host, module, body));
    let echo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/echo.so");
    let mut document = json!({
        "name": "test",
        "functions": { "app": { "image": "app.so" }, "echo": { "image": echo } },
        "steps": [
            { "name": "app", "function": "app", "stdin": "out" },
            { "name": "echo", "function": "echo" },
        ],
    });
    let report = run_with(function.folder.path(), &document, &[]);
    assert_eq!(report["status"], "done", "{report:#}");
    // A step without standard input has reached its end, which is ready.
    document["steps"][0]["stdin"] = Value::Null;
    document["steps"][0].as_object_mut().expect("a step").remove("stdin");
    document["unread"] = "ignore".into();
    let report = run_with(function.folder.path(), &document, &[]);
    assert_eq!(report["status"], "failed", "the first poll finds it ready: {report:#}");
}

/// A section of a binary.
fn section(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut size = content.len();
    let mut bytes = vec![kind];
    while size > 0x7f {
        bytes.push(size as u8 | 0x80);
        size >>= 7;
    }
    bytes.push(size as u8);
    [&bytes, content].concat()
}

const HEADER: &[u8] = b"\0asm\x0d\0\x01\0";

#[test]
fn what_is_no_component_is_refused() {
    let whole = wat::parse_str(plain("(i32.const 0)")).expect("a right component");
    assert!(whole.starts_with(HEADER));
    for len in [5, 7, 9, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        refused("app.wasm", &whole[..len]);
    }
    // Other versions of the format, and a number of a layer that does not exist.
    for (at, byte) in [(4, 0x0c), (4, 0x0e), (5, 1), (6, 2)] {
        let mut other = whole.clone();
        other[at] = byte;
        refused("app.wasm", &other);
    }
    // What a type checker finds: `run` returns what it must not.
    let text = plain("(i64.const 0)").replace("(result i32) (i64", "(result i64) (i64");
    refused("app.wasm", &wat::parse_str(text).expect("parses"));
    // A component within it of which the end is missing, where a section of that one ends.
    let unnamed = section(0, b"\x01a");
    let within = [whole.clone(), section(4, &[HEADER, &unnamed].concat())].concat();
    let control = built(&TempDir::new().expect("a folder"), "app.wasm", &within);
    assert_eq!(control.status.code(), Some(0), "{}", words(&control.stderr));
    let said = refused("app.wasm", &within[..within.len() - unnamed.len()]);
    assert!(said.contains("ends before a section of it does"), "{said}");
    // Right components that have nothing to call, or only one within them has.
    let within = [HEADER, &section(4, &whole)].concat();
    for bytes in [HEADER, &within] {
        let said = refused("app.wasm", bytes);
        assert!(said.contains("neither `wasi:cli/run@0.2` nor `wasi:http/incoming-handler@0.2`"), "{said}");
    }
    // Types whose size doubles sixty times.
    let types: String = (1..60).map(|step| format!("(type $t{step} (tuple $t{} $t{}))", step - 1, step - 1)).collect();
    let text = format!("(component (type $t0 (tuple u64 u64)) {types})");
    refused("app.wasm", &wat::parse_str(text).expect("parses"));
}

#[test]
fn components_in_components_are_compiled_or_refused() {
    let folder = TempDir::new().expect("a folder");
    let program = folder.path().join("app.wasm");
    for depth in [10, 5_000] {
        let nested = (0..depth).fold(HEADER.to_vec(), |inner, _| [HEADER, &section(4, &inner)].concat());
        fs::write(&program, nested).expect("written");
        let built = monohull(&["build", program.to_str().expect("UTF-8")]);
        let said = words(&built.stderr);
        match built.status.code() {
            Some(0) => assert_eq!(said, "", "{depth}"),
            code => assert!(
                code == Some(2) && said.contains("cannot be compiled") && !said.contains("ended"),
                "{depth}: {code:?} {said}"
            ),
        }
    }
}
