//! Programs in JavaScript, whose interpreter is a WebAssembly program.

use super::serve_support::{Server, eventually};
use super::support::{merge, monohull, printed, run_with, words};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// What a program does depends on its first argument.
const PROGRAM: &str = r#"
import { args, env, exit, fail, instance, publish, readFile, readInputText, readTextFile, takeBytes, takeText, writeFile }
    from "monohull";

const modes = {
    async tour() {
        console.log("args", args.slice(1).join(","), "env", env.GREETING, "instance", instance.index, instance.count);
        console.log("input", readInputText().trim());
        writeFile("/work/greeting.mjs", `export const greeting = word => "good " + word;`);
        const { greeting } = await import("/work/greeting.mjs");
        console.log(greeting("morning"), readFile("/work/greeting.mjs").length);
        const order = [];
        setTimeout(() => order.push("late"), 30);
        clearTimeout(setTimeout(() => order.push("never"), 1));
        setTimeout(() => order.push("soon"));
        await new Promise(done => setTimeout(done, 60));
        console.log(order.join(" "));
        console.log(new TextDecoder().decode(new TextEncoder().encode("gr\u00fc\u00df \u{1f600}")));
        for (const wrong of [() => readTextFile("/work/none"), () => takeText("unknown"), () => publish("out", 7)]) {
            try { wrong(); console.log("no error"); } catch (error) { console.log(error.message); }
        }
        const text = takeText("text"), bytes = takeBytes("bytes");
        publish("length", String(text.length));
        publish("out", bytes.map(byte => byte ^ 0xff).subarray(1));
    },
    large() { publish("out", takeBytes("large").map(byte => byte ^ 1)); },
    recursion() {
        const again = depth => 1 + again(depth + 1);
        for (let i = 0; i < 3; i++) {
            try { again(0); } catch (error) { console.log(error.name, error.message); }
        }
        const nested = "[".repeat(1e5) + "]".repeat(1e5);
        try { JSON.parse(nested); } catch (error) { console.log(error.name, error.message); }
    },
    memory() {
        const kept = [];
        try { for (;;) kept.push(new Uint8Array(1 << 20)); } catch (error) { console.log(error.message); }
    },
    thrown() { console.log("before"); null.field; },
    failing() { console.log("before"); fail("for good", true); },
    rejected() { console.log("before"); Promise.reject(new Error("no handler")); },
    handled() { const late = Promise.reject(1); late.catch(() => console.log("caught")); },
    waiting() { console.log("before"); return new Promise(() => {}); },
    ended() { console.log("before"); exit(3); },
};
await modes[args[0].replace("--mode=", "")]();
"#;

/// What it does when it waits for a month, and what others do for it.
const DURABLE: &str = r#"
import { args, checkpoint, event, fork, handedOver, perform, publish, send, sleep, state, takeText } from "monohull";

if (args[0] === "--mode=handle") {
    publish("reply", "<" + takeText("request"));
} else {
    const kept = new Map([["ship", { name: "Argo" }]]), begun = Date.now();
    state("where", "asleep");
    sleep(30 * 86400);
    console.log(kept.get("ship").name, Date.now() - begun >= 30 * 86400e3);
    console.log(checkpoint("here") ? "came back" : "went on");
    const text = bytes => bytes && new TextDecoder().decode(bytes);
    console.log(text(event("paid", 86400)), event("paid", 0), handedOver("count"));
    event("go");
    sleep(NaN);
    console.log(text(perform("blob", "logo")));
    for (const wrong of [() => fork(0), () => event(""), () => event("paid\nlate"), () => send("other", "paid", "x"), () => perform("nobody", "x"), () => sleep()]) {
        try { wrong(); console.log("no error"); } catch (error) { console.log(error.errno, error.message.length > 0); }
    }
}
"#;

