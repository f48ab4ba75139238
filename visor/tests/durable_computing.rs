//! `monohull run --state DIR --checkpoint-every TIME`: a workflow that only computes is kept in its midst, and goes on from there after a
//! kill, with the right result.

#[path = "support/program.rs"]
mod program;

use monohull_abi::layout::PAGE;
use monohull_checkpoint::record::RegistersRecord;
use monohull_checkpoint::{Checkpoint, Heat, Key, Packing, Pages, Trust, seal, write};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use program::{command, document, monohull, refused, write_workflow_of};
use serde_json::json;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

/// A second or two.
const ROUNDS: u64 = 700_000_000;
const EVERY: &str = "100ms";
const DURABLE: [&str; 9] =
    ["run", "w.json", "--state", "state", "--id", "one", "--output", "result=result.txt", "--checkpoint-every"];

/// A folder with a workflow that computes for so many rounds.
fn computes(rounds: u64) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let steps = json!([{ "name": "c", "function": "preempted", "args": { "how": "compute", "rounds": rounds } }]);
    write_workflow_of(folder.path(), "computes", "preempted", &steps);
    folder
}

fn durable(folder: &Path) -> std::process::Command {
    command(folder, &[&DURABLE[..], &[EVERY]].concat())
}

/// The result of a run that nothing interrupts.
fn expected(folder: &Path) -> String {
    let output = monohull(folder, &["run", "w.json", "--output", "result=plain.txt"]);
    assert!(output.status.success(), "{output:?}");
    fs::read_to_string(folder.join("plain.txt")).expect("a result")
}

fn checkpoints(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("state/checkpoints")).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "checkpoint"));
    paths.sort();
    paths
}

/// Starts the invocation, and kills the process once there are so many checkpoints. Whether it was still computing.
fn run_until(folder: &Path, count: usize) -> bool {
    let mut child = durable(folder).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    while checkpoints(folder).len() < count {
        if child.try_wait().expect("a child").is_some() {
            return false;
        }
        sleep(Duration::from_millis(1));
    }
    let killed = kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).is_ok();
    !child.wait().expect("it ends").success() && killed
}

#[test]
fn a_computation_is_kept_in_its_midst_and_its_result_does_not_change() {
    let folder = computes(ROUNDS);
    let expected = expected(folder.path());
    let output = durable(folder.path()).output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(folder.path().join("result.txt")).expect("a result"), expected);
    let shown = document(&monohull(folder.path(), &["show", "one", "--state", "state", "--json"]));
    assert!(shown["generation"].as_u64().is_some_and(|generation| generation > 1), "{shown:#}");
}

/// The epochs and generations in the names of checkpoints.
fn numbers(folder: &Path) -> Vec<(u64, u64)> {
    let names = checkpoints(folder).into_iter();
    let numbers = names.map(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
        let [_, epoch, generation, _] = name.split('.').collect::<Vec<_>>()[..] else { panic!("{name}") };
        (epoch.parse().expect("a number"), generation.parse().expect("a number"))
    });
    numbers.collect()
}

/// One process computes from the beginning to the end: it is not started again for each checkpoint.
#[test]
fn a_computation_goes_on_in_its_process() {
    let folder = computes(ROUNDS);
    let mut child = durable(folder.path()).stdout(Stdio::null()).spawn().expect("the program starts");
    let mut seen = std::collections::BTreeSet::new();
    while child.try_wait().expect("a child").is_none() {
        seen.extend(numbers(folder.path()));
        sleep(Duration::from_millis(1));
    }
    assert!(child.wait().expect("it ends").success());
    let (epochs, generations): (Vec<_>, Vec<_>) = seen.into_iter().unzip();
    assert!(generations.len() > 1 && generations.is_sorted(), "{generations:?}");
    assert!(epochs.iter().all(|epoch| *epoch == 1), "{epochs:?}");
}

