//! `monohull run`: one workflow, run in a worker of the calling process.

mod making;

pub use making::{NotMade, make_template};

use super::cgroup::{CgroupMode, Membership};
use super::{
    Data, Job, JobTemplate, Message, Notice, ProcessError, Rest, Running, Settings, Spawner, StartingWorker,
    SuspendedRun, Template,
};
use monohull_domain::host_time::monotonic_ns;
use monohull_domain::keys;
use monohull_engine::mounts::{self, Prospect, Unopened};
use monohull_engine::workflow_io::OpenError;
use monohull_engine::{Delay, Event, HostError, Latest, Ready, RunOptions, modules_folder, report_without_run};
use monohull_host_files::input::InputError;
use monohull_report::escape::shown;
use monohull_report::failure::{Blame, FailureKind};
use monohull_report::{Content, Failure, OutputReport, Progress, RunReport, Status};
use monohull_workflow::Plan;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long after its own timeout a workflow may take to report it: outputs are collected in that time, too.
const GRACE: Duration = Duration::from_secs(5);
/// The same where it has disk images or directories to write to.
const DISK_GRACE: Duration = Duration::from_secs(60);
/// Reading inputs for less than this does not count towards the workflow's timeout.
const SHORT_WAIT: Duration = Duration::from_millis(10);

/// Checks a plan's images, runs it once, in a process of its own, and writes its outputs where the options direct them. The
/// calling process must have one thread and no children. The report has the workflow's own failures.
pub fn run(
    plan: &Plan,
    options: &RunOptions,
    cgroup: CgroupMode,
    watcher: Option<&dyn Progress>,
) -> Result<RunReport, ProcessError> {
    match run_from(plan, options, cgroup, watcher, Continuing::default(), None)? {
        Ran::Ended(report) => Ok(*report),
        Ran::Suspended(_) => unreachable!("it was not to be suspended"),
    }
}

/// Where a run begins, and whether it may end before the workflow does.
#[derive(Debug, Default)]
pub struct Continuing {
    /// The rest of a workflow to go on with, and [`Waiting::images`].
    pub continuation: Option<(Rest, Vec<[u8; 32]>)>,
    /// If the workflow only waits, and for at least this long, the run ends with the rest of it.
    pub suspend: Option<Duration>,
}

/// How a run ended.
#[derive(Debug)]
pub enum Ran {
    /// The workflow has ended.
    Ended(Box<RunReport>),
    /// The workflow waits.
    Suspended(Box<Waiting>),
}

/// Templates that are kept from one run to the next.
pub trait KeptTemplates {
    /// Those of this workflow that are there. Whether its functions have protection keys.
    fn find(&mut self, workflow: &Arc<Ready>, keys: bool) -> Vec<Arc<Template>>;

    /// Those that were found cannot be used, for this reason. The run begins without them.
    fn refuse(&mut self, why: &str);
}

/// Those of a run, if it has any to do with them.
pub type Templates<'t> = Option<&'t mut dyn KeptTemplates>;

/// Takes the captures of a workflow that goes on: there is one each time that [`RunOptions::halt`] is over.
pub trait Keep {
    /// Keeps what the workflow was a moment ago. What it prints meanwhile is passed on afterwards.
    fn keep(&mut self, captured: Waiting) -> Next;
}

/// Keeps what a workflow that waits is suspended as. If it cannot be kept, for the reason that this gives, the workflow goes on.
pub type KeepWaiting<'k> = &'k mut dyn FnMut(Waiting) -> Result<(), String>;

/// What happens after a capture.
#[derive(Debug)]
pub enum Next {
    /// The workflow goes on.
    GoOn {
        /// Whether the capture was kept. If not, it is as if there had been none.
        kept: bool,
        /// Whether the next one is to have all pages. If not, it has those that have changed since the last one that was kept.
        whole: bool,
        /// Events that have come since the last time.
        events: Vec<Event>,
    },
    /// Its process is ended.
    Stop,
}

/// A workflow that waits, and what it needs to go on.
#[derive(Debug)]
pub struct Waiting {
    /// The rest of it.
    pub run: SuspendedRun,
    /// Its input slots, if it may be run again from its beginning.
    pub inputs: Vec<(String, Vec<u8>)>,
    /// The SHA-256 of the image of each of the plan's functions.
    pub images: Vec<[u8; 32]>,
}

