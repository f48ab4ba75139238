//! What a workflow grants is all that its functions reach: a directory of the host has no way out, images and memory have
//! their limits, and damage has no effect on others.

mod support;

use monohull_visor::engine::RunOptions;
use monohull_visor::report::{Progress, RunReport, Stream};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{run, run_with};
use tempfile::TempDir;

/// A function that tries all this where these files are.
fn probe(files: Value, tries: Value) -> Value {
    json!({
        "name": "tries",
        "functions": { "file-probe": { "image": "file-probe" } },
        "steps": [{ "name": "try", "function": "file-probe", "args": { "tries": tries }, "timeout": "600s" }],
        "files": files,
    })
}

/// Runs it.
fn tried(files: Value, tries: Value) -> RunReport {
    run(&probe(files, tries))
}

/// What it said of each try.
#[track_caller]
fn said(report: &RunReport) -> Vec<&str> {
    assert!(report.error.is_none(), "{:#?}", report.error);
    report.steps[0].instances[0].lines.iter().map(|line| line.text.as_str()).collect()
}

/// A folder with something in it that is granted, and something beside it that is not.
struct Host {
    folder: TempDir,
}

impl Host {
    fn new() -> Host {
        let folder = TempDir::new().expect("a folder");
        fs::create_dir_all(folder.path().join("granted/inner")).expect("a folder");
        fs::create_dir(folder.path().join("outside")).expect("a folder");
        fs::write(folder.path().join("granted/file"), "granted").expect("a file");
        fs::write(folder.path().join("granted/inner/file"), "inner").expect("a file");
        fs::write(folder.path().join("outside/file"), "SECRET").expect("a file");
        fs::write(folder.path().join("secret"), "SECRET").expect("a file");
        Host { folder }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn mount(&self, access: &str) -> Value {
        json!([{ "at": "/host", "directory": self.at("granted"), "access": access }])
    }

    /// What is not granted is as it was.
    fn intact(&self) {
        assert_eq!(fs::read_to_string(self.at("secret")).expect("it is there"), "SECRET");
        assert_eq!(fs::read_to_string(self.at("outside/file")).expect("it is there"), "SECRET");
        assert_eq!(fs::read_dir(self.at("outside")).expect("it is there").count(), 1);
    }
}

#[test]
fn a_granted_directory_has_no_way_out() {
    let host = Host::new();
    symlink("../secret", host.at("granted/link")).expect("a link");
    symlink(host.at("secret"), host.at("granted/absolute")).expect("a link");
    symlink("..", host.at("granted/up")).expect("a link");
    symlink("inner", host.at("granted/inside")).expect("a link");
    symlink("/proc/self/root", host.at("granted/magic")).expect("a link");
    nix::unistd::mkfifo(&host.at("granted/pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let socket = std::os::unix::net::UnixListener::bind(host.at("granted/socket")).expect("a socket");
    let long_way = format!("/host/{}secret", "../".repeat(20));
    let report = tried(
        host.mount("write"),
        json!([
            ["read", "/host/file"],
            ["read", "/host/inner/../inner/file"],
            ["list", "/host"],
            ["read", "/host/../secret"],
            ["read", long_way],
            ["read", host.at("secret")],
            ["read", "/host/link"],
            ["read", "/host/absolute"],
            ["read", "/host/up/secret"],
            ["read", "/host/inside/file"],
            ["read", format!("/host/magic{}", host.at("secret").display())],
            ["read", "/host/pipe"],
            ["write", "/host/pipe", "x"],
            ["read", "/host/socket"],
            ["list", "/host/up"],
            ["size", "/host/link"],
            ["write", "/host/link", "overwritten"],
            ["write", "/host/up/new", "x"],
            ["make", "/host/up/new"],
            ["remove", "/host/up/secret"],
            ["rename", "/host/file", "/host/up/file"],
            ["rename", "/host/up/secret", "/host/taken"],
            ["remove", "/host/pipe"],
            ["age", "/host/link", "1"],
            ["age", "/host/up/secret", "1"],
            ["read", "/host/file"],
        ]),
    );
    let lines = said(&report);
    let results: Vec<&str> = lines.iter().map(|line| line.rsplit_once(": ").expect("a result").1).collect();
    let (controls, rest) = results.split_at(3);
    assert_eq!(controls, ["granted", "inner", "file inner"], "{lines:#?}");
    assert!(rest.iter().all(|result| !result.contains("SECRET")), "{lines:#?}");
    let ["NotFound", "NotFound", "NotFound", attacks @ .., "removed", aged, below, "granted"] = rest else {
        panic!("{lines:#?}")
    };
    // ELOOP has no kind of its own.
    let refused = ["Uncategorized", "PermissionDenied"];
    assert!(attacks.iter().chain([aged, below]).all(|result| refused.contains(result)), "{lines:#?}");
    host.intact();
    drop(socket);
}

/// What a function says of what it tries while a folder and a link out of what is granted take each other's name, over and over.
fn while_names_change(host: &Host, access: &str, tries: Value) -> String {
    let stop = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for (from, to) in [("a", "t"), ("b", "a"), ("t", "b"), ("b", "t"), ("a", "b"), ("t", "a")] {
                    fs::rename(host.at("granted").join(from), host.at("granted").join(to)).expect("renamed");
                }
            }
        });
        let report = tried(host.mount(access), tries);
        stop.store(true, Ordering::Relaxed);
        report
    });
    said(&report)[0].rsplit_once(": ").expect("a result").1.to_owned()
}