/// With `--detach` the first checkpoint is the end of the process.
#[test]
fn a_detached_computation_ends_at_its_first_checkpoint() {
    let folder = computes(ROUNDS);
    let expected = expected(folder.path());
    let output = command(folder.path(), &[&DURABLE[..], &[EVERY, "--detach"]].concat()).output().expect("it starts");
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let shown = document(&monohull(folder.path(), &["show", "one", "--state", "state", "--json"]));
    assert!(shown["status"] == "suspended" && shown["generation"] == 1, "{shown:#}");
    let output = monohull(folder.path(), &["wake", "--state", "state"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(folder.path().join("result.txt")).expect("a result"), expected);
}

/// Starts a workflow that never ends, and waits for its first checkpoint.
fn endless(folder: &Path) -> std::process::Child {
    let steps = json!([{ "name": "c", "function": "preempted", "args": { "how": "spin", "rounds": 0 } }]);
    write_workflow_of(folder, "endless", "preempted", &steps);
    let mut document: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("w.json")).expect("a workflow")).expect("JSON");
    document["outputs"] = json!([]);
    fs::write(folder.join("w.json"), document.to_string()).expect("written");
    let args = ["run", "w.json", "--state", "state", "--id", "one", "--checkpoint-every", EVERY];
    let child = command(folder, &args).stdout(Stdio::null()).spawn().expect("the program starts");
    while checkpoints(folder).is_empty() {
        sleep(Duration::from_millis(1));
    }
    child
}

/// What is done to a computation by hand takes effect at its next checkpoint.
#[test]
fn a_computation_can_be_paused_and_cancelled() {
    let folder = TempDir::new().expect("a folder");
    let mut child = endless(folder.path());
    let output = monohull(folder.path(), &["pause", "one", "--state", "state"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(child.wait().expect("it ends").code(), Some(4));
    let shown = document(&monohull(folder.path(), &["show", "one", "--state", "state", "--json"]));
    assert_eq!(shown["status"], "paused", "{shown:#}");
    assert!(monohull(folder.path(), &["resume", "one", "--state", "state"]).status.success());
    let mut child =
        command(folder.path(), &["wake", "--state", "state"]).stdout(Stdio::null()).spawn().expect("it starts");
    let generation = shown["generation"].as_u64().expect("a number");
    while numbers(folder.path()).iter().all(|(_, number)| *number <= generation) {
        sleep(Duration::from_millis(1));
    }
    let output = monohull(folder.path(), &["cancel", "one", "--state", "state"]);
    assert!(output.status.success(), "{output:?}");
    assert!(child.wait().expect("it ends").success());
    let shown = document(&monohull(folder.path(), &["show", "one", "--state", "state", "--json"]));
    assert_eq!(shown["status"], "cancelled", "{shown:#}");
    assert!(checkpoints(folder.path()).is_empty());
}

/// An event that is sent to a workflow which computes reaches a function that waits for it, in the same process.
#[test]
fn a_computation_gets_events() {
    let folder = TempDir::new().expect("a folder");
    let image = |name: &str| json!({ "image": program::image(name).to_str().expect("UTF-8") });
    let document = json!({
        "name": "waits-and-computes",
        "functions": { "preempted": image("preempted"), "inbox": image("inbox") },
        "steps": [
            { "name": "c", "function": "preempted", "args": { "how": "compute", "rounds": 3 * ROUNDS } },
            { "name": "i", "function": "inbox", "args": { "events": ["go"], "fills": "log" } },
        ],
        "outputs": ["result", "log"],
    });
    fs::write(folder.path().join("w.json"), document.to_string()).expect("written");
    let args = [&DURABLE[..8], &["--output", "log=log.txt", "--checkpoint-every", EVERY]].concat();
    let mut child = command(folder.path(), &args).stdout(Stdio::null()).spawn().expect("the program starts");
    while checkpoints(folder.path()).is_empty() {
        sleep(Duration::from_millis(1));
    }
    let output = monohull(folder.path(), &["send", "one", "go", "--data", "now", "--state", "state"]);
    assert!(output.status.success(), "{output:?}");
    let mut epochs = std::collections::BTreeSet::new();
    while child.try_wait().expect("a child").is_none() {
        epochs.extend(numbers(folder.path()).into_iter().map(|(epoch, _)| epoch));
        sleep(Duration::from_millis(1));
    }
    assert!(child.wait().expect("it ends").success());
    assert_eq!(fs::read_to_string(folder.path().join("log.txt")).expect("a result"), "go: now\n");
    assert!(epochs.into_iter().eq([1]), "it was not suspended in between");
}

#[test]
fn a_killed_computation_goes_on_from_its_last_checkpoint() {
    let folder = computes(ROUNDS);
    let expected = expected(folder.path());
    // With each kill it has come further. The last process that is started attaches to it, and follows it to its end.
    for count in [1, 2, 4] {
        assert!(run_until(folder.path(), count), "it has ended before its checkpoint {count}");
    }
    let shown = document(&monohull(folder.path(), &["show", "one", "--state", "state", "--json"]));
    let generation = shown["generation"].as_u64().expect("a number");
    assert!(generation > 0, "{shown:#}");
    // The worker of a killed process may live for a moment longer, and with it the lock.
    let mut tries = 0;
    while !folder.path().join("result.txt").exists() {
        let output = monohull(folder.path(), &["wake", "--state", "state"]);
        assert!(output.status.success() && tries < 1000, "{output:?}");
        tries += 1;
        sleep(Duration::from_millis(10));
    }
    assert_eq!(fs::read_to_string(folder.path().join("result.txt")).expect("a result"), expected);
    let shown = document(&monohull(folder.path(), &["show", "one", "--state", "state", "--json"]));
    assert!(shown["status"] == "completed" && shown["generation"].as_u64() >= Some(generation), "{shown:#}");
}

/// The processes whose parent is this one.
fn children(parent: u32) -> Vec<i32> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has_parent = |id: &i32| {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|rest| rest.trim() == parent.to_string()))
    };
    ids.filter(has_parent).collect()
}

