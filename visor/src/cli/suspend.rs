//! A run that ends before its workflow does: what is kept of it, and what is printed.

use std::fmt::{Display, Write};
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::exit::Exit;
use super::run_templates::RunTemplates;
use super::{output, show};
use monohull_checkpoint::Key;
use monohull_engine::{Event, RunOptions};
use monohull_report::escape::shown;
use monohull_report::{Progress, RunReport, Status};
use monohull_saved::{Confined, Engine, OwnCgroup, Saved, Written};
use monohull_worker::cgroup::CgroupMode;
use monohull_worker::{
    self as worker, Bounds, Continuing, KeptTemplates, ProcessError, Ran, Rest, SuspendedRun, Waiting,
    copy_continuation,
};
use monohull_workflow::Plan;

/// Shorter waits are waited out: to suspend and to resume takes some milliseconds, and an operator has to do it.
pub(super) const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// What is kept of a workflow besides its continuation.
pub(super) struct Origin {
    /// The workflow's file.
    pub(super) file: PathBuf,
    /// The workflow document.
    pub(super) document: Vec<u8>,
    /// What `--set` has changed of it.
    pub(super) settings: Vec<String>,
    /// The files of outputs.
    pub(super) outputs: Vec<(String, PathBuf)>,
    /// How often the workflow has been resumed.
    pub(super) generation: u64,
    /// The events that it was given now, or before and had not taken.
    pub(super) events: Vec<Event>,
    /// How many events it has been given.
    pub(super) given: u64,
    /// Which copy of a forked workflow it is, and how many were made; zeros if it is none.
    pub(super) copy: (u32, u32),
    /// What keeps its functions from the system.
    pub(super) confined: Confined,
    /// What seals its checkpoint, if one may be made.
    pub(super) key: Option<Key>,
}

/// What a run begins with, for its process.
pub(super) struct Begin<'r> {
    pub(super) options: &'r RunOptions,
    pub(super) watcher: Option<&'r dyn Progress>,
    /// The rest of the workflow, and the hashes of its images, if it is gone on with.
    pub(super) continuation: Option<(Rest, Vec<[u8; 32]>)>,
    /// The templates that are kept, if it may start from one.
    pub(super) templates: Option<RunTemplates>,
}

/// Runs a workflow, and prints what came of it. With a `folder` it is suspended when it only waits: it stands still until its checkpoint is there, and
/// goes on if that cannot be written.
pub(super) fn run(
    plan: &Plan,
    begin: Begin<'_>,
    origin: Origin,
    folder: Option<&Path>,
    json: bool,
) -> Result<Exit, ProcessError> {
    let Begin { options, watcher, continuation, mut templates } = begin;
    let cgroup = mode_of(origin.confined.cgroup);
    let continuing = Continuing { continuation, suspend: folder.map(|_| SHORTEST_WAIT) };
    let begun = Instant::now();
    let kept_templates = templates.as_mut().map(|templates| templates as &mut dyn KeptTemplates);
    let Some(folder) = folder else {
        let ran = worker::run_from(plan, options, cgroup, watcher, continuing, kept_templates);
        return ran.map(|ran| match ran {
            Ran::Ended(report) => ended_and_kept(*report, plan, json, templates.as_mut(), (options, cgroup, begun)),
            Ran::Suspended(_) => super::fail(Exit::Host, &"the workflow was suspended, which was not asked for"),
        });
    };
    let mut kept = None;
    let mut keep = |waiting| {
        kept = Some(keep(waiting, plan, &origin, folder)?);
        Ok(())
    };
    let report = worker::run_until_kept(plan, options, cgroup, watcher, continuing, &mut keep, kept_templates)?;
    Ok(match (report, kept) {
        (Some(report), _) => ended_and_kept(*report, plan, json, templates.as_mut(), (options, cgroup, begun)),
        (None, Some(kept)) => suspended(&kept, plan, json),
        (None, None) => super::fail(Exit::Host, &"the workflow was stopped, which was not asked for"),
    })
}

/// Prints the report of a workflow that has ended now, and then has the templates made from which its later runs start.
fn ended_and_kept(
    mut report: RunReport,
    plan: &Plan,
    json: bool,
    templates: Option<&mut RunTemplates>,
    (options, cgroup, begun): (&RunOptions, CgroupMode, Instant),
) -> Exit {
    let templates = templates.and_then(|templates| templates.complete(&mut report).then_some(templates));
    let exit = ended(report, plan, json);
    if let Some(templates) = templates {
        templates.make(options, cgroup, begun.elapsed());
    }
    exit
}

/// Says why nothing runs.
pub(super) fn refuse(exit: Exit, blame: &str, error: &dyn Display, json: bool) -> Exit {
    super::refuse_with(json, exit, nothing_ran(), "refused", blame, error)
}

/// The report of a run that did not begin, without the reason.
pub(super) fn nothing_ran() -> Value {
    json!({ "status": "refused", "steps": [], "modules": [], "output": {} })
}

