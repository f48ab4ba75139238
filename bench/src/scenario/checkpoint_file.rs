//! The file of a checkpoint: written so that the disk has it, and gone on with, from the page cache and from the disk.
//!
//! ```text
//!   written    │ records, pages, hashes ─ read back, checked, sealed ─ on the disk, named │
//!   restored   │ file opened, seal checked ─ domain made ─ the function goes on, 40 pages read and checked as touched, ends │
//!   written    │ … until it sleeps again, and a file on the disk has what it has touched │
//!              └────────────────────────────────────── what is measured ─────────────────────────────────────────────────────┘
//! ```
//!
//! A file takes a name of its own, which costs the disk more than bytes in a file that is there: what a plain file costs that is written, synchronised and
//! named has its own row. So has a workflow that does nothing in a process that was ready for it, which is what a restored one cannot go below; and a
//! program that fills its own memory as it is touched, unchecked. What a server commits of a workflow that waits is measured by `durable-rate`.

use crate::durable::fdatasync;
use crate::forks::{NAP, sleeper};
use crate::harness::{Effort, Result, Row, Samples, Unit, take_turns};
use crate::ours::{Workflow, image, scratch};
use crate::peer;
use monohull_checkpoint::{Key, NewFile, Replace};
use monohull_saved::{Engine, Saved};
use monohull_visor::domain::checkpoint::Continuation;
use serde_json::{Value, json};
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The bytes that the smallest form of a small function that sleeps may take.
const ALLOWED_COMPRESSED: f64 = 8.0 * 1024.0;
/// Memory of the workflow that is restored, and the pages of it that it touches then.
const HEAP: usize = 16 << 20;
const TOUCHED: &str = "40";
/// The file of the key.
const KEY: &str = "checkpoint.key";

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let folder = scratch()?.join("checkpoint-file");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(said)?;
    let key = Key::load_or_create(&folder.join(KEY)).map_err(said)?;
    let mut rows = small(effort, &folder, &key)?;
    rows.extend(restored(effort, &folder, &key)?);
    let _ = std::fs::remove_dir_all(&folder);
    Ok(rows)
}

/// A small function that sleeps: the bytes of its file, whose pages are compressed, and writing it.
fn small(effort: Effort, folder: &Path, key: &Key) -> Result<Vec<Row>> {
    let document = json!({
        "name": "bench-sleeps",
        "functions": { "misbehave": { "image": image("misbehave") } },
        "steps": [{ "name": "naps", "function": "misbehave", "args": { "how": "sleep" } }],
        "limits": { "carriers": 1, "timeout": "1h" },
    });
    let workflow = Workflow::new(&document)?;
    let saved = saved(&workflow, &document, workflow.suspend()?);
    let bytes = saved.to_bytes(&folder.join("small.checkpoint"), key).map_err(said)?;
    let size = bytes.len() as f64;
    let count = effort.size(50, 2);
    let ours = || {
        each_new(folder, count, |folder, number| {
            saved.write(folder, &number.to_string(), key, None).map(drop).map_err(said)
        })
    };
    let by_hand = || {
        each_new(folder, count, |folder, number| {
            let new = NewFile::beside(&folder.join(number.to_string())).map_err(said)?;
            new.file().write_all(&bytes).map_err(said)?;
            new.publish(Replace::No).map(drop).map_err(said)
        })
    };
    let disk = || fdatasync(bytes.len(), count);
    let by = format!("write + fdatasync of {} KiB into a file with room", bytes.len().div_ceil(1024));
    let size = (Samples::of(vec![size]), Samples::of(vec![ALLOWED_COMPRESSED]));
    let name = "checkpoint: bytes of a small sleeper, its pages compressed";
    let written = take_turns(effort, ours, disk)?;
    let floor = take_turns(effort, by_hand, disk)?;
    Ok(vec![
        Row::new(name, size, "the size allowed", Unit::Kibibytes, Some(1.0)),
        Row::new("checkpoint: written durably", written, &by, Unit::Microseconds, Some(1.5)),
        Row::new("checkpoint: a new file of these bytes, named", floor, &by, Unit::Microseconds, None),
    ])
}

