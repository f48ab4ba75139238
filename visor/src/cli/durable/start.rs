//! The start of a durable invocation, and following it to its end.

use super::super::exit::Exit;
use super::super::suspend::nothing_ran;
use super::super::{output, refuse_with, suspend};
use super::leg::{self, How};
use super::started_with::{Start, Startable};
use super::{Trouble, now};
use monohull_durable::{
    Adding, Claimed, History, Invocation, InvocationId, Meta, NewInvocation, Owner, Started, Status, Store, Want,
};
use monohull_host_files::input::{self as input_file, InputError};
use monohull_report::RunReport;
use monohull_report::escape::shown;
use monohull_workflow::Plan;
use serde_json::{Value, json};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long is slept at a time: the clock may be set meanwhile, and another process may go on with the invocation.
const NAP: Duration = Duration::from_millis(500);
/// The same while another process runs it.
const LOOK: Duration = Duration::from_millis(50);

/// What `monohull run --state` was asked.
pub(in super::super) struct Request<'a> {
    pub(in super::super) state: &'a Path,
    /// The file of the key that it is encrypted with.
    pub(in super::super) state_key: Option<&'a Path>,
    pub(in super::super) id: Option<&'a InvocationId>,
    /// With the images' paths as they are now.
    pub(in super::super) plan: &'a Plan,
    /// The slots that are filled from files; an empty path is an empty input, `-` standard input.
    pub(in super::super) inputs: &'a [(String, PathBuf)],
    /// What was started, without the hashes.
    pub(in super::super) start: Start,
    /// The workflows that it may start, with the images' paths as they are now.
    pub(in super::super) children: Vec<ChildFile>,
    pub(in super::super) detach: bool,
    /// How many checkpoints are kept, if not as usual.
    pub(in super::super) keep: Option<u32>,
    pub(in super::super) json: bool,
    pub(in super::super) how: How,
}

/// A workflow that may be started as a child.
pub(in super::super) struct ChildFile {
    pub(in super::super) file: PathBuf,
    pub(in super::super) plan: Plan,
    pub(in super::super) document: Vec<u8>,
}

/// Starts an invocation, and follows it to its end, or with `detach` to its first wait.
pub(in super::super) fn run(request: Request<'_>) -> Exit {
    let (json, how) = (request.json, request.how);
    let until = match (request.detach, request.children.is_empty()) {
        (true, _) => Until::Waits,
        (false, true) => Until::Ends,
        (false, false) => Until::EndsWithChildren,
    };
    let state = request.state;
    let (store, id) = match start(request) {
        Ok(started) => started,
        Err(trouble) => {
            let trouble = trouble.at(state);
            let kind = if matches!(trouble, Trouble::Late { .. }) { "timeout" } else { "refused" };
            return refuse_with(json, trouble.exit(), nothing_ran(), kind, trouble.blame(), &trouble);
        }
    };
    if !json {
        output::note(format_args!("monohull: invocation {id}"));
    }
    let exit = follow(&store, &id, until, json, how);
    if until == Until::Waits && !json && matches!(exit, Ok(Exit::Suspended)) && !is_paused(&store, &id) {
        output::note(format_args!("monohull: `monohull wake --state {}` goes on with it", shown(state)));
    }
    exit.unwrap_or_else(|trouble| {
        let trouble = trouble.at(state);
        refuse_with(json, trouble.exit(), not_followed(&store, &id), "not-followed", trouble.blame(), &trouble)
    })
}

/// What is known of an invocation that is there and may have run, but was not followed to where it should be.
fn not_followed(store: &Store, id: &InvocationId) -> Value {
    match store.meta().map(|meta| meta.get(id)) {
        Ok(Ok(Some(row))) => leg::describe(&row),
        _ => json!({ "id": id.as_str(), "status": "unknown" }),
    }
}

/// Whether it goes on by hand alone.
fn is_paused(store: &Store, id: &InvocationId) -> bool {
    let row = store.meta().and_then(|meta| Ok(meta.get(id)?));
    row.is_ok_and(|row| row.is_some_and(|row| row.status == Status::Paused))
}

