//! A program in AssemblyScript as a WebAssembly program, by its own compiler, which npm has.
//!
//! ```text
//! wasi/guests/assemblyscript/package-lock.json ── npm ci, by SHA-512 ─▶ target/wasi/programs/assemblyscript/node_modules
//! wasi/guests/assemblyscript/app.ts ── asc ─▶ target/wasi/programs/assemblyscript.wasm ── monohull build ─▶ assemblyscript.so
//! ```
//!
//! Scripts of npm packages are not run. It is a part of `cargo xtask build --c-programs-wasi`, since not every computer has npm.

use crate::workspace::{Workspace, root};
use crate::{Result, apt, shell};
use std::process::{Command, Stdio};

/// The compiler and the program.
pub(crate) fn build(workspace: &Workspace) -> Result {
    let (source, to) = (root().join("wasi/guests/assemblyscript"), root().join("target/wasi/programs"));
    let folder = to.join("assemblyscript");
    apt::make(&folder)?;
    let _held = apt::lock(&folder)?;
    for name in ["package.json", "package-lock.json", "app.ts"] {
        let copied = std::fs::copy(source.join(name), folder.join(name));
        copied.map_err(|error| format!("{}: {error}", source.join(name).display()))?;
    }
    let whole = folder.join("whole");
    if !whole.exists() {
        shell::heading("fetch AssemblyScript: about 20 MB, once");
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(&folder);
        shell::run(npm.stdout(Stdio::null()))?;
        apt::write(&whole, "")?;
    }
    let program = to.join("assemblyscript.wasm");
    let mut compiler = Command::new("node");
    compiler.arg("node_modules/assemblyscript/bin/asc.js").args(["app.ts", "--optimize", "--config"]);
    compiler.arg("node_modules/@assemblyscript/wasi-shim/asconfig.json").arg("-o").arg(&program);
    shell::run(compiler.current_dir(&folder))?;
    let mut monohull = Command::new(workspace.target().join("release/monohull"));
    shell::output(monohull.arg("build").arg(&program)).map(drop)
}
