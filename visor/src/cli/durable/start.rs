//! The start of a durable invocation, and following it to its end.

use super::super::exit::Exit;
use super::super::{output, suspend};
use super::leg::{self, How};
use super::started_with::Start;
use super::{Trouble, now};
use monohull_durable::{
    Claimed, History, Invocation, InvocationId, Meta, NewInvocation, Owner, Started, Status, Store, Want,
};
use monohull_host_files::input::{self as input_file, InputError};
use monohull_report::RunReport;
use monohull_workflow::Plan;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// How long is slept at a time: the clock may be set meanwhile, and another process may go on with the invocation.
const NAP: Duration = Duration::from_millis(500);
/// The same while another process runs it.
const LOOK: Duration = Duration::from_millis(50);

/// What `monohull run --state` was asked.
pub(in super::super) struct Request<'a> {
    pub(in super::super) state: &'a Path,
    pub(in super::super) id: Option<&'a InvocationId>,
    /// With the images' paths as they are now.
    pub(in super::super) plan: &'a Plan,
    /// The slots that are filled from files; an empty path is an empty input, `-` standard input.
    pub(in super::super) inputs: &'a [(String, PathBuf)],
    /// What was started, without the hashes.
    pub(in super::super) start: Start,
    pub(in super::super) detach: bool,
    /// How many checkpoints are kept, if not as usual.
    pub(in super::super) keep: Option<u32>,
    pub(in super::super) json: bool,
    pub(in super::super) how: How,
}

/// Starts an invocation, and follows it to its end, or with `detach` to its first wait.
pub(in super::super) fn run(request: Request<'_>) -> Exit {
    let (json, detach) = (request.json, request.detach);
    let how = request.how;
    let followed = start(request).and_then(|(store, id)| {
        if !json {
            output::note(format_args!("monohull: invocation {id}"));
        }
        follow(&store, &id, detach, json, how)
    });
    match followed {
        Ok(exit) => exit,
        Err(trouble) => super::super::fail(trouble.exit(), &trouble),
    }
}

fn start(request: Request<'_>) -> Result<(Store, InvocationId), Trouble> {
    let Request { plan, mut start, .. } = request;
    let store = Store::open(request.state)?;
    // Checkpoints are sealed: without a key the invocation could not be kept at its first wait.
    super::super::checkpoint::own_key()?;
    let adding = store.adding()?;
    for function in &plan.functions {
        let what = format!("the image of function `{}`:", function.name);
        let image = input_file::open_regular(&function.image, false).map_err(io::Error::from);
        let mut image = image.map_err(Trouble::unreadable(what, &function.image))?;
        start.functions.push((function.name.clone(), store.add_file(&adding, &mut image)?));
    }
    for input in &plan.inputs {
        let chosen = request.inputs.iter().find(|(slot, _)| *slot == input.slot).map(|(_, path)| path);
        let Some(path) = chosen.or(input.path.as_ref()) else { continue };
        let unreadable =
            |error: InputError| Trouble::unreadable(format!("input slot `{}`:", input.slot), path)(error.into());
        let hash = if path.as_os_str().is_empty() {
            store.add_file(&adding, &mut io::empty())?
        } else {
            let mut from = input_file::open(path).map_err(unreadable)?.bounded(plan.limits.slots);
            store.add_file(&adding, &mut from).map_err(|error| match from.take_error() {
                Some(error) => unreadable(error),
                None => error.into(),
            })?
        };
        start.inputs.push((input.slot.clone(), hash));
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

/// Goes on with an invocation whenever it is due, until it has ended.
fn follow(store: &Store, id: &InvocationId, detach: bool, json: bool, how: How) -> Result<Exit, Trouble> {
    let owner = store.owner()?;
    loop {
        match claim(store, &owner, id, how.skip_time)? {
            Claimed::Yes(claim) => {
                let leg = leg::run(store, *claim, how)?;
                if let Some((report, plan)) = leg.ended {
                    return Ok(suspend::ended(report, &plan, json));
                }
                if !detach || leg.status != Status::Suspended {
                    continue;
                }
            }
            Claimed::Paused(_) | Claimed::Nothing => {}
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
        match row.due {
            Some(due) if due > now => sleep(Duration::from_nanos(due - now).min(NAP)),
            _ => sleep(LOOK),
        }
    }
}

fn claim(store: &Store, owner: &Owner, id: &InvocationId, skip_time: bool) -> Result<Claimed, Trouble> {
    let mut meta = store.meta()?;
    store.expire_the_dead(&mut meta)?;
    let skipped = if skip_time { meta.get(id)?.and_then(|row| row.due) } else { None };
    Ok(meta.claim(owner.name(), Want::Id(id), skipped.unwrap_or_default().max(now()))?)
}

/// What came of an invocation that another process has brought to its end, or that was cancelled.
fn earlier(row: &Invocation, json: bool) -> Exit {
    let report: Option<RunReport> = row.report.as_ref().and_then(|bytes| serde_json::from_slice(bytes).ok());
    match report {
        Some(report) => suspend::print(&report, json),
        None => leg::waits(row, json),
    }
}