fn start(request: Request<'_>) -> Result<(Store, InvocationId), Trouble> {
    let Request { plan, mut start, .. } = request;
    let store = Store::open(request.state, super::key_file(request.state_key)?.as_ref())?;
    // Checkpoints are sealed: without a key the invocation could not be kept at its first wait.
    super::super::checkpoint::own_key()?;
    let adding = store.adding()?;
    start.functions = add_images(&store, &adding, plan)?;
    start.inputs = add_inputs(&store, &adding, plan, request.inputs)?;
    for ChildFile { file, plan, document } in request.children {
        let functions = add_images(&store, &adding, &plan)?;
        let inputs = add_inputs(&store, &adding, &plan, &[])?;
        let slots = plan.inputs.iter().map(|input| &input.slot);
        let free = slots.filter(|slot| !inputs.iter().any(|(filled, _)| filled == *slot)).cloned().collect();
        start.children.push(Startable { name: plan.name, file, document, inputs, free, functions });
    }
    let random = || format!("{:016x}", RandomState::new().hash_one(0)).parse().expect("letters and digits");
    let id = request.id.cloned().unwrap_or_else(random);
    let bytes = start.encode().map_err(|error| Trouble::Unreadable {
        what: "the workflow file".to_owned(),
        path: start.file.clone(),
        source: io::Error::other(error),
    })?;
    let now = now();
    let new = NewInvocation { id: &id, workflow: &plan.name, start: &bytes, due: now };
    let mut meta = store.meta()?;
    match meta.start(&new, now)? {
        Started::New | Started::Same(_) => {
            if let Some(keep) = request.keep {
                meta.keep(&id, keep)?;
            }
            Ok((store, id))
        }
        Started::Taken => Err(Trouble::Taken(id)),
    }
}

/// Keeps the images of a workflow's functions.
fn add_images(store: &Store, adding: &Adding, plan: &Plan) -> Result<Vec<(String, [u8; 32])>, Trouble> {
    let mut functions = Vec::new();
    for function in &plan.functions {
        let what = format!("the image of function `{}`:", function.name);
        let image = input_file::open_regular(&function.image, false).map_err(io::Error::from);
        let mut image = image.map_err(Trouble::unreadable(what, &function.image))?;
        functions.push((function.name.clone(), store.add_file(adding, &mut image)?));
    }
    Ok(functions)
}

/// Keeps what fills its input slots: these files, or else those that its own file names.
fn add_inputs(
    store: &Store,
    adding: &Adding,
    plan: &Plan,
    given: &[(String, PathBuf)],
) -> Result<Vec<(String, [u8; 32])>, Trouble> {
    let begin = Instant::now();
    let mut inputs = Vec::new();
    for input in &plan.inputs {
        let chosen = given.iter().find(|(slot, _)| *slot == input.slot).map(|(_, path)| path);
        let Some(path) = chosen.or(input.path.as_ref()) else { continue };
        let unreadable =
            |error: InputError| Trouble::unreadable(format!("input slot `{}`:", input.slot), path)(error.into());
        let hash = if path.as_os_str().is_empty() {
            store.add_data(adding, &mut io::empty())?
        } else {
            let deadline = plan.limits.timeout.map(|limit| begin + limit);
            let mut from = input_file::open(path).map_err(unreadable)?.bounded(plan.limits.slots, deadline);
            store.add_data(adding, &mut from).map_err(|error| match from.take_error() {
                Some(InputError::Late) => Trouble::Late { slot: input.slot.clone(), path: path.clone() },
                Some(error) => unreadable(error),
                None => error.into(),
            })?
        };
        inputs.push((input.slot.clone(), hash));
    }
    Ok(inputs)
}

/// How far an invocation is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// To its first wait.
    Waits,
    /// To its end.
    Ends,
    /// To its end, and its children on the way: it waits for them.
    EndsWithChildren,
}

