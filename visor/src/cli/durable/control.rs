//! `monohull pause`, `cancel`, `kill` and `purge`, and `resume --state`: an invocation changed by hand.

use super::super::client::{Client, Server};
use super::super::exit::Exit;
use super::super::measures::{Time, duration};
use super::super::{concat_help, output};
use super::started_with::Start;
use super::words::UNLESS_IT_ENDS;
use super::{Place, Trouble, Where, now, remote};
use clap::Args;
use monohull_durable::{Bounds, Control, Controlled, InvocationId, Meta, Status, Store};
use serde_json::json;
use std::path::Path;

/// Which invocation is changed.
#[derive(Debug, Args)]
pub(in super::super) struct Target {
    /// The invocation
    id: InvocationId,
    #[command(flatten)]
    place: Where,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Pause a durable invocation: it goes on only after `monohull resume`
///
/// A running invocation is paused at its next wait. Its timers go on meanwhile.
#[derive(Debug, Args)]
#[command(after_help = concat_help!("monohull pause order-17 --state sleepers"))]
pub(in super::super) struct Pause {
    #[command(flatten)]
    target: Target,
}

/// End a durable invocation; only its report is kept
///
/// One whose function waits to be cancelled is told, and undoes what it has done before it ends. Any other ends at once, or at its next wait if it runs, and no
/// code of it runs any more. `monohull kill` ends each at once.
#[derive(Debug, Args)]
#[command(after_help = concat_help!("monohull cancel order-17 --state sleepers"))]
pub(in super::super) struct Cancel {
    #[command(flatten)]
    target: Target,
}

/// End a durable invocation at once; only its report is kept
///
/// Of one that runs, what its process does from now on does not count. A server ends the process.
#[derive(Debug, Args)]
#[command(after_help = concat_help!("monohull kill order-17 --state sleepers", "monohull kill order-17 --server http://127.0.0.1:7070"))]
pub(in super::super) struct Kill {
    #[command(flatten)]
    target: Target,
}

/// Remove a durable invocation that has ended, or whose row in the database is damaged; or all that have ended
///
/// A server removes by itself what has ended (`serve --keep-durable`). In a state folder of `monohull run --state`, `--ended` does.
#[derive(Debug, Args)]
#[command(after_help = concat_help!(
    "monohull purge order-17 --state sleepers",
    "monohull purge --ended --older-than 30d --state sleepers"
))]
pub(in super::super) struct Purge {
    /// The invocation
    #[arg(required_unless_present = "ended", conflicts_with = "ended")]
    id: Option<InvocationId>,
    /// All that have completed, failed or been cancelled, in a state folder; those that have failed cannot be taken back then
    #[arg(long, requires = "folder")]
    ended: bool,
    /// Of these only those that ended so long ago, such as 12h or 30d
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "ended")]
    older_than: Option<Time>,
    #[command(flatten)]
    place: Where,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What one is that is not there any more.
const REMOVED: &str = "removed";

impl Pause {
    pub(in super::super) fn run(&self) -> Exit {
        self.target.control(Control::Pause, "pause")
    }
}

impl Cancel {
    pub(in super::super) fn run(&self) -> Exit {
        self.target.control(Control::Cancel, "cancel")
    }
}

impl Kill {
    pub(in super::super) fn run(&self) -> Exit {
        let Target { id, place, json } = &self.target;
        let killed = place.open().and_then(|place| match place {
            Place::Folder(store) => kill(&store, id),
            Place::Server(client) => remote::control(&client, id, "kill"),
        });
        finish(killed.map_err(|trouble| place.at(trouble)), id, *json)
    }
}

impl Purge {
    pub(in super::super) fn run(&self) -> Exit {
        let Purge { id, place, json, .. } = self;
        let Some(id) = id else { return self.purge_ended() };
        let purged = place.open().and_then(|place| match place {
            Place::Folder(store) => purge(&store, id),
            Place::Server(client) => {
                client.post(&remote::path(id, "/purge"))?;
                Ok(REMOVED.to_owned())
            }
        });
        finish(purged.map_err(|trouble| place.at(trouble)), id, *json)
    }

