//! A leg of an invocation: from its last commit to the next one.
//!
//! ```text
//!   claim ──▶ start, checkpoint ──▶ run ──┬─▶ it is time for a checkpoint: see `kept`; it goes on ─▶ …
//!                                         ├─▶ it waits: write the checkpoint, commit `Suspended`
//!                                         ├─▶ it has ended: commit `Ended`, with its report
//!                                         ├─▶ the host failed, or cannot read what is kept now: commit `Released`, and try again later
//!                                         └─▶ what is kept of it is damaged: commit `Paused`
//! ```

use super::super::apart;
use super::super::checkpoint;
use super::super::exit::Exit;
use super::super::output;
use super::super::progress::Terminal;
use super::super::setting::{Setting, saved_plan};
use super::super::suspend::{self, SHORTEST_WAIT, date};
use super::kept::{Checkpoints, Stopped, Waits, note_undelivered, outbox, remove};
use super::started_with::Start;
use super::{Trouble, due, now};
use monohull_domain::checkpoint::Lineage;
use monohull_durable::{
    Adding, Claim, Commit, Committed, Held, History, Invocation, Left, Mail, Meta, MetaError, Outbox, Outcome, Sqlite,
    Status, Store, Wait,
};
use monohull_engine::{Event, IsolationWish, RunOptions, StagedOutputs};
use monohull_report::Outgoing;
use monohull_report::escape::shown;
use monohull_report::{Blame, Progress, RunReport};
use monohull_saved::{Base, Keys, Saved};
use monohull_worker::cgroup::CgroupMode;
use monohull_worker::{self as worker, Continuing, Keep, ProcessError, Ran, Rest};
use monohull_workflow::{self as workflow, Plan};
use serde_json::json;
use std::fmt::{Display, Write};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// The first pause before another attempt; each is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// How invocations are run.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct How {
    pub(in super::super) isolation: IsolationWish,
    pub(in super::super) cgroup: CgroupMode,
    /// Whether the clock is moved where a workflow only waits for a time.
    pub(in super::super) skip_time: bool,
    /// Whether what functions print is shown while they run, and control characters as they are.
    pub(in super::super) lines: Option<bool>,
    /// Whether a workflow that computes goes on after a checkpoint.
    pub(in super::super) goes_on: bool,
}

/// How far it came.
pub(super) struct Leg {
    /// What the invocation is now.
    pub(super) status: Status,
    /// The report and the workflow, if it has ended.
    pub(super) ended: Option<(RunReport, Plan)>,
}

/// Input slots and their bytes.
type Inputs = Vec<(String, Vec<u8>)>;

/// What a claim goes on from.
struct Basis {
    plan: Plan,
    start: Start,
    /// What it goes on with, its images, and its inputs if they may be needed once more.
    rest: Option<(Rest, Vec<[u8; 32]>, Inputs)>,
    /// The file of that, if the next one may take pages from it.
    base: Option<Base>,
    events: Vec<Event>,
    copy: (u32, u32),
}

/// Why a claim cannot be gone on with.
enum Unusable {
    /// What is kept of it is damaged, or missing.
    Kept(String),
    /// The host cannot read it now.
    Host(String),
}

impl From<String> for Unusable {
    fn from(why: String) -> Unusable {
        Unusable::Kept(why)
    }
}

/// How a run came to its commit.
enum Came {
    /// It waits, and its checkpoint is not removed while it has no name. With the events that it sends.
    Waits(Commit, Vec<Outgoing>, Adding),
    /// It has ended, or was not run.
    Other(Commit, Option<Box<RunReport>>),
    /// It was stopped after the commit of a checkpoint.
    Committed(Status),
    /// Its commits do not count: it was killed, or another process has it.
    NotOwner(MetaError),
}

/// Where an invocation stands among those of its workflow.
struct Branch {
    /// Which copy it is, and how many were made; zeros if it is none.
    copy: (u32, u32),
    /// How much later than at its capture the timers of its checkpoint count from.
    moved: i64,
}

impl Branch {
    fn of(meta: &Sqlite, claim: &Claim) -> Result<Branch, Trouble> {
        let lineage = meta.lineage(&claim.held.id)?;
        let kept = meta.history(&claim.held.id)?.into_iter().find(|kept| kept.generation == claim.generation);
        Ok(Branch { copy: (lineage.copy, lineage.copies), moved: kept.map_or(0, |kept| kept.moved) })
    }
}

