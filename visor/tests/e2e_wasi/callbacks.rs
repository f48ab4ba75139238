//! Callbacks: clients answer programs in C, Go and JavaScript that wait without a process, and the one in C as native code. And programs that fail for good.

use super::durable::compiled;
use super::program::{document, monohull};
use super::support::words;
use serde_json::json;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// What those in C and Go do, in JavaScript.
const SCRIPT: &str = r#"
import { callback, generation, invocationId, state } from "monohull";

const day = 86400;
const waits = [[undefined, day], [day, day], [0], [day, 0]].map(times => ({ ...callback(), times }));
state("tokens", `${waits[0].token} ${waits[1].token}`);
for (const wait of waits) {
    const { ending, content } = wait.answer(...wait.times);
    console.log(ending, new TextDecoder().decode(content));
}
let refused;
try { waits[0].answer.call({ token: "paid" }); } catch (error) { refused = -error.errno; }
if (!(generation() > 0)) console.log(generation());
console.log(`of ${invocationId()}, ${refused} for other tokens`);
"#;

/// The other thing that they do.
const FAILS: &str = "import { args, fail } from 'monohull';
fail('there is no such ship', !args.includes('--passes=yes'));
";

/// Runs a command on the state folder of a folder with an image: what the step has printed meanwhile.
#[track_caller]
fn says(folder: &Path, args: &[&str], code: i32) -> Vec<String> {
    let output = monohull(folder, &[args, &["--state", "state"]].concat());
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    words(&output.stdout).lines().filter_map(|line| line.strip_prefix("app[0] | ").map(str::to_owned)).collect()
}

/// A program waits for four answers. One is there after a heartbeat, one is a rejection, one does not come in time, and the client of one is silent.
#[track_caller]
fn are_answered(image: &[u8]) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    let document_of = json!({
        "name": "app",
        "functions": { "app": { "image": "app.so" } },
        "steps": [{ "name": "app", "function": "app", "args": { "act": "answers" } }],
    });
    fs::write(path.join("app.so"), image).expect("written");
    fs::write(path.join("w.json"), document_of.to_string()).expect("written");
    let row = || document(&monohull(path, &["show", "one", "--state", "state", "--json"]));
    assert!(says(path, &["run", "w.json", "--id", "one", "--detach"], 4).is_empty());
    let shown = row();
    let (yes, no) =
        shown["published"]["tokens"].as_str().and_then(|tokens| tokens.split_once(' ')).expect("two tokens");
    assert!(yes.len() == 41 && no.len() == 41 && yes != no, "{yes} {no}");
    says(path, &["send", "one", &format!("{yes}:heartbeat")], 0);
    assert!(says(path, &["wake"], 0).is_empty(), "it waits on");
    assert_eq!(row()["status"], "suspended");
    says(path, &["send", "one", yes, "--data", "17"], 0);
    says(path, &["send", "one", &format!("{no}:rejected"), "--data", "too late"], 0);
    let said = says(path, &["wake"], 0);
    let ends: Vec<&str> = said.iter().map(|line| line.trim_end()).collect();
    assert_eq!(ends, ["completed 17", "rejected too late", "timed out", "silent", "of one, -22 for other tokens"]);
}

#[test]
fn in_c() {
    are_answered(&compiled("durable-c"));
}

/// The program in C as native code.
fn native_in_c() -> Vec<u8> {
    let folder = TempDir::new().expect("a folder");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../wasi/guests/c/durable.c");
    let built = monohull(folder.path(), &["cc", "-O2", "-Wall", "-Werror", source, "-o", "app.so"]);
    assert!(built.status.success(), "{}", words(&built.stderr));
    fs::read(folder.path().join("app.so")).expect("the image")
}