#[test]
fn a_program_waits_for_a_month_and_is_taken_back() {
    let script = Script::new(DURABLE);
    let path = script.0.path();
    let step = |name: &str, mode: &str| json!({ "name": name, "function": "app", "args": { "mode": mode } });
    let mut handler = step("handler", "handle");
    handler["handles"] = "blob".into();
    let document = json!({
        "name": "test", "functions": { "app": { "image": "app.so" } }, "steps": [step("app", "ask"), handler],
    });
    fs::write(path.join("w.json"), document.to_string()).expect("written");
    let durable = |arguments: &[&str], code: i32| -> Vec<String> {
        let output = super::program::monohull(path, &[arguments, &["--state", "state"]].concat());
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let lines = words(&output.stdout);
        lines.lines().filter_map(|line| line.strip_prefix("app[0] | ").map(str::to_owned)).collect()
    };
    let refused = ["22 true", "22 true", "22 true", "1 true", "2 true", "undefined true"];
    durable(&["run", "w.json", "--id", "one", "--detach"], 4);
    let said = durable(&["wake", "--wait", "--skip-time"], 0);
    assert_eq!(said, ["Argo true", "went on", "null null null"]);
    durable(&["rewind", "one", "--to", "here"], 0);
    durable(&["send", "one", "paid", "--data", "r-4711"], 0);
    durable(&["send", "one", "go"], 0);
    let said = durable(&["wake", "--wait"], 0);
    assert_eq!(said, [&["came back", "r-4711 null null", "<logo"], &refused[..]].concat());
}

/// What starts children, and what it starts.
const FAMILY: &str = r#"
import { args, cancel, exit, firstOf, join, publish, start, startDetached, takeText } from "monohull";

const text = bytes => bytes && new TextDecoder().decode(bytes);
if (args[0] === "--mode=child") {
    const word = takeText("in");
    if (!word) exit(3);
    publish("out", word + "!");
} else {
    start("child", "good", "17");
    start("child", "bad", new Uint8Array(0));
    console.log(join("good", 0));
    const good = join("good"), bad = join("bad", 86400);
    console.log(good.ending, text(good.output("out")), good.output("other"), good.message === "");
    console.log(bad.ending, bad.output("out"), bad.output(""), bad.message.length > 0);
    for (const wrong of [() => startDetached("other", "one", ""), () => start("child", "", ""), () => cancel("good"), () => good.output.call({}, "out"), () => firstOf(7),
        () => firstOf(["shipped\nlate", "cancelled"], 0), () => firstOf(["shipped\0", "cancelled"], 0), () => firstOf([])]) {
        try { wrong(); console.log("no error"); } catch (error) { console.log(error.errno); }
    }
    console.log(firstOf(["shipped", "cancelled"], 0));
    const event = firstOf(["shipped", "cancelled"]);
    console.log(event.name, text(event.content));
}
"#;

#[test]
fn a_program_has_children_and_waits_for_the_first_of_several_events() {
    let script = Script::new(FAMILY);
    let path = script.0.path();
    let workflow = |name: &str, mode: &str, more: Value| {
        let mut document = json!({
            "name": name, "functions": { "app": { "image": "app.so" } },
            "steps": [{ "name": "app", "function": "app", "args": { "mode": mode } }],
        });
        merge(&mut document, more);
        fs::write(path.join(name).with_extension("json"), document.to_string()).expect("written");
    };
    workflow("parent", "parent", json!({ "starts": ["child"] }));
    workflow("child", "child", json!({ "inputs": ["in"], "outputs": ["out"] }));
    let says = |arguments: &[&str]| -> Vec<String> {
        let output = super::program::monohull(path, &[arguments, &["--state", "state"]].concat());
        // 1: one of the children has failed.
        assert!([0, 1, 4].map(Some).contains(&output.status.code()), "{output:?}");
        let lines = words(&output.stdout);
        lines.lines().filter_map(|line| line.strip_prefix("app[0] | ").map(str::to_owned)).collect()
    };
    let mut said = says(&["run", "parent.json", "--id", "one", "--detach"]);
    said.extend(says(&["wake", "--wait", "--skip-time"]));
    says(&["send", "one", "cancelled", "--data", "r-4711"]);
    said.extend(says(&["wake", "--wait"]));
    let children = ["null", "completed 17! null true", "failed null null true"];
    let refused = ["1", "22", "no error", "undefined", "undefined", "22", "22", "22"];
    assert_eq!(said, [&children[..], &refused, &["null", "cancelled r-4711"]].concat());
}

