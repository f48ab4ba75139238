//! `monohull resume` keeps what a run was: what it has published, its timeline, its waits for events, and how it was confined.

#[path = "support/program.rs"]
mod program;

use monohull_checkpoint::Key;
use monohull_engine::IsolationWish;
use monohull_saved::{Confined, Engine, OwnCgroup, Saved};
use monohull_visor::worker::{Bounds, copy_continuation};
use monohull_visor::workflow;
use program::{NAP, document, image, monohull, refused, suspend, write_sleepers};
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A workflow of one step.
fn one_step(function: &str, args: Value, output: &str) -> Value {
    json!({
        "name": function,
        "functions": { function: {} },
        "steps": [{ "name": function, "function": function, "args": args }],
        "outputs": [output],
    })
}

/// The folder of a workflow that waits for events, and its checkpoint.
fn inbox(args: Value) -> (TempDir, String) {
    let folder = TempDir::new().expect("a folder");
    let waits = suspend(folder.path(), "inbox", &one_step("inbox", args, "result"));
    (folder, waits.checkpoint)
}

#[test]
fn what_was_published_before_is_in_the_report() {
    let folder = TempDir::new().expect("a folder");
    let mut workflow = one_step("counter", json!({}), "total");
    workflow["functions"]["counter"]["image"] = json!(image("counter"));
    fs::write(folder.path().join("w.json"), workflow.to_string()).expect("written");
    fs::write(folder.path().join("event"), "5").expect("written");
    let run = |args: &[&str]| document(&monohull(folder.path(), &[args, &["--json"]].concat()));
    let mut at = run(&["run", "w.json", "--suspend", "waiting"]);
    for _ in 0..2 {
        assert_eq!(at["status"], "suspended", "{at:#}");
        at = run(&["resume", at["checkpoint"].as_str().expect("a path"), "--suspend", "again"]);
    }
    let checkpoint = at["checkpoint"].as_str().expect("a path");
    let report = run(&["resume", checkpoint, "--event", "close=event"]);
    // It has published this once, two processes ago.
    assert_eq!(report["published"], json!({ "count": "0" }), "{report:#}");
    let report = run(&["resume", checkpoint, "--event", "add=event", "--event", "close=event"]);
    assert_eq!(report["published"], json!({ "count": "5" }), "{report:#}");
}

/// Nothing has run, so no verdict is given, and the checkpoint is as good as before.
#[test]
fn what_the_host_has_taken_away_may_come_back() {
    let folder = TempDir::new().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("granted")).expect("made");
    let args = json!({ "naps": 1, "milliseconds": NAP, "takes": "", "fills": "result" });
    let mut workflow = one_step("sleeper", args, "result");
    workflow["files"] = json!([{ "at": "/data", "directory": "granted", "access": "write" }]);
    let waits = suspend(folder.path(), "sleeper", &workflow);
    let resume = |args: &[&str]| monohull(folder.path(), &[&["resume", &waits.checkpoint], args].concat());

    fs::rename(at("granted"), at("away")).expect("renamed");
    let why = "it cannot go on now: the files at /data";
    refused(&resume(&[]), 3, why);
    refused(&resume(&["--suspend", "again"]), 3, why);
    assert_eq!(document(&resume(&["--json"]))["status"], "refused");
    assert_eq!(resume(&["--count", "2"]).status.code(), Some(3));
    // That does not pass by itself.
    fs::write(at("granted"), "a file").expect("written");
    refused(&resume(&[]), 2, why);
    assert!(!at("result.txt").exists());

    fs::remove_file(at("granted")).expect("removed");
    fs::rename(at("away"), at("granted")).expect("renamed");
    assert_eq!(resume(&[]).status.code(), Some(0));
    assert!(at("result.txt").exists());
}

/// Nothing is wrong with what is kept: it goes on when the other program has ended, also by itself.
#[test]
fn an_address_that_another_program_has_is_waited_for() {
    const OWN: &str = "127.83.61.47";
    let folder = TempDir::new().expect("a folder");
    let free = TcpListener::bind((OWN, 0)).expect("loopback");
    let at = free.local_addr().expect("an address");
    drop(free);
    let workflow = json!({
        "name": "waits",
        "functions": { "waits": { "image": image("libc-waits") } },
        "network": { "mode": "host", "listen": [format!("{OWN}:*")], "connect": [format!("{OWN}:*")] },
        "steps": [{ "name": "waits", "function": "waits", "args": { "argv": ["owns", NAP.to_string(), at.port().to_string()] } }],
    });
    fs::write(folder.path().join("w.json"), workflow.to_string()).expect("written");
    let command = |args: &[&str]| monohull(folder.path(), args);
    let waits = command(&["run", "w.json", "--suspend", "waiting", "--json"]);
    assert_eq!(waits.status.code(), Some(4), "{waits:?}");
    let checkpoint = document(&waits)["checkpoint"].as_str().expect("a path").to_owned();
    let other = TcpListener::bind(at).expect("the workflow has let it go");
    refused(&command(&["resume", &checkpoint]), 3, "the address is in use");
    drop(other);
    let resumed = command(&["resume", &checkpoint]);
    assert_eq!(resumed.status.code(), Some(0), "{resumed:?}");

    let id = document(&command(&["run", "w.json", "--state", "state", "--detach", "--json"]))["id"].clone();
    let other = TcpListener::bind(at).expect("the workflow has let it go");
    std::thread::sleep(Duration::from_millis(NAP));
    command(&["wake", "--state", "state"]);
    let shown = || document(&command(&["show", id.as_str().expect("an id"), "--state", "state", "--json"]));
    let tried = shown();
    assert!(tried["status"] == "suspended" && tried["reason"].to_string().contains("in use"), "{tried:#}");
    drop(other);
    let begin = Instant::now();
    while shown()["status"] != "completed" {
        assert!(begin.elapsed() < Duration::from_secs(60), "{:#}", shown());
        std::thread::sleep(Duration::from_millis(200));
        command(&["wake", "--state", "state"]);
    }
}

