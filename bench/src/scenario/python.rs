//! Python programs: how long one takes to start, and benchmarks of pyperformance as a function and under an interpreter of the host that is
//! compiled from the same source with the same options.

use super::figures::{Figures, Rounds, figures};
use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::ours::{Workflow, nothing_document};
use crate::peer;
use monohull_ipc::sealed::seal_file;
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// How long a program may take to start and end, in nanoseconds.
const START: f64 = 20e6;
/// How long one may take to answer that starts from a template.
const TEMPLATE: f64 = 2e6;
/// A program that says when it is ready, for `monohull run` with and without a template.
const PREPARED: &str = "import asyncio, json, re\nimport monohull\nmonohull.ready()\n";
/// What the function `python` of `cold.rs` does, for the host's interpreter.
const PEER: &str = "\
import json, re, sys
word = re.compile('[a-z]+')
sys.stdout.write(json.dumps(word.findall(sys.stdin.read())))
";
/// What a run of the image is compared with that does nothing else.
const FLOOR: &str = "its bytes sealed in memory, and a process";
/// What a run of the image consists of.
const PARTS: &str = "its bytes sealed in memory, `monohull run` of a no-op, and the host's interpreter";
/// How slow a benchmark may be, compared with the host's.
const LIMIT: f64 = 1.05;
/// What the function is compared with.
const HOST: &str = "CPython 3.13.5 of the host, compiled likewise";
/// The benchmarks, as `bench/python/main.py` takes them.
const BENCHMARKS: [&str; 18] = [
    "chaos",
    "deepcopy",
    "deltablue",
    "fannkuch",
    "float",
    "go",
    "json_dumps",
    "json_loads",
    "logging:simple",
    "nbody",
    "pickle:pickle",
    "pickle:unpickle",
    "pidigits",
    "raytrace",
    "regex_effbot",
    "regex_v8",
    "richards",
    "spectral_norm",
];
/// Two that show whether everything works.
const FEW: [&str; 2] = ["json_loads", "richards"];

/// The rows for which everything has been built.
pub(super) fn rows(effort: Effort, target: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let interpreter = target.join("python/python.so");
    if interpreter.is_file() {
        rows.push(start(effort, &interpreter)?);
        rows.extend(starts(effort, &interpreter)?);
    }
    let (image, python) = (target.join("pyperformance/program.so"), target.join("pyperformance/python"));
    if image.is_file() && python.is_file() {
        rows.extend(benchmarks(effort, &image, &python)?);
    }
    Ok(rows)
}

/// A program that does nothing, from the call to its end, against what is allowed.
fn start(effort: Effort, image: &Path) -> Result<Row> {
    let workflow = Workflow::new(&json!({
        "name": "bench-python",
        "functions": { "python": { "image": image } },
        "steps": [{ "name": "python", "function": "python", "args": { "argv": ["-c", "pass"] } }],
    }))?;
    let sides = take_turns(effort, || Ok(workflow.run()?.nanoseconds), || Ok(START))?;
    Ok(Row::new("python, started and ended", sides, "what is allowed", Unit::Milliseconds, Some(1.0)))
}

/// From the call to the answer: by the command line, which takes the image's file in, also with a template that it has kept; in a process of its own;
/// and from a template. Against what is allowed, against an interpreter of the host that runs the same program, and the command against the least
/// that it has to do, against what it consists of, and against itself without a template.
fn starts(effort: Effort, image: &Path) -> Result<Vec<Row>> {
    let count = effort.size("30", "2");
    let python = host_python()?;
    let host = || {
        let mut command = Command::new(&python);
        timed(command.args(["-I", "-S", "-c", PEER]))
    };
    let document = crate::ours::scratch()?.join("python.json");
    let step = json!({ "name": "python", "function": "python", "args": { "argv": ["-c", "import json, re"] } });
    let workflow = json!({ "name": "python", "functions": { "python": { "image": image } }, "steps": [step] });
    std::fs::write(&document, workflow.to_string()).map_err(|error| format!("{}: {error}", document.display()))?;
    let nothing = document.with_file_name("nothing.json");
    std::fs::write(&nothing, nothing_document(1).to_string())
        .map_err(|error| format!("{}: {error}", nothing.display()))?;
    let monohull = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let monohull = monohull.with_file_name("monohull");
    let run = || timed(Command::new(&monohull).arg("run").arg(&document));
    let parts = || Ok(sealed(image)? + timed(Command::new(&monohull).arg("run").arg(&nothing))? + host()?);
    let prepared = prepared_program(&monohull)?;
    let ours = |what: &'static str| move || peer::measure("cold", &[what, count]);
    let peer = format!("{} -I -S of the host", python.display());
    let row = |name, sides, peer: &str, limit| Row::new(name, sides, peer, Unit::Milliseconds, limit);
    Ok(vec![
        row("python, `monohull run`", take_turns(effort, run, || Ok(START))?, "what is allowed", Some(1.0)),
        row("python, `monohull run`, compared", take_turns(effort, run, host)?, &peer, None),
        row("python, `monohull run`, against its floor", take_turns(effort, run, || floor(image))?, FLOOR, None),
        row("python, `monohull run`, against its parts", take_turns(effort, run, parts)?, PARTS, None),
        row(
            "python, a process, answered",
            take_turns(effort, ours("python:answered"), || Ok(START))?,
            "what is allowed",
            Some(1.0),
        ),
        row("python, a process, compared", take_turns(effort, ours("python:answered"), host)?, &peer, None),
        row(
            "python, `monohull run` from a template",
            take_turns(effort, || prepared.run(&[]), || prepared.run(&["--no-template"]))?,
            "the same with `--no-template`",
            Some(1.0),
        ),
        row(
            "python, from a template, answered",
            take_turns(effort, ours("python-template:answered"), || Ok(TEMPLATE))?,
            "what is allowed",
            Some(1.0),
        ),
        row(
            "python, from a template, compared",
            take_turns(effort, ours("python-template:answered"), host)?,
            &peer,
            None,
        ),
    ])
}

