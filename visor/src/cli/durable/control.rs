//! `monohull pause`, `cancel`, `kill` and `purge`, and `resume --state`: an invocation changed by hand.

use super::super::client::{Client, Server};
use super::super::exit::Exit;
use super::super::{concat_help, output};
use super::started_with::Start;
use super::{Place, Trouble, Where, now, remote};
use clap::Args;
use monohull_durable::{Control, Controlled, InvocationId, Meta, Status, Store};
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
/// A running invocation ends at its next wait, unless it has ended by itself until then.
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

/// Remove a durable invocation that has ended, or whose row in the database is damaged
#[derive(Debug, Args)]
#[command(after_help = concat_help!("monohull purge order-17 --state sleepers"))]
pub(in super::super) struct Purge {
    #[command(flatten)]
    target: Target,
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
        let Target { id, place, json } = &self.target;
        let purged = place.open().and_then(|place| match place {
            Place::Folder(store) => purge(&store, id),
            Place::Server(client) => {
                client.post(&remote::path(id, "/purge"))?;
                Ok(REMOVED.to_owned())
            }
        });
        finish(purged.map_err(|trouble| place.at(trouble)), id, *json)
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
        Controlled::AtNextCommit(status) | Controlled::Ended(status) => {
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
        Controlled::AtNextCommit(status) => format!("running, then {}", status.name()),
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
