//! The same no-op in other people's sandboxes: one that needs no process, and one that brings a kernel. Reported, without
//! goals: neither does what a workflow domain does (a process of its own; native code).

use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::machine::on_one_core;
use crate::peer;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `cargo xtask bench` has fetched.
fn fetched(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(path)
}

pub(super) fn wasmtime_library() -> PathBuf {
    fetched("wasmtime/fetched/wasmtime/linux-x86_64/_libwasmtime.so")
}

pub(super) fn lacks_wasmtime() -> Option<String> {
    let library = wasmtime_library();
    (!library.exists()).then(|| format!("there is no {}, which pip fetches", library.display()))
}

/// From request to answer, and to the end of the process; against a fresh store, an instance, a call, and their end.
pub(super) fn wasmtime(effort: Effort) -> Result<Vec<Row>> {
    let program = peer::build_wasmtime(&wasmtime_library())?;
    let (ours, theirs) = (effort.size("300", "5"), effort.size("20000", "50"));
    let row = |name: &str, what: &str| -> Result<Row> {
        let ours = || peer::measure("cold", &[what, ours]);
        let theirs = || peer::figure("wasmtime", Command::new(&program).arg(theirs));
        let sides = on_one_core(|| take_turns(effort, ours, theirs))?;
        Ok(Row::new(name, sides, "wasmtime, pooling, in process", Unit::Microseconds, None))
    };
    Ok(vec![row("no-op, answered", "answered")?, row("no-op, reaped", "reaped")?])
}

/// `runsc do`, to which the program is added.
fn runsc() -> Vec<String> {
    let program = fetched("gvisor/bookworm/tree/usr/bin/runsc").to_string_lossy().into_owned();
    let mut command = vec![program, "--network=none".to_owned()];
    if !nix::unistd::geteuid().is_root() {
        command.push("--rootless".to_owned());
    }
    command.push("do".to_owned());
    command
}

pub(super) fn lacks_gvisor() -> Option<String> {
    // In another sandbox it may not run, and where it may not it may wait for ever.
    let mut command = Command::new("timeout");
    let tried = command.args(["--kill-after=1", "20"]).args(runsc()).arg("/bin/true").stdin(Stdio::null()).output();
    match tried {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Some(format!("runsc do /bin/true: {}: {}", output.status, said.trim()))
        }
        Err(error) => Some(format!("timeout: {error}")),
    }
}

/// From request to the end of the process; against `runsc do` of a static program.
pub(super) fn gvisor(effort: Effort) -> Result<Vec<Row>> {
    let program = peer::build_nothing()?.to_string_lossy().into_owned();
    let command = [vec![effort.size("5", "1").to_owned()], runsc(), vec![program]].concat();
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let ours = || peer::measure("cold", &["reaped", effort.size("300", "5")]);
    let sides = take_turns(effort, ours, || peer::measure("spawn", &words))?;
    Ok(vec![Row::new("no-op, reaped", sides, "gVisor, runsc do", Unit::Microseconds, None)])
}