/// The same, from the rest of a workflow or until it only waits.
pub fn run_from(
    plan: &Plan,
    options: &RunOptions,
    cgroup: CgroupMode,
    watcher: Option<&dyn Progress>,
    continuing: Continuing,
    templates: Templates<'_>,
) -> Result<Ran, ProcessError> {
    let groups = Membership::set_up(cgroup)?;
    let ran = run_in(&groups, plan, options, watcher, continuing, Keeping::Nothing, templates);
    groups.end();
    Ok(ran?.expect("no capture was answered with an end"))
}

/// The same, where a workflow that only waits stands still until `keep` has kept what it is suspended as; `None` if it has. The report of one that
/// goes on because that could not be kept says so.
pub fn run_until_kept(
    plan: &Plan,
    options: &RunOptions,
    cgroup: CgroupMode,
    watcher: Option<&dyn Progress>,
    continuing: Continuing,
    keep: KeepWaiting<'_>,
    templates: Templates<'_>,
) -> Result<Option<Box<RunReport>>, ProcessError> {
    let groups = Membership::set_up(cgroup)?;
    let ran = run_in(&groups, plan, options, watcher, continuing, Keeping::Waiting(keep), templates);
    groups.end();
    Ok(match ran? {
        Some(Ran::Ended(report)) => Some(report),
        Some(Ran::Suspended(_)) | None => None,
    })
}