/// How often it is tried until the names have changed while they were used: on a host that is busy, who changes them may stand still.
const ATTEMPTS: u32 = 20;

#[test]
fn a_path_that_changes_while_it_is_used_leads_nowhere_else() {
    let control = (0..ATTEMPTS).any(|_| {
        let host = Host::new();
        fs::create_dir(host.at("granted/a")).expect("a folder");
        fs::write(host.at("granted/a/file"), "inside").expect("a file");
        symlink("../outside", host.at("granted/b")).expect("a link");
        let seen = while_names_change(&host, "read", json!([["watch", "/host/a/file", "2000"]]));
        let seen: Vec<&str> = seen.split(", ").collect();
        assert!(!seen.contains(&"SECRET"), "{seen:?}");
        host.intact();
        seen.contains(&"inside") && seen.len() > 1
    });
    assert!(control, "the path leads where it should at times, and at times not");
}

#[test]
fn changes_through_a_path_that_changes_stay_inside() {
    let control = (0..ATTEMPTS).any(|_| {
        let host = Host::new();
        fs::create_dir(host.at("granted/a")).expect("a folder");
        symlink("../outside", host.at("granted/b")).expect("a link");
        let counts = while_names_change(&host, "write", json!([["storm", "/host", "/host/a", "2000"]]));
        let counts: Vec<u32> = counts.split(' ').map(|count| count.parse().expect("a number")).collect();
        assert_eq!(counts.len(), 5);
        host.intact();
        // What was made and not removed lies in the folder that was meant.
        let folder = if host.at("granted/a").is_symlink() { "granted/b" } else { "granted/a" };
        counts.iter().all(|count| *count > 0) && fs::read_dir(host.at(folder)).expect("it is there").count() > 0
    });
    assert!(control, "each change was made at times, or the path would never have led anywhere");
}

#[test]
fn a_hard_link_is_the_file_and_its_name_goes_alone() {
    let host = Host::new();
    for (file, link) in [("secret", "granted/read"), ("outside/file", "granted/removed")] {
        fs::hard_link(host.at(file), host.at(link)).expect("a link");
    }
    let tries = json!([["read", "/host/read"], ["remove", "/host/removed"], ["link", "/host/read", "/host/another"]]);
    let report = tried(host.mount("write"), tries);
    let results =
        |report| said(report).iter().map(|line| line.rsplit_once(": ").expect("a result").1.to_owned()).collect();
    let found: Vec<String> = results(&report);
    assert_eq!(found, ["SECRET", "removed", "Unsupported"]);
    host.intact();
    // Who has put it there has granted the file, with what else is granted.
    let report = tried(host.mount("write"), json!([["write", "/host/read", "changed"]]));
    assert_eq!(results(&report), ["written"]);
    assert_eq!(fs::read_to_string(host.at("secret")).expect("it is there"), "changed");
}

#[test]
fn what_is_granted_to_be_read_cannot_be_changed() {
    let host = Host::new();
    let written = || fs::metadata(host.at("granted/file")).expect("it is there").modified().expect("a time");
    let before = written();
    let report = tried(
        host.mount("read"),
        json!([
            ["read", "/host/file"],
            ["write", "/host/file", "changed"],
            ["write", "/host/new", "new"],
            ["make", "/host/new"],
            ["remove", "/host/file"],
            ["rename", "/host/file", "/host/new"],
            ["age", "/host/file", "1"],
            ["age", "/host", "1"],
        ]),
    );
    let results: Vec<&str> = said(&report).iter().map(|line| line.rsplit_once(": ").expect("a result").1).collect();
    assert_eq!(results[0], "granted");
    assert!(results[1..].iter().all(|result| *result == "ReadOnlyFilesystem"), "{results:?}");
    assert_eq!(fs::read_to_string(host.at("granted/file")).expect("it is there"), "granted");
    assert_eq!(written(), before);
    assert_eq!(fs::read_dir(host.at("granted")).expect("it is there").count(), 2);
}

