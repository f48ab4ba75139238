//! Continuations as values in Python, for both of its interpreters: what `continuations.py` and the native function of `examples/continuations` pass to
//! each other. The step `waits` waits, the step `other` has its continuation from the slot `next`.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Output;

const PYTHON: &str = "python";
const NATIVE: &str = "native";
/// Longer than the shortest wait that suspends a workflow.
const NAP: u64 = 2_000;
const GONE: &str =
    "the continuation is gone: it was freed unused, its last owner has ended, or what had used it has failed";

fn step(name: &str, function: &str, how: &str, value: &str) -> Value {
    json!({ "name": name, "function": function, "args": { "how": how, "value": value } })
}

/// Steps that are all there is of a workflow.
struct Workflows<'a, Run: Fn(&Path, &[&str]) -> Output> {
    folder: &'a Path,
    python: &'a Value,
    monohull: Run,
}

impl<Run: Fn(&Path, &[&str]) -> Output> Workflows<'_, Run> {
    fn write(&self, steps: &[Value], outputs: &[&str]) {
        let native = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/continuations.so");
        let functions: serde_json::Map<_, _> = [(PYTHON, self.python.clone()), (NATIVE, json!({ "image": native }))]
            .into_iter()
            .filter(|(name, _)| steps.iter().any(|step| step["function"] == *name))
            .map(|(name, function)| (name.to_owned(), function))
            .collect();
        let document = json!({
            "name": "continuations", "functions": functions, "steps": steps, "outputs": outputs,
            "unread": "ignore", "limits": { "timeout": "300s" },
        });
        fs::write(self.folder.join("w.json"), document.to_string()).expect("written");
    }

    /// What the steps have filled these slots with.
    #[track_caller]
    fn filled(&self, steps: &[Value], outputs: &[&str]) -> Vec<String> {
        self.write(steps, outputs);
        let output = (self.monohull)(self.folder, &["run", "w.json", "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        assert_eq!(report["status"], "done", "{report:#}");
        outputs.iter().map(|slot| report["output"][slot]["text"].as_str().expect("a text").to_owned()).collect()
    }
}

/// What an error says after its number, or its name.
fn why(text: &str) -> &str {
    text.split_once(": ").map_or(text, |(_, why)| why)
}

/// All that a program in Python can do with them, with the function `python` of workflow files in the folder.
pub(crate) fn check(folder: &Path, python: &Value, monohull: impl Fn(&Path, &[&str]) -> Output) {
    let workflows = Workflows { folder, python, monohull };
    for (waits, other) in [(PYTHON, NATIVE), (NATIVE, PYTHON), (PYTHON, PYTHON)] {
        let steps = [step("waits", waits, "wait", ""), step("other", other, "resume", "Wörter")];
        assert_eq!(workflows.filled(&steps, &["result", "said"]), ["Wörter", "done"], "{other} to {waits}");
        let drops = [step("waits", waits, "wait", ""), step("other", other, "drop", "")];
        assert_eq!(why(&workflows.filled(&drops, &["result"])[0]), GONE, "{other} to {waits}");
    }
    for roles in [[PYTHON, NATIVE, PYTHON], [NATIVE, PYTHON, NATIVE], [NATIVE, NATIVE, PYTHON]] {
        let steps = [
            step("waits", roles[0], "wait", ""),
            step("other", roles[1], "pass", ""),
            step("third", roles[2], "resume-further", "by the third"),
        ];
        assert_eq!(workflows.filled(&steps, &["result"]), ["by the third"], "{roles:?}");
    }
    let discards = [step("waits", NATIVE, "wait", ""), step("other", PYTHON, "discard", "")];
    assert_eq!(why(&workflows.filled(&discards, &["said"])[0]), GONE);
    let alone = workflows.filled(&[step("waits", PYTHON, "wait", "")], &["result"]);
    assert_eq!(alone, ["1002: no instance is left that could use the continuation"]);

    let twice = [step("waits", NATIVE, "wait", ""), step("other", PYTHON, "twice", "once")];
    let came = workflows.filled(&twice, &["result", "said"]);
    let gone = "ValueError: the continuation has been used, handed on or discarded";
    let expected = [
        "17: slot `other` is already filled",
        "1001: slot `other` holds `[u8]`, `continuation` was asked for",
        gone,
        gone,
        gone,
        "TypeError: a continuation comes from a slot, by `Continuation.take`",
        "ValueError: PyCapsule_GetPointer called with invalid PyCapsule object",
        "1001: slot `other` holds `[u8]`, `continuation` was asked for",
    ];
    assert_eq!((&*came[0], came[1].lines().collect::<Vec<_>>()), ("once", expected.to_vec()));

    // It goes back to its slot with the exception.
    let mut fails = step("other", PYTHON, "fail-first", "used");
    fails["retry"] = json!({ "max_attempts": 3, "interval": "1ms" });
    assert_eq!(workflows.filled(&[step("waits", NATIVE, "wait", ""), fails], &["result"]), ["used at attempt 2"]);

    // The workflow is a file meanwhile.
    for (waits, other) in [(PYTHON, NATIVE), (NATIVE, PYTHON)] {
        let mut later = step("other", other, "resume", "later");
        later["args"]["milliseconds"] = json!(NAP);
        workflows.write(&[step("waits", waits, "wait", ""), later], &["result"]);
        let monohull = |arguments: &[&str]| (workflows.monohull)(folder, arguments);
        let output = monohull(&["run", "w.json", "--suspend", "waiting", "--output", "result=result.txt", "--json"]);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        let suspended: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let resumed = monohull(&["resume", suspended["checkpoint"].as_str().expect("a path")]);
        assert_eq!(resumed.status.code(), Some(0), "{resumed:?}");
        assert_eq!(fs::read_to_string(folder.join("result.txt")).expect("the output"), "later", "{other} to {waits}");
        fs::remove_file(folder.join("result.txt")).expect("removed");
    }
}