/// What is kept of a run while its process is there.
enum Keeping<'k> {
    Nothing,
    Captures(&'k mut dyn Keep),
    Waiting(KeepWaiting<'k>),
}

/// The same. With `keep` a run that was halted goes on; `None` if its process was ended after a capture, as [`Next::Stop`] says. One whose images
/// cannot be loaded has failed.
pub fn run_kept(
    plan: &Plan,
    options: &RunOptions,
    cgroup: CgroupMode,
    watcher: Option<&dyn Progress>,
    continuing: Continuing,
    keep: Option<&mut dyn Keep>,
) -> Result<Option<Ran>, ProcessError> {
    let groups = Membership::set_up(cgroup)?;
    let keep = keep.map_or(Keeping::Nothing, Keeping::Captures);
    let requested_ns = monotonic_ns();
    let ran = run_in(&groups, plan, options, watcher, continuing, keep, None);
    groups.end();
    match ran {
        Err(ProcessError::Image(error)) => {
            Ok(Some(Ran::Ended(Box::new(report_without_run(plan, "none", requested_ns, error.into())))))
        }
        ran => ran,
    }
}

fn run_in(
    groups: &Membership,
    plan: &Plan,
    options: &RunOptions,
    watcher: Option<&dyn Progress>,
    continuing: Continuing,
    keep: Keeping<'_>,
    mut templates: Templates<'_>,
) -> Result<Option<Ran>, ProcessError> {
    let modules = options.modules.clone().or_else(modules_folder).ok_or(HostError::NoModules)?;
    let decision = options.isolation.decide();
    let settings = Settings { modules, keys: decision.keys, preload: Vec::new(), groups: groups.clone() };
    let isolation = keys::isolation(settings.keys);
    let requested_ns = monotonic_ns();
    let ended = |report| Ok(Some(Ran::Ended(Box::new(report))));
    let failed = |failure: Failure| ended(report_without_run(plan, "none", requested_ns, failure));
    // The worker makes itself ready while this process reads and verifies the images, for which it may start threads: with them it could not
    // fork any more. If nothing comes of the run, the worker ends when it is dropped.
    let worker = Forked::new(&settings, groups);
    let workflow = match Ready::new(plan.clone()) {
        Ok(ready) => Arc::new(ready),
        // It was accepted when the run began, so it is another one, or damaged, or this Monohull is stricter.
        Err(error) if continuing.continuation.is_some() => {
            let why = format!("its images cannot be gone on with: {error}");
            return Err(if error.is_hosts() {
                ProcessError::NotResumed { why, passing: true }
            } else {
                ProcessError::Unfit(why)
            });
        }
        Err(error) if error.is_hosts() => return failed(error.into()),
        Err(error) => return Err(ProcessError::Image(error)),
    };
    let (continuation, known) = continuing.continuation.unzip();
    if let Some(known) = known {
        let hashes = hashes(&workflow)?;
        let mut functions = plan.functions.iter().zip(&hashes).enumerate();
        if let Some((_, (function, _))) = functions.find(|(index, (_, hash))| known.get(*index) != Some(*hash)) {
            let (function, image) = (function.name.clone(), function.file().to_owned());
            return Err(ProcessError::ImageChanged { function, image });
        }
    }
    let begin = Instant::now();
    let mut inputs = Vec::new();
    if continuation.is_some() {
        // Those of a workflow that may be run again from its beginning.
        inputs = options.inline_inputs.iter().map(|(slot, bytes)| (slot.clone(), Data::Bytes(bytes.clone()))).collect();
    }
    for input in plan.inputs.iter().filter(|_| continuation.is_none()) {
        match options.open(input, plan.limits.slots, plan.limits.timeout.map(|limit| begin + limit)) {
            Ok(source) => inputs.push((input.slot.clone(), Data::from(source))),
            Err(OpenError::Unreadable { source: InputError::Late, path }) => {
                let text = format!("input slot `{}`: {} did not end in time", input.slot, shown(&path));
                return failed(Failure::blamed(FailureKind::Timeout, Blame::Workflow, text));
            }
            Err(source) => return Err(ProcessError::Input { slot: input.slot.clone(), source }),
        }
    }
    let waited = begin.elapsed();
    let files = match mounts::open(plan) {
        Ok(files) => files,
        // It was there when the workflow began.
        Err(Unopened { failure, prospect }) if continuation.is_some() => {
            let passing = prospect == Prospect::Passing;
            return Err(ProcessError::NotResumed { why: failure.message, passing });
        }
        Err(Unopened { failure, .. }) => return failed(*failure),
    };
    let ready = workflow.clone();
    let is_continued = continuation.is_some();
    let kept_templates = templates.as_mut().filter(|_| continuation.is_none());
    let template = kept_templates.map_or(JobTemplate::No, |kept| kept.find(&workflow, settings.keys).into());
    let mut job = Job::new(workflow, inputs);
    job.template = template;
    job.files = files;
    job.load_all = options.load_all;
    job.continuation = continuation;
    job.suspend = continuing.suspend;
    job.halt = options.halt;
    job.skip_time = options.skip_time;
    job.invocation = options.invocation();
    job.goes_on = options.halt.is_some() && matches!(keep, Keeping::Captures(_));
    job.confirmed = matches!(keep, Keeping::Waiting(_));
    job.published = options.published.clone();
    job.sends = options.sends;
    job.events = options.events.clone();
    if waited >= SHORT_WAIT {
        // Waiting for the end of a pipe counts as well.
        let end = |limit: Duration| requested_ns.saturating_add(limit.as_nanos() as u64);
        job.latest = plan.limits.timeout.map(|limit| Latest { at_ns: end(limit), delay: Delay::Inputs });
    }
    job.lines = watcher.is_some();
    job.progress = watcher.is_some();
    let Forked { worker, mut spawner } = worker?;
    let mut running = worker.wait()?.assign(&job)?;
    // Writes to a disk get more time.
    let grace = if job.files.is_empty() { GRACE } else { DISK_GRACE };
    let latest = plan.limits.timeout.map(|limit| begin + limit + grace);
    let again = plan.steps.iter().any(|step| step.retry.max_attempts > 1);
    let inputs = if again { job.inputs.as_slice() } else { &[] };
    let waiting = |run| {
        let whole = inputs.iter().map(|(slot, data)| Ok((slot.clone(), data.whole()?))).collect::<io::Result<_>>();
        let inputs = whole.map_err(super::error::host("reading an input again"))?;
        Ok::<_, ProcessError>(Waiting { run, inputs, images: hashes(&ready)? })
    };
    let (mut captures, mut waits) = match keep {
        Keeping::Nothing => (None, None),
        Keeping::Captures(keep) => (Some(|run| Ok(keep.keep(waiting(run)?))), None),
        Keeping::Waiting(keep) => {
            (None, Some(|run| waiting(run).map_err(|error| error.to_string()).and_then(&mut *keep)))
        }
    };
    let mut kept = Kept {
        captures: captures.as_mut().map(|keep| keep as &mut dyn FnMut(SuspendedRun) -> Result<Next, ProcessError>),
        waits: waits.as_mut().map(|keep| keep as &mut dyn FnMut(SuspendedRun) -> Result<(), String>),
    };
    let mut answer = follow(&mut running, watcher, latest, &mut kept);
    if let (Err(ProcessError::Unfit(why)), JobTemplate::From(_), Some(templates)) = (&answer, &job.template, templates)
    {
        templates.refuse(why);
        job.template = JobTemplate::No;
        // Nothing of the workflow has run, and what was shown of it goes: it may have threads, with which this process could not fork.
        watcher.into_iter().for_each(|watcher| plan.steps.iter().for_each(|step| watcher.step_ended(&step.name)));
        let again = Forked::new(&settings, groups)?;
        running = again.worker.wait()?.assign(&job)?;
        spawner = again.spawner;
        answer = follow(&mut running, watcher, latest, &mut kept);
    }
    let answer = answer?;
    drop(spawner);
    match answer {
        Ok(Answer::Stopped) => Ok(None),
        Ok(Answer::Suspended(suspended)) => Ok(Some(Ran::Suspended(Box::new(waiting(suspended)?)))),
        Ok(Answer::Ended(mut report, outputs)) => {
            let has_not_run = is_continued && !report.has_gone_on();
            if let Some(error) = report.error.take_if(|error| has_not_run && error.blame == Blame::Host) {
                return Err(ProcessError::NotResumed { why: error.message, passing: true });
            }
            if let Some(watcher) = watcher {
                pass_on_delayed(&mut report, watcher);
            }
            for (slot, data) in outputs {
                if let Err(text) = write_output(&mut report, &slot, data, options) {
                    let text = format!("output slot `{slot}`: {text}");
                    report.status = Status::Failed;
                    report.error = Some(Failure::blamed(FailureKind::Output, Blame::Host, text));
                    break;
                }
            }
            report.isolation_note = decision.note;
            ended(*report)
        }
        Err(failure) => {
            let mut report = report_without_run(plan, isolation, job.requested_ns, failure);
            report.sandbox = Some(running.sandbox().clone());
            report.isolation_note = decision.note;
            ended(report)
        }
    }
}

/// The SHA-256 of the image of each function.
fn hashes(workflow: &Ready) -> Result<Vec<[u8; 32]>, ProcessError> {
    let hashes = workflow.images().iter().map(|image| image.hash()).collect::<io::Result<_>>();
    hashes.map_err(super::error::host("hashing an image"))
}

/// A worker that is not ready yet.
struct Forked {
    worker: StartingWorker,
    /// Its parent, if that is not this process. It ends after the worker has.
    spawner: Option<Spawner>,
}

impl Forked {
    fn new(settings: &Settings, groups: &Membership) -> Result<Forked, ProcessError> {
        // A spawner traces the worker, or forks it into its control group, where one of these is needed.
        let spawned = settings.keys_are_silent() || matches!(groups, Membership::Own(_));
        let spawner = if spawned { Some(Spawner::start(settings)?) } else { None };
        let worker = spawner.as_ref().map_or_else(|| StartingWorker::fork(settings), Spawner::starting_worker)?;
        Ok(Forked { worker, spawner })
    }
}

/// An answer.
enum Answer {
    /// The report, and the output slots.
    Ended(Box<RunReport>, Vec<(String, Data)>),
    /// The workflow waits.
    Suspended(SuspendedRun),
    /// Its process was to end.
    Stopped,
}

/// What takes the rest of a workflow: while it goes on, and while it stands still.
struct Kept<'k> {
    captures: Option<&'k mut dyn FnMut(SuspendedRun) -> Result<Next, ProcessError>>,
    waits: Option<&'k mut dyn FnMut(SuspendedRun) -> Result<(), String>>,
}

