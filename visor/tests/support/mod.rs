//! Running workflows inside the test's own process, one at a time, as there can be one domain only.
//!
//! Images and modules come from `cargo xtask build`; `cargo xtask test` does both.
#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod handover;
pub(crate) mod letter;
pub(crate) mod sleeper;
pub(crate) mod untimed;

use monohull_visor::domain::checkpoint::Suspended;
use monohull_visor::domain::keys;
use monohull_visor::engine::{IsolationWish, Ready, RunEnd, RunOptions};
use monohull_visor::report::{Content, Progress, RunReport, Silent};
use monohull_visor::workflow;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("visor lies in the root")
}

/// The image of an example.
pub(crate) fn image(name: &str) -> PathBuf {
    let path = root().join("target/images").join(name).with_extension("so");
    assert!(path.exists(), "{}: images are built first: run `cargo xtask test`", path.display());
    path
}

/// A workflow document whose images are names of examples, ready to run.
pub(crate) fn ready(document: &Value) -> Ready {
    let mut document = document.clone();
    for function in document["functions"].as_object_mut().expect("functions").values_mut() {
        let path = image(function["image"].as_str().expect("an image's name"));
        function["image"] = path.to_str().expect("a path in UTF-8").into();
    }
    let plan = workflow::load_str(Path::new("test.json"), &document.to_string()).expect("a right workflow");
    Ready::new(plan).expect("right images")
}

/// A shipped workflow, `workflows/NAME.json`, ready to run.
pub(crate) fn shipped(name: &str) -> Ready {
    let path = root().join("workflows").join(name).with_extension("json");
    Ready::new(workflow::load(&path).expect("a right workflow")).expect("right images")
}

/// Held while a domain exists: the tests of one program run in several threads.
pub(crate) fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    // A test that failed has dropped its domain all the same.
    ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Runs a document once.
pub(crate) fn run(document: &Value) -> RunReport {
    run_with(document, &RunOptions::default(), Arc::new(Silent))
}

/// Runs a document once, with options and a watcher.
pub(crate) fn run_with(document: &Value, options: &RunOptions, progress: Arc<dyn Progress>) -> RunReport {
    let ready = ready(document);
    let _one = one_at_a_time();
    let report = ready.run(options, progress).expect("the host can hold a domain");
    // A test that is to show something with keys in force shows nothing if this program keeps them out of force. A workflow that was
    // refused has none of either.
    if options.isolation == IsolationWish::Auto && keys::by_default() && report.isolation != "none" {
        assert_eq!(report.isolation, "mpk", "{:?}", report.isolation_note);
    }
    report
}

/// The text of an output slot.
#[track_caller]
pub(crate) fn text<'r>(report: &'r RunReport, slot: &str) -> &'r str {
    let output = report.output.get(slot).unwrap_or_else(|| panic!("no output {slot}: {:#?}", report.error));
    match &output.content {
        Some(Content::Text(text)) => text,
        other => panic!("{slot} is no text: {other:?}"),
    }
}

/// The report of a run that has ended.
#[track_caller]
pub(crate) fn report(end: RunEnd) -> RunReport {
    match end {
        RunEnd::Report(report) => *report,
        RunEnd::Suspended(suspended) => panic!("it waits for {:#?}", suspended.waits),
        RunEnd::HandedOver => unreachable!("it stands still nowhere"),
    }
}

/// What is left of a run that waits.
#[track_caller]
pub(crate) fn suspended(end: RunEnd) -> Suspended {
    match end {
        RunEnd::Suspended(suspended) => *suspended,
        RunEnd::Report(report) => panic!("it has ended: {:#?}", report.error),
        RunEnd::HandedOver => unreachable!("it stands still nowhere"),
    }
}
