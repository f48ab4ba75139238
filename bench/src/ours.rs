//! Our side: workflows, run in this process by the visor's library.

use crate::harness::Result;
use monohull::orchestrator::{self, RunOptions};
use monohull::report::{Content, RunReport, Silent, Status};
use monohull::workflow::{self, Plan};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The image of an example function, as `cargo xtask build` leaves it.
pub(crate) fn image(name: &str) -> String {
    format!("{}/../target/images/{name}.so", env!("CARGO_MANIFEST_DIR"))
}

/// A folder for inputs and results, beside this program.
pub(crate) fn scratch() -> Result<PathBuf> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let folder = program.with_file_name("bench-data");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// A finished run.
pub(crate) struct Run {
    /// From the call to its return, on our clock.
    pub nanoseconds: f64,
    report: RunReport,
}

impl Run {
    /// The figure a probe has written down under this name: a line `NAME: NUMBER` of its output.
    pub(crate) fn figure(&self, name: &str) -> Result<f64> {
        let Some(Content::Text(text)) = self.report.output.get("figures").and_then(|slot| slot.content.as_ref()) else {
            return Err("the probe has left no figures".into());
        };
        let figure = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        figure.and_then(|figure| figure.parse().ok()).ok_or_else(|| format!("no figure {name:?} in {text:?}"))
    }
}

/// Runs a workflow to its end; that it fails is an error.
pub(crate) fn run(document: &Value, inputs: &[(&str, &Path)]) -> Result<Run> {
    let inputs = inputs.iter().map(|(slot, path)| ((*slot).to_owned(), path.to_path_buf())).collect();
    run_with(&plan(document)?, &RunOptions { inputs, ..RunOptions::default() })
}

/// Runs a workflow from a file to a file; gives nanoseconds.
pub(crate) fn run_to_file(document: &Value, input: (&str, &Path), output: (&str, &Path)) -> Result<f64> {
    let options = RunOptions {
        inputs: vec![(input.0.to_owned(), input.1.to_path_buf())],
        outputs: vec![(output.0.to_owned(), output.1.to_path_buf())],
        ..RunOptions::default()
    };
    Ok(run_with(&plan(document)?, &options)?.nanoseconds)
}

fn plan(document: &Value) -> Result<Plan> {
    workflow::load_str(Path::new("bench.json"), &document.to_string()).map_err(|error| error.to_string())
}

fn run_with(plan: &Plan, options: &RunOptions) -> Result<Run> {
    let start = Instant::now();
    let report = orchestrator::run(plan, options, &Silent).map_err(|error| error.to_string())?;
    let nanoseconds = start.elapsed().as_nanos() as f64;
    match (report.status, &report.error) {
        (Status::Done, _) => Ok(Run { nanoseconds, report }),
        (_, Some(failure)) => Err(format!("the workflow {} failed: {}", report.workflow, failure.message)),
        (status, None) => Err(format!("the workflow {} ended as {}", report.workflow, status.name())),
    }
}

/// Runs the probe function alone, on one carrier.
pub(crate) fn probe(arguments: Value) -> Result<Run> {
    probes(&[arguments])
}

/// Runs two instances of the probe function at the same time, on one carrier.
pub(crate) fn probe_pair(a: Value, b: Value) -> Result<Run> {
    probes(&[a, b])
}

fn probes(arguments: &[Value]) -> Result<Run> {
    let step = |(index, arguments): (usize, &Value)| json!({"name": format!("probe-{index}"), "function": "probe", "args": arguments, "memory": "4GiB"});
    let document = json!({
        "name": "bench-probe",
        "functions": {"probe": {"image": image("bench-probe")}},
        "steps": arguments.iter().enumerate().map(step).collect::<Vec<_>>(),
        "outputs": ["figures"],
        "limits": {"carriers": 1},
    });
    run(&document, &[])
}

/// The isolation that runs on this machine are under.
pub(crate) fn isolation() -> Result<String> {
    let document = json!({
        "name": "bench-isolation",
        "functions": {"no-op": {"image": image("no-op")}},
        "steps": [{"name": "nothing", "function": "no-op"}],
    });
    Ok(run(&document, &[])?.report.isolation)
}

/// Both sides must have done the same work.
pub(crate) fn same(ours: &Path, peers: &Path) -> Result<()> {
    let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    match read(ours)? == read(peers)? {
        true => Ok(()),
        false => Err(format!("{} and {} differ", ours.display(), peers.display())),
    }
}
