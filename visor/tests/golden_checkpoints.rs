//! A checkpoint of an earlier build goes on in this one, to its end: with the image of its function, which is kept beside it.
//!
//! `visor/checkpoint/tests/golden` has files that are read; this one is restored. With it records of the engine and of libos modules, numbers of
//! hostcalls, the layout of memory and what a function takes for granted stay what they are: its image is as old as the checkpoint.
//!
//! Others have files in memory, in each version of their record that a build has written and this one can make.
//!
//! `UPDATE_GOLDEN=1 cargo test -p monohull-visor --test golden_checkpoints` writes the newest file anew, from the image there. That is for changes before
//! a release; afterwards files are added and stay.

mod support;

use monohull_abi::layout::FILES_BASE;
use monohull_checkpoint::{Checkpoint, Heat, Key, Packing, Pages, Processor, Trust, seal_bytes, write};
use monohull_saved::{Engine, Saved};
use monohull_visor::domain::checkpoint::record::{ModuleRecord, PageRun};
use monohull_visor::domain::checkpoint::{Continuation, Lineage};
use monohull_visor::engine::{Ready, RunEnd, RunOptions};
use monohull_visor::report::{RunReport, Silent, Status};
use monohull_visor::worker::read_continuation;
use monohull_visor::workflow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use support::{report, suspended, text};

/// The key that seals them.
const KEY: Key = Key::new([7; 32]);
/// What the function prints and gives, in which it compares what it finds with what it had.
const RESULT: &str =
    "2 naps, 5 letters, map true, thread true, time true\n2 naps, 5 letters, map true, thread true, time true\n";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// The workflow, as the checkpoint has it: a step that naps with locks, threads and an unfinished line, and one that waits for its slot.
fn document() -> String {
    let step = |name: &str, takes: &str, fills: &str| {
        serde_json::json!({
            "name": name,
            "function": "sleeper",
            "args": { "naps": 2, "milliseconds": 40, "takes": takes, "fills": fills },
        })
    };
    serde_json::json!({
        "name": "sleepers",
        "functions": { "sleeper": { "image": "sleeper.so" } },
        "steps": [step("first", "", "between"), step("second", "between", "result")],
        "outputs": ["result"],
    })
    .to_string()
}

fn ready_to_run(document: &str) -> Ready {
    let plan = workflow::load_str(&golden("sleepers.json"), document).expect("a right workflow");
    Ready::new(plan).expect("right images")
}

fn run(ready: &Ready, continuation: Option<Continuation>, suspend: Option<Duration>) -> RunEnd {
    let end = ready.run_from(continuation, suspend, &RunOptions::default(), Arc::new(Silent));
    end.expect("the host can hold a domain")
}

/// What its two instances have printed.
fn lines(report: &RunReport) -> Vec<Vec<&str>> {
    let instances = report.steps.iter().flat_map(|step| &step.instances);
    instances.map(|instance| instance.lines.iter().map(|line| line.text.as_str()).collect()).collect()
}

#[test]
fn a_checkpoint_of_an_earlier_build_goes_on_to_its_end() {
    let _one = support::one_at_a_time();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(golden("format-1-engine-4.checkpoint"), captured_anew()).expect("written");
    }
    let oldest = goes_on("format-1.checkpoint");
    assert!(oldest.published.is_empty() && oldest.timeline.iter().any(|point| point.name == "gone-on"));
    let newest = goes_on("format-1-engine-4.checkpoint");
    assert_eq!(newest.published, published());
    let names: Vec<_> = newest.timeline.iter().map(|point| point.name.as_str()).collect();
    assert_eq!(names, ["domain-ready", "image-mapped", "first-instruction", "gone-on"]);
}

