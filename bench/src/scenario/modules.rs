//! What libos modules cost: a workflow without any, with each, and with all, each time in a new process, because a module
//! once loaded stays.

use crate::harness::{Effort, Result, Row, Samples, Unit, pairs, take_turns};
use crate::ours;
use monohull::disk::Disk;
use monohull::report::RunReport;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the probe calls: each loads the module of that name, a file system the table of descriptors as well.
const MODULES: &[&str] =
    &["mm", "stdio", "time", "fdtab", "fdtab, ramfs", "fdtab, fatfs", "fdtab, mmap-file", "socket"];
/// What loading all may cost, in nanoseconds. (AlloyStack, EuroSys 2025, needs 89.4 ms with all and 1.3 ms on demand.)
const ALL_LIMIT: f64 = 3e6;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let nothing = workflow("nothing")?;
    let on_demand = || duration(&nothing, "on-demand");
    let all = || duration(&nothing, "all");
    let sides = take_turns(effort, on_demand, all)?;
    let limit = Samples::of(vec![ALL_LIMIT]);
    let mut rows = vec![
        Row::new("modules, on demand", sides.clone(), "--load all", Unit::Microseconds, None),
        Row::new("modules, all", (sides.1, limit), "a limit", Unit::Microseconds, Some(1.0)),
    ];
    for module in MODULES {
        let file = workflow(module)?;
        let sides = pairs(effort, || Ok((duration(&file, "on-demand")?, on_demand()?)))?;
        rows.push(Row::new(format!("first use of {module}"), sides, "none used", Unit::Microseconds, None));
    }
    Ok(rows)
}

/// Writes a workflow file in which the probe does `what`.
fn workflow(what: &str) -> Result<PathBuf> {
    let file = ours::scratch()?.join(format!("modules, {what}.json"));
    let mut document = json!({
        "name": "bench-modules",
        "functions": {"probe": {"image": ours::image("bench-probe")}},
        "steps": [{"name": "probe", "function": "probe", "args": {"what": what, "count": 0}}],
    });
    if what.contains("ramfs") {
        document["files"] = json!([{"at": "/data", "memory": "1MiB"}]);
    } else if what.contains("fatfs") {
        let image = ours::scratch()?.join("modules.img");
        Disk::create(&image, 1 << 20, true).map_err(|error| error.to_string())?;
        document["files"] = json!([{"at": "/data", "image": image}]);
    }
    std::fs::write(&file, document.to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}

/// Nanoseconds from the job's arrival in its process to its answer.
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
    match (report.timeline.first(), report.timeline.last()) {
        (Some(first), Some(last)) => Ok((last.at_ns - first.at_ns) as f64),
        _ => Err(format!("{}: the report has no timeline", file.display())),
    }
}
