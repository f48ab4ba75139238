//! The most memory that any process of a program has had: of `monohull run`, which forks one for the workflow.

use crate::harness::Result;
use nix::sys::resource::{UsageWho, getrusage};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a workflow file, and gives the bytes that the largest of its processes had at most.
pub(super) fn of_run(file: &Path) -> Result<f64> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("monohull");
    let status = Command::new(&program).arg("run").arg(file).arg("--json").stdout(Stdio::null()).status();
    let status = status.map_err(|error| format!("{}: {error}", program.display()))?;
    if !status.success() {
        return Err(format!("{} ended with {status}", program.display()));
    }
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| error.to_string())?;
    // In KiB: of the largest descendant that was waited for.
    Ok(usage.max_rss() as f64 * 1024.0)
}