/// A workflow with 16 MiB that goes on from its file: the first time, and once what it touches is known.
fn restored(effort: Effort, folder: &Path, key: &Key) -> Result<Vec<Row>> {
    let utf_8 = |path: &Path| path.to_str().map(str::to_owned).ok_or("the path of the build folder is not UTF-8");
    let (sealed, heap) = (utf_8(&folder.join(KEY))?, HEAP.to_string());
    let write = |name: &str, times: u32| {
        let document = sleeper(HEAP, NAP, times);
        let workflow = Workflow::new(&document)?;
        let saved = saved(&workflow, &document, workflow.suspend()?);
        let path = saved.write(folder, name, key, None).map_err(said)?.path;
        // From here on it is due.
        std::thread::sleep(NAP);
        utf_8(&path).map_err(String::from)
    };
    let first = write("first", 1)?;
    // The second file of a run, which tells what the run touches. It wakes `times` times in all.
    let woken = |name: &str, times: u32| {
        let (file, name) = (write(&format!("{name}-once"), times)?, format!("{name}-again"));
        peer::measure("asleep-again", &[&file, &sealed, &heap, &times.to_string(), &name, "1", "whole"])?;
        utf_8(&folder.join(format!("{name}.checkpoint"))).map_err(String::from)
    };
    let (again, more) = (woken("twice", 2)?, woken("thrice", 3)?);
    let count = effort.size("30", "2");
    let restore = |file: &str, times: &str, where_from: &str| {
        peer::measure("restored", &[file, &sealed, &heap, times, where_from, count])
    };
    let preadv = || peer::measure("page-reads", &[&first, effort.size("500", "2"), &heap, TOUCHED]);
    let faults = || peer::measure("page-faults", &[&first, effort.size("100", "2"), &heap, TOUCHED]);
    let whole = || peer::measure("file-reads", &[&first, effort.size("3", "1")]);
    let sleep_again =
        || peer::measure("asleep-again", &[&more, &sealed, &heap, "3", "more", effort.size("20", "2"), "touched"]);
    let bytes = vec![1_u8; HEAP];
    let by_hand = || {
        each_new(folder, effort.size(10, 1), |folder, number| {
            let new = NewFile::beside(&folder.join(number.to_string())).map_err(said)?;
            new.file().write_all(&bytes).map_err(said)?;
            new.publish(Replace::No).map(drop).map_err(said)
        })
    };
    let nothing = || peer::measure("cold", &["answered", effort.size("100", "5")]);
    // What no process of a run's own can go below: it is made, reads these pages, and answers.
    let nothing_and_pages = || Ok(nothing()? + preadv()?);
    let (by, disk) = ("preadv of 40 pages, into fresh memory", "reading the file from the disk");
    let row = |name: &str, sides, by: &str, goal| Row::new(name, sides, by, Unit::Microseconds, goal);
    Ok(vec![
        row(
            "checkpoint: 16 MiB restored, 40 pages touched",
            take_turns(effort, || restore(&again, "2", "cached"), preadv)?,
            by,
            Some(2.0),
        ),
        row(
            "checkpoint: the same for the first time",
            take_turns(effort, || restore(&first, "1", "cached"), preadv)?,
            by,
            None,
        ),
        row(
            "the limit of the same for the first time, a page for each fault, in one process",
            take_turns(effort, faults, preadv)?,
            by,
            None,
        ),
        row("checkpoint: a no-op in a process, answered", take_turns(effort, nothing, preadv)?, by, None),
        row(
            "the limit of 16 MiB restored: a no-op in a process, and the preadv",
            take_turns(effort, nothing_and_pages, preadv)?,
            by,
            None,
        ),
        row(
            "checkpoint: 16 MiB restored from the disk",
            take_turns(effort, || restore(&again, "2", "evicted"), whole)?,
            disk,
            Some(0.2),
        ),
        row(
            "checkpoint: the same for the first time",
            take_turns(effort, || restore(&first, "1", "evicted"), whole)?,
            disk,
            None,
        ),
        row(
            "checkpoint: 16 MiB restored, 40 pages touched, and written anew",
            take_turns(effort, sleep_again, by_hand)?,
            "a new file of 16 MiB, on the disk",
            None,
        ),
    ])
}

/// What is kept of a workflow that waits.
fn saved(workflow: &Workflow, document: &Value, continuation: Continuation) -> Saved {
    let ready = workflow.ready();
    let images = ready.images().iter().map(|image| (image.hash().expect("it can be read"), image.image.bytes));
    let functions = ready.plan().functions.iter().zip(images);
    Saved {
        workflow: ready.plan().name.clone(),
        generation: 1,
        document: document.to_string().into_bytes(),
        functions: functions.map(|(function, (hash, bytes))| (function.name.clone(), hash, bytes)).collect(),
        engine: Engine { file: PathBuf::from("bench.json"), ..Engine::default() },
        continuation,
    }
}

/// The mean time of so many files that are made in a folder of their own.
fn each_new(folder: &Path, count: usize, make: impl Fn(&Path, usize) -> Result<()>) -> Result<f64> {
    let folder = folder.join("new");
    std::fs::create_dir_all(&folder).map_err(said)?;
    let start = Instant::now();
    (0..count).try_for_each(|number| make(&folder, number))?;
    let took = start.elapsed().as_nanos() as f64 / count as f64;
    std::fs::remove_dir_all(&folder).map_err(said)?;
    Ok(took)
}

fn said(error: impl Display) -> String {
    error.to_string()
}
