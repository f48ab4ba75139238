//! What passes through the tree: jobs down, lines, progress, reports and outputs up.

use crate::support;
use crate::watch::{job, listen, one_step, run};
use crate::{Spawners, Test};
use monohull_visor::domain::host_time::monotonic_ns;
use monohull_visor::report::{FailureKind, Status};
use monohull_visor::worker::{Cause, Data, Job, Notice};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

pub(crate) const TESTS: &[Test] = &[
    ("a_workflow_runs_and_its_process_ends", a_workflow_runs_and_its_process_ends),
    ("every_shipped_workflow_runs", every_shipped_workflow_runs),
    ("slots_of_any_size_pass_through", slots_of_any_size_pass_through),
    ("an_input_may_be_an_open_file", an_input_may_be_an_open_file),
    ("output_and_progress_are_reported_as_they_happen", output_and_progress_are_reported_as_they_happen),
    ("unrequested_notices_are_not_sent", unrequested_notices_are_not_sent),
    ("a_report_longer_than_a_message_arrives_whole", a_report_longer_than_a_message_arrives_whole),
    ("a_workflow_is_run_again_in_its_process", a_workflow_is_run_again_in_its_process),
    ("the_timeline_is_in_order", the_timeline_is_in_order),
    ("more_files_than_fit_into_a_message", more_files_than_fit_into_a_message),
];

fn a_workflow_runs_and_its_process_ends(spawners: &Spawners) {
    let received = run(&spawners.usual, &job(&one_step("no-op", json!({})), Vec::new()));
    assert_eq!(received.report().status, Status::Done);
    assert_eq!((&received.death().cause, received.death().answered), (&Cause::Exited(0), true));
    assert_eq!(received.death().stderr, "");
}

fn every_shipped_workflow_runs(spawners: &Spawners) {
    let inputs = |name: &str| match name {
        "word-count" => vec![("text".to_owned(), Data::Bytes(b"one fish two fish\nred fish blue fish\n".to_vec()))],
        "parallel-sort" => vec![("lines".to_owned(), Data::Bytes(b"17\n4\n300\n4\n99\n".to_vec()))],
        _ => Vec::new(),
    };
    for name in ["no-op", "function-chain", "json-report", "parallel-sort", "std-tour", "word-count"] {
        for worker in [&spawners.usual, &spawners.quiet] {
            let job = Job::new(Arc::new(support::shipped(name)), inputs(name));
            let received = run(worker, &job);
            assert_eq!(received.report().status, Status::Done, "{name}: {:?}", received.report().error);
        }
    }
}

/// A workflow whose input slots, untouched, are its outputs.
fn through(slots: &[String]) -> Value {
    let mut document = one_step("no-op", json!({}));
    document["inputs"] = json!(slots);
    document["outputs"] = json!(slots);
    document
}

/// Bytes that show when some are missing or moved.
fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|index| (index * 7 + index / 251) as u8).collect()
}

fn slots_of_any_size_pass_through(spawners: &Spawners) {
    for size in [0, 1, 4096, 16 << 10, (16 << 10) + 1, 100_000, 3 << 20] {
        let document = through(&["slot".to_owned()]);
        let received = run(&spawners.usual, &job(&document, vec![("slot".to_owned(), Data::Bytes(pattern(size)))]));
        assert_eq!(received.report().output["slot"].bytes, size as u64);
        let [(slot, data)] = <[_; 1]>::try_from(received.outputs).expect("one output");
        assert_eq!((slot.as_str(), data.size().expect("its size")), ("slot", size as u64));
        assert!(data.into_bytes().expect("its bytes") == pattern(size), "{size} bytes came out otherwise");
    }
}

fn an_input_may_be_an_open_file(spawners: &Spawners) {
    let mut path = std::env::temp_dir();
    path.push(format!("monohull-process-input-{}", std::process::id()));
    File::create(&path).and_then(|mut file| file.write_all(&pattern(50_000))).expect("a file for the test");
    let file = OwnedFd::from(File::open(&path).expect("it is there"));
    std::fs::remove_file(&path).expect("it is ours");
    let document = through(&["slot".to_owned()]);
    let received = run(&spawners.usual, &job(&document, vec![("slot".to_owned(), Data::File(file))]));
    let [(_, data)] = <[_; 1]>::try_from(received.outputs).expect("one output");
    assert!(data.into_bytes().expect("its bytes") == pattern(50_000));
}

