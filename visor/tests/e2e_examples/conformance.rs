//! The conformance suite: the same source as a function and as a program with std, compared line by line.
//!
//! ```text
//!   the host's program ──┬── the function over the shim           equal, but for the table in `docs/std.md`
//!                        └── the function over Rust's own std     equal
//! ```
//!
//! What differs on purpose is a row of that table, which is read here: a difference without a row fails, and so does a row without a
//! difference.

use crate::harness::{Workflow, printed, written};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The least number of behaviours compared.
const AT_LEAST: usize = 750;
/// How far results of elementary functions may be from the C library's, in units of the last place.
const ULPS: u64 = 2;

/// The standard input of both.
const INPUT: &[u8] = b"first line\nsecond\r\n.four, two, rest\nsix, more\nof another thread\n\none\ntwo and\nthe end";

/// The suite as a program with std, with the workflow's arguments and environment.
fn native(arguments: &[&str]) -> Output {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--package", "conformance-native", "--"]).args(arguments);
    let folder = crate::harness::fresh_folder();
    cargo.env("FOLDER", &folder).env("HULL", "steel").env("EMPTY", "").env("RUST_BACKTRACE", "0");
    cargo.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = cargo.spawn().expect("cargo runs");
    // Less than a pipe holds; a program that does not read it is none the worse.
    let _ = program.stdin.take().expect("piped").write_all(INPUT);
    let output = program.wait_with_output().expect("cargo ends");
    std::fs::remove_dir(folder).expect("the suite leaves nothing");
    output
}

