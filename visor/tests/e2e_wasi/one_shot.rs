//! Continuations as values that go from program to program and to native functions and back, what becomes of them, and what is refused.
//!
//! The native function is `examples/continuations`. Programs in C, Rust, JavaScript and Go do the same: what `how` says. The step `waits` waits, the step
//! `other` has its continuation from the slot `next`.

use super::durable::{compiled, kept, program};
use super::program::{NAP, command, document, image};
use super::support::{CHECKS, Function, merge, run_with, words_of};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use tempfile::TempDir;

/// What a step's function is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum In {
    Native,
    C,
    Rust,
    JavaScript,
    Go,
}

use In::{C, Go, JavaScript, Native, Rust};

const SCRIPT: &str = r#"
import { args, callCc, publish, sleep, takeContinuation, takeText } from "monohull";

const given = Object.fromEntries(args.map(arg => arg.slice(2).split("=")));
const tried = what => { try { what(); return "done"; } catch (error) { return `${error.errno}: ${error.message}`; } };
const ways = {
    wait() {
        let value;
        const done = tried(() => { value = callCc("next"); });
        if (!value) publish("result", done);
        else publish("result", value.length > 100 ? `${value.length} bytes, the first is ${String.fromCharCode(value[0])}` : value);
    },
    resume() {
        const continuation = takeContinuation("next");
        sleep((given.milliseconds ?? 0) / 1000);
        publish("said", tried(() => continuation.resume(given.value)));
    },
    twice() {
        const continuation = takeContinuation("next");
        continuation.resume(given.value);
        const again = [() => continuation.resume("x"), () => continuation.publish("y"), () => continuation.discard()];
        const forged = [() => continuation.resume.call({}, "x"), () => takeContinuation("said")];
        publish("said", "text");
        const [first, ...others] = [...again, ...forged].map(tried);
        publish("all", [first, ...others].join("\n"));
        takeText("said");
        publish("said", first);
    },
    pass() {
        const continuation = takeContinuation("next");
        publish("passed", tried(() => continuation.publish("further")));
    },
    "resume-further"() { publish("said", tried(() => takeContinuation("further").resume(given.value))); },
    discard() {
        takeContinuation("next").discard();
        publish("said", takeText("result"));
    },
    drop() { takeContinuation("next"); },
};
ways[given.how]();
"#;

/// A folder with an image of each, compiled once.
fn images() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = TempDir::new().expect("a folder");
        fs::write(folder.path().join("C.so"), compiled("durable-c")).expect("written");
        fs::write(folder.path().join("Rust.so"), compiled("durable-rust")).expect("written");
        fs::write(folder.path().join("Go.so"), compiled("tour-go")).expect("written");
        let script = folder.path().join("JavaScript.js");
        fs::write(&script, SCRIPT).expect("written");
        let built = super::support::monohull(&["build", script.to_str().expect("UTF-8")]);
        assert!(built.status.success(), "{built:?}");
        fs::copy(image("continuations"), folder.path().join("Native.so")).expect("copied");
        folder
    });
    folder.path()
}

fn step(name: &str, (by, how): (In, &str), more: &Value) -> Value {
    let mut args = json!({ "how": how });
    if [C, Rust, Go].contains(&by) {
        args["act"] = json!("continue");
    }
    merge(&mut args, more.clone());
    json!({ "name": name, "function": format!("{by:?}"), "args": args })
}

/// A workflow of steps that do this.
fn workflow(steps: &[Value], outputs: &[&str]) -> Value {
    let functions: Value = [Native, C, Rust, JavaScript, Go]
        .map(|by| (format!("{by:?}"), json!({ "image": images().join(format!("{by:?}.so")) })))
        .into_iter()
        .filter(|(name, _)| steps.iter().any(|step| step["function"] == **name))
        .collect::<serde_json::Map<_, _>>()
        .into();
    json!({
        "name": "continuations", "functions": functions, "steps": steps, "outputs": outputs,
        "unread": "ignore", "limits": { "timeout": "300s" },
    })
}

/// Runs it and gives its report.
fn run(document: &Value) -> Value {
    let folder = TempDir::new().expect("a folder");
    run_with(folder.path(), document, &[])
}