fn goes_on(name: &str) -> RunReport {
    let path = golden(name);
    let plan = |document: &[u8], engine: &Engine| {
        assert_eq!(engine.file, Path::new("sleepers.json"));
        let document = std::str::from_utf8(document).map_err(|error| error.to_string())?;
        workflow::load_str(&golden("sleepers.json"), document).map_err(|error| error.to_string())
    };
    let saved = Saved::read(&path, &KEY, plan).expect("it is read for ever");
    let ready = ready_to_run(std::str::from_utf8(&saved.document).expect("JSON"));
    let kept: Vec<_> = saved.functions.iter().map(|(_, hash, _)| *hash).collect();
    assert_eq!(
        kept,
        ready.images().iter().map(|image| image.hash().expect("it can be read")).collect::<Vec<_>>(),
        "the image is the one beside it"
    );
    let mut continuation = read_continuation(saved.continuation, None).expect("it is as it was written");
    assert!(continuation.instances.len() == 2 && continuation.instances[0].threads.len() == 4, "what it is to show");
    for name in ["mm", "stdio", "time"] {
        assert!(uses(&continuation, name), "{name} is in use");
    }
    continuation.lineage = Lineage { generation: saved.generation + 1, ..Lineage::default() };
    let options = RunOptions { published: saved.engine.published, ..RunOptions::default() };
    let end = ready.run_captured(Some(continuation), None, None, &options, Arc::new(Silent));
    let resumed = report(end.expect("the host can hold a domain"));
    assert_eq!(resumed.status, Status::Done, "{:#?}", resumed.error);
    assert_eq!(text(&resumed, "result"), RESULT);
    let naps = ["nap 0 … slept", "nap 1 … slept"];
    assert_eq!(lines(&resumed), [naps, naps]);
    assert!(resumed.suspended.as_ref().is_some_and(|suspended| suspended.times > 0 && suspended.away_us > 0));
    // And as one that was never away.
    let uninterrupted = report(run(&ready, None, None));
    assert_eq!((text(&uninterrupted, "result"), lines(&uninterrupted)), (RESULT, lines(&resumed)));
    resumed
}

/// What the newest has published.
fn published() -> BTreeMap<String, String> {
    [("progress".to_owned(), "half".to_owned())].into()
}

fn uses<P>(continuation: &Continuation<P>, module: &str) -> bool {
    continuation.modules.iter().any(|record| record.name == module)
}

/// The file as this build writes it: captured while the first step naps for the second time, with a line that it has printed and one that is not
/// finished.
fn captured_anew() -> Vec<u8> {
    let document = document();
    let ready = ready_to_run(&document);
    let shortest = Some(Duration::from_millis(5));
    let mut continuation = suspended(run(&ready, None, shortest)).continuation;
    while !uses(&continuation, "stdio") {
        continuation = suspended(run(&ready, Some(continuation), shortest)).continuation;
    }
    sealed("sleeper", &ready, continuation, published())
}

/// The file of a workflow with this function.
fn sealed(function: &str, ready: &Ready, continuation: Continuation, published: BTreeMap<String, String>) -> Vec<u8> {
    let document = if function == "sleeper" { document() } else { document_with_files() };
    let image = golden(&format!("{function}.so"));
    let saved = Saved {
        workflow: ready.plan().name.clone(),
        generation: 0,
        document: document.into_bytes(),
        functions: vec![(
            function.to_owned(),
            ready.images()[0].hash().expect("it can be read"),
            fs::metadata(image).expect("it is kept").len(),
        )],
        engine: Engine { file: "sleepers.json".into(), published, ..Engine::default() },
        continuation,
    };
    let bytes = saved.to_bytes(Path::new("golden"), &KEY).expect("a checkpoint");
    let mut contents = Checkpoint::read(bytes.as_slice(), Trust::Key(&KEY)).expect("it is good").contents().clone();
    // The function looks at no feature of the processor and no thread of it was interrupted, so any processor will do.
    contents.identity.processor = Processor { words: vec![0] };
    let mut pages = Pages::new();
    for run in &saved.continuation.pages {
        pages.here(run.address, &run.bytes, Heat::Rest).expect("user memory");
    }
    let mut anew = Vec::new();
    let packing = if function == "sleeper" { Packing::Raw } else { Packing::Lz4 };
    write(&mut anew, &contents, &pages, packing).expect("written");
    seal_bytes(&mut anew, &KEY).expect("sealed");
    anew
}

/// A workflow with files in memory: open, read, written, mapped and copied when written, with threads that wait for all kinds of things.
fn document_with_files() -> String {
    let step = |role: &str| {
        serde_json::json!({
            "name": role,
            "function": "interrupted",
            "args": { "role": role, "naps": 4, "milliseconds": 40 },
        })
    };
    serde_json::json!({
        "name": "interrupted",
        "functions": { "interrupted": { "image": "interrupted.so" } },
        "steps": [step("works"), step("collects")],
        "outputs": ["result"],
        "files": [{ "at": "/work", "memory": "1MiB" }],
        "limits": { "carriers": 1 },
    })
    .to_string()
}

