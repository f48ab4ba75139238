//! What a usual Rust program spends its time with, as a function over Rust's own std and as a program of the host: one source
//! (`examples/bench-program`), compiled twice. And how long a Python program takes to start, where the interpreter has been built.

use crate::harness::{Effort, Result, Row, Samples, Unit, take_turns};
use crate::ours::Workflow;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the program measures, and the goal of the ratio.
const KERNELS: [(&str, f64); 12] = [
    ("map of numbers", 1.05),
    ("map of words", 1.05),
    ("sort", 1.05),
    ("boxes, one at a time", 1.05),
    ("boxes, all at once", 1.05),
    ("buffers of 64 to 4096 bytes", 1.05),
    ("vectors that grow", 1.05),
    ("mutex", 1.05),
    ("thread, started and joined", 0.5),
    ("file, 16 bytes at a place", 0.5),
    ("file, blocks of 64 KiB", 0.75),
    ("file, opened and closed", 0.5),
];
/// How long a Python program may take to start and end, in nanoseconds.
const PYTHON_NANOSECONDS: f64 = 20e6;

type Figures = BTreeMap<String, f64>;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let divisor = effort.size("1", "1000");
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let workflow = Workflow::new(&json!({
        "name": "bench-program",
        "functions": { "program": { "image": target.join("programs/images/bench-program.so") } },
        "files": [{ "at": "/tmp", "memory": "64MiB" }],
        "steps": [{ "name": "program", "function": "program", "args": { "argv": [divisor, "/tmp"] }, "memory": "2GiB" }],
    }))?;
    let folder = crate::ours::scratch()?;
    let host = || -> Result<Figures> {
        let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let program = program.with_file_name("bench-program");
        let output = Command::new(&program).arg(divisor).arg(&folder).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        figures(String::from_utf8_lossy(&output.stdout).lines())
    };
    // All kernels of a side are measured together, and the first turn of each is thrown away.
    let mut rounds = Vec::new();
    for _ in 0..=effort.rounds {
        let ours = workflow.run()?;
        rounds.push((figures(ours.printed().into_iter())?, host()?));
    }
    let mut rows = Vec::new();
    for (name, limit) in KERNELS {
        let of = |figures: &Figures| figures.get(name).copied().ok_or_else(|| format!("no figure {name:?}"));
        let ours = rounds[1..].iter().map(|(ours, _)| of(ours)).collect::<Result<Vec<_>>>()?;
        let host = rounds[1..].iter().map(|(_, host)| of(host)).collect::<Result<Vec<_>>>()?;
        let sides = (Samples::of(ours), Samples::of(host));
        rows.push(Row::new(name, sides, "the same program on the host", Unit::Nanoseconds, Some(limit)));
    }
    let python = target.join("python/python.so");
    if python.is_file() {
        rows.push(start_of_python(effort, python)?);
    }
    Ok(rows)
}

/// The lines of a program: `NAME: NUMBER`.
fn figures<'l>(lines: impl Iterator<Item = &'l str>) -> Result<Figures> {
    let figure = |line: &str| {
        let (name, number) = line.rsplit_once(": ")?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    lines.map(|line| figure(line).ok_or_else(|| format!("bench-program said {line:?}"))).collect()
}

/// A program that does nothing, from the call to its end, against what is allowed.
fn start_of_python(effort: Effort, image: PathBuf) -> Result<Row> {
    let step: Value = json!({ "name": "python", "function": "python", "args": { "argv": ["-c", "pass"] } });
    let workflow = Workflow::new(&json!({
        "name": "bench-python",
        "functions": { "python": { "image": image } },
        "steps": [step],
    }))?;
    let sides = take_turns(effort, || Ok(workflow.run()?.nanoseconds), || Ok(PYTHON_NANOSECONDS))?;
    Ok(Row::new("python, started and ended", sides, "what is allowed", Unit::Milliseconds, Some(1.0)))
}
