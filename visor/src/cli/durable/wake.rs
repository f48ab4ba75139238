//! `monohull wake`: goes on with the invocations of a state folder that are due.

use super::super::exit::Exit;
use super::super::isolation::Isolation;
use super::super::suspend::date;
use super::super::{concat_help, fail, output, refuse};
use super::leg::{self, How};
use super::started_with::Start;
use super::{State, Trouble, due, now};
use clap::Args;
use monohull_durable::{Claimed, Meta, Status, Store, Want, nap};
use monohull_worker::cgroup::CgroupMode;
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

/// How long is slept at a time: the clock may be set meanwhile, and others may start invocations.
const NAP: Duration = Duration::from_millis(500);

/// Go on with the durable invocations that are due
///
/// Each runs until it waits again or has ended. Several processes may do this at the same time: an invocation is run by one of them.
#[derive(Debug, Args)]
#[command(after_help = concat_help!("monohull wake --state sleepers", "monohull wake --state sleepers --wait"))]
pub(in super::super) struct Wake {
    #[command(flatten)]
    state: State,
    /// Wait for those that are due later, until none goes on by itself any more
    #[arg(long)]
    wait: bool,
    /// Move the clock where an invocation only waits for a time, instead of waiting: for tests
    #[arg(long)]
    skip_time: bool,
    /// How functions are isolated from the system
    #[arg(long, value_enum, default_value_t)]
    isolation: Isolation,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Wake {
    pub(in super::super) fn run(&self) -> Exit {
        let isolation = match self.isolation.wish() {
            Ok(isolation) => isolation,
            Err(why) => return refuse(self.json, Exit::Host, "host", &why),
        };
        let lines = (!self.json).then_some(false);
        let how = How { isolation, cgroup: CgroupMode::Never, lines, skip_time: self.skip_time, goes_on: true };
        match self.state.open().and_then(|store| self.wake(&store, how)) {
            Ok(exit) => exit,
            Err(trouble) => trouble.at(&self.state.folder).report(self.json),
        }
    }

    fn wake(&self, store: &Store, how: How) -> Result<Exit, Trouble> {
        let owner = store.owner()?;
        let (mut ran, mut exit) = (Vec::new(), Exit::Done);
        let next = loop {
            let mut meta = store.meta()?;
            store.expire_the_dead(&mut meta)?;
            let skipped = if self.skip_time { meta.next_due()? } else { None };
            match meta.claim(owner.name(), Want::Due, skipped.unwrap_or_default().max(now()))? {
                Claimed::Yes(claim) => {
                    // The process is forked for each workflow: no other transaction is under way then.
                    drop(meta);
                    let id = claim.held.id.clone();
                    let leg = match leg::run(store, *claim, how) {
                        Ok(leg) => leg,
                        // The others go on.
                        Err(trouble) => {
                            exit = fail(trouble.exit(), &trouble);
                            continue;
                        }
                    };
                    if leg.status == Status::Failed && exit == Exit::Done {
                        exit = Exit::WorkflowFailed;
                    }
                    if let Some(error) = leg.ended.as_ref().and_then(|(report, _)| report.error.as_ref()) {
                        output::note(super::super::show::failure(error));
                    }
                    if let Some(row) = store.meta()?.get(&id)? {
                        self.report(&row, &mut ran);
                    }
                    continue;
                }
                Claimed::Paused(id) => {
                    if let Some(row) = meta.get(&id)? {
                        self.report(&row, &mut ran);
                    }
                    continue;
                }
                Claimed::Nothing => {}
            }
            match meta.next_due()? {
                due @ Some(_) if self.wait => {
                    drop(meta);
                    sleep(nap(due, now(), NAP));
                }
                next => break next,
            }
        };
        store.sweep(&store.meta()?, Start::files)?;
        if self.json {
            output::json(&json!({ "ran": ran, "next_due": next.map(date) }));
        } else if let Some(next) = next {
            output::text(format_args!("next due    {}\n", date(next)));
        }
        Ok(exit)
    }

    /// Prints what an invocation is after it has run, or remembers it for the document.
    fn report(&self, row: &monohull_durable::Invocation, ran: &mut Vec<Value>) {
        if self.json {
            ran.push(leg::describe(row));
            return;
        }
        let until = if row.status == Status::Suspended {
            format!(", goes on {}", due(row.due, &row.waits))
        } else {
            String::new()
        };
        let why = row.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let line = format!("{}  {} {}{until}{why}", row.id, row.workflow, row.status.name());
        output::text(format_args!("{}\n", monohull_report::escape::Line(&line)));
    }
}
