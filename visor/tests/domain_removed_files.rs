//! An open file of the host that has lost its name cannot be captured: it would not be found again. The refusal says which one it is and whose,
//! and the workflow goes on unharmed.

mod support;

use monohull_visor::engine::{Event, RunEnd, RunOptions};
use monohull_visor::report::{Progress, RunReport, Stream};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use support::{ready, report};
use tempfile::TempDir;

/// Shorter waits are waited out.
const LEAST: Duration = Duration::from_millis(20);

/// Another process of the host: removes or renames the file once the function has opened it.
struct Beside(Box<dyn Fn() + Send + Sync>);

impl Progress for Beside {
    fn line(&self, _step: &str, _index: u32, _stream: Stream, text: &str) {
        // The function prints before it does the next thing.
        if text.ends_with(": held") {
            (self.0)();
        }
    }
}

/// Runs a function that tries all this, and is suspended whenever it waits, if it can be; how often it was.
fn tried(granted: &Path, tries: &Value, beside: impl Fn() + Send + Sync + 'static) -> (RunReport, u32) {
    tried_with_event(granted, tries, beside, None)
}

/// The same. When it waits for an event this one is given.
fn tried_with_event(
    granted: &Path,
    tries: &Value,
    beside: impl Fn() + Send + Sync + 'static,
    event: Option<&Event>,
) -> (RunReport, u32) {
    let ready = ready(&json!({
        "name": "tries",
        "functions": { "file-probe": { "image": "file-probe" } },
        "steps": [{ "name": "try", "function": "file-probe", "args": { "tries": tries }, "timeout": "600s" }],
        "files": [{ "at": "/host", "directory": granted, "access": "write" }],
    }));
    let _one = support::one_at_a_time();
    let progress = Arc::new(Beside(Box::new(beside)));
    let run = |continuation, events| {
        let options = RunOptions { events, ..RunOptions::default() };
        ready.run_from(continuation, Some(LEAST), &options, progress.clone()).expect("the host can hold a domain")
    };
    let (mut end, mut times) = (run(None, Vec::new()), 0);
    while let RunEnd::Suspended(suspended) = end {
        times += 1;
        let waits = suspended.waits.iter().any(|wait| wait.event.is_some());
        let events = event.filter(|_| waits).cloned();
        end = run(Some(suspended.continuation), events.into_iter().collect());
    }
    (report(end), times)
}

#[track_caller]
fn said(report: &RunReport) -> Vec<&str> {
    assert!(report.error.is_none(), "{:#?}", report.error);
    report.steps[0].instances[0].lines.iter().map(|line| line.text.as_str()).collect()
}

fn granted() -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "what it has").expect("a file");
    (folder, file)
}

/// The refusal names function, instance and file.
#[track_caller]
fn names_it(report: &RunReport) {
    let why = report.not_suspended.as_deref().expect("it was to be suspended");
    let expected = "function `file-probe`, instance try[0]: `/host/file` has been removed or renamed while it is open";
    assert!(why.starts_with(expected), "{why}");
}

#[test]
fn an_open_file_that_its_function_has_removed_is_in_the_way_and_named() {
    let (folder, _) = granted();
    let tries = json!([
        ["hold", "/host/file"],
        ["remove", "/host/file"],
        ["nap", "100"],
        ["read-held", "0"],
        ["write-held", "0", "more"],
    ]);
    let (report, times) = tried(folder.path(), &tries, || ());
    let lines = said(&report);
    assert_eq!(lines[2..], ["nap 100: napped", "read-held 0: 11 bytes", "write-held 0 more: 4 bytes"]);
    assert_eq!((times, report.suspended), (0, None));
    names_it(&report);
}

#[test]
fn so_is_one_that_another_process_has_removed_renamed_or_replaced() {
    type Change = fn(&Path);
    let changes: [Change; 3] = [
        |file| fs::remove_file(file).expect("removed"),
        |file| fs::rename(file, file.with_file_name("other")).expect("renamed"),
        |file| {
            fs::write(file.with_file_name("new"), "another file").expect("a file");
            fs::rename(file.with_file_name("new"), file).expect("replaced");
        },
    ];
    for change in changes {
        let (folder, file) = granted();
        let tries = json!([["hold", "/host/file"], ["nap", "100"], ["read-held", "0"]]);
        let (report, times) = tried(folder.path(), &tries, move || change(&file));
        assert_eq!(said(&report), ["hold /host/file: held", "nap 100: napped", "read-held 0: 11 bytes"]);
        assert_eq!(times, 0);
        names_it(&report);
    }
}

#[test]
fn one_that_has_its_name_is_not_in_the_way() {
    let (folder, _) = granted();
    let tries = json!([["hold", "/host/file"], ["nap", "100"], ["read-held", "0"]]);
    let (report, times) = tried(folder.path(), &tries, || ());
    assert_eq!(said(&report), ["hold /host/file: held", "nap 100: napped", "read-held 0: 11 bytes"]);
    assert!(times >= 1 && report.not_suspended.is_none(), "{times}, {:?}", report.not_suspended);
    assert_eq!(report.suspended.map(|suspended| suspended.times), Some(times.into()));
}

/// What was in the way of one capture is not in the way of the next: the wait for an event is suspended once the file is closed.
#[test]
fn a_workflow_that_could_not_be_suspended_is_in_a_later_wait() {
    let event = Event { number: 0, name: "approved".to_owned(), bytes: b"yes".to_vec() };
    let tries = [
        json!([["hold", "/host/file"], ["remove", "/host/file"], ["nap", "400"], ["let-go"], ["event", "approved"]]),
        json!([
            ["hold", "/host/file"],
            ["remove", "/host/file"],
            ["nap", "400"],
            ["let-go"],
            ["event-within", "approved", "600000"],
        ]),
    ];
    for tries in tries {
        let (folder, _) = granted();
        let (report, times) = tried_with_event(folder.path(), &tries, || (), Some(&event));
        let lines = said(&report);
        assert_eq!(lines[2..4], ["nap 400: napped", "let-go: let go"]);
        assert!(lines[4].starts_with("event") && lines[4].ends_with(": yes"), "{lines:?}");
        assert_eq!((times, report.not_suspended), (1, None));
    }
}

/// A wait that can neither end nor be suspended is a deadlock, each time.
#[test]
fn an_event_that_cannot_arrive_is_a_deadlock_as_long_as_the_file_is_open() {
    let (folder, _) = granted();
    let tries = json!([
        ["hold", "/host/file"],
        ["remove", "/host/file"],
        ["event", "approved"],
        ["event", "approved"],
        ["let-go"],
        ["event", "approved"],
    ]);
    let event = Event { number: 0, name: "approved".to_owned(), bytes: b"yes".to_vec() };
    let (report, times) = tried_with_event(folder.path(), &tries, || (), Some(&event));
    let lines = said(&report);
    for line in &lines[2..4] {
        assert!(line.contains("the workflow cannot be suspended until it is sent"), "{line}");
    }
    assert_eq!((lines[5], times), ("event approved: yes", 1));
}
