//! What a usual Rust program spends its time with, as a function over Rust's own std and as a program of the host: one source
//! (`examples/bench-program`), compiled twice. And the same of Python programs, where the interpreter has been built.

use super::figures::{Figures, Rounds, figures};
use super::python;
use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::ours::Workflow;
use serde_json::json;
use std::path::Path;
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
    ("file, blocks of 64 KiB", 0.5),
    ("file, opened and closed", 0.5),
];
/// What cannot be faster than something else that the function does: the same bytes copied, and two calls of the system that
/// give the turn to a thread that is not there.
const FLOORS: [(&str, &str); 2] =
    [("file, blocks of 64 KiB", "64 KiB copied"), ("file, opened and closed", "two yields")];
/// How long the image of the smallest program may take to load, in nanoseconds.
const LOAD: f64 = 100e3;

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
    let rounds = Rounds::measure(effort.rounds, || figures(workflow.run()?.printed().into_iter()), host)?;
    let row = |&(name, limit)| rounds.row(name, name, "the same program on the host", Unit::Nanoseconds, limit);
    let mut rows = KERNELS.iter().map(row).collect::<Result<Vec<_>>>()?;
    for (name, floor) in FLOORS {
        let title = format!("{name}, against its floor");
        rows.push(rounds.against_floor(&title, name, floor, Unit::Nanoseconds)?);
    }
    let blocks = "file, blocks of 64 KiB";
    rows.push(rounds.against_hosts(
        &format!("{blocks}, copied by the host"),
        blocks,
        "64 KiB copied",
        Unit::Nanoseconds,
    )?);
    rows.push(load(effort, &target)?);
    rows.extend(server(effort, &target)?);
    rows.extend(python::rows(effort, &target)?);
    Ok(rows)
}

/// The image of the smallest program is mapped and made ready to run, in a domain that has just been made; against what is allowed.
fn load(effort: Effort, target: &Path) -> Result<Row> {
    let workflow = Workflow::new(&json!({
        "name": "bench-hello",
        "functions": { "hello": { "image": target.join("programs/images/hello.so") } },
        "steps": [{ "name": "hello", "function": "hello" }],
    }))?;
    let ours = || workflow.run()?.between("domain-ready", "image-mapped");
    let sides = take_turns(effort, ours, || Ok(LOAD))?;
    Ok(Row::new("hello, its image loaded", sides, "what is allowed", Unit::Microseconds, Some(1.0)))
}

/// A server of axum and its clients in one program, over sockets of the host, where the program has been built for the host too.
fn server(effort: Effort, target: &Path) -> Result<Option<Row>> {
    let (image, program) = (target.join("programs/images/servers.so"), target.join("programs/release/servers"));
    if !(image.is_file() && program.is_file()) {
        return Ok(None);
    }
    let load = format!("--load={}", effort.size(5000, 20));
    let workflow = Workflow::new(&json!({
        "name": "bench-servers",
        "functions": { "servers": { "image": image } },
        "steps": [{ "name": "servers", "function": "servers", "args": { "argv": [load] }, "memory": "512MiB" }],
        "network": { "mode": "host", "connect": ["127.0.0.1:*"], "listen": ["127.0.0.1:*"] },
    }))?;
    let host = || -> Result<Figures> {
        let output = Command::new(&program).arg(&load).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        figures(String::from_utf8_lossy(&output.stdout).lines())
    };
    let rounds = Rounds::measure(effort.rounds, || figures(workflow.run()?.printed().into_iter()), host)?;
    let name = "axum, 8 clients";
    rounds.row(name, name, "the same program on the host", Unit::Nanoseconds, None).map(Some)
}
