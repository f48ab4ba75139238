//! `print('hello')` by CPython as a WebAssembly program: the same module as a function and in wasmtime, which has compiled it before, too.
//!
//! ```text
//! ours   `monohull run`      a command, which takes the image's file in: process, image, interpreter, program
//!        a process           as a server has it: the image is there; process, interpreter, program
//!        from a template     process, the interpreter's memory as it was after its start, program
//! peer   a process           a command, which maps the compiled file: process, engine, interpreter, program
//!        in process          engine and module are there: interpreter, program
//! ```
//!
//! The command is to be compared with the command. What a server does is compared with both: with a process, which has to map the compiled program as well, and
//! with what a server in one process does, which keeps nothing apart by processes.

use super::python::timed;
use super::sandboxes::{lacks_wasmtime, wasmtime_library};
use super::wasi_memory;
use crate::cold::{HELLO, hello_document};
use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::peer;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How long it may take without and with a template, if wasmtime takes 1.
const PLAIN: f64 = 1.1;
const TEMPLATE: f64 = 0.15;
const PROCESS: &str = "wasmtime, a process, compiled before";
const IN_PROCESS: &str = "wasmtime, pooling, in process";

/// The interpreter: the image, and the module that it was made of.
fn interpreter() -> [PathBuf; 2] {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/python");
    [folder.join("python-wasi.so"), folder.join("python-wasi.wasm")]
}

pub(super) fn lacks() -> Option<String> {
    lacks_interpreter().or_else(lacks_wasmtime)
}

pub(super) fn lacks_interpreter() -> Option<String> {
    let missing = interpreter().into_iter().find(|file| !file.is_file());
    missing.map(|file| format!("there is no {}, which `cargo xtask build --python-wasi` makes", file.display()))
}

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let program = peer::build_wasi(&wasmtime_library())?;
    let [image, module] = interpreter();
    let kept = kept(&program, &module)?;
    let process = || timed(Command::new(&program).arg(&kept).args(["run", "-c", HELLO]));
    let count = effort.size("30", "2");
    let in_process = || peer::figure("wasmtime", Command::new(&program).arg(&kept).args(["start", count, "-c", HELLO]));

    let document = crate::ours::scratch()?.join("python-wasi.json");
    std::fs::write(&document, hello_document(HELLO).to_string())
        .map_err(|error| format!("{}: {error}", document.display()))?;
    let monohull = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("monohull");
    let command = || timed(Command::new(&monohull).arg("run").arg(&document));
    let ours = |what: &'static str| move || peer::measure("cold", &[what, count]);
    let (fresh, template) = (ours("hello:answered"), ours("hello-template:answered"));

    let row = |name, sides, peer, limit| Row::new(name, sides, peer, Unit::Milliseconds, Some(limit));
    let [run, answered, from_template] = [
        "Python hello in WebAssembly, `monohull run`",
        "Python hello in WebAssembly, a process, answered",
        "Python hello in WebAssembly, from a template, answered",
    ];
    Ok(vec![
        row(run, take_turns(effort, command, process)?, PROCESS, PLAIN),
        row(answered, take_turns(effort, fresh, process)?, PROCESS, PLAIN),
        row(answered, take_turns(effort, fresh, in_process)?, IN_PROCESS, PLAIN),
        row(from_template, take_turns(effort, template, process)?, PROCESS, TEMPLATE),
        row(from_template, take_turns(effort, template, in_process)?, IN_PROCESS, TEMPLATE),
        wasi_memory::file("Python in WebAssembly", &image, &[&kept, &kept.with_extension("attachment")])?,
    ])
}

/// The module as wasmtime keeps it, compiled if it is not there or older.
fn kept(program: &Path, module: &Path) -> Result<PathBuf> {
    let kept = crate::ours::scratch()?.join("python-wasi.cwasm");
    let changed = |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    if changed(&kept) < changed(module).max(changed(&wasmtime_library())) {
        peer::figure("wasmtime", Command::new(program).arg(module).arg("keep").arg(&kept))?;
    }
    Ok(kept)
}
