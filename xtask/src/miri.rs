//! Runs the tests of plain data under Miri, which finds undefined behaviour that works by chance: references that overlap, reads of
//! what was never written, leaks.

use crate::{Result, shell};
use std::process::Command;

/// Miri comes with nightly compilers only. This one is known to have it.
const TOOLCHAIN: &str = "nightly-2026-10-30";
/// What is run: a package, and the tests in it whose names begin so. They call nothing of the host's.
const RUNS: [(&str, &[&str]); 2] =
    [("monohull-domain", &["--lib", "sched::"]), ("monohull-libos-mm", &["--lib", "tests::slots::"])];

/// Installs it where it is missing, and runs the tests.
pub(crate) fn run() -> Result {
    shell::heading("Miri");
    let installed = Command::new("rustup").args(["run", TOOLCHAIN, "cargo", "miri", "--version"]).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        let mut install = Command::new("rustup");
        install.args(["toolchain", "install", TOOLCHAIN, "--profile", "minimal", "--component", "miri,rust-src"]);
        shell::run(&mut install)?;
    }
    for (package, tests) in RUNS {
        let mut command = Command::new("rustup");
        command.args(["run", TOOLCHAIN, "cargo", "miri", "test", "--quiet", "--package", package]).args(tests);
        // Modules get addresses as numbers, as functions pass them: no warning of each.
        command.env("MIRIFLAGS", "-Zmiri-permissive-provenance");
        // The flags of a build around this one are for another compiler.
        shell::run(command.env_remove("RUSTFLAGS").env_remove("RUSTC").env_remove("CARGO"))?;
    }
    Ok(())
}
