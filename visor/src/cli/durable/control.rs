//! `monohull pause`, `cancel` and `purge`, and `resume --state`: an invocation changed by hand.

use super::super::exit::Exit;
use super::super::{concat_help, output};
use super::started_with::Start;
use super::{State, Trouble, now};
use clap::Args;
use monohull_durable::{Control, Controlled, InvocationId, Meta, Store};
use serde_json::json;
use std::path::Path;

/// Which invocation is changed.
#[derive(Debug, Args)]
pub(in super::super) struct Target {
    /// The invocation
    id: InvocationId,
    #[command(flatten)]
    state: State,
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

/// Remove a durable invocation that has ended, or whose row in the database is damaged
#[derive(Debug, Args)]
#[command(after_help = concat_help!("monohull purge order-17 --state sleepers"))]
pub(in super::super) struct Purge {
    #[command(flatten)]
    target: Target,
}

impl Pause {
    pub(in super::super) fn run(&self) -> Exit {
        self.target.control(Control::Pause)
    }
}

impl Cancel {
    pub(in super::super) fn run(&self) -> Exit {
        self.target.control(Control::Cancel)
    }
}

impl Purge {
    pub(in super::super) fn run(&self) -> Exit {
        let Target { id, state, json } = &self.target;
        finish(state.open().and_then(|store| purge(&store, id)), id, *json)
    }
}

impl Target {
    fn control(&self, control: Control) -> Exit {
        finish(self.state.open().and_then(|store| change(&store, &self.id, control)), &self.id, self.json)
    }
}

/// Lets a paused invocation go on when it is due.
pub(in super::super) fn resume(state: &Path, key: Option<&Path>, id: &InvocationId, json: bool) -> Exit {
    let resumed = super::open_existing(state, key);
    finish(resumed.and_then(|store| change(&store, id, Control::Resume)), id, json)
}

fn change(store: &Store, id: &InvocationId, control: Control) -> Result<String, Trouble> {
    let mut meta = store.meta()?;
    store.expire_the_dead(&mut meta)?;
    let came = match meta.control(id, control, now())? {
        Controlled::Now(status) => status.name().to_owned(),
        Controlled::AtNextCommit(status) => format!("running, then {}", status.name()),
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
    Ok("removed".to_owned())
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