/// Runs an invocation that this process has claimed, and commits how far it came.
pub(super) fn run(store: &Store, mut claim: Claim, how: How) -> Result<Leg, Trouble> {
    let seal_key = checkpoint::own_key()?;
    let keys = Keys { seal: &seal_key, state: store.key().map(|key| &**key) };
    // What is sent from here on is taken by the next leg. The database is closed before this process forks.
    let (mail, branch) = {
        let meta = store.meta()?;
        let mail = match meta.mail(&claim.held, 0) {
            Err(error @ MetaError::Damaged { .. }) => Err(Unusable::Kept(error.to_string())),
            mail => Ok(mail?),
        };
        (mail, Branch::of(&meta, &claim)?)
    };
    // What has been added is not removed before the commit names it.
    let staged = Arc::new(StagedOutputs::default());
    let (commit, mut ended, sent, adding) = match mail.and_then(|mail| from(store, &claim, branch, mail, keys)) {
        Ok(from) => {
            let (plan, started) = (from.plan.clone(), from.start.clone());
            match go_on(store, &mut claim, from, (how, staged.clone()), keys) {
                Came::Waits(commit, events, adding) => {
                    let sent = outbox(store, &adding, &plan, &started, events);
                    (commit, None, sent, Some(adding))
                }
                Came::Other(commit, report) => {
                    let adding = store.adding()?;
                    let events = report.as_ref().map(|report| report.sent.clone()).unwrap_or_default();
                    let sent = outbox(store, &adding, &plan, &started, events);
                    (commit, report.map(|report| (*report, plan)), sent, Some(adding))
                }
                Came::Committed(status) => return Ok(Leg { status, ended: None }),
                Came::NotOwner(error) => return not_owner(store, &store.meta()?, &claim.held, error),
            }
        }
        Err(Unusable::Kept(reason)) => (Commit::Paused { reason }, None, Outbox::default(), None),
        Err(Unusable::Host(reason)) => (later(claim.attempt, &reason), None, Outbox::default(), None),
    };
    note_later(&claim.held, &commit);
    let outcome = ended.as_ref().map(|(report, _)| outcome(report)).unwrap_or_default();
    let left = Left { sent, outcome, ..Left::default() };
    // Output files have their names before others see the end, and only if it has completed.
    let outputs = |committed: &Committed| match committed.status {
        Status::Completed => staged.publish(),
        _ => Ok(()),
    };
    let mut meta = store.meta()?;
    // A stream may be read slowly: others do not wait for that. It is written if the invocation is still this process's.
    let streams = match staged.has_streams() {
        true => meta.mail(&claim.held, u64::MAX).map(|_| staged.publish_streams()),
        false => Ok(Ok(())),
    };
    let came = match streams {
        Ok(Ok(())) => meta.commit_if(&claim.held, &commit, &left, now(), outputs),
        Ok(Err(why)) => Ok(Err(why)),
        Err(error) => Err(error),
    };
    let committed = match came {
        Ok(Ok(committed)) => committed,
        Ok(Err(why)) => {
            let commit = later(claim.attempt, &why);
            note_later(&claim.held, &commit);
            ended = None;
            meta.commit(&claim.held, &commit, now())?
        }
        Err(error @ MetaError::Stale(_)) => {
            if let Commit::Suspended { checkpoint, .. } = &commit {
                remove(store, std::slice::from_ref(checkpoint));
            }
            drop(adding);
            return not_owner(store, &meta, &claim.held, error);
        }
        Err(error) => return Err(error.into()),
    };
    note_undelivered(&claim.held, &committed);
    remove(store, &committed.obsolete);
    drop(adding);
    Ok(Leg { status: committed.status, ended })
}

/// The end of an invocation that was killed while this process ran it; an error if another process goes on with it.
fn not_owner(store: &Store, meta: &Sqlite, held: &Held, error: MetaError) -> Result<Leg, Trouble> {
    match meta.get(&held.id)?.map(|row| row.status) {
        Some(status) if status.is_end() => {
            // Nothing is swept while a checkpoint is being added, which may have been so when it was killed.
            store.sweep(meta, Start::files)?;
            Ok(Leg { status, ended: None })
        }
        _ => Err(error.into()),
    }
}

fn note_later(held: &Held, commit: &Commit) {
    if let Commit::Released { reason, due } = commit {
        output::note(format_args!("monohull: invocation {}: {reason}; again at {}", held.id, date(*due)));
    }
}

/// What its parent is told of one that has ended.
fn outcome(report: &RunReport) -> Outcome {
    let message = report.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
    let bytes = report.output.values().map(|output| output.bytes).sum();
    if !Outcome::has_room(bytes) {
        return Outcome { message, outputs: Vec::new(), left_out: Some(bytes) };
    }
    let outputs = report.output.iter().filter_map(|(slot, output)| {
        let content = output.content.as_ref()?;
        Some((slot.clone(), content.bytes().to_vec()))
    });
    Outcome { message, outputs: outputs.collect(), left_out: None }
}