/// A program in JavaScript.
fn in_script(script: &str) -> Vec<u8> {
    let folder = TempDir::new().expect("a folder");
    let (program, to) = (folder.path().join("app.js"), folder.path().to_str().expect("UTF-8"));
    fs::write(&program, script).expect("written");
    let built = super::support::monohull(&["build", program.to_str().expect("UTF-8"), "--out", to]);
    assert!(built.status.success(), "{}", words(&built.stderr));
    fs::read(folder.path().join("app.so")).expect("the image")
}

#[test]
fn in_c_natively() {
    are_answered(&native_in_c());
}

#[test]
fn in_go() {
    are_answered(&compiled("tour-go"));
}

#[test]
fn in_javascript() {
    are_answered(&in_script(SCRIPT));
}

/// What a program says of its steps, in which time is skipped.
#[track_caller]
fn take_steps(image: &[u8]) {
    let folder = TempDir::new().expect("a folder");
    let whole = json!({
        "name": "app",
        "functions": { "app": { "image": "app.so" } },
        "steps": [{ "name": "app", "function": "app", "args": { "act": "steps" } }],
    });
    fs::write(folder.path().join("app.so"), image).expect("written");
    fs::write(folder.path().join("w.json"), whole.to_string()).expect("written");
    let said = says(folder.path(), &["run", "w.json", "--id", "one", "--skip-time"], 0);
    let (first, second) = ("charge with one/app/0/charge/0", "charge with one/app/0/charge/1");
    let ends = ["came 7", "next one/app/0/charge/2", "a path", "-22 without a name"];
    assert_eq!(said, [&[first, first, first, "came 0", second][..], &ends].concat());
}

/// What the one in C does, in JavaScript.
const STEPS: &str = r#"
import { callback, invocationId, step, stepKey } from "monohull";

let left = 2;
function charge(key) {
    console.log(`charge with ${key}`);
    if (left-- > 0) throw new Error("busy");
    return 0;
}
console.log("came", step("charge", charge, { attempts: 3 }));
left = 9;
try { step("charge", charge); } catch (error) { console.log("came", error.message === "busy" ? 7 : error.message); }
console.log(`next ${stepKey("charge")}`);
const { token, url } = callback();
console.log(url === `/callbacks/${invocationId()}/${token}` ? "a path" : url);
let others = 0;
for (const wrong of [() => step("later", async () => 1), () => step("none")])
    try { wrong(); others += 1; } catch (error) { others += !(error instanceof TypeError); }
try { stepKey(""); } catch (error) { console.log(-error.errno - others, "without a name"); }
"#;

#[test]
fn steps_have_keys_and_attempts_in_c_and_javascript() {
    for image in [compiled("durable-c"), native_in_c(), in_script(STEPS)] {
        take_steps(&image);
    }
}

/// A program says that it has failed, for good or not: how many attempts there were.
#[track_caller]
fn attempts(image: &[u8], passes: &str) -> usize {
    let folder = TempDir::new().expect("a folder");
    let mut step = json!({ "name": "app", "function": "app", "args": { "act": "fail" } });
    step["retry"] = json!({ "max_attempts": 3, "interval": "1ms" });
    if !passes.is_empty() {
        step["args"]["passes"] = json!(passes);
    }
    let whole = json!({ "name": "app", "functions": { "app": { "image": "app.so" } }, "steps": [step] });
    fs::write(folder.path().join("app.so"), image).expect("written");
    fs::write(folder.path().join("w.json"), whole.to_string()).expect("written");
    let report = document(&monohull(folder.path(), &["run", "w.json", "--json"]));
    let error = &report["error"];
    assert_eq!(error["message"], "there is no such ship", "{report:#}");
    assert_eq!(error["kind"], if passes.is_empty() { "permanent" } else { "error" }, "{report:#}");
    report["steps"][0]["instances"][0]["attempts"].as_u64().expect("a number") as usize
}

#[test]
fn a_failure_for_good_has_one_attempt() {
    let (native, script) = (native_in_c(), in_script(FAILS));
    for image in [compiled("durable-c"), native, script] {
        assert_eq!((attempts(&image, ""), attempts(&image, "yes")), (1, 3));
    }
}
