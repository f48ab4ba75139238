//! What libos modules cost: a workflow without any, with each, and with all, each time in a new process, because a module
//! once loaded stays.

use crate::harness::{Effort, Result, Row, Samples, Unit, pairs, take_turns};
use crate::ours;
use monohull_visor::disk::Disk;
use monohull_visor::report::RunReport;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the probe does: each makes the first use of the modules of that name, which succeeds. Mapping a file includes opening it, so
/// beside it stands a file that is opened and read.
const MODULES: &[&str] = &[
    "mm",
    "stdio",
    "time",
    "fdtab",
    "fdtab, ramfs",
    "fdtab, fatfs",
    "fdtab, fatfs, file",
    "fdtab, fatfs, mmap-file",
    "socket",
];
/// What loading all may cost, in nanoseconds. (AlloyStack, EuroSys 2025, needs 89.4 ms with all and 1.3 ms on demand.)
const ALL_LIMIT: f64 = 3e6;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let nothing = workflow("no module", "nothing")?;
    let on_demand = || duration(&nothing, "on-demand");
    let all = || duration(&nothing, "all");
    let sides = take_turns(effort, on_demand, all)?;
    let limit = Samples::of(vec![ALL_LIMIT]);
    let mut rows = vec![
        Row::new("modules, on demand", sides.clone(), "--load all", Unit::Microseconds, None),
        Row::new("modules, all", (sides.1, limit), "a limit", Unit::Microseconds, Some(1.0)),
    ];
    for module in MODULES {
        let (used, unused) = (workflow(module, module)?, workflow(module, "nothing")?);
        let names: Vec<&str> = module.split(", ").filter(|name| *name != "file").collect();
        let sides = pairs(effort, || Ok((loading(&names, &used)?, loading(&[], &unused)?)))?;
        rows.push(Row::new(format!("first use of {module}"), sides, "none used", Unit::Microseconds, None));
    }
    Ok(rows)
}

/// Writes a workflow file that gives all that the probe needs for these modules, and in which it does `what`.
fn workflow(modules: &str, what: &str) -> Result<PathBuf> {
    let file = ours::scratch()?.join(format!("modules, {modules}, {what}.json"));
    let mut document = json!({
        "name": "bench-modules",
        "functions": {"probe": {"image": ours::image("bench-probe")}},
        "steps": [{"name": "probe", "function": "probe", "args": {"what": what, "count": 0}}],
        "unread": "ignore",
    });
    if modules.contains("ramfs") {
        document["files"] = json!([{"at": "/data", "memory": "1MiB"}]);
    } else if modules.contains("fatfs") {
        let image = ours::scratch()?.join("modules.img");
        let made = Disk::create(&image, 1 << 20, true);
        made.and_then(|mut disk| disk.write("file", &mut &[1; 8192][..], 8192, 0))
            .map_err(|error| error.to_string())?;
        document["files"] = json!([{"at": "/data", "image": image}]);
    } else if modules == "socket" {
        document["network"] = json!({"mode": "host", "listen": ["127.0.0.1:0"]});
    }
    std::fs::write(&file, document.to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}

/// Nanoseconds of a run that loads these modules, and no others.
fn loading(modules: &[&str], file: &Path) -> Result<f64> {
    let (nanoseconds, mut loaded) = measured(file, "on-demand")?;
    loaded.sort_unstable();
    let mut expected = modules.to_vec();
    expected.sort_unstable();
    match loaded == expected {
        true => Ok(nanoseconds),
        false => Err(format!("{} should load {expected:?}, and loads {loaded:?}", file.display())),
    }
}

fn duration(file: &Path, load: &str) -> Result<f64> {
    measured(file, load).map(|(nanoseconds, _)| nanoseconds)
}

/// Nanoseconds from the job's arrival in its process to its answer, and the modules that were loaded.
fn measured(file: &Path, load: &str) -> Result<(f64, Vec<String>)> {
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
        (Some(first), Some(last)) => Ok(((last.at_ns - first.at_ns) as f64, report.modules)),
        _ => Err(format!("{}: the report has no timeline", file.display())),
    }
}
