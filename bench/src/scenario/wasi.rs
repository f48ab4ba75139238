//! Programs for WASI, as functions and in wasmtime: the same module, which measures itself by WASI's clock.
//!
//! The peer's release is newer than the one that Monohull compiles with. Starting an instance is no like for like: ours is a cell with
//! a runtime and a linked program of its own, the peer's a memory from a pool in a process that all instances share.

use super::sandboxes::wasmtime_library;
use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::machine::on_one_core;
use crate::ours::{Run, Workflow, scratch};
use crate::peer;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What is computed, and the goal.
const COMPUTED: [&str; 3] = ["sieve", "matmul", "sha256"];
const PEER: &str = "wasmtime";

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let peer = peer::build_wasi(&wasmtime_library())?;
    let (folder, program) = program("bench")?;
    let theirs = |arguments: &[&str]| peer::figure(PEER, Command::new(&peer).arg(&program).args(arguments));

    // First, because it makes the image.
    let compile = take_turns(effort, || monohull(&["build"], &program, &folder), || theirs(&["compile"]))?;
    let mut rows = vec![Row::new("compile", compile, PEER, Unit::Milliseconds, None)];
    let file = folder.join("cached.json");
    let document = json!({
        "name": "cached",
        "functions": {"bench": {"image": "bench.wasm"}},
        "steps": [{"name": "bench", "function": "bench"}],
    });
    std::fs::write(&file, document.to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
    let cached = take_turns(effort, || monohull(&["validate"], &file, &folder), || theirs(&["compile"]))?;
    rows.push(Row::new("compiled before", cached, "wasmtime, compiling", Unit::Milliseconds, None));

    let image = folder.join("bench.so");
    for mode in COMPUTED.into_iter().chain(["calls", "clocks"]) {
        let argument = format!("--mode={mode}");
        let workflow = workflow(&image, mode, 1)?;
        let sides = on_one_core(|| take_turns(effort, || printed(&workflow.run()?), || theirs(&["run", &argument])))?;
        let (name, unit, goal) = match mode {
            "calls" => ("call of the runtime", Unit::Nanoseconds, 1.5),
            "clocks" => ("call of the system", Unit::Nanoseconds, 1.5),
            computed => (computed, Unit::Milliseconds, 1.05),
        };
        rows.push(Row::new(name, sides, PEER, unit, Some(goal)));
    }

    let instances: u32 = effort.size(1000, 10);
    let workflow = workflow(&image, "nothing", instances)?;
    let sides = on_one_core(|| {
        take_turns(
            effort,
            || Ok(workflow.run()?.nanoseconds / f64::from(instances)),
            || theirs(&["start", &instances.to_string(), "--mode=nothing"]),
        )
    })?;
    rows.push(Row::new("instance", sides, "wasmtime, pooling, in process", Unit::Microseconds, None));
    Ok(rows)
}

/// A folder for what is made of a program, and the program there.
pub(super) fn program(name: &str) -> Result<(PathBuf, PathBuf)> {
    let folder = scratch()?.join("wasi");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let program = folder.join(name).with_extension("wasm");
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/wasi").join(name).with_extension("wasm");
    std::fs::copy(&built, &program).map_err(|error| format!("{}: {error}", built.display()))?;
    Ok((folder, program))
}

/// The figure that a program has printed.
pub(super) fn printed(run: &Run) -> Result<f64> {
    let texts = run.printed();
    texts.first().and_then(|text| text.parse().ok()).ok_or_else(|| format!("no figure: {texts:?}"))
}

fn workflow(image: &Path, mode: &str, instances: u32) -> Result<Workflow> {
    Workflow::new(&json!({
        "name": "bench-wasi",
        "functions": {"bench": {"image": image}},
        "steps": [{"name": "bench", "function": "bench", "args": {"mode": mode}, "instances": instances}],
        "limits": {"carriers": 1},
    }))
}

/// Nanoseconds of a whole `monohull`, whose cache is in this folder.
pub(super) fn monohull(arguments: &[&str], file: &Path, folder: &Path) -> Result<f64> {
    let program: PathBuf = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("monohull");
    let mut command = Command::new(&program);
    command.args(arguments).arg(file).env("XDG_CACHE_HOME", folder).env("XDG_CONFIG_HOME", folder);
    let start = Instant::now();
    let status = command.stdout(Stdio::null()).status().map_err(|error| format!("{}: {error}", program.display()))?;
    let nanoseconds = start.elapsed().as_nanos() as f64;
    if status.success() { Ok(nanoseconds) } else { Err(format!("{command:?} ended with {status}")) }
}
