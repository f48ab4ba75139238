//! Our side: workflows, run in this process by the visor's library.

use crate::harness::Result;
use monohull_visor::domain::checkpoint::{Answer, Base, Continuation, Keeper, Suspended};
use monohull_visor::engine::{Ready, RunEnd, RunOptions};
use monohull_visor::report::{Content, Failure, FailureKind, RunReport, Silent, Status, Stream};
use monohull_visor::workflow;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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

/// A workflow whose images have been read and verified: it can be run any number of times.
pub(crate) struct Workflow(Ready);

impl Workflow {
    /// Checks a workflow file's content and prepares it.
    pub(crate) fn new(document: &Value) -> Result<Workflow> {
        let plan = workflow::load_str(Path::new("bench.json"), &document.to_string()).map_err(|e| e.to_string())?;
        Ready::new(plan).map(Workflow).map_err(|error| format!("{error}; images are built by `cargo xtask build`"))
    }

    /// Runs it to its end; that it fails is an error.
    pub(crate) fn run(&self) -> Result<Run> {
        self.run_with(&RunOptions::default())
    }

    /// Runs it from a file to a file; gives nanoseconds.
    pub(crate) fn run_to_file(&self, input: (&str, &Path), output: (&str, &Path)) -> Result<f64> {
        self.run_between(Some(input), output)
    }

    /// Runs it to a file, and from one if it has an input; gives nanoseconds.
    pub(crate) fn run_between(&self, input: Option<(&str, &Path)>, output: (&str, &Path)) -> Result<f64> {
        let options = RunOptions {
            inputs: input.into_iter().map(|(name, file)| (name.to_owned(), file.to_path_buf())).collect(),
            outputs: vec![(output.0.to_owned(), output.1.to_path_buf())],
            ..RunOptions::default()
        };
        Ok(self.run_with(&options)?.nanoseconds)
    }

    /// Runs a workflow of one instance until the timeout of its step; how long the instance was there, in nanoseconds.
    pub(crate) fn run_until_timeout(&self) -> Result<f64> {
        let report = self.0.run(&RunOptions::default(), Arc::new(Silent)).map_err(|error| error.to_string())?;
        let instance = report.steps.first().and_then(|step| step.instances.first()).ok_or("no instance")?;
        match &report.error {
            Some(Failure { kind: FailureKind::Timeout, step: Some(_), .. }) => {
                Ok(report.duration_us.saturating_sub(instance.start_us) as f64 * 1e3)
            }
            other => Err(format!("the workflow {} did not end by its step's timeout: {other:?}", report.workflow)),
        }
    }

    /// Runs it to its end, captured so often while it goes on. Each capture is whole, or all but the first, which is left out, have what has
    /// changed since the one before.
    pub(crate) fn captures(&self, every: Duration, which: Which) -> Result<Vec<Capture>> {
        let taken = Arc::new(Captures { which, taken: Mutex::default(), is_answered: AtomicBool::new(false) });
        let options = RunOptions { halt: Some(every), ..RunOptions::default() };
        let end = self.0.run_kept(None, None, Some(taken.clone()), &options, Arc::new(Silent));
        match end.map_err(|error| error.to_string())? {
            RunEnd::Report(report) if report.status == Status::Done => {}
            RunEnd::Report(report) => {
                return Err(format!("the workflow {} failed: {:?}", report.workflow, report.error));
            }
            RunEnd::Suspended(_) | RunEnd::HandedOver => return Err("the workflow was suspended".to_owned()),
        }
        let mut captures = std::mem::take(&mut *taken.taken.lock().map_err(|error| error.to_string())?);
        if which == Which::Later && !captures.is_empty() {
            captures.remove(0);
        }
        if captures.is_empty() { Err("the workflow was not captured often enough".to_owned()) } else { Ok(captures) }
    }

    /// Runs it until it only waits: the rest of it.
    pub(crate) fn suspend(&self) -> Result<Continuation> {
        let (wait, options) = (Some(Duration::from_millis(1)), RunOptions::default());
        match self.0.run_from(None, wait, &options, Arc::new(Silent)).map_err(|error| error.to_string())? {
            RunEnd::Suspended(suspended) => Ok(suspended.continuation),
            RunEnd::Report(report) => Err(format!("{} ended: {:?}", report.workflow, report.error)),
            RunEnd::HandedOver => Err("the workflow stood still".to_owned()),
        }
    }

    /// As the engine has it.
    pub(crate) fn ready(&self) -> &Ready {
        &self.0
    }

    fn run_with(&self, options: &RunOptions) -> Result<Run> {
        let start = Instant::now();
        let report = self.0.run(options, Arc::new(Silent)).map_err(|error| error.to_string())?;
        let nanoseconds = start.elapsed().as_nanos() as f64;
        match (report.status, &report.error) {
            (Status::Done, _) => Ok(Run { nanoseconds, report }),
            (_, Some(failure)) => Err(format!("the workflow {} failed: {}", report.workflow, failure.message)),
            (status, None) => Err(format!("the workflow {} ended as {}", report.workflow, status.name())),
        }
    }