/// What its steps have filled these slots with.
#[track_caller]
fn filled(document: &Value) -> Vec<String> {
    let report = run(document);
    assert_eq!(report["status"], "done", "{report:#}");
    let outputs = document["outputs"].as_array().expect("a list").iter();
    outputs
        .map(|slot| report["output"][slot.as_str().expect("a name")]["text"].as_str().expect("a text").to_owned())
        .collect()
}

/// Something waits, and something else does this with its continuation: what comes to the first, and what the second says if it says something.
#[track_caller]
fn between(waits: In, other: (In, &str), more: &Value, outputs: &[&str]) -> Vec<String> {
    filled(&workflow(&[step("waits", (waits, "wait"), &json!({})), step("other", other, more)], outputs))
}

/// What an error says after its number, or its name.
fn why(text: &str) -> &str {
    text.split_once(": ").map_or(text, |(_, why)| why)
}

const GONE: &str =
    "the continuation is gone: it was freed unused, its last owner has ended, or what had used it has failed";

#[test]
fn a_value_goes_from_each_kind_of_function_to_each_other() {
    let pairs = [
        (Native, C),
        (C, Native),
        (Native, Rust),
        (Rust, Native),
        (Native, JavaScript),
        (JavaScript, Native),
        (C, JavaScript),
        (JavaScript, Rust),
        (Rust, C),
        (Native, Go),
        (Go, Native),
        (Go, Go),
    ];
    for (waits, other) in pairs {
        let value = json!({ "value": "value" });
        let came = between(waits, (other, "resume"), &value, &["result", "said"]);
        assert_eq!(came, ["value", "done"], "{other:?} to {waits:?}");
    }
    for waits in [C, Rust, JavaScript, Go] {
        let came = between(waits, (Native, "resume-large"), &json!({}), &["result", "said"]);
        assert_eq!(came, [&*format!("{} bytes, the first is L", 3 << 20), "done"], "{waits:?}");
    }
    let came = between(Native, (Rust, "resume-large"), &json!({}), &["result", "said"]);
    assert_eq!(came, [&*format!("{} bytes, the first is L", 3 << 20), "done"]);
    assert_eq!(between(C, (C, "resume"), &json!({ "value": "" }), &["result", "said"]), ["", "done"]);
    let own = workflow(&[step("waits", (Rust, "own"), &json!({ "value": "its own" }))], &["result"]);
    assert_eq!(filled(&own), ["its own"]);
}

#[test]
fn a_continuation_is_passed_on_through_programs() {
    for [waits, passes, resumes] in [
        [Native, C, Rust],
        [C, Native, JavaScript],
        [JavaScript, Rust, Native],
        [Rust, JavaScript, C],
        [Native, Go, Go],
    ] {
        let steps = [
            step("waits", (waits, "wait"), &json!({})),
            step("other", (passes, "pass"), &json!({})),
            step("third", (resumes, "resume-further"), &json!({ "value": "by the third" })),
        ];
        let came = filled(&workflow(&steps, &["result", "passed", "said"]));
        assert_eq!(came, ["by the third", "done", "done"], "{waits:?}, {passes:?}, {resumes:?}");
    }
    // One that a filled slot is in the way of can still be used.
    let came = between(Native, (C, "pass-twice"), &json!({ "value": "after all" }), &["result", "passed"]);
    assert_eq!((&*came[0], why(&came[1])), ("after all", "slot `further` is already filled"));
}

