//! Checkpoints of suspended workflows, as the command line makes and takes them: how large the file of a small sleeper is, and how
//! long a workflow that is due takes from `monohull resume` to its end, alone and in copies.
//!
//! ```text
//! run --suspend ── waits a second ──▶ file │ … due … │ resume: process started, file read and checked, domain made, run to its end │
//!                                   bytes              └──────────────────────── what is measured ─────────────────────────────────┘
//! ```
//!
//! One checkpoint is resumed many times, so its file is in the page cache.
//!
//! And of workflows that go on after each checkpoint: how much longer a computation takes, and how long a capture takes, while functions
//! stand still, with more heap or more threads. In each of these the same few pages are written between two captures. A capture after
//! the first has what has changed since the one before, and is compared with a whole one.

use crate::harness::{Effort, Result, Row, Samples, Unit, take_turns};
use crate::ours::{Which, Workflow, image, nothing_document, scratch};
use crate::peer;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The bytes that a small function that sleeps may take on a disk.
const ALLOWED: f64 = 32.0 * 1024.0;
/// How long the function sleeps; a workflow is suspended after a second in which it only waits.
const NAP: Duration = Duration::from_millis(1200);
/// The memory of a computation, in MiB, and its threads, whose captures are measured: each is compared with the first.
const HEAPS: [usize; 4] = [1, 16, 256, 1024];
const THREADS: [usize; 4] = [1, 100, 1_000, 10_000];
/// Pages that are written to between two captures: 1 % of 16 MiB.
const WRITTEN: usize = 40;
/// How often they are captured.
const EVERY: Duration = Duration::from_millis(250);
/// The exit code of a workflow that was suspended.
const SUSPENDED: i32 = 4;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let folder = scratch()?.join("checkpoint");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let small = suspended(&folder, "misbehave", &json!({ "how": "sleep" }))?;
    let bytes = std::fs::metadata(&small).map_err(|error| format!("{}: {error}", small.display()))?.len();
    let args = json!({ "naps": 1, "milliseconds": NAP.as_millis() as u64, "takes": "", "fills": "result" });
    let asleep = suspended(&folder, "sleeper", &args)?;
    // From here on it is due.
    std::thread::sleep(NAP);
    let nothing = folder.join("nothing.json");
    write(&nothing, &nothing_document(1).to_string())?;
    let count = effort.size(16, 2);
    let resume = || timed(monohull(&["resume"])?.arg(&asleep));
    let copies = || Ok(timed(monohull(&["resume", "--count", &count.to_string()])?.arg(&asleep))? / f64::from(count));
    let afresh = || timed(monohull(&["run"])?.arg(&nothing));
    let static_program = peer::build_nothing()?;
    let static_program = static_program.to_str().ok_or("the path of the build folder is not UTF-8")?;
    let spawn = || peer::measure("spawn", &[effort.size("300", "5"), static_program]);
    let stored = (Samples::of(vec![bytes as f64]), Samples::of(vec![ALLOWED]));
    let by_run = "monohull run of a no-op";
    let by_spawn = "posix_spawn of a static program + wait";
    let mut rows = vec![
        Row::new("checkpoint: bytes of a small sleeper", stored, "the size allowed", Unit::Kibibytes, Some(1.0)),
        Row::new(
            "checkpoint: resume until its end",
            take_turns(effort, resume, afresh)?,
            by_run,
            Unit::Microseconds,
            None,
        ),
        Row::new(
            "checkpoint: each of many copies",
            take_turns(effort, copies, spawn)?,
            by_spawn,
            Unit::Microseconds,
            None,
        ),
        computation(effort, &folder)?,
    ];
    rows.extend(captures(effort)?);
    Ok(rows)
}

/// A computation with a checkpoint every two seconds, against the same without.
fn computation(effort: Effort, folder: &Path) -> Result<Row> {
    const FEW: u64 = 200_000_000;
    let document = folder.join("computes.json");
    let prepare = |rounds: u64| {
        let workflow = json!({
            "name": "bench-computes",
            "functions": { "preempted": { "image": image("preempted") } },
            "steps": [{ "name": "c", "function": "preempted", "args": { "how": "compute", "rounds": rounds } }],
            "outputs": ["result"],
        });
        write(&document, &workflow.to_string())
    };
    let state = folder.join("state");
    let run = |every: Option<&str>| {
        let _ = std::fs::remove_dir_all(&state);
        let mut command = monohull(&["run", "--output"])?;
        command.arg(format!("result={}", folder.join("result").display())).arg(&document).arg("--state").arg(&state);
        if let Some(every) = every {
            command.args(["--checkpoint-every", every]);
        }
        timed(command.stderr(Stdio::null()))
    };
    prepare(FEW)?;
    let of_few = run(None)?;
    // Some seven seconds: three checkpoints.
    let (rounds, every) = effort.size(((7e9 / of_few) * FEW as f64, "2s"), (FEW as f64, "100ms"));
    prepare(rounds as u64)?;
    let samples = take_turns(effort, || run(Some(every)), || run(None))?;
    let name = "checkpoint: a computation, one every 2 s";
    Ok(Row::new(name, samples, "the same without", Unit::Milliseconds, Some(1.03)))
}