/// The behaviours that `docs/std.md` says differ.
fn differences() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/std.md");
    let text = std::fs::read_to_string(path).expect("docs/std.md");
    let rows = text.lines().skip_while(|line| !line.starts_with("| behaviour |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').nth(1).expect("a row has cells").to_owned());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// A line's name, its sign, its value.
fn parts(line: &str) -> (&str, (&str, &str)) {
    let mut parts = line.splitn(3, ' ');
    let mut next = || parts.next().unwrap_or_default();
    (next(), (next(), next()))
}

/// How many floating-point numbers lie between two, if both are numbers.
fn ulps(a: &str, b: &str, narrow: bool) -> Option<u64> {
    let ordered = |text: &str| {
        let bits = match narrow {
            true => i64::from(text.parse::<f32>().ok()?.to_bits() as i32) << 32,
            false => text.parse::<f64>().ok()?.to_bits() as i64,
        };
        // Negative numbers count downwards; both zeros are one.
        Some(if bits < 0 { i64::MIN.wrapping_sub(bits) } else { bits })
    };
    let distance = ordered(a)?.abs_diff(ordered(b)?);
    Some(if narrow { distance >> 32 } else { distance })
}

/// Whether two lists of numbers are close, number by number.
fn close(a: &str, b: &str, narrow: bool) -> bool {
    let numbers = |text: &str| -> Vec<String> {
        let separators = |c: char| " ,[]()".contains(c);
        text.split(separators).filter(|number| !number.is_empty()).map(str::to_owned).collect()
    };
    let (a, b) = (numbers(a), numbers(b));
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a == b || ulps(a, b, narrow).is_some_and(|n| n <= ULPS))
}

/// Compares the whole suite as a function with the host's program.
#[track_caller]
fn compare(workflow: &Workflow, documented: &[String]) {
    let program = native(&["--count=3", "--text=a b"]);
    assert!(program.status.success(), "{}", String::from_utf8_lossy(&program.stderr));
    let program = String::from_utf8(program.stdout).expect("the suite prints text");
    let ran = workflow.run(Some(("input", INPUT)), None);
    let ours = printed(&ran);
    assert_eq!((ran.code, ours.last()), (0, Some(&"the end")), "{:#}", ran.report["error"]);

    let ours: BTreeMap<_, _> = ours.iter().filter(|line| line.contains('.')).map(|line| parts(line)).collect();
    let theirs: BTreeMap<_, _> = program.lines().filter(|line| line.contains('.')).map(parts).collect();
    assert!(theirs.len() >= AT_LEAST, "only {} behaviours", theirs.len());
    assert!(ours.keys().eq(theirs.keys()), "the same source prints the same names");
    let mut wrong = Vec::new();
    for (name, (sign, value)) in &theirs {
        let (_, our) = ours[name];
        let same = our == *value || (*sign == "~" && close(our, value, name.ends_with(".f32")));
        match (same, documented.iter().any(|row| row == name)) {
            (true, false) | (false, true) => {}
            (false, false) => wrong.push(format!("{name}\n   host: {value}\n  function: {our}")),
            (true, true) => wrong.push(format!("{name} does not differ, but docs/std.md says so")),
        }
    }
    assert!(wrong.is_empty(), "{} of {} behaviours:\n{}", wrong.len(), theirs.len(), wrong.join("\n"));
}

#[test]
fn the_shim_does_what_std_does() {
    compare(&Workflow::shipped("conformance"), &differences());
}

/// The shipped workflow with the suite over Rust's own std.
fn over_rusts_own_std() -> Workflow {
    let image = crate::harness::root().join("target/programs/images/conformance-native.so");
    let mut workflow = Workflow::shipped("conformance");
    workflow.document()["functions"]["conformance"]["image"] = image.to_str().expect("UTF-8").into();
    workflow
}

#[test]
fn rusts_own_std_does_what_it_does_on_the_host() {
    compare(&over_rusts_own_std(), &[]);
}

/// Every way in which the suite can end its program.
const ENDINGS: [&str; 24] = [
    "return",
    "error",
    "exit-0",
    "exit-3",
    "exit-from-thread",
    "abort",
    "panic",
    "panic-any",
    "unwrap",
    "expect",
    "index",
    "overflow",
    "divide",
    "borrow",
    "assert",
    "unreachable",
    "todo",
    "hook",
    "hook-panics",
    "exit-while-printing",
    "unfinished-line",
    "held-lock",
    "input",
    "detached",
];
/// Those in which the main thread has variables of its own to drop, which monohull-std does not do (`docs/std.md`).
const ENDINGS_WITH_THREAD_LOCALS: [&str; 2] = ["thread-local-of-main", "exit-with-thread-local"];

/// The workflow in which the suite ends in one of these ways, without reading its input.
fn ending_in(ending: &str, mut workflow: Workflow) -> Workflow {
    workflow.set("conformance", "/args", json!({ "end": ending }));
    workflow.document()["unread"] = "ignore".into();
    workflow
}

/// A panic's text in std's report of it, without the place.
fn panic_text(stderr: &str) -> Option<&str> {
    let (_, text) = stderr.split_once("panicked at ")?.1.split_once('\n')?;
    Some(text.split("\nnote: ").next().unwrap_or(text).trim_end())
}

#[test]
fn programs_end_as_with_std() {
    for ending in ENDINGS {
        let program = native(&[&format!("--end={ending}")]);
        let (said, errors) = (String::from_utf8_lossy(&program.stdout), String::from_utf8_lossy(&program.stderr));
        let ran = ending_in(ending, Workflow::shipped("conformance")).run(Some(("input", INPUT)), None);
        let (kind, message) = (&ran.report["error"]["kind"], ran.report["error"]["message"].as_str().unwrap_or("none"));
        match program.status.code() {
            Some(0) => assert_eq!(ran.report["status"], "done", "{ending}: {message}"),
            Some(1) => {
                assert_eq!(kind, "error", "{ending}: {message}");
                assert_eq!(errors.trim_end().strip_prefix("Error: "), Some(message), "{ending}");
            }
            Some(101) => {
                assert_eq!(kind, "panic", "{ending}: {message}");
                let (place, text) = message.split_once('\n').expect("a panic has a place");
                assert!(place.starts_with("thread 'main' panicked at "), "{ending}: {place}");
                // A hook says what it wants, in place of std.
                assert!(ending == "hook" || panic_text(&errors) == Some(text), "{ending}: {errors}\n{text}");
            }
            Some(code) => {
                assert_eq!((kind, message), (&Value::from("exit"), &*format!("exited with status {code}")), "{ending}")
            }
            None if ending == "hook-panics" => {
                assert_eq!(kind, "panic", "{message}");
                assert!(
                    message.ends_with(":\nthe hook broke\nthread panicked while processing panic. aborting."),
                    "{message}"
                );
            }
            None => assert_eq!((kind, message), (&Value::from("panic"), "the function called abort()"), "{ending}"),
        }
        // A function does not unwind when it panics, so what lives is not dropped.
        let panicked = program.status.code() == Some(101);
        let expected: Vec<_> = said.lines().filter(|line| !(panicked && *line == "dropped")).collect();
        assert_eq!(printed(&ran), expected, "{ending}");
    }
}

/// Lines without the number of the thread, which the host gives.
fn without_numbers<'l>(lines: impl IntoIterator<Item = &'l str>) -> Vec<String> {
    let number = |line: &str| {
        let (start, rest) = line.split_once("thread 'main' (")?;
        Some(format!("{start}thread 'main' {}", rest.split_once(") ")?.1))
    };
    lines.into_iter().map(|line| number(line).unwrap_or_else(|| line.to_owned())).collect()
}

/// Both streams are equal to the byte, those of panics included, which unwind.
#[test]
fn programs_over_rusts_own_std_end_as_on_the_host() {
    for ending in ENDINGS.into_iter().chain(ENDINGS_WITH_THREAD_LOCALS) {
        let program = native(&[&format!("--end={ending}")]);
        let mut workflow = ending_in(ending, over_rusts_own_std());
        // What a panic says depends on it, and the host's program has it too.
        workflow.set("conformance", "/env", json!({ "RUST_BACKTRACE": "0" }));
        let ran = workflow.run(Some(("input", INPUT)), None);
        let (status, message) = (&ran.report["status"], ran.report["error"]["message"].as_str());
        match program.status.code() {
            Some(0) => assert_eq!((status, message), (&Value::from("done"), None), "{ending}"),
            Some(code) => assert_eq!(message, Some(&*format!("exited with status {code}")), "{ending}"),
            None => {
                let kind = ran.report["error"]["kind"].as_str();
                assert_eq!((kind, message), (Some("panic"), Some("abort() was called")), "{ending}");
            }
        }
        let (said, errors) = (String::from_utf8_lossy(&program.stdout), String::from_utf8_lossy(&program.stderr));
        assert_eq!(printed(&ran), said.lines().collect::<Vec<_>>(), "{ending}");
        assert_eq!(without_numbers(written(&ran, "stderr")), without_numbers(errors.lines()), "{ending}");
    }
}