#[test]
fn the_timeline_is_that_of_an_uninterrupted_run() {
    let folder = TempDir::new().expect("a folder");
    write_sleepers(folder.path(), NAP);
    let run = |args: &[&str]| document(&monohull(folder.path(), &[args, &["--json"]].concat()));
    let points = |report: &Value| {
        let points = report["timeline"].as_array().unwrap_or_else(|| panic!("{report:#}"));
        let points = points.iter().map(|point| {
            let name = point["name"].as_str().expect("a name").to_owned();
            (name, point["at_ns"].as_u64().expect("a time"))
        });
        points.collect::<Vec<_>>()
    };
    let uninterrupted = points(&run(&["run", "w.json"]));
    let mut at = run(&["run", "w.json", "--suspend", "waiting"]);
    while at["status"] == "suspended" {
        at = run(&["resume", at["checkpoint"].as_str().expect("a path"), "--suspend", "waiting"]);
    }
    let resumed = points(&at);
    assert!(resumed.is_sorted_by_key(|(_, at_ns)| *at_ns), "{resumed:?}");
    let names = |points: &[(String, u64)]| points.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let gone_on = resumed.iter().position(|(name, _)| name == "gone-on").expect("it has gone on");
    assert!(resumed[gone_on - 1].0 == "first-instruction", "it has run before: {resumed:?}");
    let mut without = names(&resumed);
    without.remove(gone_on);
    assert_eq!(without, names(&uninterrupted));
    assert!(at["cold_start_us"].as_u64().is_some_and(|us| us > 0 && us < 60_000_000), "{at:#}");
}