/// Its claim is given up, and tried again after a pause.
fn later(attempt: u32, why: &dyn Display) -> Commit {
    let pause = FIRST_PAUSE.saturating_mul(1 << attempt.min(8));
    let due = now().saturating_add(u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX));
    Commit::Released { due, reason: why.to_string() }
}

/// Reads what is kept of an invocation, or says why that cannot be gone on with.
fn from(store: &Store, claim: &Claim, branch: Branch, mail: Vec<Mail>, keys: Keys<'_>) -> Result<Basis, Unusable> {
    let mut start = Start::decode(&claim.start)
        .ok_or_else(|| "what it was started with cannot be read by this version of Monohull".to_owned())?;
    let mut plan =
        workflow::check_bytes(&start.file, &start.document).into_plan().map_err(|error| error.to_string())?;
    for text in &start.settings {
        Setting::parse(text)?.apply(&mut plan).map_err(|error| error.to_string())?;
    }
    for function in &mut plan.functions {
        let known = start.functions.iter().find(|(name, _)| *name == function.name);
        let (_, hash) = known.ok_or_else(|| format!("there is no image of its function `{}`", function.name))?;
        function.image = store.file(hash);
        let (name, file) = (&function.name, shown(&function.image));
        // What goes on is compared with its checkpoint where it is run.
        let found = match claim.checkpoint {
            Some(_) => function.image.metadata().map(drop),
            None => store.check_code(hash),
        };
        match found {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(format!("the image of its function `{name}` is missing: {file}").into());
            }
            Err(error) => {
                let why = format!("the image of its function `{name}`: {file}: {error}");
                let is_changed = error.kind() == io::ErrorKind::InvalidData;
                return Err(if is_changed { Unusable::Kept(why) } else { Unusable::Host(why) });
            }
        }
    }
    let read = |file: &str| {
        let path = store.checkpoints().join(file);
        Saved::read_for_one(&path, keys, saved_plan).map_err(|error| match error.is_hosts() {
            true => Unusable::Host(error.to_string()),
            false => Unusable::Kept(error.to_string()),
        })
    };
    let saved = claim.checkpoint.as_ref().map(|checkpoint| read(&checkpoint.file)).transpose()?;
    let Branch { copy: (copy, copies), moved } = branch;
    let lineage = Some(Lineage { generation: claim.generation, copy, copies });
    let rest = |(saved, later, base): (Saved<OwnedFd>, _, Option<Base>)| {
        let images = saved.functions.iter().map(|(_, hash, _)| *hash).collect();
        let rest = Rest { memory: saved.continuation, later, may_leave: base.is_some(), lineage, moved };
        ((rest, images, saved.engine.inputs), base)
    };
    let (rest, base) = saved.map(rest).unzip();
    if copy > 0 {
        start.outputs = apart::outputs(&start.outputs, claim.held.id.as_str());
    }
    let events = mail.into_iter().map(|Mail { number, name, bytes }| Event { number, name, bytes }).collect();
    Ok(Basis { plan, start, rest, base: base.flatten(), events, copy: (copy, copies) })
}