/// Passes notices on until there is an answer, the process has died, or the time is up.
fn follow(
    running: &mut Running,
    watcher: Option<&dyn Progress>,
    mut latest: Option<Instant>,
    keep: &mut Kept<'_>,
) -> Result<Result<Answer, Failure>, ProcessError> {
    let mut is_kept = false;
    loop {
        let left = latest.map(|latest| latest.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            running.kill();
            if is_kept {
                return Ok(Ok(Answer::Stopped));
            }
            let text = "the time was up, and the workflow's process had not ended by itself".to_owned();
            return Ok(Err(Failure::blamed(FailureKind::Timeout, Blame::Workflow, text)));
        }
        running.wait(left)?;
        match (running.next_message()?, watcher) {
            // What it stood still for is kept: its process ends, and nothing else that it says counts.
            (Some(Message::WentOn(_) | Message::Died(_)), _) if is_kept => return Ok(Ok(Answer::Stopped)),
            (Some(Message::Ended { .. } | Message::Done { .. }), _) if is_kept => return Ok(Ok(Answer::Stopped)),
            (Some(Message::Suspended(_) | Message::Captured(_)), _) if is_kept => return Ok(Ok(Answer::Stopped)),
            (Some(Message::Ended { report, outputs }), _) => return Ok(Ok(Answer::Ended(report, outputs))),
            (Some(Message::Done { report, outputs }), _) => {
                let report = report.unpack().map_err(|error| ProcessError::Refused(error.to_string()))?;
                return Ok(Ok(Answer::Ended(Box::new(report), outputs)));
            }
            (Some(Message::Suspended(suspended)), _) => {
                let Some(keep) = keep.waits.as_mut() else { return Ok(Ok(Answer::Suspended(suspended))) };
                let begin = Instant::now();
                let kept = keep(suspended);
                is_kept = kept.is_ok();
                match running.confirm(kept) {
                    Ok(true) => {}
                    // It is gone, and what is kept goes on elsewhere.
                    Ok(false) | Err(_) if is_kept => return Ok(Ok(Answer::Stopped)),
                    Ok(false) => {}
                    Err(error) => return Err(error),
                }
                // Not less than its own time, to go on or to close its files.
                latest = latest.map(|latest| latest + begin.elapsed());
            }
            (Some(Message::WentOn(false)), _) => {
                return Err(ProcessError::Refused("that it neither goes on nor ends".to_owned()));
            }
            (Some(Message::Captured(run)), _) => {
                let begin = Instant::now();
                match keep.captures.as_mut().map(|keep| keep(run)).transpose()? {
                    Some(Next::GoOn { kept, whole, events }) => running.answer(kept, whole, &events)?,
                    Some(Next::Stop) => return Ok(Ok(Answer::Stopped)),
                    // It was not asked for any, so its messages are refused before they come here.
                    None => {}
                }
                // It may have ended in time while this process was busy.
                latest = latest.map(|latest| latest + begin.elapsed());
            }
            (Some(Message::Unfit { why }), _) => return Err(ProcessError::Unfit(why)),
            (Some(Message::Died(death)), _) => return Ok(Err(death.failure())),
            (Some(Message::Notice(notice)), Some(watcher)) => pass_on(notice, watcher),
            (Some(Message::Notice(_)), None)
            | (Some(Message::Stderr | Message::EventsTaken | Message::WentOn(true) | Message::Clean) | None, _) => {}
        }
    }
}