/// Records of files in memory of the version 3, as this build writes it, and of the version 2, which had the bytes of the files themselves.
#[test]
fn files_in_memory_of_earlier_builds_go_on() {
    let _one = support::one_at_a_time();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/interrupted.so");
        fs::copy(image, golden("interrupted.so")).expect("it is built");
        let (ready, newest) = captured_with_files();
        let earlier = with_bytes_in_the_record(newest.clone());
        for (version, continuation) in [(3, newest), (2, earlier)] {
            let bytes = sealed("interrupted", &ready, continuation, BTreeMap::new());
            fs::write(golden(&format!("format-1-files-{version}.checkpoint")), bytes).expect("written");
        }
    }
    for version in [2, 3] {
        let path = golden(&format!("format-1-files-{version}.checkpoint"));
        let plan = |document: &[u8], _: &Engine| {
            let document = std::str::from_utf8(document).map_err(|error| error.to_string())?;
            workflow::load_str(&golden("sleepers.json"), document).map_err(|error| error.to_string())
        };
        let saved = Saved::read(&path, &KEY, plan).expect("it is read for ever");
        let ready = ready_to_run(std::str::from_utf8(&saved.document).expect("JSON"));
        assert_eq!(
            saved.functions[0].1,
            ready.images()[0].hash().expect("it can be read"),
            "the image is the one beside it"
        );
        let mut continuation = read_continuation(saved.continuation, None).expect("it is as it was written");
        let files = continuation.modules.iter().find(|record| record.name == "ramfs").expect("files in memory");
        assert_eq!(files.bytes[..4], u32::to_le_bytes(version));
        assert_eq!(files.pages.iter().any(|(name, _)| *name >= FILES_BASE), version == 3);
        for name in ["mm", "stdio", "time", "fdtab"] {
            assert!(uses(&continuation, name), "{name} is in use");
        }
        assert!(continuation.instances.iter().any(|instance| instance.files.len() == 2), "two mappings of a file");
        continuation.lineage = Lineage { generation: saved.generation + 1, ..Lineage::default() };
        let end = ready.run_captured(Some(continuation), None, None, &RunOptions::default(), Arc::new(Silent));
        let resumed = report(end.expect("the host can hold a domain"));
        assert_eq!(resumed.status, Status::Done, "{version}: {:#?}", resumed.error);
        let uninterrupted = report(run(&ready, None, None));
        assert_eq!(text(&resumed, "result"), text(&uninterrupted, "result"), "{version}");
        let said = lines(&resumed);
        assert_eq!(said, lines(&uninterrupted), "{version}");
        assert!(said[0].contains(&"files keep what was written: true"), "{said:?}");
        assert!(said.iter().flatten().all(|line| !line.contains(": false")), "{said:?}");
    }
}

/// Such a workflow in its second nap.
fn captured_with_files() -> (Ready, Continuation) {
    let ready = ready_to_run(&document_with_files());
    let shortest = Some(Duration::from_millis(5));
    let mut continuation = suspended(run(&ready, None, shortest)).continuation;
    let is_there = |page: &PageRun| page.bytes.windows(7).any(|bytes| bytes == b"line 1\n");
    while !continuation.pages.iter().any(|page| page.address >= FILES_BASE && is_there(page)) {
        continuation = suspended(run(&ready, Some(continuation), shortest)).continuation;
    }
    (ready, continuation)
}

/// What lies in the pages of a piece of a file.
fn content(continuation: &Continuation, place: u8) -> Vec<u8> {
    const CHUNK: u64 = 2 << 20;
    let place = u64::from(place);
    let mut bytes = vec![0; CHUNK as usize];
    let start = FILES_BASE + place * CHUNK;
    for run in continuation.pages.iter().filter(|run| (start..start + CHUNK).contains(&run.address)) {
        bytes[(run.address - start) as usize..][..run.bytes.len()].copy_from_slice(&run.bytes);
    }
    bytes
}

/// The same as version 2 of the record has it: the trees and the times are those of version 3, and instead of the places of the pieces there are the
/// bytes.
fn with_bytes_in_the_record(mut continuation: Continuation) -> Continuation {
    let is_files = |record: &ModuleRecord| record.name == "ramfs";
    let index = continuation.modules.iter().position(is_files).expect("files in memory");
    // The text `log`, and `table`, each in one piece.
    let (lists, places) = continuation.modules[index].bytes.split_last_chunk().expect("it is longer");
    let [2, log, table] = *places else { panic!("two pieces, at low places: {places:?}") };
    assert_eq!(lists[..4], 3_u32.to_le_bytes());
    let (lists, mut log, mut table) = (lists.to_vec(), content(&continuation, log), content(&continuation, table));
    log.truncate(log.iter().position(|byte| *byte == 0).expect("it is short"));
    table.truncate(64 * 4096);
    let record = &mut continuation.modules[index];
    record.bytes = [&2_u32.to_le_bytes(), &lists[4..], &log, &table].concat();
    record.pages.retain(|(name, _)| *name < FILES_BASE);
    continuation.pages.retain(|run| run.address < FILES_BASE);
    continuation.touched.retain(|(page, _)| *page < FILES_BASE);
    continuation
}