/// Runs the workflow until it waits or has ended.
fn go_on(
    store: &Store,
    claim: &mut Claim,
    from: Basis,
    (how, staged): (How, Arc<StagedOutputs>),
    keys: Keys<'_>,
) -> Came {
    let later = |attempt: u32, why: &dyn Display| Came::Other(later(attempt, why), None);
    let paused = |why: &dyn Display| Came::Other(Commit::Paused { reason: why.to_string() }, None);
    let Basis { plan, start, rest, base, events, copy } = from;
    let mut options = RunOptions {
        outputs: start.outputs.clone(),
        isolation: how.isolation,
        events,
        halt: start.checkpoint_every,
        skip_time: how.skip_time,
        invocation: Some(claim.held.id.to_string()),
        sends: true,
        published: claim.published.clone(),
        staged: Some(staged),
        ..RunOptions::default()
    };
    let continuation = match rest {
        Some((rest, images, inputs)) => {
            options.inline_inputs = inputs;
            Some((rest, images))
        }
        None => {
            for (slot, hash) in &start.inputs {
                let read = match store.key() {
                    // It is read where it is, and has to be as it was.
                    None => store.open_whole_data(hash).map(|_| options.inputs.push((slot.clone(), store.file(hash)))),
                    Some(_) => {
                        read_encrypted(store, hash).map(|bytes| options.inline_inputs.push((slot.clone(), bytes)))
                    }
                };
                match read {
                    Ok(()) => {}
                    Err(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound) => {
                        return paused(&format_args!("input slot `{slot}`: {}: {error}", shown(&store.file(hash))));
                    }
                    Err(error) => return later(claim.attempt, &error),
                }
            }
            None
        }
    };
    let terminal = how.lines.map(Terminal::new);
    let watcher = terminal.as_ref().map(|terminal| terminal as &dyn Progress);
    let continuing = Continuing { continuation, suspend: Some(SHORTEST_WAIT) };
    let mut checkpoints = Checkpoints::new(store, claim, (&plan, &start, copy, keys), &options.events);
    let keep = if how.goes_on { Some(&mut checkpoints as &mut dyn Keep) } else { None };
    let ran = worker::run_kept(&plan, &options, how.cgroup, watcher, continuing, keep);
    let attempt = checkpoints.attempt();
    let later = |why: &dyn Display| later(attempt, why);
    let base = base.filter(|_| !checkpoints.has_committed());
    match ran {
        Ok(Some(Ran::Suspended(waiting))) => match checkpoints.write(*waiting, base.as_ref()) {
            Ok((Waits { checkpoint, parent, due, waits, taken, published, sent, .. }, adding)) => {
                Came::Waits(Commit::Suspended { checkpoint, parent, due, waits, taken, published }, sent, adding)
            }
            Err(error) => later(&error),
        },
        Ok(None) => match checkpoints.stopped() {
            Some(Stopped::Became(status)) => Came::Committed(status),
            Some(Stopped::NotOwner(error)) => Came::NotOwner(error),
            Some(Stopped::Wrong(error)) => later(&error),
            None => unreachable!("it is stopped by an answer to a checkpoint alone"),
        },
        Ok(Some(Ran::Ended(report))) => match &report.error {
            // A full disk, a process that was killed: not what the workflow did.
            Some(error) if error.blame == Blame::Host => later(&error.message),
            _ => {
                let bytes = serde_json::to_vec(&report).unwrap_or_default();
                let well = report.status == monohull_report::Status::Done;
                let published = Some(report.published.clone());
                Came::Other(
                    Commit::Ended { well, cancelled: report.told_to_end, report: bytes, published },
                    Some(report),
                )
            }
        },
        // Neither becomes right by itself.
        Err(error @ (ProcessError::ImageChanged { .. } | ProcessError::Unfit(_))) => paused(&error),
        Err(error) => later(&error),
    }
}

/// What an encrypted file has.
fn read_encrypted(store: &Store, hash: &[u8; 32]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    store.open_data(hash)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Prints what an invocation waits for.
pub(super) fn waits(row: &Invocation, json: bool) -> Exit {
    if json {
        output::json(&describe(row));
    } else {
        let mut text = suspend::waits(
            row.waits.iter().map(|wait| (wait.step.as_str(), wait.instance, wait.what.as_str(), wait.until)),
        );
        let _ = writeln!(text, "workflow    {} {}", row.workflow, row.status.name());
        if let Some(reason) = &row.reason {
            let _ = writeln!(text, "reason      {}", shown(reason));
        }
        if !row.status.is_end() {
            let _ = writeln!(text, "goes on     {}", due(row.due, &row.waits));
        }
        let _ = writeln!(text, "invocation  {}", row.id);
        output::text(text);
    }
    if row.status == Status::Cancelled { Exit::WorkflowFailed } else { Exit::Suspended }
}

/// Waits as a document.
pub(super) fn waiting_for(waits: &[Wait]) -> Vec<serde_json::Value> {
    let waits = waits.iter().map(|wait| {
        json!({
            "step": wait.step,
            "instance": wait.instance,
            "what": wait.what,
            "event": wait.event,
            "until": wait.until.map(date),
        })
    });
    waits.collect()
}

/// An invocation as a document.
pub(super) fn describe(row: &Invocation) -> serde_json::Value {
    json!({
        "id": row.id.as_str(),
        "workflow": row.workflow,
        "status": row.status.name(),
        "reason": row.reason,
        "becomes": row.wanted.map(Status::name),
        "started": date(row.started),
        "changed": date(row.changed),
        "due": row.due.map(date),
        "waiting_for": waiting_for(&row.waits),
        "checkpoint": row.checkpoint.as_ref().map(|checkpoint| json!({ "file": checkpoint.file, "bytes": checkpoint.bytes })),
        "published": row.published,
        "generation": row.generation,
        "attempts": row.attempts,
    })
}
