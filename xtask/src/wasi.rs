//! Builds what makes functions of WebAssembly programs: the compiler, and the runtime's image.
//!
//! ```text
//! target/wasi/compile       the compiler, a program of its own
//! target/wasi/runtime.so    the runtime, to which it appends a program
//! target/wasi/tour.wasm     a program in Rust (`wasi/guests/tour`), and
//! target/images/wasi-tour.so  the function that is made of it
//! target/wasi/quickjs.wasm  the interpreter of programs in JavaScript (`wasi_guests`)
//! target/wasi/tour-c.wasm   programs in other languages, for tests
//! target/wasi/build         cargo's folder: the workspace `wasi` has its own dependencies
//! ```

use crate::build::{DEPENDENCY_FLAGS, IMAGE_FLAGS, install};
use crate::workspace::{Workspace, root};
use crate::{Result, shell, wasi_guests};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What guests in Rust are compiled for.
const GUEST_TARGET: &str = "wasm32-wasip1";
/// Crates that are linted, each by itself: together they would share features that some must not have.
const PACKAGES: [&str; 4] = ["monohull-wasi-settings", "monohull-wasi-runtime", "monohull-wasi-compile", "wasi-tour"];

/// Compiler, runtime, and guests.
pub(crate) fn build(workspace: &Workspace) -> Result {
    tools(workspace)?;
    guest(workspace, &root().join("target/wasi"))
}

/// The same without the one whose image is made here.
pub(crate) fn tools(workspace: &Workspace) -> Result {
    let (built, to) = (folder(workspace), root().join("target/wasi"));
    shell::run(
        cargo(workspace, &["build", "--release", "--quiet", "-p", "monohull-wasi-compile"]).env_remove("RUSTFLAGS"),
    )?;
    install(&built.join("release/monohull-wasi-compile"), &to.join("compile"))?;

    let mut runtime = cargo(workspace, &["rustc", "--quiet", "-p", "monohull-wasi-runtime", "--lib"]);
    runtime.args(["--crate-type=cdylib", "--profile=image", "--"]);
    for flag in IMAGE_FLAGS {
        runtime.args(["-C", flag]);
    }
    let theirs = std::env::var("RUSTFLAGS").unwrap_or_default();
    shell::run(runtime.env("RUSTFLAGS", format!("{theirs} {DEPENDENCY_FLAGS}")))?;
    install(&built.join("image/libmonohull_wasi_runtime.so"), &to.join("runtime.so"))?;
    wasi_guests::build(&to)
}

/// The program that shows what WASI has, and its image.
fn guest(workspace: &Workspace, to: &Path) -> Result {
    let installed = shell::output(Command::new("rustup").args(["target", "list", "--installed"]))?;
    if !String::from_utf8_lossy(&installed).lines().any(|target| target == GUEST_TARGET) {
        shell::run(Command::new("rustup").args(["target", "add", GUEST_TARGET]))?;
    }
    let mut build = cargo(workspace, &["build", "--release", "--quiet", "-p", "wasi-tour", "--target", GUEST_TARGET]);
    shell::run(build.env_remove("RUSTFLAGS"))?;
    let program = to.join("wasi-tour.wasm");
    install(&folder(workspace).join(GUEST_TARGET).join("release/wasi-tour.wasm"), &program)?;
    let mut monohull = Command::new(workspace.target().join("release/monohull"));
    let images = root().join("target/images");
    shell::output(monohull.arg("build").arg(program).arg("--out").arg(images)).map(drop)
}

/// Formatting and clippy; warnings are errors. With the profile that all of it was built with, so that dependencies are there.
pub(crate) fn lint(workspace: &Workspace) -> Result {
    shell::heading("rustfmt and clippy of wasi");
    shell::run(&mut cargo(workspace, &["fmt", "--all", "--check"]))?;
    PACKAGES.iter().try_for_each(|package| {
        let mut clippy = cargo(workspace, &["clippy", "--quiet", "-p", package, "--release"]);
        shell::run(clippy.args(["--", "-D", "warnings"]).env_remove("RUSTFLAGS"))
    })
}

/// Cargo on the workspace `wasi`.
fn cargo(workspace: &Workspace, arguments: &[&str]) -> Command {
    let mut command = shell::cargo(arguments.iter().copied());
    command.current_dir(root().join("wasi")).env("CARGO_TARGET_DIR", folder(workspace));
    command
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("wasi/build")
}