#[test]
fn a_program_starts_where_it_was_ready() {
    let script = Script::new(
        "import { publish, ready, takeText } from 'monohull';\n\
         const squares = new Map(Array.from({ length: 1000 }, (_, number) => [number, number * number]));\n\
         const here = ready();\n\
         publish('out', `${here} ${squares.get(31)} ${takeText('in')}`);\n",
    );
    let server = script.served();
    let invoke = |input: &str| server.post("/invoke/app", input.as_bytes()).expect(200).text();
    assert_eq!(invoke("first"), "false 961 first");
    eventually("it starts from a template", || invoke("text").starts_with("true "));
    assert_eq!(invoke("second"), "true 961 second");
}

/// Numbers that were drawn before are parts of the memory; those that come behind are each one's own.
#[test]
fn instances_of_a_template_draw_random_numbers_of_their_own() {
    let script = Script::new(
        "import { publish, ready, takeText } from 'monohull';\n\
         const before = Math.random(), here = ready(), behind = Math.random();\n\
         const text = takeText('in');\n\
         publish('out', `${here} ${before} ${behind} ${Math.random()} ${text}`);\n",
    );
    let server = script.served();
    let invoke = || server.post("/invoke/app", b"text").expect(200).text();
    eventually("it starts from a template", || invoke().starts_with("true "));
    let [one, other] = [invoke(), invoke()].map(|said| said.split(' ').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(one[..2], other[..2]);
    for word in &one[2..4] {
        let number: f64 = word.parse().expect("a number");
        assert!((0.0..1.0).contains(&number) && !other.contains(word), "{one:?} {other:?}");
    }
}

#[test]
fn copies_of_an_invocation_draw_random_numbers_of_their_own() {
    let script = Script::new(
        "import { checkpoint, event, fork } from 'monohull';\n\
         Math.random();\n\
         console.log(fork(2), Math.random());\n\
         checkpoint('here');\n\
         console.log('number', Math.random());\n\
         event('go');\n",
    );
    let path = script.0.path();
    let steps = json!([{ "name": "app", "function": "app" }]);
    let document = json!({ "name": "test", "functions": { "app": { "image": "app.so" } }, "steps": steps });
    fs::write(path.join("w.json"), document.to_string()).expect("written");
    let says = |arguments: &[&str]| -> Vec<String> {
        let output = super::program::monohull(path, &[arguments, &["--state", "state"]].concat());
        assert!([0, 4].map(Some).contains(&output.status.code()), "{output:?}");
        let lines = words(&output.stdout);
        let lines = lines.lines().filter_map(|line| line.strip_prefix("app[0] | "));
        lines.filter_map(|line| Some(line.split_once(' ')?.1.to_owned())).collect()
    };
    let mut drawn = says(&["run", "w.json", "--id", "one", "--detach"]);
    drawn.extend(says(&["wake", "--wait"]));
    assert_eq!(drawn.len(), 6, "{drawn:?}");
    says(&["rewind", "one", "--to", "here"]);
    drawn.extend(says(&["wake", "--wait"]));
    assert_eq!(drawn.len(), 7, "{drawn:?}");
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), 7, "{drawn:?}");
}

