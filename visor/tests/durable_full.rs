//! The disk is full, or may only be read, when a durable invocation is changed: nothing is lost or half done, the error says what cannot be written and where,
//! and the same works once there is room.

#[path = "support/program.rs"]
mod program;
mod serve_support;
#[path = "support/stops.rs"]
mod stops;

use program::{command, document, monohull, write_workflow_of};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::{Value, json};
use serve_support::{Server, eventually, single};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};
use stops::copy;
use tempfile::TempDir;

const DAY: u64 = 86_400_000;

/// A folder with `state`, where `one` waits for an event, `asleep` and `held` sleep for a day, `held` is paused, `ended` was cancelled, and `asleep` was
/// exported.
fn prepared() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    let run = |args: &[&str], exit: i32| {
        let output = monohull(path, args);
        assert_eq!(output.status.code(), Some(exit), "{args:?}: {output:?}");
    };
    let agent = json!({ "rounds": 3, "milliseconds": DAY });
    write_workflow_of(path, "agent", "forked", &json!([{ "name": "a", "function": "forked", "args": agent }]));
    for id in ["asleep", "held", "ended"] {
        run(&["run", "w.json", "--state", "state", "--id", id, "--detach"], 4);
    }
    let inbox = json!({ "events": ["a", "b"], "fills": "result" });
    write_workflow_of(path, "inbox", "inbox", &json!([{ "name": "i", "function": "inbox", "args": inbox }]));
    run(&["run", "w.json", "--state", "state", "--id", "one", "--detach", "--output", "result=result.txt"], 4);
    run(&["pause", "held", "--state", "state"], 0);
    run(&["cancel", "ended", "--state", "state"], 0);
    run(&["export", "asleep", "--to", "asleep.invocation", "--state", "state"], 0);
    folder
}

/// Each verb that writes, and the exit code of the one that has room.
const VERBS: [(&[&str], i32); 12] = [
    (&["run", "w.json", "--id", "new", "--detach", "--output", "result=new.txt"], 4),
    (&["send", "one", "a", "--data", "x"], 0),
    (&["pause", "asleep"], 0),
    (&["resume", "held"], 0),
    (&["cancel", "asleep"], 0),
    (&["kill", "asleep"], 0),
    (&["fork", "asleep", "--count", "2"], 0),
    (&["rewind", "asleep", "--to", "1"], 0),
    (&["checkpoints", "asleep", "--label", "here"], 0),
    (&["purge", "ended"], 0),
    (&["import", "asleep.invocation", "--id", "other"], 0),
    (&["wake"], 0),
];

fn show(folder: &Path, id: &str, state: &str) -> Value {
    document(&monohull(folder, &["show", id, "--state", state, "--json"]))
}

/// All that is known of the invocations, but for when and how often they were looked at.
fn all(folder: &Path, state: &str) -> Value {
    let mut listed = document(&monohull(folder, &["ps", "--state", state, "--json"]));
    let rows = listed["invocations"].as_array_mut().expect("a list");
    let shown = rows.iter().map(|row| {
        let id = row["id"].as_str().expect("an id");
        let mut shown = show(folder, id, state);
        let kept = document(&monohull(folder, &["checkpoints", id, "--state", state, "--json"]));
        shown["kept"] = kept["checkpoints"].clone();
        shown
    });
    shown.collect()
}

/// It was refused by the host, and says what cannot be written and where.
#[track_caller]
fn is_refused(verb: &str, output: &Output, state: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{verb}: {output:?}");
    assert!(errors.contains(&format!("/{state}")) && !errors.contains("panicked"), "{verb}: {errors}");
}

/// Runs each verb on a copy of the state folder where it cannot write, and then where it can.
fn each_verb(trouble: impl Fn(&Path, &str, &[&str]) -> Output) {
    let folder = prepared();
    let path = folder.path();
    let before = all(path, "state");
    assert_eq!(before.as_array().map(Vec::len), Some(4), "{before:#}");
    for (number, (verb, exit)) in VERBS.into_iter().enumerate() {
        let state = format!("state-{number}");
        copy(&path.join("state"), &path.join(&state));
        if verb[0] == "wake" {
            // Something is due.
            assert_eq!(monohull(path, &["send", "one", "a", "--data", "x", "--state", &state]).status.code(), Some(0));
        }
        let unchanged = all(path, &state);
        let args = [verb, &["--state", &state]].concat();
        is_refused(verb[0], &trouble(path, &state, &args), &state);
        if verb[0] != "wake" {
            assert_eq!(all(path, &state), unchanged, "{verb:?}");
        }
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let output = monohull(path, &args);
            assert_eq!(output.status.code(), Some(exit), "{verb:?}: {output:?}");
            if verb[0] != "wake" || show(path, "one", &state)["waiting_for"][0]["event"] == "b" {
                break;
            }
            // What the host has failed at is tried again some seconds later.
            assert!(Instant::now() < end, "{output:?}");
            sleep(Duration::from_millis(200));
        }
        assert_ne!(all(path, &state), unchanged, "{verb:?} does something");
        fs::remove_dir_all(path.join(&state)).expect("removed");
    }
}

