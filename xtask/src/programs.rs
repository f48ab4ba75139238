//! The workspace `programs`: published crates with their default features, made images of as a user does it.
//!
//! ```text
//! programs/NAME ── monohull build ─▶ target/programs/images/NAME.so
//! target/programs                    cargo's folder: the workspace has its own dependencies
//! ```
//!
//! They do not lie among the other images, because those are in the memory of each virtual machine.

use crate::Result;
use crate::shell;
use crate::workspace::{Workspace, root};
use std::path::PathBuf;
use std::process::Command;

/// Its members that are built each time.
const USUAL: [&str; 5] = ["database", "hello", "libraries", "servers", "system"];
/// Those that take too long for that: their tests are ignored, and run by name.
const LARGE: [&str; 1] = ["pictures"];

/// Those that are built each time.
pub(crate) fn build(workspace: &Workspace) -> Result {
    make(workspace, &USUAL)
}

/// All of them.
pub(crate) fn build_all(workspace: &Workspace) -> Result {
    make(workspace, &USUAL).and_then(|()| make(workspace, &LARGE))
}

/// What a server of axum is compared with: the same program, for the host. It is left out where that fails.
pub(crate) fn servers_of_host(workspace: &Workspace) {
    shell::heading("compile a program to compare with");
    let mut build = shell::cargo(["build", "--release", "-p", "servers"]);
    build.current_dir(root().join("programs")).env("CARGO_TARGET_DIR", folder(workspace));
    if let Err(error) = shell::run(&mut build) {
        eprintln!("it is left out: {error}");
    }
}

/// Cargo builds what has changed.
fn make(workspace: &Workspace, programs: &[&str]) -> Result {
    programs.iter().try_for_each(|program| {
        let mut build = Command::new(workspace.target().join("release/monohull"));
        build.args(["build", "--out"]).arg(root().join("target/programs/images"));
        build.arg(root().join("programs").join(program));
        shell::run(build.env("CARGO_TARGET_DIR", folder(workspace)))
    })
}

/// Formatting. Clippy would compile all they depend on once more, and these programs are not what Monohull is made of.
pub(crate) fn lint() -> Result {
    shell::heading("rustfmt of programs");
    let mut fmt = shell::cargo(["fmt", "--all", "--check"]);
    shell::run(fmt.current_dir(root().join("programs")))
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("programs")
}