/// Goes on with an invocation whenever it is due.
fn follow(store: &Store, id: &InvocationId, until: Until, json: bool, how: How) -> Result<Exit, Trouble> {
    let owner = store.owner()?;
    let (detach, children) = (until == Until::Waits, until == Until::EndsWithChildren);
    loop {
        // Time is skipped only if none of them is due.
        if children && run_child(store, &owner, id, false, how)? {
            continue;
        }
        match claim(store, &owner, id, how.skip_time)? {
            Claimed::Yes(claim) => {
                let leg = leg::run(store, *claim, how)?;
                if let Some((report, plan)) = leg.ended {
                    let exit = suspend::ended(report, &plan, json);
                    return Ok(if leg.status == Status::Cancelled { cancelled(id) } else { exit });
                }
                if !detach || leg.status != Status::Suspended || is_due(store, id)? {
                    continue;
                }
            }
            Claimed::Paused(_) | Claimed::Nothing => {}
        }
        if children && how.skip_time && run_child(store, &owner, id, true, how)? {
            continue;
        }
        let Some(row) = store.meta()?.get(id)? else { return Err(Trouble::Unknown(id.clone())) };
        match row.status {
            status if status.is_end() => return Ok(earlier(&row, json)),
            Status::Paused => return Ok(leg::waits(&row, json)),
            _ if detach && row.generation > 0 => return Ok(leg::waits(&row, json)),
            // Neither time nor an event takes it further.
            Status::Suspended if row.due.is_none() && row.waits.iter().all(|wait| wait.event.is_none()) => {
                return Ok(leg::waits(&row, json));
            }
            _ => {}
        }
        let now = now();
        let due = if children { first_due(store, id, row.due)? } else { row.due };
        match due {
            Some(due) if due > now => sleep(Duration::from_nanos(due - now).min(NAP)),
            _ => sleep(LOOK),
        }
    }
}

/// Goes on with one that an invocation has started and that is due, or as if it were; whether there was one.
fn run_child(store: &Store, owner: &Owner, id: &InvocationId, skip: bool, how: How) -> Result<bool, Trouble> {
    for child in below(store, id)? {
        match claim(store, owner, &child, skip)? {
            Claimed::Yes(claim) => {
                leg::run(store, *claim, how)?;
                return Ok(true);
            }
            Claimed::Paused(id) => output::note(format_args!("monohull: child {id} is paused: too many attempts")),
            Claimed::Nothing => {}
        }
    }
    Ok(false)
}

/// Whether an invocation goes on at once: what it waits for has come, as it has made a save point, or copies of itself. One that was captured while it
/// computed is due as well, and waits for nothing.
fn is_due(store: &Store, id: &InvocationId) -> Result<bool, Trouble> {
    let row = store.meta()?.get(id)?.filter(|row| row.status.is_waiting() && !row.waits.is_empty());
    Ok(row.is_some_and(|row| row.due.is_some_and(|due| due <= now())))
}

/// All that an invocation has started, and that these have started.
fn below(store: &Store, id: &InvocationId) -> Result<Vec<InvocationId>, Trouble> {
    let meta = store.meta()?;
    let mut relatives = meta.relatives(id)?;
    if let Some((parent, _)) = meta.started_by(id)? {
        relatives.retain(|relative| *relative != parent);
    }
    Ok(relatives)
}

/// When it or one below it is due.
fn first_due(store: &Store, id: &InvocationId, own: Option<u64>) -> Result<Option<u64>, Trouble> {
    let mut first = own;
    for child in below(store, id)? {
        let due = store.meta()?.get(&child)?.filter(|row| row.status.is_waiting()).and_then(|row| row.due);
        first = [first, due].into_iter().flatten().min();
    }
    Ok(first)
}

fn claim(store: &Store, owner: &Owner, id: &InvocationId, skip_time: bool) -> Result<Claimed, Trouble> {
    let mut meta = store.meta()?;
    store.expire_the_dead(&mut meta)?;
    let skipped = if skip_time { meta.get(id)?.and_then(|row| row.due) } else { None };
    Ok(meta.claim(owner.name(), Want::Id(id), skipped.unwrap_or_default().max(now()))?)
}

/// Says of one that has a report that it ended because it was told to.
fn cancelled(id: &InvocationId) -> Exit {
    output::note(format_args!("monohull: invocation {id} is cancelled: it was told to end"));
    Exit::WorkflowFailed
}

/// What came of an invocation that another process has brought to its end, or that was cancelled.
fn earlier(row: &Invocation, json: bool) -> Exit {
    let report: Option<RunReport> = row.report.as_ref().and_then(|bytes| serde_json::from_slice(bytes).ok());
    match report {
        Some(report) => {
            let exit = suspend::print(&report, json);
            if row.status == Status::Cancelled { cancelled(&row.id) } else { exit }
        }
        None => leg::waits(row, json),
    }
}
