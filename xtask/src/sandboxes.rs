//! The sandboxes that benchmarks compare with: Debian's gVisor, the library of wasmtime as Python's package index has it, and its
//! program as cargo compiles it. All stay in `target`; what cannot be had is skipped by its scenario, which says so.

use crate::apt::{self, Apt};
use crate::workspace::root;
use crate::{Result, shell};
use std::path::Path;
use std::process::{Command, Stdio};

/// The package, by its content.
const WASMTIME: &str =
    "wasmtime==50.0.1 --hash=sha256:cc14c3a17654e0394e0225b11813532ef0cd7bd1e222a0c5494cdedaabeddac4\n";

/// The program that serves HTTP: of its releases with long support the last one that our compiler takes.
const WASMTIME_PROGRAM: [&str; 3] = ["wasmtime-cli", "--version", "=48.0.8"];

/// Fetches what is not there yet.
pub(crate) fn ready() {
    let gvisor = apt::cached("gvisor", "fetch gVisor to compare with: about 6 MB, once", |apt: &Apt, folder| {
        apt.unpack(&["runsc"], &[], &folder.join("tree"))
    });
    for (name, fetched) in [("gVisor", gvisor.map(drop)), ("wasmtime", wasmtime())] {
        if let Err(why) = fetched {
            eprintln!("{name} is not to be had: {why}");
        }
    }
}

/// Compiles wasmtime's program, once. That takes many minutes, so only what needs it asks for it.
pub(crate) fn wasmtime_program() {
    let folder = root().join("target/wasmtime-cli");
    if folder.join("bin/wasmtime").exists() {
        return;
    }
    shell::heading("compile wasmtime-cli to compare with: some ten minutes, once");
    let mut install = shell::cargo(["install", "--quiet", "--locked"]);
    // Not what this workspace is compiled with.
    install.args(WASMTIME_PROGRAM).arg("--root").arg(&folder).env_remove("RUSTFLAGS");
    if let Err(why) = apt::make(&folder).and_then(|()| shell::run(&mut install)) {
        eprintln!("wasmtime-cli IS NOT TO BE HAD, and `wasmtime serve` is not measured: {why}");
    }
}

/// Wasmtime's library with its module for Python.
pub(crate) fn wasmtime() -> Result {
    let folder = root().join("target/wasmtime");
    let whole = folder.join("fetched");
    if whole.exists() {
        return Ok(());
    }
    shell::heading("fetch wasmtime to compare with: about 10 MB, once");
    let new = folder.join("new");
    apt::remove(&new)?;
    apt::make(&new)?;
    apt::write(&new.join("requirements"), WASMTIME)?;
    let pip = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"];
    let mut download = python(&new, &pip);
    shell::run(download.args(["--requirement", "requirements", "--platform=manylinux1_x86_64"]))?;
    let wheel = "wasmtime-50.0.1-py3-none-manylinux1_x86_64.whl";
    shell::run(&mut python(&new, &["-m", "zipfile", "--extract", wheel, "."]))?;
    apt::rename(&new, &whole)
}

fn python(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(arguments).current_dir(folder).stdout(Stdio::null());
    command
}