    /// A workflow of instances of the probe function that run at the same time, on one carrier.
    pub(crate) fn probes(arguments: &[Value]) -> Result<Workflow> {
        Workflow::probes_on(1, arguments)
    }

    /// The same on so many carriers.
    pub(crate) fn probes_on(carriers: usize, arguments: &[Value]) -> Result<Workflow> {
        let step = |(index, arguments): (usize, &Value)| json!({"name": format!("probe-{index}"), "function": "probe", "args": arguments, "memory": "4GiB"});
        Workflow::new(&json!({
            "name": "bench-probe",
            "functions": {"probe": {"image": image("bench-probe")}},
            "steps": arguments.iter().enumerate().map(step).collect::<Vec<_>>(),
            "outputs": ["figures"],
            "limits": {"carriers": carriers},
        }))
    }

    /// A workflow of this many instances of the no-op function, one at a time.
    pub(crate) fn nothing(instances: u32) -> Result<Workflow> {
        Workflow::new(&nothing_document(instances))
    }
}

/// Which captures are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    /// Whole ones.
    Whole,
    /// Those that have what has changed.
    Later,
}

/// A capture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capture {
    /// How long functions stood still.
    pub took: Duration,
    /// Bytes of the pages in it.
    pub bytes: u64,
}

/// Drops captures, and remembers what each was.
struct Captures {
    which: Which,
    taken: Mutex<Vec<Capture>>,
    is_answered: AtomicBool,
}

impl Keeper for Captures {
    fn keep(&self, captured: Suspended) {
        let bytes = captured.continuation.pages.iter().map(|run| run.bytes.len() as u64).sum();
        self.taken.lock().expect("captures").push(Capture { took: captured.captured_in, bytes });
        self.is_answered.store(true, Ordering::Release);
    }

    fn has_answer(&self) -> bool {
        self.is_answered.load(Ordering::Acquire)
    }

    fn take_answer(&self) -> Option<Answer> {
        let next = if self.which == Which::Later { Base::This } else { Base::None };
        self.is_answered.swap(false, Ordering::AcqRel).then(|| Answer { next, ..Answer::default() })
    }

    fn wait_for_answer(&self) -> Option<Answer> {
        self.take_answer()
    }
}

/// A workflow file of instances of the no-op function.
pub(crate) fn nothing_document(instances: u32) -> Value {
    json!({
        "name": "bench-nothing",
        "functions": {"no-op": {"image": image("no-op")}},
        "steps": [{"name": "nothing", "function": "no-op", "instances": instances}],
        "limits": {"carriers": 1},
    })
}

/// A finished run.
pub(crate) struct Run {
    /// From the call to its return, on our clock.
    pub nanoseconds: f64,
    report: RunReport,
}

impl Run {
    /// What the first instance of the first step has printed to its standard output.
    pub(crate) fn printed(&self) -> Vec<&str> {
        let instance = self.report.steps.first().and_then(|step| step.instances.first());
        let lines = instance.into_iter().flat_map(|instance| &instance.lines);
        lines.filter(|line| line.stream == Stream::Stdout).map(|line| line.text.as_str()).collect()
    }

    /// Nanoseconds from one moment of the run to another, both by their names in the report's timeline.
    pub(crate) fn between(&self, first: &str, last: &str) -> Result<f64> {
        let at = |name: &str| self.report.timeline.iter().find(|point| point.name == name).map(|point| point.at_ns);
        match (at(first), at(last)) {
            (Some(first), Some(last)) => Ok(last.saturating_sub(first) as f64),
            _ => Err(format!("the report has no {first:?} or no {last:?}: {:?}", self.report.timeline)),
        }
    }

    /// The figure a probe has written down under this name: a line `NAME: NUMBER` of its output.
    pub(crate) fn figure(&self, name: &str) -> Result<f64> {
        let Some(Content::Text(text)) = self.report.output.get("figures").and_then(|slot| slot.content.as_ref()) else {
            return Err("the probe has left no figures".into());
        };
        let figure = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        figure.and_then(|figure| figure.parse().ok()).ok_or_else(|| format!("no figure {name:?} in {text:?}"))
    }
}

/// The isolation that runs on this machine are under.
pub(crate) fn isolation() -> Result<String> {
    Ok(Workflow::nothing(1)?.run()?.report.isolation)
}

/// Both sides must have done the same work.
pub(crate) fn same(ours: &Path, peers: &Path) -> Result<()> {
    let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    match read(ours)? == read(peers)? {
        true => Ok(()),
        false => Err(format!("{} and {} differ", ours.display(), peers.display())),
    }
}
