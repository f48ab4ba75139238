//! Libos modules loaded on their first call, against all at the start: a no-op workflow, each time in a new process,
//! because a module once loaded stays. Reported without a goal.

use crate::harness::{Effort, Result, Row, Unit, take_turns};
use crate::ours;
use monohull::report::RunReport;
use serde_json::json;
use std::path::Path;
use std::process::Command;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let file = ours::scratch()?.join("no-op.json");
    let document = json!({
        "name": "bench-modules",
        "functions": {"no-op": {"image": ours::image("no-op")}},
        "steps": [{"name": "nothing", "function": "no-op"}],
    });
    std::fs::write(&file, document.to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
    let sides = take_turns(effort, || duration(&file, "on-demand"), || duration(&file, "all"))?;
    Ok(vec![Row::new("modules", sides, "--load all", Unit::Microseconds, None)])
}

/// Nanoseconds of the run, on its own clock: the process's start is not in it.
fn duration(file: &Path, load: &str) -> Result<f64> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(program.with_file_name("monohull"));
    command.arg("run").arg(file).args(["--json", "--load", load]);
    let output = command.output().map_err(|error| format!("cannot start monohull: {error}"))?;
    if !output.status.success() {
        return Err(format!("monohull run: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    let report: RunReport =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("monohull run --json: {error}"))?;
    Ok(report.duration_us as f64 * 1000.0)
}