/// The process that computes is killed, and the one above it starts another.
#[test]
fn a_killed_worker_is_replaced_by_one_that_goes_on_from_the_last_checkpoint() {
    let folder = computes(2 * ROUNDS);
    let expected = expected(folder.path());
    let mut child = durable(folder.path()).stdout(Stdio::null()).spawn().expect("the program starts");
    while checkpoints(folder.path()).len() < 2 {
        sleep(Duration::from_millis(1));
    }
    let workers = children(child.id());
    assert_eq!(workers.len(), 1, "{workers:?}");
    kill(Pid::from_raw(workers[0]), Signal::SIGKILL).expect("it is there");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(fs::read_to_string(folder.path().join("result.txt")).expect("a result"), expected);
    let shown = document(&monohull(folder.path(), &["show", "one", "--state", "state", "--json"]));
    assert!(shown["status"] == "completed" && shown["generation"].as_u64() >= Some(2), "{shown:#}");
}

/// The key of the tests' user, which `run` has made.
fn key() -> Key {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("monohull/checkpoint.key");
    Key::new(fs::read(path).expect("a key").try_into().expect("32 bytes"))
}

/// Writes a checkpoint again, sealed by its owner, with edited registers.
fn edited(path: &Path, to: &Path, change: impl Fn(&mut RegistersRecord)) -> Result<(), monohull_checkpoint::Error> {
    let file = File::open(path).expect("it is there");
    let good = Checkpoint::read(file, Trust::Key(&key())).expect("it is good");
    let mut contents = good.contents().clone();
    change(contents.registers.first_mut().expect("a thread was interrupted"));
    let mut memory = Vec::new();
    for run in good.runs() {
        if let monohull_checkpoint::Content::Here { stored } = run.content {
            let mut bytes = vec![0; (run.count * PAGE) as usize];
            good.read_pages(stored, &mut bytes).expect("its pages are good");
            memory.push((run.address, bytes));
        }
    }
    let mut pages = Pages::new();
    for (address, bytes) in &memory {
        pages.here(*address, bytes, Heat::Rest).expect("as they were");
    }
    let _ = fs::remove_file(to);
    let mut file = File::options().read(true).write(true).create_new(true).open(to).expect("made");
    write(&mut file, &contents, &pages, Packing::Raw)?;
    seal(&file, &key()).map(|_| ())
}

