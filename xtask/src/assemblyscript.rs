//! Programs in AssemblyScript as WebAssembly programs, by its own compiler, which npm has.
//!
//! ```text
//! wasi/guests/assemblyscript/package-lock.json ── npm ci, by SHA-512 ─▶ target/wasi/programs/assemblyscript/node_modules
//! wasi/guests/assemblyscript/app.ts ── asc ─▶ target/wasi/programs/assemblyscript.wasm ── monohull build ─▶ assemblyscript.so
//! wasi/guests/assemblyscript/durable.ts, wasi/lib/assemblyscript/monohull.ts ── the same ─▶ assemblyscript-durable.so
//! ```
//!
//! Scripts of npm packages are not run. It is a part of `cargo xtask build --c-programs-wasi`, since not every computer has npm.

use crate::workspace::{Workspace, root};
use crate::{Result, apt, shell};
use std::process::{Command, Stdio};

/// The programs, and what they are called when they are compiled.
const PROGRAMS: [(&str, &str); 2] = [("app.ts", "assemblyscript.wasm"), ("durable.ts", "assemblyscript-durable.wasm")];
/// What a program has of Monohull beside WASI.
const LIBRARY: &str = "wasi/lib/assemblyscript/monohull.ts";

/// The compiler and the programs.
pub(crate) fn build(workspace: &Workspace) -> Result {
    let (source, to) = (root().join("wasi/guests/assemblyscript"), root().join("target/wasi/programs"));
    let folder = to.join("assemblyscript");
    apt::make(&folder)?;
    let _held = apt::lock(&folder)?;
    let files = ["package.json", "package-lock.json"].into_iter().chain(PROGRAMS.map(|(name, _)| name));
    for file in files.map(|name| source.join(name)).chain([root().join(LIBRARY)]) {
        let copied = std::fs::copy(&file, folder.join(file.file_name().unwrap_or_default()));
        copied.map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let whole = folder.join("whole");
    if !whole.exists() {
        shell::heading("fetch AssemblyScript: about 20 MB, once");
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(&folder);
        shell::run(npm.stdout(Stdio::null()))?;
        apt::write(&whole, "")?;
    }
    for (name, program) in PROGRAMS {
        let program = to.join(program);
        let mut compiler = Command::new("node");
        compiler.arg("node_modules/assemblyscript/bin/asc.js").args([name, "--optimize", "--config"]);
        compiler.arg("node_modules/@assemblyscript/wasi-shim/asconfig.json").arg("-o").arg(&program);
        shell::run(compiler.current_dir(&folder))?;
        let mut monohull = Command::new(workspace.target().join("release/monohull"));
        shell::output(monohull.arg("build").arg(&program))?;
    }
    Ok(())
}