/// Passes on the lines that were not sent while the workflow ran.
fn pass_on_delayed(report: &mut RunReport, to: &dyn Progress) {
    for step in &mut report.steps {
        for instance in &mut step.instances {
            for line in std::mem::take(&mut instance.lines) {
                to.line(&step.name, instance.index, line.stream, &line.text);
            }
        }
    }
}

fn pass_on(notice: Notice, to: &dyn Progress) {
    match notice {
        Notice::Line { step, instance, stream, text } => to.line(&step, instance, stream, &text),
        Notice::StepStarted { step, instances } => to.step_started(&step, instances),
        Notice::InstanceEnded { step, instance, ok } => to.instance_ended(&step, instance, ok),
        Notice::StepEnded { step } => to.step_ended(&step),
        // The report has them all.
        Notice::Point { .. } => {}
    }
}

/// Writes an output slot to its file, or puts it into the report.
fn write_output(report: &mut RunReport, slot: &str, data: Data, options: &RunOptions) -> Result<(), String> {
    let bytes = data.size().map_err(|error| error.to_string())?;
    let path = options.output_path(slot);
    let content = match &path {
        Some(path) => options.write_output(path, |to| copy(data, to)).map(|()| None)?,
        None => Some(Content::from(data.into_bytes().map_err(|error| error.to_string())?)),
    };
    report.output.insert(slot.to_owned(), OutputReport { bytes, path, content });
    Ok(())
}

fn copy(data: Data, to: &mut File) -> io::Result<()> {
    match data {
        Data::Bytes(bytes) => to.write_all(&bytes),
        Data::File(file) => io::copy(&mut File::from(file), to).map(drop),
    }
}