/// A folder with a workflow that changes memory of each kind for a second or two, and knows what it must hold.
fn changes_memory() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let steps = json!([{ "name": "m", "function": "preempted", "args": { "how": "memory", "rounds": 300_000 } }]);
    write_workflow_of(folder.path(), "changes-memory", "preempted", &steps);
    folder
}

/// What `describe` says of a checkpoint's parent.
fn parent_of(folder: &Path, checkpoint: &Path) -> serde_json::Value {
    let args = ["checkpoint", "describe", checkpoint.to_str().expect("UTF-8"), "--json"];
    document(&monohull(folder, &args))["parent"].clone()
}

/// The checkpoints, the oldest first.
fn in_order(folder: &Path) -> Vec<PathBuf> {
    let mut numbered: Vec<_> = numbers(folder).into_iter().zip(checkpoints(folder)).collect();
    numbered.sort();
    numbered.into_iter().map(|(_, path)| path).collect()
}

fn name(path: &Path) -> String {
    path.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned()
}

/// Goes on with the invocation to its end; its result.
fn result_of(folder: &Path) -> String {
    // The worker of a killed process may live for a moment longer, and with it the lock.
    let mut tries = 0;
    while !folder.join("result.txt").exists() {
        let output = monohull(folder, &["wake", "--state", "state"]);
        assert!(output.status.success() && tries < 1000, "{output:?}");
        tries += 1;
        sleep(Duration::from_millis(10));
    }
    fs::read_to_string(folder.join("result.txt")).expect("a result")
}

/// Each takes from the one before what has not changed. One that is missing, damaged or another's is named, and nothing goes on from what
/// needs it.
#[test]
fn later_checkpoints_need_those_before_them() {
    let folder = changes_memory();
    let (folder, expected) = (folder.path(), expected(folder.path()));
    assert!(run_until(folder, 4), "it has ended before");
    let files = in_order(folder);
    let verify = |file: &Path| monohull(folder, &["checkpoint", "verify", file.to_str().expect("UTF-8")]);
    assert_eq!(parent_of(folder, &files[0]), serde_json::Value::Null, "the first one is whole");
    for (depth, pair) in (1..).zip(files.windows(2)) {
        let parent = parent_of(folder, &pair[1]);
        if parent.is_null() {
            break;
        }
        assert_eq!((&parent["file"], &parent["depth"]), (&json!(name(&pair[0])), &json!(depth)), "{parent:#}");
        assert_eq!((&parent["found"], &parent["changes"]), (&json!(true), &json!("comparing hashes of pages")));
    }
    let (first, second) = (&files[0], &files[1]);
    assert!(parent_of(folder, second).is_object(), "the second one is not whole");
    assert!(verify(second).status.success());
    let diff = |one: &Path, other: &Path| {
        monohull(
            folder,
            &["checkpoint", "diff", one.to_str().expect("UTF-8"), other.to_str().expect("UTF-8"), "--json"],
        )
    };
    let different = document(&diff(first, second));
    assert!(different["second_follows_first"] == true && different["same_pages"].as_u64() > Some(0), "{different:#}");

    let good = fs::read(first).expect("it is there");
    let wrong = |what: &str| {
        let verdict = verify(second);
        let text = String::from_utf8_lossy(&verdict.stdout).into_owned();
        let named = text.contains(&format!("takes pages from {}, which", name(first))) && text.contains(what);
        assert!(verdict.status.code() == Some(1) && named, "{what}: {text}");
        assert_eq!(parent_of(folder, second)["found"], false, "{what}");
        refused(&monohull(folder, &["resume", second.to_str().expect("UTF-8")]), 2, &name(first));
        assert_eq!(diff(first, second).status.code(), Some(2), "{what}");
    };
    fs::remove_file(first).expect("removed");
    wrong("is not there");
    let mut damaged = good.clone();
    damaged[200] ^= 1;
    fs::write(first, &damaged).expect("written");
    wrong("is damaged");
    fs::copy(second, first).expect("written");
    wrong("checkpoints before it");
    fs::write(first, &good).expect("written");
    assert!(verify(second).status.success(), "the positive control");
    assert_eq!(result_of(folder), expected);
    assert!(checkpoints(folder).is_empty(), "nothing needs them any more");
}