/// Texts leave a program as UTF-8, whatever they are in it, and none is cut at a zero.
#[test]
fn texts_are_whole_and_utf_8() {
    let script = Script::new(
        "import { checkpoint, publish, readTextFile, state, writeFile } from 'monohull';\n\
         const bytes = new Uint8Array([0xef, 0xbb, 0xbf, 0x61]), encoder = new TextEncoder(), decoder = new TextDecoder();\n\
         print('\\ud83d', encoder.encode('a\\udc00b\\u{1f600}').join());\n\
         writeFile('/work/file', '\\ud800'); print(readTextFile('/work/file') === '\\ufffd');\n\
         print(decoder.decode(bytes), decoder.decode(bytes.buffer), decoder.decode(new DataView(bytes.buffer, 3)));\n\
         for (const wrong of [() => state('a\\0b', ''), () => checkpoint('a\\0b'), () => readTextFile('/work/file\\0.txt'), () => publish('', '')])\n\
           try { wrong(); print('no error'); } catch (error) { print(error.message); }\n\
         publish('out', 'half \\ud800');\n",
    );
    let workflow = json!({ "outputs": ["out"], "files": [{ "at": "/work", "memory": "1MiB" }] });
    let report = script.run("app.so", json!({}), workflow, &[]);
    let zero = "a text has a zero character in it";
    let expected = [
        "\u{fffd} 97,239,191,189,98,240,159,152,128",
        "true",
        "a a a",
        zero,
        zero,
        zero,
        "a slot's name has 1 to 255 bytes, this one has 0",
    ];
    assert_eq!(printed(&report), expected, "{report:#}");
    assert_eq!(report["output"]["out"]["text"], "half \u{fffd}", "{report:#}");
}

/// `console` shows values as Node.js does.
#[test]
fn what_is_printed_tells_what_is_in_it() {
    let script = Script::new(
        "class Point { x = 1; y = [2]; }\n\
         const loop = { n: 1 }; loop.self = loop;\n\
         console.log('plain', 1, -0, 1n, true, null, undefined, Symbol('s'));\n\
         console.info({ a: 1, 'b-c': \"it's\", d: { e: { f: { g: 1 } } } }, [1, [2, [3, [4]]]], [], {});\n\
         console.debug(new Map([['a', { b: 1 }]]), new Set([1, 'x']), new Uint8Array([1, 2]), new Point(), Point, () => 1);\n\
         console.log(new Date(0), /x+/g, Object.create(null), { get x() { return 1; }, [Symbol('k')]: 1 }, loop);\n\
         console.log('%s is %d: %j %o 100%%', 'it', 1.5, { a: [1] }, { b: 'c' }, 'more'); console.log('50%', 1);\n\
         console.log(Array.from({ length: 30 }, (_, at) => at));\n\
         console.log({ long: 'x'.repeat(40), longer: 'y'.repeat(40) });\n\
         console.group('in'); console.log('a\\nb'); console.groupEnd(); console.count(); console.count();\n\
         console.assert(true); console.assert(false, 'bad', [1]);\n\
         try { null.field; } catch (error) { console.error({ error }); }\n\
         console.warn(new Error('boom', { cause: 'why' }).cause, new Error('last'));\n",
    );
    let report = script.run("app.so", json!({}), json!({}), &[]);
    let lines = printed(&report);
    let expected = [
        "plain 1 -0 1n true null undefined Symbol(s)",
        r#"{ a: 1, 'b-c': "it's", d: { e: { f: [Object] } } } [ 1, [ 2, [ 3, [Array] ] ] ] [] {}"#,
        "Map(1) { 'a' => { b: 1 } } Set(2) { 1, 'x' } Uint8Array(2) [ 1, 2 ] Point { x: 1, y: [ 2 ] } [class Point] [Function (anonymous)]",
        "1970-01-01T00:00:00.000Z /x+/g [Object: null prototype] {} { x: [Getter], [Symbol(k)]: 1 } { n: 1, self: [Circular] }",
        r#"it is 1.5: {"a":[1]} { b: 'c' } 100% more"#,
        "50% 1",
        "[",
        "  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19,",
        "  20, 21, 22, 23, 24, 25, 26, 27, 28, 29",
        "]",
        "{",
        &format!("  long: '{}',", "x".repeat(40)),
        &format!("  longer: '{}'", "y".repeat(40)),
        "}",
        "in",
        "  a",
        "  b",
        "default: 1",
        "default: 2",
        "Assertion failed: bad [ 1 ]",
    ];
    assert_eq!(lines[..expected.len()], expected, "{lines:#?}");
    let rest = &lines[expected.len()..];
    assert!(rest[0] == "{" && rest[1].starts_with("  error: TypeError: ") && rest[2].contains(" at "), "{rest:#?}");
    assert!(rest.iter().any(|line| line == "why Error: last"), "{rest:#?}");
}

