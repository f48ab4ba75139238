//! Mapped files: what they show on every kind of mount, who pays for them, and what becomes of a function that uses one wrongly
//! or whose file is taken away under it.

#[path = "support/refusal.rs"]
mod refusal;
mod support;

use monohull_visor::engine::RunOptions;
use monohull_visor::report::{Blame, FailureKind, Progress, RunReport, Silent, Status, Stream};
use refusal::refuse;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::run_with;
use tempfile::TempDir;

/// Bytes of the file `big`, as the function makes it.
const BIG: usize = (5 << 20) + 1234;

/// The function, which works on `/data` as its arguments say, beside a second one that only has to finish.
fn probe(how: &str, files: Value) -> Value {
    json!({
        "name": "mappings",
        "functions": {
            "mmap-probe": { "image": "mmap-probe" },
            "bystander": { "image": "mmap-probe" },
        },
        "steps": [
            { "name": "map", "function": "mmap-probe", "args": { "how": how, "folder": "/data" }, "timeout": "600s",
              "memory": "256MiB" },
            { "name": "by", "function": "bystander", "args": { "how": "read", "folder": "/by" }, "timeout": "600s" },
        ],
        "files": files,
    })
}

/// With a mount for the bystander.
fn tried(how: &str, mount: Value) -> RunReport {
    watched(how, mount, Arc::new(Silent))
}

fn watched(how: &str, mount: Value, progress: Arc<dyn Progress>) -> RunReport {
    let files = json!([mount, { "at": "/by", "memory": "64MiB" }, { "at": "/out", "memory": "64MiB" }]);
    let report = run_with(&probe(how, files), &RunOptions::default(), progress);
    if report.error.is_none() {
        let by = &report.steps[1].instances[0];
        assert_eq!(by.lines.len(), 3, "the bystander comes through: {:?} {:#?}", by.lines, by.error);
    }
    report
}

fn memory() -> Value {
    json!({ "at": "/data", "memory": "128MiB" })
}

/// Memory that has the file in it already, because a step before has made it, is no mount of its own: so the file lies in an
/// image, a folder or, made by the function itself, in memory.
fn image(folder: &Path, bytes: u64) -> PathBuf {
    let path = folder.join("disk.img");
    let mut disk = monohull_visor::disk::Disk::create(&path, bytes, true).expect("an image");
    disk.write("big", &mut &content()[..], BIG as u64, 0).expect("room");
    path
}

