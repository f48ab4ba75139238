//! `monohull show`: one invocation.

use super::super::exit::Exit;
use super::super::{concat_help, output, suspend};
use super::family::Family;
use super::fork::Tree;
use super::words::SHOWN;
use super::{Place, Trouble, Where, leg, remote};
use clap::Args;
use monohull_durable::{Invocation, InvocationId, Meta, Status, Store};
use monohull_report::RunReport;
use monohull_report::escape::{Line, shown};
use serde_json::Value;

/// Show a durable invocation: what it waits for, or its result
#[derive(Debug, Args)]
#[command(after_help = concat_help!("monohull show order-17 --state sleepers"))]
pub(in super::super) struct Show {
    /// The invocation
    id: InvocationId,
    #[command(flatten)]
    place: Where,
    /// Print one JSON document; the report of an invocation that has ended is in it
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(in super::super) fn run(&self) -> Exit {
        let shown = self.place.open().and_then(|place| match place {
            Place::Folder(store) => {
                let (row, tree, mail, family) = self.find(&store)?;
                self.print(&row, &tree, mail, &family);
                Ok(())
            }
            Place::Server(client) => remote::show(&client, &self.id, self.json),
        });
        shown.map_or_else(|trouble| self.place.at(trouble).report(self.json), |()| Exit::Done)
    }

    /// The invocation, its place in the tree of copies, how many events wait for it and whether it has been told to end, and its children.
    fn find(&self, store: &Store) -> Result<(Invocation, Tree, (u64, bool), Family), Trouble> {
        let mut meta = store.meta()?;
        store.expire_the_dead(&mut meta)?;
        let row = meta.get(&self.id)?.ok_or_else(|| Trouble::Unknown(self.id.clone()))?;
        let mail = (meta.mail_count(&self.id)?, meta.is_told_to_end(&self.id)?);
        Ok((row, Tree::of(&meta, &self.id)?, mail, Family::of(&meta, &self.id)?))
    }

    fn print(&self, row: &Invocation, tree: &Tree, (mail, is_told): (u64, bool), family: &Family) {
        let mut document = leg::describe(row);
        document["mail"] = mail.into();
        if is_told && !row.status.is_end() && row.wanted.is_none() {
            document["becomes"] = Status::Cancelled.name().into();
        }
        if self.json {
            document["report"] =
                row.report.as_ref().and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or(Value::Null);
            document["parent"] = tree.parent();
            family.add_to(&mut document);
            document["forks"] = tree.forks.first.iter().map(InvocationId::as_str).collect();
            document["fork_count"] = tree.forks.count.into();
            output::json(&document);
            return;
        }
        for name in SHOWN {
            match &document[name] {
                Value::Null => {}
                Value::String(text) => output::text(format_args!("{name:<12}{}\n", shown(text))),
                other => output::text(format_args!("{name:<12}{other}\n")),
            }
        }
        for (name, text) in &row.published {
            output::text(format_args!("{:<12}{} = {}\n", "published", shown(name), Line(text)));
        }
        output::text(tree);
        output::text(family);
        if let Some(checkpoint) = &row.checkpoint {
            output::text(format_args!(
                "{:<12}{} ({} bytes)\n",
                "checkpoint",
                shown(&checkpoint.file),
                checkpoint.bytes
            ));
        }
        let waits = row.waits.iter().map(|wait| (wait.step.as_str(), wait.instance, wait.what.as_str(), wait.until));
        output::text(suspend::waits(waits));
        let report: Option<RunReport> = row.report.as_ref().and_then(|bytes| serde_json::from_slice(bytes).ok());
        if let Some(report) = report {
            suspend::print(&report, false);
        }
    }
}