#[test]
fn a_continuation_is_used_once() {
    let came = between(Native, (C, "twice"), &json!({ "value": "once" }), &["result", "said"]);
    assert_eq!((&*came[0], &*came[1]), ("once", "-9: no continuation has the handle 0"));
    let in_go = "-1003: the continuation has been used, handed on or discarded, or was not taken from a slot";
    let came = between(Native, (Go, "twice"), &json!({ "value": "once" }), &["result", "said"]);
    assert_eq!((&*came[0], &*came[1]), ("once", in_go));
    // Another one has its handle then, and is not used in its place.
    let steps = [
        step("waits", (Native, "wait"), &json!({})),
        step("second", (Go, "wait"), &json!({ "second": "yes" })),
        step("other", (Go, "reused"), &json!({ "value": "once" })),
    ];
    let came = filled(&workflow(&steps, &["result", "second", "said"]));
    assert_eq!(came, ["once", "its own", in_go]);
    let came = between(Native, (JavaScript, "twice"), &json!({ "value": "once" }), &["result", "said", "all"]);
    let gone = "1003: the continuation has been used, handed on or discarded";
    assert_eq!((&*came[0], &*came[1]), ("once", gone));
    let all: Vec<&str> = came[2].lines().collect();
    assert_eq!(all[..3], [gone; 3]);
    assert_eq!(why(all[3]), "Continuation object expected");
    assert_eq!(all[4], "1001: slot `said` holds `str`, `continuation` was asked for");
    let came = filled(&workflow(&[step("waits", (Rust, "try"), &json!({}))], &["said"]));
    assert_eq!(came, ["true, WrongType: slot `other` holds `str`, `continuation` was asked for"]);
}

#[test]
fn a_continuation_that_is_dropped_is_an_error_for_what_waits() {
    for (waits, drops) in [(Native, C), (C, Native), (Native, Rust), (Rust, JavaScript), (JavaScript, Native), (Go, Go)]
    {
        let came = between(waits, (drops, "drop"), &json!({}), &["result"]);
        assert_eq!(why(&came[0]), GONE, "{drops:?} drops that of {waits:?}");
    }
    // It learns that while the last owner goes on.
    for (waits, drops) in [(Native, C), (Native, Rust), (C, JavaScript), (C, Go)] {
        let came = between(waits, (drops, "discard"), &json!({}), &["said"]);
        assert_eq!(why(&came[0]), GONE, "{drops:?} discards that of {waits:?}");
    }
    for waits in [C, Rust, JavaScript, Go] {
        let came = filled(&workflow(&[step("waits", (waits, "wait"), &json!({}))], &["result"]));
        assert_eq!(why(&came[0]), "no instance is left that could use the continuation", "{waits:?}");
    }
    assert_eq!(why(&filled(&workflow(&[step("waits", (Rust, "keep"), &json!({}))], &["result"]))[0]), GONE);
}

#[test]
fn the_end_of_a_program_that_waits_is_an_error_that_names_it() {
    for other in [Native, C, JavaScript] {
        let mut other = step("other", (other, "resume"), &json!({ "value": "late" }));
        other["after"] = json!(["waits"]);
        let came = filled(&workflow(&[step("waits", (Rust, "leave"), &json!({})), other], &["said"]));
        assert_eq!(why(&came[0]), "waits[0], which waited for this continuation, has ended");
    }
}

#[test]
fn a_program_that_fails_gives_its_continuation_back() {
    let mut other = step("other", (C, "fail-first"), &json!({ "value": "used" }));
    other["retry"] = json!({ "max_attempts": 3, "interval": "1ms" });
    let document = workflow(&[step("waits", (Native, "wait"), &json!({})), other], &["result", "said"]);
    let report = run(&document);
    assert_eq!(report["status"], "done", "{report:#}");
    let attempts = |step: usize| &report["steps"][step]["instances"][0]["attempts"];
    assert_eq!((attempts(0), attempts(1)), (&json!(1), &json!(2)), "{report:#}");
    assert_eq!(report["output"]["result"]["text"], "used", "{report:#}");
}

/// Memory of a program and of the runtime does not go back to a continuation that was used, although another one has its handle.
#[test]
fn going_back_brings_no_continuation_of_a_program_back() {
    let came = filled(&workflow(&[step("waits", (Rust, "rewind"), &json!({}))], &["result"]));
    assert_eq!(came, ["used; memory does not go back: the continuation; then it went back"]);
}