fn content() -> Vec<u8> {
    let byte = |place: usize| ((place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    (0..BIG).map(byte).collect()
}

/// What the function said.
fn lines(report: &RunReport) -> Vec<&str> {
    report.steps[0].instances[0].lines.iter().map(|line| line.text.as_str()).collect()
}

#[track_caller]
fn fine(report: &RunReport) -> Vec<&str> {
    assert!(report.error.is_none(), "{:#?}\n{:#?}", report.error, lines(report));
    lines(report)
}

/// A folder with an image and a granted directory in it, each with the file.
struct Host(TempDir);

impl Host {
    fn new() -> Host {
        let folder = TempDir::new().expect("a folder");
        fs::create_dir(folder.path().join("granted")).expect("a folder");
        fs::write(folder.path().join("granted/big"), content()).expect("a file");
        image(folder.path(), 96 << 20);
        Host(folder)
    }

    fn directory(&self, access: &str) -> Value {
        json!({ "at": "/data", "directory": self.0.path().join("granted"), "access": access })
    }

    fn image(&self, access: &str) -> Value {
        json!({ "at": "/data", "image": self.0.path().join("disk.img"), "access": access })
    }
}

/// Everything that can be done with mappings, on this mount.
fn shows_the_file(how: &str, mount: &Value) {
    let report = tried(how, mount.clone());
    assert!(fine(&report).len() >= 45, "{mount}: {:?}", lines(&report));
    let mapped = report.mapped_files.as_ref().expect("something was mapped");
    assert_eq!(mapped.filled_at_once, None, "{mount}");
    assert!(mapped.faults > 0, "{mount}");
}

#[test]
fn a_mapping_shows_a_file_in_memory() {
    shows_the_file("everything", &memory());
}

#[test]
fn a_mapping_shows_a_file_in_an_image() {
    let host = Host::new();
    for access in ["copy", "write"] {
        shows_the_file("everything", &host.image(access));
    }
    // What is left is a whole image.
    let mut left = monohull_visor::disk::Disk::open(&host.0.path().join("disk.img"), true).expect("it can be used");
    assert!(left.check(false).expect("readable").findings.is_empty());
}

#[test]
fn a_mapping_shows_a_file_of_a_granted_directory() {
    shows_the_file("everything-but-cut", &Host::new().directory("write"));
}

#[test]
fn a_mapping_shows_a_file_that_can_only_be_read() {
    let host = Host::new();
    for mount in [host.image("read"), host.directory("read")] {
        assert_eq!(fine(&tried("read", mount.clone())).len(), 3, "{mount}");
    }
}

#[test]
fn small_clusters_are_the_same() {
    let folder = TempDir::new().expect("a folder");
    // FAT12, with less than a page in a cluster, and the first not where a page of the image begins.
    let path = image(folder.path(), 7 << 20);
    for access in ["read", "copy"] {
        fine(&tried("read", json!({ "at": "/data", "image": path, "access": access })));
    }
}

/// Where the domain alone changes a file it is shown, and no page is waited for.
#[test]
fn a_file_that_no_other_process_writes_to_is_shown_without_a_wait() {
    let host = Host::new();
    let waits = |mount: Value| {
        let report = support::run(&json!({
            "name": "shown",
            "functions": { "mmap-probe": { "image": "mmap-probe" } },
            "steps": [{ "name": "map", "function": "mmap-probe", "args": { "how": "read", "folder": "/data" } }],
            "files": [mount],
        }));
        fine(&report);
        report.mapped_files.expect("something was mapped").faults
    };
    assert_eq!(waits(host.image("write")), 0);
    for shared in [host.image("read"), host.image("copy"), host.directory("write")] {
        assert!(waits(shared.clone()) > 0, "{shared}");
    }
}

/// Where it is larger than what is copied at once.
#[test]
fn a_small_file_in_memory_is_shown_as_well() {
    for bytes in [1 << 20, 2 << 20] {
        let report = support::run(&json!({
            "name": "small",
            "functions": { "bench-mmap": { "image": "bench-mmap" } },
            "steps": [{ "name": "map", "function": "bench-mmap",
                        "args": { "path": "/data/file", "bytes": bytes, "rounds": 2 } }],
            "files": [memory()],
            "outputs": ["figures"],
        }));
        assert!(report.error.is_none(), "{:#?}", report.error);
        let mapped = report.mapped_files.expect("something was mapped");
        assert_eq!((mapped.mappings, mapped.bytes, mapped.faults), (16, 16 * bytes, 0));
    }
}

/// Ten thousand random steps beside a model: maps, looks, stores, cuts, takes back.
#[test]
fn whatever_happens_to_a_file_a_page_stays_as_it_was_first_seen() {
    let host = Host::new();
    for mount in [memory(), host.image("write"), host.image("copy"), host.directory("write")] {
        let how = if mount.get("directory").is_some() { "model-but-cut" } else { "model" };
        let report = tried(how, mount.clone());
        let said = fine(&report);
        assert!(said.last().is_some_and(|line| line.starts_with("10000 steps: ")), "{mount}: {said:?}");
    }
    let mut left = monohull_visor::disk::Disk::open(&host.0.path().join("disk.img"), true).expect("it can be used");
    assert!(left.check(false).expect("readable").findings.is_empty());
}

#[test]
fn what_an_instance_has_seen_stays_when_another_one_writes_the_file() {
    let step = |name: &str| {
        json!({ "name": name, "function": "mmap-probe", "args": { "how": name, "folder": "/data" }, "timeout": "600s",
                "memory": "64MiB" })
    };
    let mounts: [fn(&Host) -> Value; 4] =
        [|_| memory(), |host| host.image("write"), |host| host.image("copy"), |host| host.directory("write")];
    for mount in mounts {
        let host = Host::new();
        let mount = mount(&host);
        let report = support::run(&json!({
            "name": "together",
            "functions": { "mmap-probe": { "image": "mmap-probe" } },
            "steps": [step("watch"), step("change")],
            "files": [&mount],
        }));
        let said = ["seen", "what was seen stays", "a new mapping shows what was written"];
        assert_eq!(fine(&report), said, "{mount}");
    }
}

#[test]
fn reading_from_start_to_end_waits_seldom() {
    let host = Host::new();
    let report = tried("read", host.image("read"));
    fine(&report);
    let mapped = report.mapped_files.expect("something was mapped");
    // The file twice from start to end and twice backwards, by this function and by the one beside it.
    assert_eq!((mapped.mappings, mapped.bytes), (4, 4 * BIG as u64));
    let pages = mapped.bytes / 4096;
    assert!(mapped.faults < pages / 8, "{} of {pages} pages were waited for", mapped.faults);
}

/// Runs `monohull`, with a `userfaultfd` or without: what it prints as JSON.
fn json_of(arguments: &[&str], refused: bool) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.args(arguments).arg("--json");
    let output =
        if refused { refuse(&mut command, libc::SYS_userfaultfd) } else { &mut command }.output().expect("it starts");
    let said = || format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said()))
}

