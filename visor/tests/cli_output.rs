//! Output that cannot be written is a failure of every verb; a reader that has gone away is none.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Verbs that succeed and print something, each with the exit code for output that cannot be written.
const VERBS: &[(&[&str], i32)] = &[
    (&["--help"], 3),
    (&["--version"], 3),
    (&["schema"], 3),
    (&["doctor", "--json"], 3),
    (&["validate", "WORKFLOW"], 3),
    (&["validate", "--json", "WORKFLOW"], 3),
    (&["run", "WORKFLOW"], 3),
    (&["run", "--json", "WORKFLOW"], 3),
    (&["check", "IMAGE"], 2),
    (&["check", "--json", "IMAGE"], 2),
    (&["image", "ls", "disk.img"], 3),
    (&["image", "ls", "--json", "disk.img"], 3),
    (&["image", "cat", "disk.img", "/file"], 3),
    (&["image", "check", "disk.img"], 2),
    (&["image", "check", "--json", "disk.img"], 2),
];

/// A folder with a disk image.
fn folder() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let files = folder.path().join("files");
    fs::create_dir(&files).expect("a folder");
    fs::write(files.join("file"), "text").expect("a file");
    let mut create = monohull(folder.path(), &["image", "create", "disk.img", "--from", "files"]);
    assert!(create.stderr(Stdio::null()).status().expect("monohull starts").success());
    folder
}

fn monohull(folder: &Path, arguments: &[&str]) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.current_dir(folder).stdin(Stdio::null());
    for argument in arguments {
        match *argument {
            "WORKFLOW" => command.arg(root.join("workflows/no-op.json")),
            "IMAGE" => command.arg(root.join("target/images/no-op.so")),
            other => command.arg(other),
        };
    }
    command
}

#[test]
fn a_full_disk_is_a_failure() {
    let folder = folder();
    for (arguments, code) in VERBS {
        let full = File::options().write(true).open("/dev/full").expect("/dev/full");
        let output = monohull(folder.path(), arguments).stdout(full).output().expect("monohull starts");
        let said = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {said}");
        let reason = "monohull: standard output cannot be written: No space left on device";
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
}

#[test]
fn a_reader_that_has_gone_away_is_no_failure() {
    let folder = folder();
    for (arguments, _) in VERBS {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = monohull(folder.path(), arguments).stdout(writer).output().expect("monohull starts");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        assert_eq!(String::from_utf8(output.stderr).expect("UTF-8"), "", "{arguments:?}");
    }
}

/// A verb that has failed keeps its exit code, and says both.
#[test]
fn a_failure_stays_what_it_is() {
    let folder = folder();
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let output = monohull(folder.path(), &["validate", "--json", "disk.img"]).stdout(full).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

/// A workflow that waits, as was asked for, is not told without its output: the invocation's id is in it.
#[test]
fn that_a_workflow_waits_is_not_said_to_a_full_disk() {
    let folder = folder();
    let workflow = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows/durable/counter.json");
    let run = |json: &[&str], stdout: Stdio| {
        let mut command = monohull(folder.path(), &["run", "--state", "state", "--detach"]);
        command.args(json).arg(&workflow).stdout(stdout).output().expect("monohull starts")
    };
    for json in [&[][..], &["--json"]] {
        assert_eq!(run(json, Stdio::piped()).status.code(), Some(4));
        let full = File::options().write(true).open("/dev/full").expect("/dev/full");
        let output = run(json, full.into());
        assert_eq!(output.status.code(), Some(3), "{output:?}");
    }
}