/// A program that has been run once, with a cache of its own.
struct Prepared {
    monohull: PathBuf,
    folder: PathBuf,
}

impl Prepared {
    /// One run, in nanoseconds.
    fn run(&self, options: &[&str]) -> Result<f64> {
        let folder = |name| self.folder.join(name);
        let mut command = Command::new(&self.monohull);
        command.arg("run").args(options).arg(folder("app.py"));
        timed(command.env("XDG_CACHE_HOME", folder("cache")).env("XDG_CONFIG_HOME", folder("settings")))
    }
}

fn prepared_program(monohull: &Path) -> Result<Prepared> {
    let folder = crate::ours::scratch()?.join("prepared");
    let program = folder.join("app.py");
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&program, PREPARED));
    written.map_err(|error| format!("{}: {error}", program.display()))?;
    let prepared = Prepared { monohull: monohull.to_owned(), folder };
    // The first compiles the program, and has its template made.
    prepared.run(&[])?;
    Ok(prepared)
}

/// What every run of an image does at least: its bytes are copied into memory that cannot change, in which they are checked and from which they are
/// mapped, a process is started and ends, and the memory is given back. In nanoseconds.
fn floor(image: &Path) -> Result<f64> {
    let memory = sealed(image)?;
    let begin = Instant::now();
    let status = Command::new("true").stdin(Stdio::null()).status().map_err(|error| format!("true: {error}"))?;
    let took = begin.elapsed();
    if status.success() { Ok(memory + took.as_nanos() as f64) } else { Err(format!("true: {status}")) }
}

/// How long it takes to copy the image's bytes into memory that cannot change, and to give that back, in nanoseconds.
fn sealed(image: &Path) -> Result<f64> {
    let begin = Instant::now();
    let memory = File::open(image).and_then(|file| seal_file(&file, u64::MAX));
    drop(memory.map_err(|error| format!("{}: {error}", image.display()))?);
    Ok(begin.elapsed().as_nanos() as f64)
}

/// The host's interpreter itself: `python3` may be a script that looks for it.
fn host_python() -> Result<PathBuf> {
    let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let output = output.map_err(|error| format!("python3: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}

/// How long a command takes that succeeds and has a word as its standard input, in nanoseconds.
pub(super) fn timed(command: &mut Command) -> Result<f64> {
    let begin = Instant::now();
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut child = child.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if let Some(mut input) = child.stdin.take() {
        // One that reads nothing may have ended.
        let _ = input.write_all(b"input");
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    let took = begin.elapsed();
    if status.success() {
        Ok(took.as_nanos() as f64)
    } else {
        Err(format!("{} failed: {status}", command.get_program().display()))
    }
}

/// pyperformance's.
fn benchmarks(effort: Effort, image: &Path, python: &Path) -> Result<Vec<Row>> {
    let mut arguments = vec![effort.size("0.1", "0")];
    arguments.extend(effort.size(&BENCHMARKS[..], &FEW));
    let mut step = json!({ "name": "program", "function": "program", "args": { "argv": arguments } });
    step["memory"] = json!("2GiB");
    step["stack"] = json!("8MiB");
    step["env"] = json!({ "PYTHONHASHSEED": "0" });
    let workflow = Workflow::new(&json!({
        "name": "bench-pyperformance",
        "functions": { "program": { "image": image } },
        "steps": [step],
    }))?;
    let host = || -> Result<Figures> {
        let main = python.with_file_name("program").join("main.py");
        let mut command = Command::new(python);
        // As the function's: no installation, and nothing is written beside the program.
        command.args(["-s", "-S", "-B"]).arg(main).args(&arguments).env("PYTHONHASHSEED", "0").stderr(Stdio::inherit());
        let output = command.output().map_err(|error| format!("{}: {error}", python.display()))?;
        figures(String::from_utf8_lossy(&output.stdout).lines())
    };
    let rounds = Rounds::measure(effort.rounds, || figures(workflow.run()?.printed().into_iter()), host)?;
    let row = |name: &String| rounds.row(&format!("pyperformance {name}"), name, HOST, Unit::Microseconds, LIMIT);
    rounds.names().iter().map(row).collect()
}