/// Files in memory keep both times, an image when a file was written, in steps of two seconds, and a granted directory what its host keeps.
#[test]
fn times_of_files_are_set() {
    let host = Host::new();
    let image = image(&host.at("outside"));
    let files = json!([
        { "at": "/m", "memory": "1MiB" },
        { "at": "/d", "image": image, "access": "write" },
        { "at": "/host", "directory": host.at("granted"), "access": "write" },
    ]);
    let tries = json!([
        ["write", "/m/file", "x"],
        ["age", "/m/file", "1000000001"],
        ["age", "/d/file", "1000000001"],
        ["age", "/host/file", "1000000001"],
        ["age", "/m", "1000000001"],
    ]);
    let report = tried(files, tries);
    assert_eq!(
        said(&report)[1..],
        [
            "age /m/file 1000000001: 1000000001 1000000001",
            "age /d/file 1000000001: 1000000000 1000000000",
            "age /host/file 1000000001: 1000000001 1000000001",
            "age /m 1000000001: 1000000001 1000000001",
        ]
    );
    let written = fs::metadata(host.at("granted/file")).expect("it is there").modified().expect("a time");
    assert_eq!(written.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs(), 1_000_000_001);
}

#[test]
fn without_a_grant_there_is_nothing() {
    let report =
        tried(json!([]), json!([["read", "/etc/passwd"], ["list", "/"], ["write", "/tmp/x", "x"], ["list", "."]]));
    assert_eq!(said(&report), ["read /etc/passwd: NotFound", "list /: ", "write /tmp/x x: NotFound", "list .: "]);
}

/// Memory of processes is among the files there, and keys do not stand before those.
#[test]
fn what_shows_processes_is_not_granted() {
    for directory in ["/proc", "/proc/self", "/proc/sys"] {
        let report = tried(json!([{ "at": "/p", "directory": directory, "access": "write" }]), json!([["list", "/p"]]));
        let error = report.error.expect("it is refused");
        assert!(error.message.contains(directory) && error.message.contains("procfs"), "{}", error.message);
    }
}

/// An image with a file in it.
fn image(folder: &Path) -> PathBuf {
    let path = folder.join("disk.img");
    let mut disk = monohull_visor::disk::Disk::create(&path, 1 << 20, true).expect("an image");
    disk.write("file", &mut &b"in the image"[..], 12, 0).expect("room");
    path
}

#[test]
fn a_copy_is_the_workflows_own() {
    let folder = TempDir::new().expect("a folder");
    let path = image(folder.path());
    let before = fs::read(&path).expect("readable");
    let tries =
        json!([["read", "/d/file"], ["write", "/d/file", "changed"], ["read", "/d/file"], ["remove", "/d/file"]]);
    for _ in 0..2 {
        let report = tried(json!([{ "at": "/d", "image": path }]), tries.clone());
        let expected = ["read /d/file: in the image", "write /d/file changed: written", "read /d/file: changed"];
        assert_eq!(said(&report)[..3], expected);
    }
    assert!(fs::read(&path).expect("readable") == before);
    let report = tried(json!([{ "at": "/d", "image": path, "access": "read" }]), tries);
    assert_eq!(
        said(&report)[1..],
        [
            "write /d/file changed: ReadOnlyFilesystem",
            "read /d/file: in the image",
            "remove /d/file: ReadOnlyFilesystem"
        ]
    );
}

#[test]
fn a_full_image_and_full_memory_are_errors_of_the_write() {
    let folder = TempDir::new().expect("a folder");
    let path = image(folder.path());
    let files = json!([{ "at": "/d", "image": path }, { "at": "/m", "memory": "1MiB" }]);
    let tries = json!([
        ["fill", "/d/a", "700000"],
        ["fill", "/d/b", "700000"],
        ["read", "/d/file"],
        ["fill", "/m/a", "700000"],
        ["fill", "/m/b", "700000"],
        ["size", "/m/a"],
    ]);
    let report = tried(files, tries);
    let results: Vec<&str> = said(&report).iter().map(|line| line.rsplit_once(": ").expect("a result").1).collect();
    assert_eq!(results, ["filled", "StorageFull", "in the image", "filled", "StorageFull", "700000 bytes"]);
}

/// Cuts a file when the function has printed its first line, and only then lets it go on.
struct Cut {
    path: PathBuf,
    done: AtomicBool,
}

impl Progress for Cut {
    fn line(&self, _step: &str, _index: u32, _stream: Stream, _text: &str) {
        if !self.done.swap(true, Ordering::Relaxed) {
            fs::File::options().write(true).open(&self.path).and_then(|file| file.set_len(4096)).expect("cut");
        }
    }
}

