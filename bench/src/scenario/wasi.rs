//! Programs for WASI, as functions and in wasmtime: the same module, which measures itself by WASI's clock.
//!
//! The peer's release is newer than the one that Monohull compiles with.
//!
//! **Starting an instance is no like for like.** The peer has one engine with one linked module in a process that all instances share, and takes a memory from a
//! pool: its calls to the kernel are those that give a memory's pages back. Ours is a cell with a runtime of its own, which begins with its data as it was, makes
//! an engine, reads the program's tables, links the functions that the program imports, and is cleared afterwards; the workflow's process tells its supervisor when it begins and
//! when it ends. What a cell takes of the kernel alone is a row beside it, and so is a native function that does nothing.

use super::python::timed;
use super::sandboxes::wasmtime_library;
use super::wasi_memory;
use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::machine::on_one_core;
use crate::ours::{Run, Workflow, scratch};
use crate::peer;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What is computed, and the goal.
const COMPUTED: [&str; 4] = ["sieve", "matmul", "sha256", "mixed"];
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
    let kept = folder.join("bench.cwasm");
    peer::figure(PEER, Command::new(&peer).arg(&program).arg("keep").arg(&kept))?;
    let load = || timed(Command::new(&peer).arg(&kept).arg("load"));
    let sides = take_turns(effort, || monohull(&["validate"], &file, &folder), load)?;
    rows.push(Row::new("compiled before", sides, "wasmtime, a process, compiled before", Unit::Milliseconds, None));

    let image = folder.join("bench.so");
    for mode in COMPUTED.into_iter().chain(["calls", "clocks"]) {
        let argument = format!("--mode={mode}");
        let workflow = workflow(&image, mode, 1)?;
        let sides = on_one_core(|| take_turns(effort, || printed(&workflow.run()?), || theirs(&["run", &argument])))?;
        let (name, unit, goal) = match mode {
            "calls" => ("call of the runtime", Unit::Nanoseconds, 1.5),
            "clocks" => ("call of the system", Unit::Nanoseconds, 1.5),
            "mixed" => ("like CoreMark", Unit::Milliseconds, 1.05),
            computed => (computed, Unit::Milliseconds, 1.05),
        };
        rows.push(Row::new(name, sides, PEER, unit, Some(goal)));
    }

    rows.extend(instances(effort, &image, &peer, &kept)?);
    rows.push(wasi_memory::file("WebAssembly", &image, &[&kept])?);
    rows.extend(wasi_memory::instances(&image, &folder, &peer, &kept, effort.size(20, 2))?);
    Ok(rows)
}

/// Starting and ending an instance that does nothing, and what limits it.
fn instances(effort: Effort, image: &Path, peer: &Path, kept: &Path) -> Result<Vec<Row>> {
    let count: u32 = effort.size(1000, 10);
    let text = count.to_string();
    let theirs = || peer::figure(PEER, Command::new(peer).arg(kept).args(["start", &text, "--mode=nothing"]));
    let workflow = workflow(image, "nothing", count)?;
    let native = Workflow::nothing(count)?;
    let each = |workflow: &Workflow| Ok(workflow.run()?.nanoseconds / f64::from(count));
    let (name, unit) = ("wasmtime, pooling, in process", Unit::Microseconds);
    on_one_core(|| {
        let alone = take_turns(effort, || peer::measure("cell", &[&text]), theirs)?;
        let nothing = take_turns(effort, || each(&native), theirs)?;
        let all = take_turns(effort, || each(&workflow), theirs)?;
        Ok(vec![
            Row::new("instance", all, name, unit, Some(1.5)),
            Row::new("the limit of an instance, its calls to the kernel and its pages alone", alone, name, unit, None),
            Row::new("the limit of an instance, a native function that does nothing", nothing, name, unit, None),
        ])
    })
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