/// The workflow is a file meanwhile, and the continuation is used in another process.
#[test]
fn a_continuation_of_a_program_outlives_its_process() {
    for (waits, other) in [(C, Native), (Native, C), (JavaScript, Rust)] {
        let folder = TempDir::new().expect("a folder");
        let run = |args: &[&str]| {
            let mut command = command(folder.path(), args);
            command.envs(["XDG_CACHE_HOME", "XDG_CONFIG_HOME"].map(|name| (name, env!("CARGO_TARGET_TMPDIR"))));
            command.output().expect("the program starts")
        };
        let later = json!({ "value": "later", "milliseconds": NAP });
        let steps = [step("waits", (waits, "wait"), &json!({})), step("other", (other, "resume"), &later)];
        fs::write(folder.path().join("w.json"), workflow(&steps, &["result", "said"]).to_string()).expect("written");
        let output = run(&["run", "w.json", "--suspend", "waiting", "--output", "result=result.txt", "--json"]);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        let suspended = document(&output);
        let all = suspended["waits"].as_array().expect("waits");
        let is_there =
            all.iter().any(|wait| wait["step"] == "waits" && wait["what"] == "until its continuation is used");
        assert!(is_there, "{suspended:#}");
        let resumed = run(&["resume", suspended["checkpoint"].as_str().expect("a path")]);
        assert_eq!(resumed.status.code(), Some(0), "{resumed:?}");
        let result = fs::read_to_string(folder.path().join("result.txt")).expect("the output");
        assert_eq!(result, "later", "{other:?} to {waits:?}");
    }
}

/// Runs a program by itself, and gives its words as signed numbers.
#[track_caller]
fn numbers(body: &[String], data: &str) -> Vec<[i32; 2]> {
    let stored: String = body.iter().enumerate().map(|(index, call)| kept(index, call)).collect();
    let text = program(data, &stored, body.len());
    let results = CHECKS.map(|options| {
        let function = Function::built(&text, options);
        let document = json!({
            "name": "test", "functions": { "app": { "image": "app.so" } },
            "steps": [{ "name": "app", "function": "app" }], "outputs": ["out"], "unread": "ignore",
        });
        words_of(&run_with(function.folder.path(), &document, &[]))
    });
    results[0].iter().zip(&results[1]).map(|(guards, checks)| [*guards as i32, *checks as i32]).collect()
}

/// Of a right call one address, length, handle or number is wrong. Nothing is made, taken or used by it.
#[test]
fn handles_numbers_and_addresses_of_continuations_are_not_made_up() {
    let edge = 65536;
    let publish = |handle: i64, at: i64, len: i64| {
        format!("(call $continuation_publish (i32.const {handle}) (i32.const {at}) (i32.const {len}))")
    };
    let take =
        |at: i64, len: i64| format!("(call $continuation_take (i32.const {at}) (i32.const {len}) (i32.const 0))");
    let resume = |handle: i64, at: i64, len: i64| {
        format!("(call $continuation_resume (i32.const {handle}) (i32.const {at}) (i32.const {len}))")
    };
    let wait = |number: &str, out: i64| format!("(call $continuation_wait {number} (i32.const {out}))");
    let free = |handle: i64| format!("(call $continuation_free (i32.const {handle}) (i32.const 1))");
    let own = "(i64.load (i32.const 512))";
    let (fault, invalid, handle, never, unknown) = (-14, -22, -9, -1002, -2);
    // "next" at 0; a name that begins with a zero byte at 8, "\0k" and the rest of an id; "value" at 32.
    let calls = [
        (format!("(call $continuation (i32.const {}))", edge - 7), fault),
        ("(call $continuation (i32.const 512))".into(), 0),
        // Handles: none, one of another kind, what looks like a negative number.
        (publish(1, 0, 4), handle),
        (resume(7, 32, 5), handle),
        (free(-1), handle),
        ("(call $read (i32.const 0) (i32.const 0) (i32.const 600) (i32.const 0))".into(), 8),
        ("(call $free (i32.const 0))".into(), 8),
        // Names.
        (publish(0, edge - 3, 4), fault),
        (publish(0, 0, -1), invalid),
        (publish(0, 0, 0), invalid),
        (publish(0, 0, 256), invalid),
        (publish(0, 8, 18), invalid),
        (take(8, 18), invalid),
        (take(edge - 3, 4), fault),
        (take(0, 4), unknown),
        // Values.
        (resume(0, edge - 4, 5), fault),
        (resume(0, 32, -32), fault),
        // Numbers: of none, of another instance, of a continuation that there is not.
        (wait("(i64.const 0)", 520), invalid),
        (wait("(i64.const -1)", 520), invalid),
        (wait(&format!("(i64.add {own} (i64.const 0x100000000))"), 520), invalid),
        (wait(&format!("(i64.add {own} (i64.const 1))"), 520), never),
        (wait(own, edge - 7), fault),
        // The control: it is still there, is taken over from a slot, and used once.
        (publish(0, 0, 4), 0),
        (publish(0, 0, 4), handle),
        (take(0, 4), 0),
        (take(0, 4), unknown),
        (resume(0, 32, 5), 0),
        (resume(0, 32, 5), handle),
        (wait(own, 520), 0),
        ("(i32.load (i32.const 524))".into(), 5),
        (wait(own, 520), never),
        // Bytes are no continuation, and a continuation is no bytes.
        ("(call $publish (i32.const 0) (i32.const 4) (i32.const 32) (i32.const 5) (i32.const 0))".into(), 0),
        (take(0, 4), -1001),
        ("(call $continuation (i32.const 512))".into(), 0),
        (publish(0, 32, 5), 0),
        ("(call $take (i32.const 32) (i32.const 5) (i32.const 0) (i32.const 528))".into(), 28),
        (take(32, 5), 0),
        (free(0), 0),
        (free(0), handle),
        (wait(own, 520), never),
    ];
    let body: Vec<String> = calls.iter().map(|(call, _)| call.clone()).collect();
    let data = "next\\00\\00\\00\\00\\00k0000000000000001\\00\\00\\00\\00\\00\\00value";
    for ((call, expected), came) in calls.iter().zip(numbers(&body, data)) {
        assert_eq!(came, [*expected; 2], "{call}");
    }
}

