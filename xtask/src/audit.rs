//! Checks of dependencies: licences, where they come from, versions that are there twice (`deny.toml`), whether they are used, and
//! advisories.
//!
//! Advisories come from RustSec's database, a repository on GitHub, which no package registry mirrors. The other checks need only
//! registries, so `cargo xtask lint` and `cargo xtask ci` make them, and `cargo xtask audit` makes all.

use crate::tools::{CARGO_DENY, CARGO_SHEAR};
use crate::workspace::{FUZZ_WORKSPACES, root};
use crate::{Result, shell};
use std::process::Command;

/// What package registries suffice for.
const OFFLINE: [&str; 3] = ["bans", "licenses", "sources"];

/// All but advisories.
pub(crate) fn lint() -> Result {
    shell::heading("dependencies: licences, sources, versions");
    deny(&OFFLINE)?;
    shell::heading("dependencies: unused");
    // It warns of files that tests name in strings; what is unused is an error.
    shell::run(Command::new(CARGO_SHEAR.ready()?).args(["shear", "--locked"]).current_dir(root()))
}

/// All, with advisories.
pub(crate) fn run() -> Result {
    lint()?;
    shell::heading("dependencies: advisories");
    deny(&["advisories"])
}

/// These checks of the workspace, of those of WebAssembly programs and of published crates, and of those with fuzz targets. Versions that
/// are there twice are the affair of Wasmtime and of these crates.
fn deny(checks: &[&str]) -> Result {
    let program = CARGO_DENY.ready()?;
    let deny = |manifest: &str, lints: &[&str]| {
        let mut deny = Command::new(&program);
        deny.args(["--locked", "--config", "deny.toml", "--manifest-path", manifest, "check"]).current_dir(root());
        shell::run(deny.args(lints).args(checks))
    };
    // An exception or a skip that the workspace has no use for is an error, but for those of the fuzz targets.
    deny("Cargo.toml", &["-D", "warnings", "-A", "license-exception-not-encountered"])?;
    // These have few of the workspace's dependencies.
    let unused = ["-A", "unmatched-skip", "-A", "unnecessary-skip", "-A", "license-not-encountered"];
    deny("wasi/Cargo.toml", &[&unused[..], &["-A", "duplicate"]].concat())?;
    deny("programs/Cargo.toml", &[&unused[..], &["-A", "duplicate"]].concat())?;
    FUZZ_WORKSPACES.iter().try_for_each(|workspace| deny(&format!("{workspace}/Cargo.toml"), &unused))
}