/// 16 MiB in a file in memory of which one page changes: later checkpoints have that page, and a run goes on from them.
#[test]
fn files_in_memory_that_have_not_changed_are_taken_from_the_checkpoint_before() {
    const PAGES: u64 = 4096;
    let folder = TempDir::new().expect("a folder");
    let folder = folder.path();
    let steps = json!([{ "name": "f", "function": "preempted", "args": { "how": "one-page", "rounds": 3_000_000 } }]);
    write_workflow_of(folder, "changes-a-file", "preempted", &steps);
    let text = fs::read_to_string(folder.join("w.json")).expect("it is there");
    let mut workflow: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    workflow["files"] = json!([{ "at": "/work", "memory": "64MiB" }]);
    fs::write(folder.join("w.json"), workflow.to_string()).expect("written");
    let expected = expected(folder);
    assert!(run_until(folder, 5), "it has ended before");
    // Stored here, and as in the checkpoint before; with the bytes of the file.
    let numbers = |path: &PathBuf| {
        let described = monohull(folder, &["checkpoint", "describe", path.to_str().expect("UTF-8"), "--json"]);
        let described = document(&described);
        let kinds = described["pages"].as_array().expect("a list").iter();
        let files = kinds.filter(|kind| kind["of"] == "files in memory");
        let number = |what: &str| files.clone().filter_map(|kind| kind[what].as_u64()).sum::<u64>();
        (number("stored"), number("as_in_parent"), fs::metadata(path).expect("it is there").len())
    };
    let all: Vec<_> = in_order(folder).iter().map(numbers).collect();
    assert!(all.iter().any(|(stored, _, bytes)| *stored > PAGES && *bytes > PAGES * PAGE / 8), "{all:?}");
    let is_small = |(stored, before, bytes): &(u64, u64, u64)| *stored < 4 && *before >= PAGES && *bytes < 256 << 10;
    assert!(all.iter().any(is_small), "{all:?}");
    assert_eq!(result_of(folder), expected);
}

/// Of an invocation whose history has one checkpoint the others stay that this one needs, and no more: also if another invocation has become
/// the last that needs them.
#[test]
fn parents_stay_as_long_as_they_are_needed() {
    let folder = changes_memory();
    let (folder, expected) = (folder.path(), expected(folder.path()));
    let args = [&DURABLE[..], &[EVERY, "--keep", "1"]].concat();
    let mut child = command(folder, &args).stdout(Stdio::null()).spawn().expect("the program starts");
    let generation = |path: &PathBuf| name(path).split('.').nth(2).and_then(|number| number.parse::<u64>().ok());
    while checkpoints(folder).iter().filter_map(generation).max() < Some(3) {
        assert!(child.try_wait().expect("a child").is_none(), "it has ended before");
        sleep(Duration::from_millis(1));
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).expect("it is there");
    child.wait().expect("it ends");
    // It is paused where it is; the worker of the killed process may live for a moment longer.
    let paused = || {
        monohull(folder, &["pause", "one", "--state", "state"]);
        document(&monohull(folder, &["show", "one", "--state", "state", "--json"]))["status"] == "paused"
    };
    while !paused() {
        sleep(Duration::from_millis(10));
    }
    let listed = document(&monohull(folder, &["checkpoints", "one", "--state", "state", "--json"]));
    let listed = listed["checkpoints"].as_array().expect("a list").clone();
    assert_eq!(listed.len(), 1, "{listed:#?}");
    // A file that no commit has named is swept with the next copy.
    let output = monohull(folder, &["fork", "one", "--id", "two", "--paused", "--state", "state"]);
    assert!(output.status.success(), "{output:?}");
    let newest = document(&monohull(folder, &["show", "one", "--state", "state", "--json"]));
    let newest = folder.join("state/checkpoints").join(newest["checkpoint"]["file"].as_str().expect("a name"));
    let needed = |file: &Path| {
        let depth = parent_of(folder, file);
        assert!(depth.is_null() || depth["found"] == true, "{depth:#}");
        depth["depth"].as_u64().unwrap_or(0) as usize + 1
    };
    let count = needed(&newest);
    let there = checkpoints(folder).len();
    assert!(there == count || there == count + 1, "{there} files, and {count} are needed");
    // The first goes to its end; the copy still needs the same files.
    assert!(monohull(folder, &["resume", "one", "--state", "state"]).status.success());
    assert_eq!(result_of(folder), expected);
    assert_eq!(needed(&newest), count);
    assert_eq!(checkpoints(folder).len(), count);
    let purged = monohull(folder, &["purge", "one", "--state", "state"]);
    assert!(purged.status.success(), "{purged:?}");
    assert_eq!((needed(&newest), checkpoints(folder).len()), (count, count));
    let output = monohull(folder, &["cancel", "two", "--state", "state"]);
    assert!(output.status.success(), "{output:?}");
    assert!(monohull(folder, &["purge", "two", "--state", "state"]).status.success());
    assert!(checkpoints(folder).is_empty(), "{:?}", checkpoints(folder));
}