/// A native function has published a buffer of its own as a continuation. No address is told to the program that finds it.
#[test]
fn what_was_made_up_as_a_continuation_is_none() {
    let forged = |steps: &[Value]| filled(&workflow(steps, &["said"]));
    let forges = step("other", (Native, "forge"), &json!({}));
    for (taker, number) in [(C, "-1001"), (JavaScript, "1001"), (Rust, "WrongType")] {
        let came = forged(&[forges.clone(), step("taker", (taker, "resume"), &json!({ "value": "x" }))]);
        assert_eq!(came, [format!("{number}: what was in the slot as a continuation is none: it was made up")]);
    }
}

/// One component takes a continuation, passes it on and uses it, others drop theirs, and another one waits.
#[test]
fn components_call_and_resume() {
    let imports = r#"
        (import "monohull:function/continuations@0.1.0" (instance $calls
            (export "continuation" (type $continuation (sub resource)))
            (export "[static]continuation.take" (func (param "slot" string) (result (result (own $continuation) (error string)))))
            (export "[method]continuation.publish"
                (func (param "self" (borrow $continuation)) (param "slot" string) (result (result (error string)))))
            (export "[method]continuation.resume"
                (func (param "self" (borrow $continuation)) (param "value" (list u8)) (result (result (error string)))))
            (export "[static]continuation.discard" (func (param "continuation" (own $continuation))))
            (export "call-cc" (func (param "slot" string) (result (result (list u8) (error string)))))))
        (alias export $calls "continuation" (type $continuation))"#;
    let host = r#"
        (core func $take (canon lower (func $calls "[static]continuation.take") (memory $mem) (realloc $realloc)))
        (core func $publish (canon lower (func $calls "[method]continuation.publish") (memory $mem) (realloc $realloc)))
        (core func $resume (canon lower (func $calls "[method]continuation.resume") (memory $mem) (realloc $realloc)))
        (core func $discard (canon lower (func $calls "[static]continuation.discard")))
        (core func $call (canon lower (func $calls "call-cc") (memory $mem) (realloc $realloc)))
        (core func $drop (canon resource.drop $continuation))
        (core instance $host
            (export "take" (func $take)) (export "publish" (func $publish)) (export "resume" (func $resume))
            (export "discard" (func $discard)) (export "call" (func $call)) (export "drop" (func $drop)))"#;
    // Where an answer goes, the first word says whether it is an error.
    let module = r#"
        (import "host" "take" (func $take (param i32 i32 i32)))
        (import "host" "publish" (func $publish (param i32 i32 i32 i32)))
        (import "host" "resume" (func $resume (param i32 i32 i32 i32)))
        (import "host" "discard" (func $discard (param i32)))
        (import "host" "call" (func $call (param i32 i32 i32)))
        (import "host" "drop" (func $drop (param i32)))
        (data (i32.const 0) "next") (data (i32.const 8) "further") (data (i32.const 16) "value")
        (func $refused (param i32) (call $must (i32.load8_u (local.get 0))))
        (func $fine (param i32) (call $must (i32.eqz (i32.load8_u (local.get 0)))))"#;
    let function = |body: &str| {
        Function::new(&super::components::command(
            imports,
            host,
            module,
            &format!("(local $held i32) {body} (i32.const 0)"),
        ))
    };
    let component = |function: &Function, other: Value, outputs: &[&str]| {
        let mut document = workflow(&[other], outputs);
        document["functions"]["app"] = json!({ "image": "app.so" });
        document["steps"].as_array_mut().expect("steps").push(json!({ "name": "app", "function": "app" }));
        run_with(function.folder.path(), &document, &[])
    };
    let taken = "
        (call $take (i32.const 0) (i32.const 0) (i32.const 64)) (call $refused (i32.const 64))
        (call $take (i32.const 0) (i32.const 4) (i32.const 64)) (call $fine (i32.const 64))
        (local.set $held (i32.load (i32.const 68)))";
    // It is refused a name, passed on, taken again, used once, and of no use then.
    let resumes = function(&format!(
        "{taken}
        (call $publish (local.get $held) (i32.const 8) (i32.const 0) (i32.const 64)) (call $refused (i32.const 64))
        (call $publish (local.get $held) (i32.const 8) (i32.const 7) (i32.const 64)) (call $fine (i32.const 64))
        (call $resume (local.get $held) (i32.const 16) (i32.const 5) (i32.const 64)) (call $refused (i32.const 64))
        (call $drop (local.get $held))
        (call $take (i32.const 8) (i32.const 7) (i32.const 64)) (call $fine (i32.const 64))
        (local.set $held (i32.load (i32.const 68)))
        (call $resume (local.get $held) (i32.const 16) (i32.const 5) (i32.const 64)) (call $fine (i32.const 64))
        (call $resume (local.get $held) (i32.const 16) (i32.const 5) (i32.const 64)) (call $refused (i32.const 64))
        (call $discard (local.get $held))"
    ));
    let report = component(&resumes, step("waits", (Native, "wait"), &json!({})), &["result"]);
    assert_eq!(
        (&report["status"], &report["output"]["result"]["text"]),
        (&json!("done"), &json!("value")),
        "{report:#}"
    );
    for drop in ["(call $drop (local.get $held))", "(call $discard (local.get $held))", ""] {
        let drops = function(&format!("{taken} {drop}"));
        let report = component(&drops, step("waits", (Native, "wait"), &json!({})), &["result"]);
        assert_eq!(why(report["output"]["result"]["text"].as_str().expect("a text")), GONE, "{report:#}");
    }
    let waits = function(
        "(call $call (i32.const 0) (i32.const 4) (i32.const 64)) (call $fine (i32.const 64))
         (call $must (i32.eq (i32.load (i32.const 72)) (i32.const 5)))
         (call $must (i32.eq (i32.load8_u (i32.load (i32.const 68))) (i32.const 0x76)))",
    );
    let report = component(&waits, step("other", (Native, "resume"), &json!({ "value": "value" })), &["said"]);
    assert_eq!((&report["status"], &report["output"]["said"]["text"]), (&json!("done"), &json!("done")), "{report:#}");
    // Handles that it was not given, or has given back.
    for body in
        ["(call $drop (i32.const 7))", "(call $resume (i32.const 7) (i32.const 16) (i32.const 5) (i32.const 64))"]
    {
        let report = run_with(
            function(body).folder.path(),
            &json!({
                "name": "test", "functions": { "app": { "image": "app.so" } }, "steps": [{ "name": "app", "function": "app" }],
            }),
            &[],
        );
        let said = report["error"]["message"].as_str().unwrap_or_default();
        assert!(said.contains("handle") && !said.contains("`unreachable`"), "{body}: {report:#}");
    }
}