#[test]
fn each_verb_of_a_full_disk_says_so_and_loses_nothing() {
    each_verb(|folder, _, args| {
        let mut command = command(folder, args);
        let limit = || Ok(setrlimit(Resource::Fsize, Rlimit { current: Some(0), maximum: None })?);
        // SAFETY: one system call between fork and exec; it takes no lock and no memory.
        unsafe { command.pre_exec(limit) };
        command.output().expect("the program starts")
    });
}

/// A folder on a disk that may only be read, in a name space of mounts that only the program sees.
#[test]
fn each_verb_of_a_disk_that_may_only_be_read_says_so_and_loses_nothing() {
    let may = Command::new("unshare").args(["-rm", "true"]).output().is_ok_and(|output| output.status.success());
    if !may {
        eprintln!("not tried: this host lets no process have mounts of its own");
        return;
    }
    each_verb(|folder, state, args| {
        let program = command(folder, args);
        let mount = r#"mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@""#;
        let mut command = Command::new("unshare");
        command.current_dir(folder).args(["-rm", "sh", "-c", mount, "sh"]).arg(folder.join(state));
        command.arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.output().expect("unshare starts")
    });
}

/// The same over HTTP: 507, and nothing is changed.
#[test]
fn each_request_of_a_full_disk_is_refused_and_works_later() {
    let server = Server::start_with(&["--suspend", "1s"]);
    for example in ["inbox", "forked"] {
        server.put_example(example);
    }
    let events = json!({ "events": ["a", "b"], "fills": "result" });
    server.put_workflow(&single("inbox", "inbox", &json!({ "args": events, "outputs": ["result"] })));
    let agent = json!({ "args": { "rounds": 3, "milliseconds": DAY }, "outputs": ["diary"] });
    server.put_workflow(&single("agent", "forked", &agent));
    for (workflow, id) in
        [("inbox", "one"), ("agent", "asleep"), ("agent", "held"), ("agent", "ended"), ("agent", "killed")]
    {
        server.post(&format!("/async-invoke/{workflow}?id={id}"), b"").expect(202);
        let at = format!("/invocations/{id}");
        eventually("it waits", || server.get(&at).json()["status"] == "suspended");
    }
    server.post("/invocations/held/pause", b"").expect(200);
    server.post("/invocations/ended/cancel", b"").expect(200);
    let file = server.get("/invocations/asleep/checkpoint").expect(200).body;
    let requests: [(&str, &[u8], u16); 11] = [
        ("/async-invoke/inbox?id=new", b"", 202),
        ("/invocations/one/events/a", b"x", 202),
        ("/invocations/asleep/checkpoints", br#"{"label": "here"}"#, 201),
        ("/invocations/asleep/fork", br#"{"ids": ["copy"]}"#, 200),
        ("/invocations/asleep/rewind", br#"{"to": 1}"#, 200),
        ("/invocations/asleep/pause", b"", 200),
        ("/invocations/held/resume", b"", 200),
        ("/invocations/asleep/cancel", b"", 200),
        ("/invocations/killed/kill", b"", 200),
        ("/invocations/ended/purge", b"", 204),
        ("/invocations?id=other", &file, 201),
    ];
    let shown = |id: &str| server.get(&format!("/invocations/{id}")).json();
    let ids = ["one", "asleep", "held", "ended", "killed", "new", "copy", "other"];
    let before = ids.map(shown);
    server.limit_files(Some(0));
    for (path, body, _) in requests {
        let answer = server.post(path, body);
        let error = answer.json()["error"].clone();
        let message = error["message"].as_str().unwrap_or_default();
        // This limit, unlike a disk, bounds files in memory too: in such the checkpoint is looked at.
        let status = if message.contains("in memory") { 500 } else { 507 };
        assert_eq!((answer.status, &error["blame"]), (status, &json!("host")), "{path}: {error:#}");
        assert!(message.contains(server.state().path().to_str().expect("text")), "{path}: {message}");
    }
    assert_eq!(ids.map(shown), before, "nothing has changed");
    server.limit_files(None);
    for (path, body, status) in requests {
        server.post(path, body).expect(status);
    }
    server.post("/invocations/one/events/b", b"y").expect(202);
    let result = server.get("/invocations/one/outputs/result?wait=120s").expect(200).text();
    assert_eq!(result, "a: x\nb: y\n", "each event came once");
}