/// The clock is moved where a workflow only waits, also where each copy does so.
#[test]
fn time_is_skipped_after_a_suspension() {
    const DAY: u64 = 86_400_000;
    let folder = TempDir::new().expect("a folder");
    let args = json!({ "naps": 3, "milliseconds": DAY, "takes": "", "fills": "result" });
    let waits = suspend(folder.path(), "sleeper", &one_step("sleeper", args, "result"));
    for more in [&[][..], &["--count", "2"]] {
        let begin = Instant::now();
        let output = monohull(folder.path(), &[&["resume", &waits.checkpoint, "--skip-time"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
    assert!(fs::read_to_string(folder.path().join("result.txt")).expect("the output").starts_with("3 naps"));
}

#[test]
fn a_wait_for_an_event_ends_in_its_time() {
    let (folder, checkpoint) = inbox(json!({ "events": ["a"], "fills": "result", "timeout_ms": 2 * NAP }));
    let output = monohull(folder.path(), &["resume", &checkpoint]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(fs::read_to_string(folder.path().join("result.txt")).expect("the output"), "a is late\n");
}

/// Where something else goes on by itself, a wait for an event is that workflow's own matter.
#[test]
fn a_workflow_that_goes_on_by_itself_needs_no_event() {
    let folder = TempDir::new().expect("a folder");
    let workflow = json!({
        "name": "both",
        "functions": { "inbox": { "image": image("inbox") }, "sleeper": { "image": image("sleeper") } },
        "steps": [
            { "name": "inbox", "function": "inbox", "args": { "events": ["a"], "fills": "result" } },
            { "name": "sleeper", "function": "sleeper", "args": { "naps": 1, "milliseconds": 2 * NAP, "takes": "", "fills": "slept" } },
        ],
        "outputs": ["result", "slept"],
    });
    fs::write(folder.path().join("w.json"), workflow.to_string()).expect("written");
    let output = monohull(folder.path(), &["run", "w.json", "--suspend", "waiting", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let checkpoint = document(&output)["checkpoint"].as_str().expect("a path").to_owned();
    // The wait fails when nothing else is left.
    let output = monohull(folder.path(), &["resume", &checkpoint, "--json"]);
    assert_ne!(document(&output)["status"], "refused", "{output:?}");
}

#[test]
fn a_wait_for_an_event_without_an_end_needs_the_event() {
    let (folder, checkpoint) = inbox(json!({ "events": ["a", "b"], "fills": "result" }));
    fs::write(folder.path().join("event"), "1").expect("written");
    let resume = |more: &[&str]| monohull(folder.path(), &[&["resume", &checkpoint], more].concat());
    refused(&resume(&[]), 2, "it waits for event `a`");
    refused(&resume(&["--event", "b=event"]), 2, "it waits for event `a`");
    let output = resume(&["--json"]);
    assert_eq!((output.status.code(), &document(&output)["status"]), (Some(2), &json!("refused")));
    let output = resume(&["--suspend", "again", "--event", "b=event", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let again = document(&output)["checkpoint"].as_str().expect("a path").to_owned();
    // The event that it was given before is kept.
    let output = monohull(folder.path(), &["resume", &again, "--event", "a=event"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(fs::read_to_string(folder.path().join("result.txt")).expect("the output"), "a: 1\nb: 1\n");
    // Where another wait follows for which nothing can come, that fails.
    let output = resume(&["--event", "a=event"]);
    assert_eq!(output.status.code(), Some(0), "the function has it in its log: {output:?}");
    let log = fs::read_to_string(folder.path().join("result.txt")).expect("the output");
    assert!(log.starts_with("a: 1\n") && log.contains("event `b` cannot arrive"), "{log}");
}

/// Reads a checkpoint, and writes it anew with another engine section.
fn changed(path: &Path, change: impl FnOnce(&mut Engine)) -> PathBuf {
    let key = Key::load(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("monohull/checkpoint.key")).expect("the key");
    let saved = read(path, &key);
    let Saved { workflow, generation, document, functions, mut engine, continuation } = saved;
    change(&mut engine);
    let continuation = copy_continuation(&continuation, Bounds::NONE).expect("it is right");
    let saved = Saved { workflow, generation, document, functions, engine, continuation };
    let folder = path.parent().expect("a folder");
    saved.write(&folder.join("changed"), "changed", &key, None).expect("written").path
}

fn read(path: &Path, key: &Key) -> Saved<std::os::fd::OwnedFd> {
    let plan = |document: &[u8], engine: &Engine| {
        workflow::check_bytes(&engine.file, document).into_plan().map_err(|error| error.to_string())
    };
    Saved::read(path, key, plan).expect("a checkpoint")
}

#[test]
fn a_run_is_confined_as_it_was_unless_told_otherwise() {
    let folder = TempDir::new().expect("a folder");
    write_sleepers(folder.path(), 2 * NAP);
    let key = Path::new(env!("CARGO_TARGET_TMPDIR")).join("monohull/checkpoint.key");
    let run = |args: &[&str]| monohull(folder.path(), &[args, &["--json"]].concat());
    let confined = |output: &std::process::Output| {
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        let path = folder.path().join(document(output)["checkpoint"].as_str().expect("a path"));
        let confined = read(&path, &Key::load(&key).expect("the key")).engine.confined;
        (path.to_str().expect("a path").to_owned(), confined)
    };
    let of = |isolation, cgroup| Confined { isolation, cgroup };
    let (first, kept) =
        confined(&run(&["run", "w.json", "--suspend", "waiting", "--isolation", "process", "--cgroup", "auto"]));
    assert_eq!(kept, of(IsolationWish::Process, OwnCgroup::Auto));
    let (_, kept) = confined(&run(&["resume", &first, "--suspend", "again"]));
    assert_eq!(kept, of(IsolationWish::Process, OwnCgroup::Auto), "as before");
    let (_, kept) =
        confined(&run(&["resume", &first, "--suspend", "again", "--isolation", "auto", "--cgroup", "never"]));
    assert_eq!(kept, of(IsolationWish::Auto, OwnCgroup::Never), "as told");
    // What this host does not have is as missing as for a run that asks for it.
    for (option, more) in [("--isolation", "mpk"), ("--cgroup", "require")] {
        let asked = run(&["run", "w.json", "--suspend", "waiting", option, more]);
        let strict = changed(Path::new(&first), |engine| match option {
            "--isolation" => engine.confined.isolation = IsolationWish::Mpk,
            _ => engine.confined.cgroup = OwnCgroup::Require,
        });
        let strict_path = strict.to_str().expect("a path");
        let resumed = run(&["resume", strict_path, "--suspend", "again"]);
        assert_eq!(resumed.status.code(), asked.status.code(), "{more}: {resumed:?}");
        let weaker = if option == "--isolation" { "process" } else { "never" };
        let resumed = run(&["resume", strict_path, "--suspend", "again", option, weaker]);
        assert_eq!(resumed.status.code(), Some(4), "{resumed:?}");
        fs::remove_file(strict).expect("it is there");
    }
}
