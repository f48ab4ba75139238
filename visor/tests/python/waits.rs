//! Callbacks and effects on the outside in Python, for both of its interpreters. A workflow of one step keeps what the program publishes in a file.

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Output;

/// Of four callbacks one is answered after a heartbeat, one is rejected, one waits in vain, and the client of one is silent.
pub(super) const ANSWERS: &str = "\
from monohull import callback, publish, slots
yes, no = callback(), callback()
publish('tokens', f'{yes.token} {no.token}')
answers = [yes.answer(heartbeat=86400), no.answer(timeout=86400, heartbeat=86400)]
answers += [callback().answer(timeout=0), callback().answer(timeout=1, heartbeat=0)]
slots.put('out', ', '.join(f'{answer.ending} {answer.content}' for answer in answers))
";

/// Of two effects on the outside the first attempt of one fails, and the other is not tried again. Then, names of events that are none.
pub(super) const ATTEMPTS: &str = "\
from monohull import event, first_of, generation, invocation_id, slots, step
told = []
def pay(key):
    told.append(key)
    if len(told) < 2:
        raise OSError('busy')
    return 17
told.append(step('pay', pay, attempts=3, first=60, passes=OSError))
def refuse(key):
    told.append(key)
    raise ValueError('refused')
try:
    step('pay', refuse, attempts=3, passes=OSError)
except ValueError as error:
    told.append(error)
told += [invocation_id(), generation() > 0, first_of(['paid', 'cancelled'], timeout=0)]
for wrong in [lambda: first_of('paid'), lambda: first_of(['paid\\nlate', 'x']), lambda: first_of(['paid\\0', 'x']), lambda: event('paid\\nlate')]:
    try:
        wrong()
    except (TypeError, ValueError) as error:
        told.append(type(error).__name__)
slots.put('out', ' '.join(map(str, told)))
";

/// The invocation `one` of a program in a folder, from its first wait on.
struct Invocation<'a, Run: Fn(&Path, &[&str]) -> Output> {
    folder: &'a Path,
    monohull: Run,
}

impl<'a, Run: Fn(&Path, &[&str]) -> Output> Invocation<'a, Run> {
    #[track_caller]
    fn begin(folder: &'a Path, function: &Value, monohull: Run) -> Self {
        let document = json!({
            "name": "waits",
            "functions": { "app": function },
            "steps": [{ "name": "app", "function": "app" }],
            "outputs": ["out"],
        });
        fs::write(folder.join("waits.json"), document.to_string()).expect("written");
        let begun = Invocation { folder, monohull };
        begun.does(&["run", "waits.json", "--id", "one", "--detach", "--output", "out=out.txt"], 4);
        begun
    }

    /// Runs a command on the state folder: what it says.
    #[track_caller]
    fn does(&self, arguments: &[&str], code: i32) -> String {
        let output = (self.monohull)(self.folder, &[arguments, &["--state", "sleepers"]].concat());
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What the program has published.
    fn told(&self) -> String {
        fs::read_to_string(self.folder.join("out.txt")).expect("written")
    }
}

/// `function` is the program [`ANSWERS`].
pub(super) fn check_answers(folder: &Path, function: &Value, monohull: impl Fn(&Path, &[&str]) -> Output) {
    let one = Invocation::begin(folder, function, monohull);
    let shown = one.does(&["show", "one"], 0);
    let tokens = shown.split("tokens = ").nth(1).and_then(|rest| rest.lines().next()).expect("tokens");
    let (yes, no) = tokens.trim().split_once(' ').expect("two");
    assert!(yes.len() == 41 && no.len() == 41 && yes != no, "{tokens}");
    one.does(&["send", "one", &format!("{yes}:heartbeat")], 0);
    one.does(&["wake"], 0);
    one.does(&["send", "one", yes, "--data", "17"], 0);
    one.does(&["send", "one", &format!("{no}:rejected"), "--data", "too late"], 0);
    one.does(&["wake"], 0);
    assert_eq!(one.told(), "completed b'17', rejected b'too late', timed out b'', silent b''");
}

/// `function` is the program [`ATTEMPTS`]. The pause between two attempts is a sleep without a process.
pub(super) fn check_attempts(folder: &Path, function: &Value, monohull: impl Fn(&Path, &[&str]) -> Output) {
    let one = Invocation::begin(folder, function, monohull);
    one.does(&["wake", "--wait", "--skip-time"], 0);
    assert_eq!(
        one.told(),
        "one/app/0/pay/0 one/app/0/pay/0 17 one/app/0/pay/1 refused one True None TypeError ValueError ValueError ValueError"
    );
}

/// What ends as failed, for good. Its reason is an exception, of which not everything is a text.
pub(super) const FAILS: &str = "\
from monohull import fail, instance
print('attempt', instance.attempt)
fail(LookupError('there is no such ship: \\ud800\\0'), permanent=True)
";

/// `function` is the program [`FAILS`], which has one attempt.
pub(super) fn check_failure(folder: &Path, function: &Value, monohull: impl Fn(&Path, &[&str]) -> Output) {
    let document = json!({
        "name": "fails",
        "functions": { "app": function },
        "steps": [{ "name": "app", "function": "app", "retry": { "max_attempts": 3, "interval": "1ms" } }],
    });
    fs::write(folder.join("fails.json"), document.to_string()).expect("written");
    let output = monohull(folder, &["run", "fails.json", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let error = &report["error"];
    assert_eq!(
        (&error["kind"], &error["message"]),
        (&json!("permanent"), &json!("there is no such ship: ??")),
        "{report:#}"
    );
    let lines = &report["steps"][0]["instances"][0]["lines"];
    assert_eq!((lines.as_array().map(Vec::len), &lines[0]["text"]), (Some(1), &json!("attempt 1")), "{report:#}");
}
