//! A workflow with mapped files and with hidden memory is captured, and another domain goes on with it: what was there of a mapping is as it
//! was, whatever has become of its file.
//!
//! `MONOHULL_NAPS` is how often each walk is interrupted; without it some dozen times.

mod support;

use monohull_abi::layout::{CELL_SIZE, MAPPINGS_OFFSET, PAGE, cell_base};
use monohull_visor::disk::Disk;
use monohull_visor::domain::checkpoint::record::MappedFileRecord;
use monohull_visor::domain::checkpoint::{Continuation, Rejected, RestoreError};
use monohull_visor::engine::{HostError, Ready, RunEnd, RunOptions};
use monohull_visor::report::{RunReport, Silent, Status};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use support::{ready, report, suspended};
use tempfile::TempDir;

/// Bytes of the file, as the function would make it.
const BIG: usize = (5 << 20) + 1234;

fn naps() -> usize {
    std::env::var("MONOHULL_NAPS").map_or(40, |naps| naps.parse().expect("a number"))
}

fn content() -> Vec<u8> {
    (0..BIG).map(|place| ((place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// A folder with a disk image and a granted directory in it, each with the file.
struct Host(TempDir);

impl Host {
    fn new() -> Host {
        let folder = TempDir::new().expect("a folder");
        fs::create_dir(folder.path().join("granted")).expect("a folder");
        fs::write(folder.path().join("granted/big"), content()).expect("a file");
        let image = folder.path().join("disk.img");
        let mut disk = Disk::create(&image, 96 << 20, true).expect("an image");
        disk.write("big", &mut &content()[..], BIG as u64, 0).expect("room");
        Host(folder)
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.path().join("granted/big")
    }

    fn directory(&self, access: &str) -> Value {
        json!({ "at": "/data", "directory": self.0.path().join("granted"), "access": access })
    }

    fn image(&self, access: &str) -> Value {
        json!({ "at": "/data", "image": self.0.path().join("disk.img"), "access": access })
    }
}

fn memory() -> Value {
    json!({ "at": "/data", "memory": "64MiB" })
}

fn probe(how: &str, mount: &Value) -> Ready {
    ready(&json!({
        "name": "mapped",
        "functions": { "mmap-probe": { "image": "mmap-probe" } },
        "steps": [{ "name": "map", "function": "mmap-probe", "memory": "256MiB",
                    "args": { "how": how, "folder": "/data", "naps": naps() } }],
        "files": [mount],
    }))
}

fn run(ready: &Ready, continuation: Option<Continuation>) -> Result<RunEnd, HostError> {
    let least = Some(Duration::from_secs(1));
    ready.run_from(continuation, least, &RunOptions::default(), Arc::new(Silent))
}

fn go_on(ready: &Ready, mut continuation: Continuation) -> Result<RunEnd, HostError> {
    // As if it had lain there until its first timer was due.
    continuation.wall = 0;
    run(ready, Some(continuation))
}

/// What is left of a run that naps, in its first nap.
fn napping(ready: &Ready) -> Continuation {
    suspended(run(ready, None).expect("the host can hold a domain")).continuation
}

#[track_caller]
fn lines(report: &RunReport) -> Vec<&str> {
    let instance = &report.steps[0].instances[0];
    let lines = instance.lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(report.status, Status::Done, "{:#?} {lines:#?}", report.error);
    assert!(report.not_suspended.is_none(), "{:?}", report.not_suspended);
    lines
}

/// Random steps beside a model, each some of them in another domain.
#[test]
fn whatever_happens_to_a_file_a_page_stays_as_it_was_first_seen_over_captures() {
    let _one = support::one_at_a_time();
    let host = Host::new();
    for mount in [memory(), host.image("write"), host.image("copy"), host.directory("write")] {
        let cuts = mount.get("directory").is_none();
        let ready = probe(if cuts { "model-with-naps" } else { "model-but-cut-with-naps" }, &mount);
        let mut end = run(&ready, None).expect("the host can hold a domain");
        let mut times = 0;
        while let RunEnd::Suspended(suspended) = end {
            times += 1;
            end = go_on(&ready, suspended.continuation).unwrap_or_else(|error| panic!("{mount}, {times}: {error}"));
        }
        let ended = report(end);
        assert!(lines(&ended).last().is_some_and(|line| line.contains(" steps: ")), "{mount}: {:?}", lines(&ended));
        assert!(times >= naps(), "{mount}: suspended {times} times");
    }
    let mut left = Disk::open(&host.0.path().join("disk.img"), true).expect("it can be used");
    assert!(left.check(false).expect("readable").findings.is_empty());
}

/// How much of a continuation is of mapped files.
fn pages_of_files(continuation: &Continuation) -> usize {
    let of_files = |address: u64| (address - cell_base(0)) % CELL_SIZE >= MAPPINGS_OFFSET;
    let runs = continuation.pages.iter().filter(|run| of_files(run.address));
    runs.map(|run| run.bytes.len() / PAGE as usize).sum()
}

#[test]
fn what_was_touched_goes_on_on_every_kind_of_mount() {
    let _one = support::one_at_a_time();
    let host = Host::new();
    let mounts = [
        memory(),
        host.image("read"),
        host.image("write"),
        host.image("copy"),
        host.directory("read"),
        host.directory("write"),
    ];
    for mount in mounts {
        let ready = probe("nap", &mount);
        let continuation = napping(&ready);
        // A small one lies where there is room between large ones.
        let [ref seen, ref small, ref copy] = continuation.instances[0].files[..] else { panic!("three mappings") };
        assert_eq!((&*seen.path, seen.len, seen.offset, seen.writable), ("data/big", BIG as u64, 0, false), "{mount}");
        assert_eq!((copy.len, copy.writable), (BIG as u64, true), "{mount}");
        assert_eq!((small.len, &small.there), (5000, &vec![(small.start, 2 * PAGE)]), "{mount}");
        // Pages as the file has them are in the checkpoint only if the file may become another one.
        let (pages, is_hosts) = (pages_of_files(&continuation), mount.get("directory").is_some());
        let (least, most) = if is_hosts { (5, 8) } else { (2, 2) };
        assert!((least..=most).contains(&pages), "{mount}: {pages} pages");
        let ended = report(go_on(&ready, continuation).unwrap_or_else(|error| panic!("{mount}: {error}")));
        assert!(lines(&ended).contains(&"not touched before: true"), "{mount}: {:?}", lines(&ended));
    }
}

/// A file of a granted directory that changes while a workflow is suspended: pages that were touched are as they were, others as the file.
#[test]
fn a_file_that_changes_meanwhile_takes_nothing_away() {
    let _one = support::one_at_a_time();
    let host = Host::new();
    let ready = probe("nap", &host.directory("read"));
    let continuation = napping(&ready);
    // In place: a new file would be another one.
    let write = |bytes: &[u8]| {
        use std::os::unix::fs::FileExt;
        let file = fs::OpenOptions::new().write(true).open(host.file()).expect("it is there");
        file.write_all_at(bytes, 0).expect("room");
    };
    write(&vec![0xa5; BIG]);
    let ended = report(go_on(&ready, continuation.clone()).expect("the host can hold a domain"));
    assert!(lines(&ended).contains(&"not touched before: false"), "{:?}", lines(&ended));
    // Cut: what was touched is there, and what was not is gone.
    fs::OpenOptions::new().write(true).open(host.file()).and_then(|file| file.set_len(100)).expect("it is there");
    let ended = report(go_on(&ready, continuation.clone()).expect("the host can hold a domain"));
    let said: Vec<&str> = ended.steps[0].instances[0].lines.iter().map(|line| line.text.as_str()).collect();
    assert!(said.contains(&"a small mapping is as it was"), "{said:?}");
    let error = ended.error.expect("a page is gone").message;
    assert!(error.contains("byte 2097152 of `/data/big`, mapped there, which cannot be read"), "{error}");
    // Replaced, or gone.
    let refusal = || match go_on(&ready, continuation.clone()) {
        Err(HostError::Restore(error)) => error.to_string(),
        Err(error) => panic!("refused otherwise: {error}"),
        Ok(_) => panic!("it has gone on"),
    };
    fs::rename(host.file(), host.0.path().join("old")).expect("renamed");
    let gone = refusal();
    assert!(gone.contains("`mmap-probe`") && gone.contains("`/data/big`: it is not there any more"), "{gone}");
    fs::write(host.file(), content()).expect("a file");
    let other = refusal();
    assert!(other.contains("`/data/big`: another file is there now"), "{other}");
    fs::rename(host.0.path().join("old"), host.file()).expect("renamed");
    write(&content());
    assert_eq!(
        lines(&report(go_on(&ready, continuation).expect("it is there again"))).last(),
        Some(&"a copy can be written to")
    );
}

/// An image that has changed is another one.
#[test]
fn an_image_that_changes_meanwhile_is_refused() {
    let _one = support::one_at_a_time();
    let host = Host::new();
    for access in ["read", "copy", "write"] {
        let ready = probe("nap", &host.image(access));
        let continuation = napping(&ready);
        let mut disk = Disk::open(&host.0.path().join("disk.img"), true).expect("it can be used");
        disk.write(&format!("after-{access}"), &mut &b"more"[..], 4, 0).expect("room");
        drop(disk);
        let error = go_on(&ready, continuation).err().expect("it is another image").to_string();
        assert!(error.contains("the disk image at `/data`: the file has changed, or is another one"), "{error}");
    }
}

/// An image that another run has claimed while the checkpoint lay is refused, and is gone on with once that has ended.
#[test]
fn an_image_that_is_in_use_meanwhile_is_refused_until_it_is_free() {
    let _one = support::one_at_a_time();
    let host = Host::new();
    // Who writes is alone. Readers are so together.
    for (access, writes) in [("read", true), ("copy", true), ("write", true), ("write", false)] {
        let ready = probe("nap", &host.image(access));
        let continuation = napping(&ready);
        let claimed = Disk::open(&host.0.path().join("disk.img"), writes).expect("nothing has it");
        let refused = report(go_on(&ready, continuation.clone()).expect("the host can hold a domain"));
        let why = &refused.error.as_ref().expect("it does not go on").message;
        assert!(refused.status == Status::Failed && why.contains("is in use"), "{access}: {why}");
        drop(claimed);
        let resumed = report(go_on(&ready, continuation).expect("it is as it was"));
        assert_eq!(lines(&resumed).last(), Some(&"a copy can be written to"), "{access}: {:#?}", resumed.error);
    }
}

/// What an edited continuation would give its author.
#[test]
fn mapped_files_are_checked_as_a_message_from_a_stranger() {
    let _one = support::one_at_a_time();
    let ready = probe("nap", &memory());
    let good = napping(&ready);
    assert_eq!(good.instances[0].files.len(), 3);
    type Change = Box<dyn Fn(&mut Continuation)>;
    let file = |index: usize, change: fn(&mut MappedFileRecord)| -> Change {
        Box::new(move |c| change(&mut c.instances[0].files[index]))
    };
    let changes: Vec<(Rejected, Change)> = vec![
        (Rejected::MappedFile, file(0, |file| file.start += 8)),
        (Rejected::MappedFile, file(0, |file| file.start -= PAGE)),
        (Rejected::MappedFile, file(0, |file| file.start = cell_base(0))),
        (Rejected::MappedFile, file(0, |file| file.start = 0)),
        (Rejected::MappedFile, file(0, |file| file.start = u64::MAX - PAGE + 1)),
        (Rejected::MappedFile, file(2, |file| file.start = cell_base(1) - PAGE)),
        (Rejected::MappedFile, file(0, |file| file.len = 0)),
        (Rejected::MappedFile, file(0, |file| file.len = u64::MAX)),
        (Rejected::MappedFile, file(0, |file| file.len += 4 << 20)),
        (Rejected::MappedFile, file(2, |file| file.len = 16 << 30)),
        (Rejected::MappedFile, file(0, |file| file.offset = u64::MAX)),
        (Rejected::MappedFile, file(0, |file| file.offset = i64::MAX as u64)),
        (Rejected::MappedFile, file(0, |file| file.path = "x".repeat(4097))),
        (Rejected::MappedFile, file(1, |file| file.there[0].0 += 8)),
        (Rejected::MappedFile, file(1, |file| file.there[0].0 -= PAGE)),
        (Rejected::MappedFile, file(1, |file| file.there[0].1 += 1)),
        (Rejected::MappedFile, file(1, |file| file.there[0].1 += PAGE)),
        (Rejected::MappedFile, file(1, |file| file.there[0].1 = 0)),
        (Rejected::MappedFile, file(1, |file| file.there[0].1 = u64::MAX)),
        (Rejected::MappedFile, file(1, |file| file.there = vec![(file.start, PAGE), (file.start + PAGE, PAGE)])),
        (Rejected::MappedFile, file(1, |file| file.there = vec![(file.start + PAGE, PAGE), (file.start, PAGE)])),
        (Rejected::MappedFile, Box::new(|c| c.instances[0].files.swap(0, 1))),
        (Rejected::MappedFile, Box::new(|c| c.instances[0].files[1] = c.instances[0].files[0].clone())),
        (Rejected::MemoryLimit, file(2, |file| file.len = 8 << 30)),
        // One that the module does not have, and contents where nothing was.
        (
            Rejected::ModuleFiles,
            Box::new(|c| {
                let mut more = c.instances[0].files[2].clone();
                more.start += more.len.next_multiple_of(PAGE) + PAGE;
                more.there.clear();
                c.instances[0].files.push(more);
            }),
        ),
        (Rejected::Pages, file(2, |file| file.there.clear())),
    ];
    for (index, (expected, change)) in changes.into_iter().enumerate() {
        let mut bad = good.clone();
        change(&mut bad);
        match go_on(&ready, bad) {
            Err(HostError::Restore(RestoreError::Rejected(rejected))) if rejected == expected => {}
            Err(error) => panic!("change {index} is refused otherwise: {error}"),
            Ok(_) => panic!("change {index} is accepted, which should be refused: {expected}"),
        }
    }
    // What the module has, and the records do not.
    let changes: [Change; 4] = [
        file(0, |file| file.offset += 1),
        file(0, |file| file.len -= PAGE),
        file(1, |file| file.start += PAGE),
        Box::new(|c| _ = c.instances[0].files.pop()),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut bad = good.clone();
        change(&mut bad);
        bad.instances[0].files.iter_mut().for_each(|file| file.there.clear());
        bad.pages.retain(|run| (run.address - cell_base(0)) % CELL_SIZE < MAPPINGS_OFFSET);
        match go_on(&ready, bad) {
            Err(HostError::Restore(RestoreError::Module(_))) => {}
            Err(error) => panic!("change {index} is refused otherwise: {error}"),
            Ok(_) => panic!("change {index} is accepted"),
        }
    }
    // All that is there, of all of it: more than there was, and as the file has it.
    let mut more = good.clone();
    for file in &mut more.instances[0].files {
        file.there = vec![(file.start, file.len.next_multiple_of(PAGE))];
    }
    assert_eq!(lines(&report(go_on(&ready, more).expect("it is no worse"))).last(), Some(&"a copy can be written to"));
    assert_eq!(lines(&report(go_on(&ready, good).expect("it is good"))).last(), Some(&"a copy can be written to"));
}

/// A checkpoint file has them, and `describe` names them.
#[test]
fn a_checkpoint_says_which_files_are_mapped() {
    let host = Host::new();
    let document = json!({
        "name": "mapped",
        "functions": { "mmap-probe": { "image": support::image("mmap-probe") } },
        "steps": [{ "name": "map", "function": "mmap-probe", "memory": "256MiB", "args": { "how": "nap", "folder": "/data" } }],
        "files": [host.directory("read")],
    });
    let workflow = host.0.path().join("mapped.json");
    fs::write(&workflow, document.to_string()).expect("a file");
    let folder = host.0.path().join("state");
    let monohull = |arguments: &[&Path]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_monohull"));
        command.args(arguments).env("STATE_DIRECTORY", &folder).env("XDG_STATE_HOME", &folder);
        let output = command.output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stdout).expect("text"))
    };
    let checkpoints = host.0.path().join("checkpoints");
    let (code, said) = monohull(&[Path::new("run"), &workflow, Path::new("--suspend"), &checkpoints]);
    assert_eq!(code, Some(4), "{said}");
    let file = fs::read_dir(&checkpoints).expect("a folder").map(|entry| entry.expect("a file").path()).next();
    let file = file.expect("a checkpoint");
    let (code, said) = monohull(&[Path::new("checkpoint"), Path::new("describe"), &file]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("{BIG} bytes of `/data/big` from 0 on at ")), "{said}");
    assert!(said.contains("mapped files: "), "{said}");
    let (code, said) = monohull(&[Path::new("checkpoint"), Path::new("describe"), &file, Path::new("--json")]);
    let described: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((code, &described["instances"][0]["mapped_files"][1]["bytes"]), (Some(0), &json!(5000)), "{said}");
}
