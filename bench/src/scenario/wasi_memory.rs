//! What a program for WASI takes of the disk and of memory, compiled, as a function and in wasmtime: the same module, which waits.
//!
//! ```text
//! ours   workflow's process | runtime, program (of its instance) | memory | runtime, program (shared) | memory | …
//! peer   process | engine, libraries | program | memory | memory | …
//! ```
//!
//! A page that several places of one process have in common counts as resident in each, and as private in none: what a further instance takes is the
//! resident pages, and of those that it shares its part (PSS).

use crate::harness::{Result, Row, Samples, Unit};
use crate::service::{children, eventually, has_image, memory_of};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What is looked at in `/proc/PID/smaps_rollup`.
const KINDS: [(&str, &[&str]); 3] =
    [("resident", &["Rss:"]), ("private", &["Private_Clean:", "Private_Dirty:"]), ("its part", &["Pss:"])];
const PEER: &str = "wasmtime, in one process";

/// Bytes of an image, and of the files in which wasmtime has the same.
pub(super) fn file(name: &str, image: &Path, kept: &[&Path]) -> Result<Row> {
    let bytes = |path: &Path| match std::fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len() as f64),
        Err(error) => Err(format!("{}: {error}", path.display())),
    };
    let theirs = kept.iter().map(|path| bytes(path)).sum::<Result<f64>>()?;
    let sides = (Samples::of(vec![bytes(image)?]), Samples::of(vec![theirs]));
    Ok(Row::new(format!("{name}: the compiled file"), sides, "wasmtime's, without the engine", Unit::Kibibytes, None))
}

/// Memory of a process with one instance that waits, and of each of `more` further ones in it.
pub(super) fn instances(image: &Path, folder: &Path, peer: &Path, kept: &Path, more: u32) -> Result<Vec<Row>> {
    let ours = [1, 1 + more].map(|count| waiting(image, folder, count));
    let theirs = [1, 1 + more].map(|count| held(peer, kept, count));
    let ([one, all], [their_one, their_all]) = (both(ours)?, both(theirs)?);
    let mut rows = Vec::new();
    for (index, (kind, _)) in KINDS.into_iter().enumerate() {
        let row = |what: String, ours: f64, theirs: f64| {
            let sides = (Samples::of(vec![ours]), Samples::of(vec![theirs]));
            Row::new(format!("memory of WebAssembly, {what}, {kind}"), sides, PEER, Unit::Kibibytes, None)
        };
        let each = |one: f64, all: f64| (all - one) / f64::from(more);
        rows.push(row("a process with one instance".into(), one[index], their_one[index]));
        if kind != "private" {
            let (ours, theirs) = (each(one[index], all[index]), each(their_one[index], their_all[index]));
            rows.push(row(format!("each of {more} more"), ours, theirs));
        }
    }
    Ok(rows)
}

fn both<T>([one, other]: [Result<T>; 2]) -> Result<[T; 2]> {
    Ok([one?, other?])
}

/// A process that is ended with this.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Memory of the process of a workflow whose instances wait.
fn waiting(image: &Path, folder: &Path, instances: u32) -> Result<[f64; KINDS.len()]> {
    let file = folder.join("waiting.json");
    let document = json!({
        "name": "waiting",
        "functions": {"bench": {"image": image}},
        "steps": [{"name": "bench", "function": "bench", "args": {"mode": "wait"}, "instances": instances}],
        "limits": {"carriers": 1},
    });
    std::fs::write(&file, document.to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
    let monohull = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("monohull");
    let mut command = Command::new(&monohull);
    let child = command.arg("run").arg(&file).stdout(Stdio::null()).spawn();
    let run = Ended(child.map_err(|error| format!("{}: {error}", monohull.display()))?);
    let mut worker = None;
    eventually("the workflow has a process", || {
        worker = descendants(run.0.id() as i32).into_iter().find(|&pid| has_image(pid));
        Ok(worker.is_some())
    })?;
    settled(worker.unwrap_or_default())
}

/// Memory of a process of wasmtime that has so many instances.
fn held(peer: &Path, kept: &Path, instances: u32) -> Result<[f64; KINDS.len()]> {
    let mut command = Command::new(peer);
    // They do not wait, as the process does: their memory is kept.
    command.arg(kept).args(["hold", &instances.to_string(), "--mode=nothing"]).stdout(Stdio::piped());
    let mut held = Ended(command.spawn().map_err(|error| format!("{}: {error}", peer.display()))?);
    let mut line = String::new();
    let read = held.0.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
    match (read, line.as_str()) {
        (Some(Ok(_)), "ready\n") => settled(held.0.id() as i32),
        _ => Err(format!("the peer that holds instances said {line:?}")),
    }
}

/// The process's memory once it has stopped growing.
fn settled(pid: i32) -> Result<[f64; KINDS.len()]> {
    let look = || KINDS.map(|(_, names)| memory_of(pid, names) as f64);
    let mut last = look();
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(100));
        let now = look();
        if now == last && now[0] > 0.0 {
            return Ok(now);
        }
        last = now;
    }
    Err(format!("the memory of process {pid} does not stop growing, or the process has ended"))
}

fn descendants(pid: i32) -> Vec<i32> {
    children(pid).into_iter().flat_map(|child| std::iter::once(child).chain(descendants(child))).collect()
}
