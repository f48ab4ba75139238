//! What a usual Rust program spends its time with, as a function over Rust's own std and as a program of the host: one source
//! (`examples/bench-program`), compiled twice. And the same of Python programs, where the interpreter has been built.

use super::figures::{Figures, Rounds, figures};
use super::python;
use crate::harness::{Effort, Result, Row, Unit};
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
    ("file, blocks of 64 KiB", 0.75),
    ("file, opened and closed", 0.5),
];
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
    let title = "file, blocks of 64 KiB, against its floor";
    rows.push(rounds.against_floor(title, "file, blocks of 64 KiB", "64 KiB copied", Unit::Nanoseconds)?);
    rows.extend(server(effort, &target)?);
    rows.extend(python::rows(effort, &target)?);
    Ok(rows)
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