#[test]
fn an_image_that_loses_its_end_costs_errors_and_nothing_else() {
    for access in ["copy", "write"] {
        let folder = TempDir::new().expect("a folder");
        let path = image(folder.path());
        let files = json!([{ "at": "/d", "image": path, "access": access }, { "at": "/m", "memory": "1MiB" }]);
        let tries = json!([
            ["read", "/d/file"],
            ["read", "/d/file"],
            ["list", "/d"],
            ["fill", "/d/file", "300000"],
            ["remove", "/d/file"],
            ["write", "/m/x", "still works"],
            ["read", "/m/x"],
        ]);
        let cut = Arc::new(Cut { path, done: AtomicBool::new(false) });
        let report = run_with(&probe(files, tries), &RunOptions::default(), cut);
        let results: Vec<&str> = said(&report).iter().map(|line| line.rsplit_once(": ").expect("a result").1).collect();
        let [control, attacks @ .., written, read] = &results[..] else { panic!("{results:?}") };
        assert_eq!((*control, *written, *read), ("in the image", "written", "still works"), "{access}");
        // The kernel reports EIO, which has no kind of its own.
        assert!(attacks.iter().all(|result| *result == "Uncategorized"), "{access}: {attacks:?}");
    }
}

#[test]
fn a_file_that_is_open_when_its_image_loses_its_end_has_errors_of_the_image() {
    for access in ["copy", "write"] {
        let folder = TempDir::new().expect("a folder");
        let path = image(folder.path());
        let files = json!([{ "at": "/d", "image": path, "access": access }, { "at": "/m", "memory": "1MiB" }]);
        let tries = json!([
            ["hold", "/d/file"],
            ["read-held", "0"],
            ["write-held", "0", "x"],
            ["write-held", "0", "longer than the file"],
            ["write", "/m/x", "still works"],
        ]);
        let cut = Arc::new(Cut { path, done: AtomicBool::new(false) });
        let report = run_with(&probe(files, tries), &RunOptions::default(), cut);
        let results: Vec<&str> = said(&report).iter().map(|line| line.rsplit_once(": ").expect("a result").1).collect();
        // EIO, not the EFAULT of a buffer that is not the function's.
        assert_eq!(results, ["held", "error 5", "error 5", "error 5", "written"], "{access}");
    }
}

#[test]
fn a_file_that_grows_by_much_does_not_block_others() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("disk.img");
    let mut disk = monohull_visor::disk::Disk::create(&path, 256 << 20, true).expect("an image");
    disk.write("file", &mut &b"in the image"[..], 12, 0).expect("room");
    drop(disk);
    let step = |name: &str, tries: Value| json!({ "name": name, "function": "file-probe", "args": { "tries": tries }, "timeout": "600s" });
    let tries = [
        json!([["until", "/m/looks", "/d/file"], ["grow", "/d/large", "200000000"], ["write", "/m/done", ""]]),
        json!([["write", "/m/looks", ""], ["until", "/m/done", "/d/file"]]),
    ];
    let report = run(&json!({
        "name": "grows",
        "functions": { "file-probe": { "image": "file-probe" } },
        "steps": [step("grow", tries[0].clone()), step("look", tries[1].clone())],
        "limits": { "carriers": 2 },
        "files": [{ "at": "/d", "image": path }, { "at": "/m", "memory": "1MiB" }],
    }));
    let lines = said(&report);
    assert_eq!(lines[1], "grow /d/large 200000000: grown");
    let looked = &report.steps[1].instances[0].lines[1].text;
    let times = looked.rsplit_once(": ").and_then(|(_, times)| times.strip_suffix(" times")?.parse::<u32>().ok());
    // One that has to wait for the other reads it once, or twice.
    assert!(times.expect("a number") > 10, "{looked}");
}

#[test]
fn a_directory_is_synced_where_it_is() {
    let host = Host::new();
    let folder = TempDir::new().expect("a folder");
    let files = json!([
        { "at": "/host", "directory": host.at("granted"), "access": "write" },
        { "at": "/d", "image": image(folder.path()), "access": "write" },
    ]);
    let tries = json!([
        ["sync", "/host"],
        ["sync", "/host/inner"],
        ["sync", "/host/file"],
        ["sync", "/d"],
        ["sync", "/d/file"],
        ["sync", "/"],
        ["sync", "/host/nothing"],
    ]);
    let report = tried(files, tries);
    let results: Vec<&str> = said(&report).iter().map(|line| line.rsplit_once(": ").expect("a result").1).collect();
    assert_eq!(results, ["0 bytes", "0 bytes", "0 bytes", "0 bytes", "0 bytes", "0 bytes", "error 2"]);
}
