//! Files as functions see them: in memory, in disk images, in directories of the host.

use crate::harness::{Ran, Workflow, fresh_folder, printed, shell, with_std};
use monohull_visor::domain::files::claim_image;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs `monohull image`, which must succeed.
fn image(arguments: &[&Path]) {
    let output = Command::new(env!("CARGO_BIN_EXE_monohull")).arg("image").args(arguments).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// An empty image of so many bytes.
fn empty_image(folder: &Path, size: &str) -> PathBuf {
    let path = folder.join(format!("{size}.img"));
    image(&["create".as_ref(), &path, "--size".as_ref(), size.as_ref()]);
    path
}

/// A workflow with these files instead of its own.
fn with_files(name: &str, files: Value) -> Workflow {
    let mut workflow = Workflow::shipped(name);
    workflow.document()["files"] = files;
    workflow
}

/// The modules that were loaded, sorted.
fn modules(ran: &Ran) -> BTreeSet<&str> {
    ran.report["modules"].as_array().expect("modules").iter().filter_map(Value::as_str).collect()
}

#[test]
fn the_tour_as_a_function_and_as_a_program() {
    let folder = fresh_folder();
    let empty = folder.join("std");
    fs::create_dir(&empty).expect("a folder");
    let expected = with_std("file-tour", &[("TOUR", empty.as_path())]);
    assert_eq!(expected.lines().last(), Some("at the end: []"));
    let expected: Vec<_> = expected.lines().collect();

    let ran = Workflow::shipped("file-tour").run(None, None);
    assert_eq!(ran.code, 0, "{:#}", ran.report);
    assert_eq!(printed(&ran), expected);

    // FAT12, FAT16 and FAT32.
    for size in ["8MiB", "64MiB", "600MiB"] {
        let path = empty_image(&folder, size);
        for access in ["copy", "write"] {
            let ran =
                with_files("file-tour", json!([{ "at": "/tour", "image": path, "access": access }])).run(None, None);
            assert_eq!(ran.code, 0, "{:#}", ran.report);
            assert_eq!(printed(&ran), expected, "{size} {access}");
            assert_eq!(modules(&ran), BTreeSet::from(["fatfs", "fdtab", "mm", "stdio", "time"]));
        }
        image(&["check".as_ref(), &path]);
    }

    let on_host = folder.join("host");
    fs::create_dir(&on_host).expect("a folder");
    let ran =
        with_files("file-tour", json!([{ "at": "/tour", "directory": on_host, "access": "write" }])).run(None, None);
    assert_eq!(ran.code, 0, "{:#}", ran.report);
    assert_eq!(printed(&ran), expected);
    assert_eq!(modules(&ran), BTreeSet::from(["fdtab", "mm", "stdio", "time"]));
    assert_eq!(fs::read_dir(&on_host).expect("a folder").count(), 0, "the tour leaves nothing");
    fs::remove_dir_all(folder).expect("the test's folder");
}

#[test]
fn logs_in_memory_in_an_image_and_on_the_host_give_the_same_report() {
    let folder = fresh_folder();
    let in_memory = Workflow::shipped("log-analytics").run(None, "report");
    assert_eq!(modules(&in_memory), BTreeSet::from(["fdtab", "mm", "mmap-file", "ramfs"]));
    let expected = String::from_utf8(in_memory.output()).expect("text");

    // The same logs, kept in an image, and copied out of it.
    let kept = empty_image(&folder, "16MiB");
    let report = json!({ "at": "/report", "memory": "1MiB" });
    let files = json!([{ "at": "/logs", "image": kept, "access": "write" }, report]);
    let ran = with_files("log-analytics", files).run(None, "report");
    assert_eq!(modules(&ran), BTreeSet::from(["fatfs", "fdtab", "mm", "mmap-file", "ramfs"]));
    assert_eq!(String::from_utf8(ran.output()).expect("text"), expected);
    let logs = folder.join("logs");
    image(&["cp".as_ref(), format!("{}:/", kept.display()).as_ref(), &logs]);
    assert_eq!(fs::read_dir(&logs).expect("a folder").count(), 24);

    // Read only: from the image, from an image made of the folder, and from the folder itself.
    let made = folder.join("made.img");
    image(&["create".as_ref(), &made, "--from".as_ref(), &logs]);
    for source in [
        json!({ "at": "/logs", "image": kept, "access": "read" }),
        json!({ "at": "/logs", "image": made }),
        json!({ "at": "/logs", "directory": logs }),
    ] {
        let mut workflow = with_files("log-analytics", json!([source, report]));
        let steps = workflow.document()["steps"].as_array_mut().expect("steps");
        steps.remove(0);
        steps[0].as_object_mut().expect("a step").remove("after");
        let ran = workflow.run(None, "report");
        assert_eq!(String::from_utf8(ran.output()).expect("text"), expected, "{source}");
    }

    // What the machine's own tools count in the same files.
    let all: Vec<u8> = expected_input(&logs);
    let readable = shell("grep -c '\" [0-9]* [0-9]*$' || true", &all);
    let readable = String::from_utf8(readable).expect("a number");
    assert!(expected.contains(&format!("lines {}", readable.trim())), "{expected}");
    let statuses = shell("grep '\" [0-9]* [0-9]*$' | sed 's/.*\" \\([0-9]*\\) .*/\\1/' | sort | uniq -c", &all);
    for line in String::from_utf8(statuses).expect("text").lines() {
        let (count, status) = line.trim().split_once(' ').expect("a count");
        assert!(expected.contains(&format!("status {status} {count}\n")), "{line}\n{expected}");
    }
    fs::remove_dir_all(folder).expect("the test's folder");
}

/// All logs, one behind the other.
fn expected_input(logs: &Path) -> Vec<u8> {
    let mut paths: Vec<_> =
        fs::read_dir(logs).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().flat_map(|path| fs::read(path).expect("readable")).collect()
}

#[test]
fn an_image_has_one_writer_or_many_readers() {
    let folder = fresh_folder();
    let path = empty_image(&folder, "8MiB");
    let held = fs::File::open(&path).expect("it is there");
    claim_image(&held, true).expect("it is free");
    for access in ["read", "copy", "write"] {
        let ran = with_files("file-tour", json!([{ "at": "/tour", "image": path, "access": access }])).run(None, None);
        assert!(ran.failure().contains("is in use"), "{}", ran.failure());
    }
    drop(held);
    let held = fs::File::open(&path).expect("it is there");
    claim_image(&held, false).expect("it is free");
    let ran = with_files("file-tour", json!([{ "at": "/tour", "image": path, "access": "copy" }])).run(None, None);
    assert_eq!(ran.code, 0, "{:#}", ran.report);
    let ran = with_files("file-tour", json!([{ "at": "/tour", "image": path, "access": "write" }])).run(None, None);
    assert!(ran.failure().contains("another process has it open"), "{}", ran.failure());
    drop(held);
    fs::remove_dir_all(folder).expect("the test's folder");
}

#[test]
fn missing_files_are_reported_before_anything_runs() {
    let folder = fresh_folder();
    let text = folder.join("text");
    fs::write(&text, "no image").expect("a file");
    for (source, said) in [
        (json!({ "at": "/tour", "image": folder.join("missing.img") }), "No such file"),
        (json!({ "at": "/tour", "image": text }), "this is no FAT image"),
        (json!({ "at": "/tour", "directory": folder.join("missing") }), "No such file"),
        (json!({ "at": "/tour", "directory": text }), "Not a directory"),
    ] {
        let ran = with_files("file-tour", json!([source])).run(None, None);
        let failure = ran.failure();
        assert!(failure.starts_with("the files at /tour: ") && failure.contains(said), "{failure}");
    }
    fs::remove_dir_all(folder).expect("the test's folder");
}
