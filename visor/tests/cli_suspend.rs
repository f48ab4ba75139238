//! `run --suspend` and `resume`: a workflow that waits is a file, and goes on in other processes.

#[path = "support/program.rs"]
mod program;

use monohull_abi::layout::{ARENA_BASE, PAGE};
use monohull_checkpoint::record::{Contents, FunctionRecord, PageRange, ThreadRecord, ThreadState, WaitOn};
use monohull_checkpoint::{Checkpoint, Content, Heat, Key, Packing, Pages, Run, Trust, seal, write};
use program::{NAP, RESULT, document, image, monohull, write_sleepers};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Bytes of an entry of a checkpoint's table of sections.
const ENTRY: usize = 64;

fn suspend(folder: &Path) -> PathBuf {
    let output = monohull(folder, &["run", "w.json", "--suspend", "waiting", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let document = document(&output);
    assert_eq!(document["status"], "suspended");
    let waits = document["waits"].as_array().expect("waits");
    assert!(waits.iter().any(|wait| wait["step"] == "second" && wait["what"] == "for a slot"), "{waits:?}");
    folder.join(document["checkpoint"].as_str().expect("a path"))
}

#[test]
fn a_workflow_goes_on_in_other_processes_and_writes_its_outputs() {
    let folder = TempDir::new().expect("a folder");
    write_sleepers(folder.path(), NAP);
    let output = monohull(folder.path(), &["run", "w.json", "--suspend", "waiting", "--output", "result=result.txt"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("waits       first[0] in a sleep until 2") && text.contains("sleepers suspended"), "{text}");
    let mut resumed = 0;
    loop {
        let mut files =
            fs::read_dir(folder.path().join("waiting")).expect("a folder").map(|entry| entry.expect("an entry").path());
        let checkpoint = files.next().expect("a checkpoint");
        assert!(files.next().is_none(), "there is one");
        // From another folder: paths in it are absolute.
        let path = checkpoint.to_str().expect("a path");
        let waiting = folder.path().join("waiting");
        let output = monohull(Path::new("/"), &["resume", path, "--suspend", waiting.to_str().expect("a path")]);
        fs::remove_file(&checkpoint).expect("it is still there");
        resumed += 1;
        match output.status.code() {
            Some(4) if resumed < 100 => {}
            Some(0) => break,
            _ => panic!("{output:?}"),
        }
    }
    assert!(resumed > 1, "the second step naps too");
    assert_eq!(fs::read_to_string(folder.path().join("result.txt")).expect("the output"), RESULT);
}

/// What so many threads wait for is a long list.
#[test]
fn a_workflow_with_a_thousand_waits_is_suspended() {
    let folder = TempDir::new().expect("a folder");
    let name = "a-name-of-more-than-forty-letters-for-a-step";
    let document = json!({
        "name": "many",
        "functions": { name: { "image": image("sleeper") } },
        "steps": [{
            "name": name, "function": name, "instances": 250, "memory": "1MiB", "stack": "64KiB",
            "args": { "naps": 1, "milliseconds": 3_600_000, "takes": "", "fills": "x" },
        }],
    });
    fs::write(folder.path().join("w.json"), document.to_string()).expect("written");
    let output = monohull(folder.path(), &["run", "w.json", "--suspend", "waiting", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let suspended = program::document(&output);
    let waits = suspended["waits"].as_array().expect("waits");
    assert!(waits.len() >= 1000 && waits.iter().all(|wait| wait["step"] == name), "{}", waits.len());
}

/// Each copy of a checkpoint is the same workflow: it can be gone on with more than once.
#[test]
fn a_checkpoint_can_be_resumed_again() {
    let folder = TempDir::new().expect("a folder");
    write_sleepers(folder.path(), NAP);
    let checkpoint = suspend(folder.path());
    assert!(fs::metadata(&checkpoint).expect("a file").len() < 40 * PAGE, "two small functions");
    for _ in 0..2 {
        let output = monohull(folder.path(), &["resume", checkpoint.to_str().expect("a path"), "--json"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let document = document(&output);
        assert_eq!(document["output"]["result"]["text"], RESULT);
        let lines = &document["steps"][0]["instances"][0]["lines"];
        assert_eq!(lines[0]["text"], "nap 0 … slept", "{lines}");
    }
}

/// Files in memory are part of the workflow, however many bytes they have.
#[test]
fn large_files_in_memory_are_kept() {
    const FILES: u64 = 17;
    const BYTES: u64 = 16 << 20;
    let folder = TempDir::new().expect("a folder");
    let on_each =
        |what: &dyn Fn(String) -> Value| (0..FILES).map(|file| what(format!("/t/{file}"))).collect::<Vec<_>>();
    let fills = on_each(&|file| json!(["fill", file, BYTES.to_string()]));
    let sizes = on_each(&|file| json!(["size", file]));
    let tries = [fills, vec![json!(["event", "go"])], sizes].concat();
    let document = json!({
        "name": "large",
        "functions": { "file-probe": { "image": image("file-probe") } },
        "steps": [{ "name": "try", "function": "file-probe", "args": { "tries": tries } }],
        "files": [{ "at": "/t", "memory": "512MiB" }],
    });
    fs::write(folder.path().join("w.json"), document.to_string()).expect("written");
    fs::write(folder.path().join("go"), "on").expect("written");
    let output = monohull(folder.path(), &["run", "w.json", "--suspend", "waiting", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let suspended = program::document(&output);
    let checkpoint = suspended["checkpoint"].as_str().expect("a path");
    assert!(suspended["bytes"].as_u64().expect("a number") < BYTES, "equal pages are stored once: {suspended}");
    let described = monohull(folder.path(), &["checkpoint", "describe", checkpoint]);
    assert_eq!(described.status.code(), Some(0), "{described:?}");
    let text = String::from_utf8_lossy(&described.stdout).into_owned();
    assert!(text.contains(&format!("pages       files in memory: {} stored", FILES * BYTES / 4096)), "{text}");
    let output = monohull(folder.path(), &["resume", checkpoint, "--event", "go=go"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.matches(&format!(": {BYTES} bytes")).count() as u64, FILES, "{text}");
}

#[test]
fn other_images_and_damaged_files_are_refused() {
    let folder = TempDir::new().expect("a folder");
    write_sleepers(folder.path(), 3_600_000);
    let checkpoint = suspend(folder.path());
    let path = checkpoint.to_str().expect("a path");
    let refused = |why: &str| {
        let output = monohull(folder.path(), &["resume", path]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(why), "{text}");
    };
    fs::copy(image("no-op"), folder.path().join("sleeper.so")).expect("copied");
    refused("function `sleeper` is not the one that the workflow was suspended with");
    fs::write(folder.path().join("sleeper.so"), "cut off").expect("written");
    refused("its images cannot be gone on with: the image sleeper is refused");
    fs::copy(image("sleeper"), folder.path().join("sleeper.so")).expect("copied");
    let good = fs::read(&checkpoint).expect("a file");
    for (section, at) in sections(&checkpoint) {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&checkpoint, &bad).expect("written");
        refused(&format!("it is damaged: section `{section}`"));
    }
    fs::write(&checkpoint, &good[..good.len() - 1]).expect("written");
    refused("it is truncated");
    // The format, which comes before all that is sealed.
    let mut newer = good.clone();
    newer[8..10].copy_from_slice(&2u16.to_le_bytes());
    fs::write(&checkpoint, &newer).expect("written");
    refused("a newer version of Monohull wrote it: its format is 2, and this program reads 1");
    fs::write(&checkpoint, "nothing of the kind").expect("written");
    refused("it is no checkpoint");
    fs::write(&checkpoint, &good).expect("written");
    let output = monohull(folder.path(), &["resume", path, "--suspend", "again"]);
    assert_eq!(output.status.code(), Some(4), "the unchanged one is good: {output:?}");
}

/// The name of each section, and the place of a byte in its middle: the header has 128 bytes.
fn sections(checkpoint: &Path) -> Vec<(String, usize)> {
    let file = fs::File::open(checkpoint).expect("a file");
    let checkpoint = Checkpoint::read(file, Trust::Unchecked).expect("a checkpoint");
    let mut end = 128 + checkpoint.sections().count() * ENTRY;
    let sections = checkpoint.sections().map(|section| {
        let (start, bytes) = (end, section.bytes as usize);
        end = start + bytes.next_multiple_of(8);
        (bytes > 0).then(|| (section.name(), start + bytes / 2))
    });
    sections.flatten().collect()
}

#[test]
fn a_suspended_workflow_is_a_checkpoint_that_can_be_looked_into() {
    let folder = TempDir::new().expect("a folder");
    write_sleepers(folder.path(), 3_600_000);
    let checkpoint = suspend(folder.path());
    let path = checkpoint.to_str().expect("a path");
    let output = monohull(folder.path(), &["checkpoint", "describe", path]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in [
        "instance    first[0]: `sleeper`, id 0x",
        " sleeps, at most until ",
        "instance    second[0]: `sleeper`, id 0x",
        " waits for slot `between`\n",
        "module      `mm`, version ",
        "pages       stacks: ",
        "pages       data of images: ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = monohull(folder.path(), &["checkpoint", "describe", "--json", path]);
    let described = document(&output);
    assert!(described["stored"]["pages"].as_u64().is_some_and(|pages| (4..40).contains(&pages)), "{described}");
    let slot = &described["instances"][1]["threads"][0];
    assert_eq!(
        (&slot["state"], &slot["on"], &slot["hostcall"]),
        (&json!("slot"), &json!("between"), &json!("SLOT_TAKE"))
    );
    let output = monohull(folder.path(), &["checkpoint", "verify", path]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let again = monohull(folder.path(), &["resume", path, "--suspend", "waiting", "--json"]);
    assert_eq!(again.status.code(), Some(4), "{again:?}");
    let again = folder.path().join(document(&again)["checkpoint"].as_str().expect("a path"));
    assert_eq!((contents(&checkpoint).identity.generation, contents(&again).identity.generation), (0, 1));
    let output = monohull(folder.path(), &["checkpoint", "diff", path, again.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(1), "the engine's times: {output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("engine      changed") && text.contains(" the same, 0 changed, 0 only in the first, 0 only"),
        "{text}"
    );
    let output = monohull(folder.path(), &["checkpoint", "diff", path, path]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

fn contents(checkpoint: &Path) -> Contents {
    let file = fs::File::open(checkpoint).expect("a file");
    Checkpoint::read(file, Trust::Unchecked).expect("a checkpoint").contents().clone()
}

/// What is complete and consistent is refused as well, if the user has not sealed it or this host is not enough for it.
#[test]
fn checkpoints_of_others_and_for_other_processors_are_refused() {
    let folder = TempDir::new().expect("a folder");
    write_sleepers(folder.path(), 3_600_000);
    let good = contents(&suspend(folder.path()));
    let forged = folder.path().join("forged.checkpoint");
    let path = forged.to_str().expect("a path");
    let refused = |contents: &Contents, key: Option<&Key>, code: i32, why: &str| {
        let file = fs::File::options().read(true).write(true).create(true).truncate(true).open(&forged).expect("made");
        write(&mut &file, contents, &Pages::new(), Packing::Raw).expect("written");
        key.map(|key| seal(&file, key).expect("sealed"));
        let output = monohull(folder.path(), &["resume", path]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && text.contains(why), "{output:?}");
    };
    let own = Key::load(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("monohull/checkpoint.key")).expect("the key");
    refused(&good, None, 2, "it is not authenticated");
    refused(&good, Some(&Key::new([1; 32])), 2, "another key has sealed it");
    let mut larger = good.clone();
    larger.identity.processor.words = vec![u64::MAX; 2];
    refused(&larger, Some(&own), 3, "this processor is not enough");
    let mut other = good;
    other.functions.push(FunctionRecord { name: "more".to_owned(), ..other.functions[0].clone() });
    other.engine.version += 1;
    refused(&other, Some(&own), 2, "its engine section has another version");
}

/// A seal says who wrote a file, and not that it is right: what the user's key has sealed is checked as any other file.
#[test]
fn edited_records_are_refused_in_spite_of_a_valid_seal() {
    let folder = TempDir::new().expect("a folder");
    write_sleepers(folder.path(), 3_600_000);
    let path = suspend(folder.path());
    let good = Checkpoint::read(fs::File::open(&path).expect("a file"), Trust::Unchecked).expect("a checkpoint");
    let own = Key::load(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("monohull/checkpoint.key")).expect("the key");
    let stored = |run: &Run| match run.content {
        Content::Here { stored } => {
            let mut bytes = vec![0; (run.count * PAGE) as usize];
            good.read_pages(stored, &mut bytes).expect("pages");
            bytes
        }
        _ => vec![0; (run.count * PAGE) as usize],
    };
    let memory: Vec<_> = good.runs().iter().map(|run| (run.address, stored(run))).collect();
    let resumed = |change: &dyn Fn(&mut Contents)| {
        let mut contents = good.contents().clone();
        change(&mut contents);
        let mut pages = Pages::new();
        memory.iter().for_each(|(address, bytes)| pages.here(*address, bytes, Heat::Rest).expect("pages"));
        let forged = folder.path().join("forged.checkpoint");
        let file = fs::File::options().read(true).write(true).create(true).truncate(true).open(&forged).expect("made");
        write(&mut &file, &contents, &pages, Packing::Lz4).expect("written");
        seal(&file, &own).expect("sealed");
        monohull(folder.path(), &["resume", forged.to_str().expect("a path"), "--suspend", "again"])
    };
    let output = resumed(&|_| {});
    assert_eq!(output.status.code(), Some(4), "unchanged, and packed otherwise, it is good: {output:?}");
    type Change = fn(&mut Contents);
    let changes: [(&str, Change); 9] = [
        ("an instance is not as the workflow has it", |c| c.instances[0].step.push('x')),
        ("an instance is not as the workflow has it", |c| c.instances[0].count += 1),
        ("an instance that the workflow does not have", |c| c.instances[0].attempt += 1),
        ("the heap of an instance has an impossible size", |c| {
            c.instances[0].heap_start += PAGE;
            c.instances[0].heap_end += PAGE;
        }),
        ("an instance has more memory than its limit", |c| c.instances[0].heap_end += 8 << 30),
        ("its instances are not those of the domain", |c| c.instances[0].token += 1),
        ("has used times", |c| c.instances[0].usage.run_ns = 1),
        ("a time lies before the capture", |c| {
            let sleeps =
                |thread: &&mut ThreadRecord| matches!(thread.state, ThreadState::Waiting { on: WaitOn::Time, .. });
            let thread = c.threads.iter_mut().find(sleeps).expect("one sleeps");
            thread.state = ThreadState::Waiting { on: WaitOn::Time, deadline: Some(0) };
        }),
        ("the pages of slot buffers are not those", |c| {
            let pages = PageRange { start: ARENA_BASE + 64 * PAGE, count: 1 };
            c.modules[0].pages.push(pages);
        }),
    ];
    for (why, change) in changes {
        let output = resumed(&change);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        // By this process or by the one that would go on: the file is at fault, and is named.
        assert!(output.status.code() == Some(2) && text.contains(why), "{why}: {output:?}");
        assert!(text.contains("forged.checkpoint"), "{text}");
    }
}

/// A checkpoint that another user has sealed is resumed with that user's key, if it is named, and with no other.
#[test]
fn the_key_that_is_named_is_the_one_that_must_have_sealed_it() {
    let folder = TempDir::new().expect("a folder");
    write_sleepers(folder.path(), 3_600_000);
    let state = folder.path().join("state");
    let with_state = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
        command.env("STATE_DIRECTORY", &state).current_dir(folder.path()).args(args).output().expect("it starts")
    };
    let output = with_state(&["run", "w.json", "--suspend", "waiting", "--json"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let checkpoint = document(&output)["checkpoint"].as_str().expect("a path").to_owned();
    let resume = |key: Option<&str>| {
        let key: Vec<&str> = key.into_iter().flat_map(|key| ["--key", key]).collect();
        let output = monohull(folder.path(), &[&["resume", &checkpoint, "--suspend", "again"], &*key].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(resume(Some("state/checkpoint.key")).0, Some(4));
    fs::write(folder.path().join("short.key"), [1; 31]).expect("written");
    fs::write(folder.path().join("open.key"), [1; 32]).expect("written");
    fs::set_permissions(folder.path().join("open.key"), Permissions::from_mode(0o644)).expect("changed");
    Key::load_or_create(&folder.path().join("other.key")).expect("made");
    // The user's own key is there: other tests use it.
    suspend(folder.path());
    for (key, why) in [
        (None, "another key has sealed it"),
        (Some("other.key"), "another key has sealed it"),
        (Some("short.key"), "short.key"),
        (Some("open.key"), "open.key"),
        (Some("none.key"), "none.key"),
    ] {
        let (code, text) = resume(key);
        assert!(code == Some(2) && text.contains(why), "{key:?}: {code:?} {text}");
    }
}