fn output_and_progress_are_reported_as_they_happen(spawners: &Spawners) {
    let received = run(&spawners.usual, &job(&one_step("std-tour", json!({})), Vec::new()));
    let count = |wanted: fn(&Notice) -> bool| received.notices.iter().filter(|notice| wanted(notice)).count();
    assert_eq!(count(|notice| matches!(notice, Notice::StepStarted { instances: 1, .. })), 1, "{:?}", received.notices);
    assert_eq!(count(|notice| matches!(notice, Notice::InstanceEnded { instance: 0, ok: true, .. })), 1);
    assert_eq!(count(|notice| matches!(notice, Notice::StepEnded { step } if step == "step")), 1);
    assert!(count(|notice| matches!(notice, Notice::Point { .. })) >= 2);
    let lines: Vec<&str> = received.notices.iter().filter_map(printed).collect();
    assert!(!lines.is_empty());
    assert!(received.report().steps[0].instances[0].lines.is_empty(), "they were sent before");
}

fn printed(notice: &Notice) -> Option<&str> {
    match notice {
        Notice::Line { text, .. } => Some(text),
        _ => None,
    }
}

fn unrequested_notices_are_not_sent(spawners: &Spawners) {
    let mut job = job(&one_step("std-tour", json!({})), Vec::new());
    (job.lines, job.progress) = (false, false);
    let received = run(&spawners.usual, &job);
    assert!(received.notices.is_empty(), "{:?}", received.notices);
    assert!(!received.report().steps[0].instances[0].lines.is_empty(), "the report has them");
}

fn a_report_longer_than_a_message_arrives_whole(spawners: &Spawners) {
    let mut document = one_step("misbehave", json!({ "how": "output-flood" }));
    document["limits"] = json!({ "output": "2MiB" });
    let mut job = job(&document, Vec::new());
    job.lines = false;
    let received = run(&spawners.usual, &job);
    let lines = &received.report().steps[0].instances[0].lines;
    assert!(lines.iter().map(|line| line.text.len()).sum::<usize>() > 500_000);
}

fn a_workflow_is_run_again_in_its_process(spawners: &Spawners) {
    let mut document = one_step("misbehave", json!({ "how": "flaky-after-writing" }));
    document["steps"] = json!([
        { "name": "input", "function": "f", "args": { "how": "make-input" } },
        {
            "name": "step", "function": "f", "after": ["input"], "args": { "how": "flaky-after-writing" },
            "retry": { "max_attempts": 3, "interval": "1ms" }
        }
    ]);
    document["outputs"] = json!(["result"]);
    let received = run(&spawners.usual, &job(&document, Vec::new()));
    assert_eq!(received.report().status, Status::Done, "{:?}", received.report().error);
    assert!(received.report().steps[0].attempts > 1, "all of it was run again");
}

fn the_timeline_is_in_order(spawners: &Spawners) {
    let job = job(&one_step("no-op", json!({})), Vec::new());
    let received = run(&spawners.usual, &job);
    let timeline = &received.report().timeline;
    let names: Vec<&str> = timeline.iter().map(|point| point.name.as_str()).collect();
    assert_eq!(names, ["dispatched", "domain-ready", "image-mapped", "first-instruction", "answered"]);
    let mut before = job.requested_ns;
    for point in timeline {
        assert!((before..=monotonic_ns()).contains(&point.at_ns), "{timeline:?}");
        before = point.at_ns;
    }
    let sandbox = received.report().sandbox.as_ref().expect("a process has a sandbox");
    assert!(sandbox.seccomp && sandbox.no_new_privs, "{sandbox:?}");
}

fn more_files_than_fit_into_a_message(spawners: &Spawners) {
    let slots: Vec<String> = (0..450).map(|number| format!("slot-{number}")).collect();
    let large = |slot: &String| (slot.clone(), Data::Bytes(format!("{slot:>20000}").into_bytes()));
    // Outputs are small: those of one answer fit into one message.
    let mut document = through(&slots);
    document["outputs"] = json!(["slot-449"]);
    document["unread"] = json!("ignore");
    let job = job(&document, slots.iter().map(large).collect());
    let received = listen(spawners.usual.idle_worker().expect("an idle worker").assign(&job).expect("a job is taken"));
    assert_eq!(received.report().error.as_ref().map(|error| error.kind), None::<FailureKind>);
    let [(_, data)] = <[_; 1]>::try_from(received.outputs).expect("one output");
    assert!(data.into_bytes().expect("its bytes").ends_with(b"slot-449"));
}