const RECURSION: [&str; 4] = [
    "InternalError stack overflow",
    "InternalError stack overflow",
    "InternalError stack overflow",
    "SyntaxError stack overflow",
];

struct Script(TempDir);

impl Script {
    fn new(text: &str) -> Script {
        Script::named("app.js", text)
    }

    fn named(name: &str, text: &str) -> Script {
        let folder = TempDir::new().expect("a folder");
        let program = folder.path().join(name);
        fs::write(&program, text).expect("written");
        let built = monohull(&["build", program.to_str().expect("UTF-8")]);
        // Tables of the interpreter's code have the bytes of system calls, which it does not make.
        assert!(built.status.success() && built.stderr.is_empty(), "{}", words(&built.stderr));
        Script(folder)
    }

    /// A server with a workflow that has it as its only step, from the input `in` to the output `out`.
    fn served(&self) -> Server {
        let server = Server::start_with(&["--prefork", "2"]);
        let image = fs::read(self.0.path().join("app.so")).expect("the image");
        let answer = server.ask("PUT", "/functions/app", &image);
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
        server.put_workflow(&json!({
            "name": "app", "functions": { "app": { "image": "function:app" } }, "inputs": ["in"], "outputs": ["out"],
            "steps": [{ "name": "app", "function": "app" }],
        }));
        server
    }

    fn run(&self, image: &str, step: Value, workflow: Value, options: &[&str]) -> Value {
        let mut whole = json!({ "name": "app", "function": "app" });
        merge(&mut whole, step);
        let mut document = json!({ "name": "test", "functions": { "app": { "image": image } }, "steps": [whole] });
        merge(&mut document, workflow);
        run_with(self.0.path(), &document, options)
    }

    /// What one mode prints, and how the workflow ends.
    fn mode(&self, mode: &str) -> (Vec<String>, Value) {
        let report = self.run("app.so", json!({ "args": { "mode": mode }, "memory": "64MiB" }), json!({}), &[]);
        (printed(&report), report)
    }
}

#[test]
fn a_program_has_slots_files_timers_and_modules() {
    let script = Script::new(PROGRAM);
    let inputs = [("bytes", &[0, 1, 0xfe][..]), ("text", b"four"), ("typed", b"typed\n")].map(|(name, bytes)| {
        let path = script.0.path().join(name);
        fs::write(&path, bytes).expect("written");
        ["--input".to_owned(), format!("{name}={}", path.display())]
    });
    let inputs: Vec<&str> = inputs.iter().flatten().map(String::as_str).collect();
    let step = json!({
        "args": { "mode": "tour", "number": 7 }, "env": { "GREETING": "hello" }, "stdin": "typed",
    });
    let workflow = json!({
        "inputs": ["text", "bytes", "typed"], "outputs": ["out", "length"],
        "files": [{ "at": "/work", "memory": "1MiB" }],
    });
    // As an image, and named as it is.
    for image in ["app.so", "app.js"] {
        let report = script.run(image, step.clone(), workflow.clone(), &inputs);
        assert_eq!(report["status"], "done", "{report:#}");
        assert_eq!(
            printed(&report),
            [
                "args --number=7 env hello instance 0 1",
                "input typed",
                "good morning 47",
                "soon late",
                "gr\u{fc}\u{df} \u{1f600}",
                "file /work/none: No such file or directory",
                "no instance is left that could fill slot `unknown`",
                "ArrayBuffer object expected",
            ]
        );
        assert_eq!(report["output"]["length"]["text"], "4", "{report:#}");
        assert_eq!(report["output"]["out"]["base64"], "/gE=", "{report:#}");
    }
}