/// How long a capture takes, with more and more heap, and with more and more threads that wait.
fn captures(effort: Effort) -> Result<Vec<Row>> {
    let captured = |mebibytes: usize, threads: usize, which: Which| {
        let milliseconds = effort.size(20 * EVERY, EVERY).as_millis() as u64 + 4 * mebibytes as u64;
        let args = json!({ "what": "stay", "count": milliseconds, "bytes": mebibytes << 20, "threads": threads });
        let workflow = Workflow::new(&json!({
            "name": "bench-captured",
            "functions": { "probe": { "image": image("bench-probe") } },
            "steps": [{ "name": "stays", "function": "probe", "args": args, "memory": "4GiB", "stack": "64KiB" }],
            "limits": { "carriers": 2, "threads": 20_000 },
        }))?;
        let captures = workflow.captures(effort.size(EVERY, EVERY / 10), which)?;
        let took = captures.iter().map(|capture| capture.took.as_nanos() as f64).collect();
        let bytes = captures.iter().map(|capture| capture.bytes as f64).collect();
        Ok::<_, String>((Samples::of(took), Samples::of(bytes)))
    };
    let mut rows = Vec::new();
    let (smallest, _) = captured(HEAPS[0], THREADS[0], Which::Whole)?;
    for mebibytes in effort.size(&HEAPS[..], &HEAPS[..2]) {
        let (whole, whole_bytes) = captured(*mebibytes, THREADS[0], Which::Whole)?;
        let (later, later_bytes) = captured(*mebibytes, THREADS[0], Which::Later)?;
        let name = |what: &str| format!("checkpoint: {what}, {mebibytes} MiB of heap");
        let samples = (whole.clone(), smallest.clone());
        rows.push(Row::new(name("a capture"), samples, "1 MiB", Unit::Microseconds, None));
        let samples = (later.clone(), whole);
        rows.push(Row::new(name("a later capture"), samples, "a whole one", Unit::Microseconds, None));
        if *mebibytes == HEAPS[1] {
            let name = |what: &str| format!("checkpoint: {what}, 16 MiB of heap, of which 1 % was written");
            let by_hand = |between| samples_of_peer(effort, "written", mebibytes << 20, WRITTEN, between);
            let again_and_again = by_hand(Duration::ZERO)?;
            let samples = (later.clone(), again_and_again.clone());
            let peer = "finding and copying 40 pages";
            rows.push(Row::new(name("a later capture"), samples, peer, Unit::Microseconds, Some(1.5)));
            // Ours are made after so long a time in which a function computes.
            let samples = (by_hand(effort.size(EVERY, EVERY / 10))?, again_and_again);
            rows.push(Row::new(name("the limit, by hand as seldom"), samples, peer, Unit::Microseconds, None));
            let read = samples_of_peer(effort, "look", mebibytes << 20, WRITTEN * 4096, Duration::ZERO)?;
            let peer = "reading 16 MiB and copying 160 KiB";
            rows.push(Row::new(name("the same"), (later.clone(), read), peer, Unit::Microseconds, None));
        }
        let samples = (later_bytes, whole_bytes);
        rows.push(Row::new(name("pages of a later capture"), samples, "of a whole one", Unit::Kibibytes, None));
    }
    for threads in effort.size(&THREADS[1..], &THREADS[1..2]) {
        let samples = (captured(HEAPS[0], *threads, Which::Whole)?.0, smallest.clone());
        let name = format!("checkpoint: a capture, {threads} threads that wait");
        rows.push(Row::new(name, samples, "one", Unit::Microseconds, None));
    }
    Ok(rows)
}

/// How long a peer takes with so much memory, of which some was written to, so long each time.
fn samples_of_peer(effort: Effort, name: &str, bytes: usize, written: usize, between: Duration) -> Result<Samples> {
    let count = if between.is_zero() { effort.size(50, 2) } else { effort.size(20, 2) };
    let between = between.as_millis() as usize;
    let numbers = [count, bytes, written, between].map(|number| number.to_string());
    let taken = (0..effort.rounds).map(|_| peer::measure(name, &numbers.each_ref().map(String::as_str)));
    Ok(Samples::of(taken.collect::<Result<Vec<f64>>>()?))
}

/// Runs a workflow of one function until it sleeps: the file of its checkpoint.
fn suspended(folder: &Path, function: &str, args: &Value) -> Result<PathBuf> {
    let document = folder.join(format!("{function}.json"));
    let workflow = json!({
        "name": format!("bench-{function}"),
        "functions": { function: { "image": image(function) } },
        "steps": [{ "name": "naps", "function": function, "args": args }],
        "limits": { "carriers": 1, "timeout": "1h" },
        "unread": "ignore",
    });
    write(&document, &workflow.to_string())?;
    let waiting = folder.join(function);
    let mut command = monohull(&["run", "--suspend"])?;
    let status = command.arg(&waiting).arg(&document).status().map_err(|error| format!("monohull run: {error}"))?;
    if status.code() != Some(SUSPENDED) {
        return Err(format!("monohull run --suspend ended with {status}, and the workflow was not suspended"));
    }
    let files = std::fs::read_dir(&waiting).map_err(|error| format!("{}: {error}", waiting.display()))?;
    let is_checkpoint = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "checkpoint");
    let found = files.filter_map(|file| file.ok().map(|file| file.path())).find(is_checkpoint);
    found.ok_or_else(|| format!("there is no checkpoint in {}", waiting.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The program beside this one.
fn monohull(arguments: &[&str]) -> Result<Command> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(program.with_file_name("monohull"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

/// How long a program runs, in nanoseconds.
fn timed(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    let output = command.output().map_err(|error| format!("cannot start monohull: {error}"))?;
    let taken = start.elapsed().as_nanos() as f64;
    match output.status.success() {
        true => Ok(taken),
        false => Err(format!("monohull ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}