/// Even with the key of its owner an edit gains nothing: the registers are checked.
#[test]
fn a_checkpoint_with_edited_registers_is_refused() {
    let folder = computes(ROUNDS);
    assert!(run_until(folder.path(), 1), "it has ended before");
    let checkpoint = checkpoints(folder.path()).remove(0);
    let described = monohull(folder.path(), &["checkpoint", "describe", checkpoint.to_str().expect("UTF-8")]);
    let words = String::from_utf8_lossy(&described.stdout).into_owned();
    assert!(words.contains("was interrupted at 0x"), "{words}");
    let changed = folder.path().join("edited.checkpoint");
    // As it was, written anew, it is good: it is the edit that is refused.
    edited(&checkpoint, &changed, |_| {}).expect("it is as it was");
    let output = monohull(folder.path(), &["resume", "edited.checkpoint"]);
    assert!(output.status.success(), "{output:?}");
    // Outside of the image it is no checkpoint at all.
    for outside in [0, u64::MAX, 1 << 40, monohull_abi::layout::CARRIER_BASE] {
        assert!(edited(&checkpoint, &changed, |registers| registers.ip = outside).is_err(), "{outside:#x}");
    }
    // The image's last page is data.
    let heap = {
        let good = Checkpoint::read(File::open(&checkpoint).expect("it is there"), Trust::Key(&key())).expect("good");
        good.contents().instances[0].heap_start
    };
    edited(&checkpoint, &changed, |registers| registers.ip = heap - 8).expect("it may be code");
    refused(&monohull(folder.path(), &["resume", "edited.checkpoint"]), 2, "would go on outside of its code");
    edited(&checkpoint, &changed, |registers| registers.flags |= 1 << 8).expect("flags are the processor's");
    refused(&monohull(folder.path(), &["resume", "edited.checkpoint"]), 2, "no interrupted thread");
    edited(&checkpoint, &changed, |registers| registers.extended[26] = 1).expect("so are these");
    refused(&monohull(folder.path(), &["resume", "edited.checkpoint"]), 2, "no interrupted thread");
}

#[test]
fn times_that_cannot_be_are_refused() {
    let folder = computes(1);
    for (every, why) in [("10ms", "100ms or more"), ("0s", "100ms or more"), ("soon", "a time such as")] {
        let args = [&DURABLE[..], &[every]].concat();
        refused(&monohull(folder.path(), &args), 2, why);
    }
    refused(&monohull(folder.path(), &["run", "w.json", "--checkpoint-every", "1s"]), 2, "--state");
}