/// A slot of which whole pages become the program's memory.
#[test]
fn a_large_slot_is_taken_with_all_its_bytes() {
    let script = Script::new(PROGRAM);
    let text = "0123456789abcdef\n".repeat(20_000);
    let path = script.0.path().join("large");
    fs::write(&path, &text).expect("written");
    let input = format!("large={}", path.display());
    let step = json!({ "args": { "mode": "large" } });
    let workflow = json!({ "inputs": ["large"], "outputs": ["out"] });
    let report = script.run("app.so", step, workflow, &["--input", &input]);
    assert_eq!(report["status"], "done", "{report:#}");
    let expected: String = text.bytes().map(|byte| (byte ^ 1) as char).collect();
    assert!(report["output"]["out"]["text"] == expected, "the output is another one");
}

#[test]
fn what_goes_wrong_is_named() {
    let script = Script::new(PROGRAM);
    for (mode, status, lines) in [
        ("recursion", "done", &RECURSION[..]),
        ("memory", "done", &["out of memory"]),
        ("handled", "done", &["caught"]),
        ("ended", "failed", &["before"]),
    ] {
        let (printed, report) = script.mode(mode);
        assert_eq!(report["status"], status, "{mode}: {report:#}");
        for (line, expected) in printed.iter().zip(lines) {
            assert!(line.starts_with(expected), "{mode}: {printed:?}");
        }
        assert!(printed.len() >= lines.len(), "{mode}: {printed:?}");
    }
}

/// The report of a program that ends by an exception has its text and its stack, and not where the interpreter was.
#[test]
fn what_nothing_catches_is_the_message_of_the_report() {
    let script = Script::new(PROGRAM);
    for (mode, lines) in [
        ("waiting", &["the program waits for a promise that nothing is left to fulfil"][..]),
        ("rejected", &["Error: no handler", "    at rejected (app.js:"]),
        ("thrown", &["TypeError: cannot read property 'field' of null", "    at thrown (app.js:"]),
        ("failing", &["for good"]),
    ] {
        let (printed, report) = script.mode(mode);
        let error = &report["error"];
        let kind = if mode == "failing" { "permanent" } else { "error" };
        assert_eq!((&error["kind"], error.get("ip"), error.get("backtrace")), (&json!(kind), None, None), "{report:#}");
        let message = error["message"].as_str().expect("a message");
        let mut said = message.lines();
        for expected in lines {
            assert!(said.next().is_some_and(|line| line.starts_with(expected)), "{mode}: {message}");
        }
        assert!(!message.ends_with('\n') && printed == ["before"], "{report:#}");
    }
    let failed = |text: &str, expected: &str| {
        let report = Script::new(text).run("app.so", json!({}), json!({}), &[]);
        let message = report["error"]["message"].as_str().expect("a message");
        assert!(message.starts_with(expected), "{report:#}");
    };
    failed("let broken = ;\n", "SyntaxError: unexpected token in expression: ';'\n    at app.js:1");
    let no_node = "there is none, and no packages or modules of Node.js (docs/wasi.md)";
    for name in ["fs", "fs/promises", "node:fs"] {
        failed(&format!("import * as it from '{name}';\n"), &format!("ReferenceError: module {name}: {no_node}"));
    }
    failed("import '/work/none.js';\n", "ReferenceError: module /work/none.js: there is no such file");
}

/// A slot that the step's lists lack, and one that is filled already.
#[test]
fn an_error_about_a_slot_has_the_systems_explanation() {
    let script = Script::new(
        "import { publish, takeText } from 'monohull';\n\
         for (const wrong of [() => takeText('in'), () => publish('other', ''), () => publish('out', '')])\n\
           try { wrong(); print('no error'); } catch (error) { print(error.errno, error.message); }\n",
    );
    let input = script.0.path().join("in");
    fs::write(&input, "words").expect("written");
    let option = format!("in={}", input.display());
    let workflow = json!({ "inputs": ["in"], "outputs": ["out"], "unread": "ignore" });
    let lists = json!({ "takes": [], "fills": ["out"] });
    let report = script.run("app.so", lists, workflow, &["--input", &option]);
    let expected = [
        "63 slot `in` is not in the step's list `takes`",
        "63 slot `other` is not in the step's list `fills`",
        "no error",
    ];
    assert_eq!(printed(&report), expected, "{report:#}");
}