/// Prints the report of a workflow that has ended now, and why it was not suspended if it was to be.
pub(super) fn ended(mut report: RunReport, plan: &Plan, json: bool) -> Exit {
    super::lines::add(&mut report, plan).iter().for_each(output::note);
    if let Some(why) = &report.not_suspended {
        output::note(format_args!("monohull: the workflow waited, and was not suspended: {why}"));
    }
    print(&report, json)
}

/// Prints a report.
pub(super) fn print(report: &RunReport, json: bool) -> Exit {
    if json {
        output::json(report);
    } else {
        output::text(show::report(report));
        if let Some(error) = &report.error {
            output::note(show::failure(error));
        }
    }
    if report.status == Status::Done { Exit::Done } else { Exit::WorkflowFailed }
}

/// What is kept of a mode.
pub(super) fn kept_mode(mode: CgroupMode) -> OwnCgroup {
    match mode {
        CgroupMode::Never => OwnCgroup::Never,
        CgroupMode::Auto => OwnCgroup::Auto,
        CgroupMode::Require => OwnCgroup::Require,
    }
}

/// The mode of what was kept.
fn mode_of(kept: OwnCgroup) -> CgroupMode {
    match kept {
        OwnCgroup::Never => CgroupMode::Never,
        OwnCgroup::Auto => CgroupMode::Auto,
        OwnCgroup::Require => CgroupMode::Require,
    }
}

/// A workflow whose checkpoint is there.
struct Kept {
    run: SuspendedRun,
    written: Written,
}

fn keep(waiting: Waiting, plan: &Plan, origin: &Origin, folder: &Path) -> Result<Kept, String> {
    let Waiting { run, inputs, images } = waiting;
    let continuation = copy_continuation(&run.continuation, Bounds::of(plan)).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => {
            format!("the workflow's process has sent a continuation that cannot be read: {error}")
        }
        _ => error.to_string(),
    })?;
    let Origin { file, document, settings, outputs, generation, events, given, copy, confined, key } = origin;
    let is_left = |event: &&Event| !run.events_taken.contains(&event.number);
    let events = events.iter().filter(is_left).cloned().collect();
    let key = key.as_ref().ok_or("there is no key that could seal the checkpoint")?;
    let bytes = |image: &Path| std::fs::metadata(image).map_or(0, |metadata| metadata.len());
    let functions = plan.functions.iter().zip(images);
    let saved = Saved {
        workflow: plan.name.clone(),
        generation: *generation,
        document: document.clone(),
        functions: functions.map(|(function, hash)| (function.name.clone(), hash, bytes(&function.image))).collect(),
        engine: Engine {
            file: file.clone(),
            settings: settings.clone(),
            outputs: outputs.clone(),
            inputs,
            events,
            given: *given,
            copy: *copy,
            published: run.published.clone(),
            confined: *confined,
        },
        continuation,
    };
    let name = format!("{}-{:016x}", plan.name, RandomState::new().hash_one(0));
    let written = saved.write(folder, &name, key, None).map_err(|error| error.to_string())?;
    Ok(Kept { run, written })
}

/// Says that a workflow waits in its checkpoint.
fn suspended(kept: &Kept, plan: &Plan, json: bool) -> Exit {
    let Kept { run, written: Written { path, bytes, .. } } = kept;
    if json {
        let waits = run.waits.iter().map(|wait| {
            json!({
                "step": wait.step,
                "instance": wait.index,
                "function": wait.function,
                "what": wait.what,
                "event": wait.event,
                "until": wait.until.map(date),
            })
        });
        output::json(&json!({
            "status": "suspended",
            "workflow": plan.name,
            "checkpoint": path,
            "bytes": bytes,
            "until": run.until.map(date),
            "waits": waits.collect::<Vec<_>>(),
        }));
        return Exit::Suspended;
    }
    let waiting = run.waits.iter();
    let mut text = waits(waiting.map(|wait| (wait.step.as_str(), wait.index, wait.what.as_str(), wait.until)));
    let _ = writeln!(text, "workflow    {} suspended", plan.name);
    let _ = match run.until {
        Some(at) => writeln!(text, "until       {}", date(at)),
        None if run.waits.iter().any(|wait| wait.event.is_some()) => {
            writeln!(text, "until       it is resumed with an event")
        }
        None => writeln!(text, "until       it is resumed: nothing happens by itself"),
    };
    let _ = writeln!(text, "checkpoint  {} ({bytes} bytes)", shown(path));
    output::text(text);
    Exit::Suspended
}

/// A line for each wait: its step and instance, what is waited for, and until when.
pub(super) fn waits<'w>(waits: impl Iterator<Item = (&'w str, u32, &'w str, Option<u64>)>) -> String {
    let mut text = String::new();
    for (step, instance, what, until) in waits {
        let until = until.map(|at| format!(" until {}", date(at))).unwrap_or_default();
        let _ = writeln!(text, "waits       {}[{instance}] {}{until}", shown(step), shown(what));
    }
    text
}

/// A time in ns since 1970 as people write it.
pub(super) fn date(ns: u64) -> String {
    let far = Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + Duration::from_nanos(ns).min(far)).to_string()
}