#[test]
fn without_userfaultfd_mappings_are_filled_at_once_and_the_report_says_so() {
    let host = Host::new();
    let workflow = host.0.path().join("workflow.json");
    for (how, mount) in
        [("everything", memory()), ("everything", host.image("copy")), ("everything-but-cut", host.directory("write"))]
    {
        let files = json!([mount, { "at": "/by", "memory": "64MiB" }]);
        let mut document = probe(how, files);
        for function in document["functions"].as_object_mut().expect("functions").values_mut() {
            function["image"] = json!(support::image("mmap-probe"));
        }
        fs::write(&workflow, document.to_string()).expect("a file");
        let mut lines = Vec::new();
        for refused in [false, true] {
            let report = json_of(&["run", workflow.to_str().expect("UTF-8")], refused);
            assert_eq!(report["status"], "done", "{mount}, refused: {refused}: {report:#}");
            let mapped = &report["mapped_files"];
            let why = mapped["filled_at_once"].as_str();
            assert_eq!(why.is_some(), refused, "{mapped}");
            assert!(why.is_none_or(|why| why.starts_with("userfaultfd: ")), "{mapped}");
            assert_eq!(mapped["faults"] == 0, refused, "{mapped}");
            lines.push(report["steps"][0]["instances"][0]["lines"].clone());
        }
        // Content, copies that are written to, files that change meanwhile: all is the same.
        assert!(lines[0].as_array().is_some_and(|lines| lines.len() >= 45) && lines[0] == lines[1], "{lines:#?}");
    }
    for refused in [false, true] {
        let diagnosis = json_of(&["doctor"], refused);
        let findings = diagnosis["findings"].as_array().expect("findings");
        let found = findings.iter().find(|finding| finding["name"] == "userfaultfd").expect("it is looked at");
        assert_eq!(found["state"], if refused { "fallback" } else { "ok" }, "{found}");
        let consequence = "memory is filled at once instead of when it is touched";
        assert_eq!(found["consequence"] == consequence, refused, "{found}");
    }
}

#[test]
fn a_run_without_mappings_has_no_pager() {
    let files = json!([memory(), { "at": "/by", "memory": "64MiB" }]);
    let document = json!({
        "name": "no-mappings",
        "functions": { "mmap-probe": { "image": "mmap-probe" } },
        "steps": [{ "name": "make", "function": "mmap-probe", "args": { "how": "make", "folder": "/data" } }],
        "files": files,
    });
    let report = support::run(&document);
    assert!(report.error.is_none(), "{:#?}", report.error);
    assert_eq!(report.mapped_files, None);
    assert!(!report.modules.contains(&"mmap-file".to_owned()), "{:?}", report.modules);
}

#[test]
fn wrong_uses_end_the_function_with_a_reason() {
    let host = Host::new();
    let ways = [
        ("write-read-only", "`/data/big`, mapped there, which is read-only"),
        ("write-after-read-only", "`/data/big`, mapped there, which is read-only"),
        ("execute", "`/data/big`, mapped there, which is not executable"),
        ("after-unmap", "in its own cell, where no file is mapped"),
        ("past-the-end", "in its own cell, where no file is mapped"),
        ("in-the-gap", "in its own cell, where no file is mapped"),
    ];
    for (how, why) in ways {
        let report = tried(how, host.image("read"));
        let error =
            report.steps[0].instances[0].error.as_ref().unwrap_or_else(|| panic!("{how}: {:?}", lines(&report)));
        assert_eq!((error.kind, error.blame), (FailureKind::MemoryFault, Blame::Function), "{how}: {}", error.message);
        assert!(error.message.contains(why), "{how}: {}", error.message);
        assert!(!lines(&report).is_empty(), "{how}: the control works");
    }
}

/// Cuts a file when the function has said that it is ready, and only then lets it go on.
struct Cut {
    path: PathBuf,
    to: u64,
    done: AtomicBool,
}