    fn purge_ended(&self) -> Exit {
        let before = match self.older_than {
            Some(Time(age)) => now().saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)),
            None => u64::MAX,
        };
        let purged = self.place.open().and_then(|place| match place {
            Place::Folder(store) => purge_before(&store, before),
            Place::Server(_) => Err(Trouble::Usage("--ended is for a state folder: name it with --state".to_owned())),
        });
        match purged.map_err(|trouble| self.place.at(trouble)) {
            Ok(removed) => {
                if self.json {
                    output::json(&json!({ "removed": removed }));
                } else {
                    output::text(format_args!("{removed} removed\n"));
                }
                Exit::Done
            }
            Err(trouble) => trouble.report(self.json),
        }
    }
}

impl Target {
    fn control(&self, control: Control, verb: &str) -> Exit {
        let changed = self.place.open().and_then(|place| match place {
            Place::Folder(store) => change(&store, &self.id, control),
            Place::Server(client) => remote::control(&client, &self.id, verb),
        });
        finish(changed.map_err(|trouble| self.place.at(trouble)), &self.id, self.json)
    }
}

/// Lets a paused invocation go on when it is due.
pub(in super::super) fn resume(state: &Path, key: Option<&Path>, id: &InvocationId, json: bool) -> Exit {
    let resumed = super::open_existing(state, key);
    let resumed = resumed.and_then(|store| change(&store, id, Control::Resume));
    finish(resumed.map_err(|trouble| trouble.at(state)), id, json)
}

/// The same of a server's.
pub(in super::super) fn resume_remote(server: &Server, id: &InvocationId, json: bool) -> Exit {
    let client = Client::new(server).map_err(Trouble::from);
    finish(client.and_then(|client| remote::control(&client, id, "resume")), id, json)
}

fn kill(store: &Store, id: &InvocationId) -> Result<String, Trouble> {
    let mut meta = store.meta()?;
    let killed = match meta.kill(id, now())? {
        Controlled::Now(status) | Controlled::Ended(status @ Status::Cancelled) => status.name().to_owned(),
        Controlled::AtNextCommit(status) | Controlled::Told(status) | Controlled::Ended(status) => {
            return Err(Trouble::Ended { id: id.clone(), status: status.name() });
        }
        Controlled::Unknown => return Err(Trouble::Unknown(id.clone())),
    };
    store.sweep(&meta, Start::files)?;
    Ok(killed)
}

fn change(store: &Store, id: &InvocationId, control: Control) -> Result<String, Trouble> {
    let mut meta = store.meta()?;
    store.expire_the_dead(&mut meta)?;
    let came = match meta.control(id, control, now())? {
        Controlled::Now(status) => status.name().to_owned(),
        Controlled::AtNextCommit(status) => format!("running, then {}{UNLESS_IT_ENDS}", status.name()),
        Controlled::Told(status) => format!("{}, then {}", status.name(), Status::Cancelled.name()),
        Controlled::Ended(status @ Status::Cancelled) if control == Control::Cancel => status.name().to_owned(),
        Controlled::Ended(status) => return Err(Trouble::Ended { id: id.clone(), status: status.name() }),
        Controlled::Unknown => return Err(Trouble::Unknown(id.clone())),
    };
    store.sweep(&meta, Start::files)?;
    Ok(came)
}

fn purge(store: &Store, id: &InvocationId) -> Result<String, Trouble> {
    let mut meta = store.meta()?;
    if !meta.purge(id, now())? {
        let Some(row) = meta.get(id)? else { return Err(Trouble::Unknown(id.clone())) };
        return Err(Trouble::Lives { id: id.clone(), status: row.status.name() });
    }
    store.sweep(&meta, Start::files)?;
    Ok(REMOVED.to_owned())
}

/// Removes all that ended before this time (ns since 1970), and what only they needed; how many.
fn purge_before(store: &Store, before: u64) -> Result<usize, Trouble> {
    let mut meta = store.meta()?;
    let removed = meta.forget(Bounds { number: usize::MAX, bytes: u64::MAX, ended_after: before })?;
    store.sweep(&meta, Start::files)?;
    Ok(removed)
}

fn finish(came: Result<String, Trouble>, id: &InvocationId, json: bool) -> Exit {
    match came {
        Ok(status) => {
            if json {
                output::json(&json!({ "id": id.as_str(), "status": status }));
            } else {
                output::text(format_args!("{id}: {status}\n"));
            }
            Exit::Done
        }
        Err(trouble) => trouble.report(json),
    }
}