/// `app.cjs` is a script: not strict, with globals of its own and `require`.
#[test]
fn a_script_is_no_module() {
    let script = Script::named(
        "app.cjs",
        "var number = 8, ok = true;\n\
         undeclared = 010;\n\
         function own() { return this === globalThis; }\n\
         with ({ inner: 5 }) print(inner + undeclared, own(), globalThis.number, globalThis.own === own, typeof module);\n\
         const { writeFile, publish, takeText } = require('monohull');\n\
         writeFile('/work/count.js', 'exports.here = [__filename, __dirname]; exports.next = () => ++n; var n = require(\"./data.json\").from;');\n\
         writeFile('/work/data.json', '{ \"from\": 41 }');\n\
         writeFile('/work/wrong.js', '\\nthrow new Error(\"of its own\")');\n\
         const count = require('/work/count.js');\n\
         print(count.next(), require('./work/../work/count.js').next(), ...count.here, typeof n);\n\
         for (const name of ['left-pad', '/work/none.js', '/work/wrong.js'])\n\
           try { require(name); } catch (error) { print(error.message, /wrong.js:2/.test(error.stack)); }\n\
         publish('out', takeText('in').toUpperCase());\n\
         import('monohull').then(it => print(it.takeText === takeText));\n",
    );
    let input = script.0.path().join("in");
    fs::write(&input, "words").expect("written");
    let workflow = json!({ "inputs": ["in"], "outputs": ["out"], "files": [{ "at": "/work", "memory": "1MiB" }] });
    let option = format!("in={}", input.display());
    for image in ["app.so", "app.cjs"] {
        let report = script.run(image, json!({}), workflow.clone(), &["--input", &option]);
        assert_eq!(report["status"], "done", "{report:#}");
        let expected = [
            "13 true 8 true object",
            "42 43 /work/count.js /work undefined",
            "require: left-pad is no path: there are no packages or modules of Node.js false",
            "file /work/none.js: No such file or directory false",
            "of its own true",
            "true",
        ];
        assert_eq!(printed(&report), expected, "{report:#}");
        assert_eq!(report["output"]["out"]["text"], "WORDS", "{report:#}");
    }
    let report = Script::named("app.cjs", "print(1);\nfail;\n").run("app.so", json!({}), json!({}), &[]);
    let message = report["error"]["message"].as_str().expect("a message");
    assert_eq!(printed(&report), ["1"], "{report:#}");
    assert!(
        message.starts_with("ReferenceError: 'fail' is not defined\n") && message.contains("app.cjs:2"),
        "{message}"
    );
}

/// QuickJS's own tests of the language and of what is built in, as they are. They print nothing, and throw what is wrong.
#[test]
fn quickjs_passes_its_own_tests() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/wasi/quickjs-tests");
    for name in ["closure", "language", "builtin", "loop", "bigint"] {
        let path = tests.join(format!("test_{name}.js"));
        let text = fs::read_to_string(&path).expect("it is unpacked first: run `cargo xtask test`");
        // What they have of the interpreter's library for systems with processes, in one line with their first. Some are strict.
        let strict = if text.starts_with("\"use strict\"") { "'use strict';" } else { "" };
        let begin = "var std = { gc: require('monohull').collectGarbage }, os = { platform: 'wasi', setTimeout };";
        let begin = format!("{strict}{begin}");
        let report = Script::named("app.cjs", &format!("{begin}{text}\nprint('its end');\n")).run(
            "app.so",
            json!({ "memory": "256MiB", "stack": "8MiB" }),
            json!({ "limits": { "timeout": "300s" } }),
            &[],
        );
        let lines = printed(&report);
        assert_eq!(
            (&report["status"], lines.last()),
            (&json!("done"), Some(&"its end".to_owned())),
            "{name}: {lines:#?}"
        );
        assert!(lines.iter().all(|line| !line.contains("rror")), "{name}: {lines:#?}");
    }
}