impl Progress for Cut {
    fn line(&self, _step: &str, _index: u32, _stream: Stream, text: &str) {
        if text == "ready" && !self.done.swap(true, Ordering::Relaxed) {
            fs::File::options().write(true).open(&self.path).and_then(|file| file.set_len(self.to)).expect("cut");
        }
    }
}

/// Files on the host that are truncated while they are mapped.
fn cut(host: &Host, what: &str) -> Arc<Cut> {
    Arc::new(Cut { path: host.0.path().join(what), to: 1 << 20, done: AtomicBool::new(false) })
}

#[test]
fn a_file_that_loses_its_end_is_a_report_with_its_name_and_the_place() {
    for (what, is_image) in [("disk.img", true), ("granted/big", false)] {
        for access in ["read", "write"] {
            let host = Host::new();
            let mount = if is_image { host.image(access) } else { host.directory(access) };
            let report = watched("touch-late", mount, cut(&host, what));
            let error = report.steps[0].instances[0].error.as_ref();
            let error = error.unwrap_or_else(|| panic!("{what}, {access}: {:?}", lines(&report)));
            assert_eq!((error.kind, error.blame), (FailureKind::MemoryFault, Blame::Host), "{}", error.message);
            let place = format!("byte {} of `/data/big`, mapped there, which cannot be read", BIG - BIG % 4096 - 1);
            assert!(error.message.contains(&place), "{what}, {access}: {}", error.message);
            assert!(error.ip.is_some(), "{error:#?}");
        }
    }
}

#[test]
fn a_hostcall_that_reads_what_is_lost_fails_and_the_function_goes_on() {
    for (what, access) in [("disk.img", "read"), ("disk.img", "write"), ("granted/big", "read")] {
        let host = Host::new();
        let mount = if what == "disk.img" { host.image(access) } else { host.directory(access) };
        let report = watched("write-out", mount, cut(&host, what));
        let lines = fine(&report);
        assert!(lines[2].starts_with("refused: "), "{lines:?}");
        assert_eq!(lines[3], "the first byte is still 0", "{lines:?}");
    }
}

#[test]
fn mappings_and_their_bytes_have_limits() {
    let host = Host::new();
    let report = tried("too-many", host.image("read"));
    let said = fine(&report);
    assert!(said[0].starts_with("1024 mappings, then: an instance may have 1024 mappings"), "{said:?}");
    assert_eq!(said[1], "one less, and there is room again: true");

    let document = json!({
        "name": "limit",
        "functions": { "mmap-probe": { "image": "mmap-probe" } },
        "steps": [
            { "name": "map", "function": "mmap-probe", "args": { "how": "too-large", "folder": "/data" }, "memory": "16MiB" },
        ],
        "files": [memory()],
    });
    let report = support::run(&document);
    let said = fine(&report);
    assert!(said[0].contains("memory limit of 16777216 bytes"), "{said:?}");
    assert_eq!(said[1], "after the first is gone: 12582912");
}

#[test]
fn mappings_that_come_and_go_under_hostcalls_give_errors_or_the_files_own_bytes() {
    let host = Host::new();
    for mount in [host.image("read"), host.directory("read")] {
        let report = tried("unmap-under-touch", mount);
        assert_eq!(fine(&report).last().copied(), Some("wrong copies: 0"));
    }
}

#[test]
fn a_deadline_ends_a_wait_for_pages() {
    let host = Host::new();
    for mount in [host.image("read"), host.directory("read")] {
        let ended_after = |time: &str| {
            support::run(&json!({
                "name": "deadline",
                "functions": { "mmap-probe": { "image": "mmap-probe" } },
                "steps": [
                    { "name": "map", "function": "mmap-probe", "args": { "how": "wait-for-file", "folder": "/data" },
                      "timeout": time, "instances": 4 },
                ],
                "files": [&mount],
            }))
        };
        // On a host that is busy the time may be up before a thread waits.
        let waited = |report: &RunReport| report.mapped_files.as_ref().is_some_and(|mapped| mapped.faults > 0);
        let mut reports = ["300ms", "3s", "30s"].into_iter().map(ended_after);
        let report = reports.find(waited).expect("it has mapped, and touched a page");
        let error = report.error.as_ref().expect("it does not end by itself");
        assert_eq!(error.kind, FailureKind::Timeout, "{error:#?}");
        assert!(report.steps[0].instances.iter().all(|instance| instance.status != Status::Done));
    }
}
