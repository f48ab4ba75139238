//! Python programs: how long one takes to start, and benchmarks of pyperformance as a function and under an interpreter of the host that is
//! compiled from the same source with the same options.

use super::figures::{Figures, Rounds, figures};
use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::ours::Workflow;
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};

/// How long a program may take to start and end, in nanoseconds.
const START: f64 = 20e6;
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
