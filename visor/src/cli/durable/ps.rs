//! `monohull ps`: the invocations of a state folder or a server.

use super::super::exit::Exit;
use super::super::suspend::date;
use super::super::{concat_help, output, table};
use super::{Place, Trouble, Where, leg, remote, tables};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use monohull_durable::{DamagedRow, Listed, Meta, Status, Store};
use monohull_report::escape::Line;
use serde_json::{Value, json};

/// The most invocations of one list, unless more are asked for.
const LIMIT: usize = 100;

/// List durable invocations
#[derive(Debug, Args)]
#[command(after_help = concat_help!("monohull ps --state sleepers", "monohull ps --state sleepers --status suspended,paused --json"))]
pub(in super::super) struct Ps {
    #[command(flatten)]
    place: Where,
    /// Only those of these statuses
    #[arg(long, value_parser = status(), value_delimiter = ',')]
    status: Vec<Status>,
    /// Only those of this workflow
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = LIMIT)]
    limit: usize,
    /// Only those after this one, the last of the previous list; of a server's list what it has said
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What is said in place of a status of one whose row is damaged.
const DAMAGED: &str = "damaged";

/// A status by its name.
fn status() -> impl TypedValueParser<Value = Status> {
    let named = |name: String| Status::ALL.into_iter().find(|status| status.name() == name);
    PossibleValuesParser::new(Status::ALL.map(Status::name)).map(move |name| named(name).expect("one of these names"))
}

impl Ps {
    pub(in super::super) fn run(&self) -> Exit {
        let listed = self.place.open().and_then(|place| match place {
            Place::Folder(store) => self.list(&store).map(|listed| self.print(&listed)),
            Place::Server(client) => {
                let statuses: Vec<_> = self.status.iter().map(|status| status.name()).collect();
                let (workflow, after) = (self.workflow.as_deref(), self.after.as_deref());
                let query = [("status", Some(&*statuses.join(","))), ("workflow", workflow), ("cursor", after)];
                remote::list(&client, query, self.limit, self.json)
            }
        });
        listed.map_or_else(|trouble| self.place.at(trouble).report(self.json), |()| Exit::Done)
    }

    /// At most `limit`, and one more if there are more.
    fn list(&self, store: &Store) -> Result<Vec<Listed>, Trouble> {
        let mut meta = store.meta()?;
        store.expire_the_dead(&mut meta)?;
        let wanted = self.limit.saturating_add(1);
        let (mut listed, mut after) = (Vec::new(), self.after.clone().unwrap_or_default());
        loop {
            let page = meta.list(&self.status, &after, wanted)?;
            let Some(last) = page.last() else { break };
            after = id(last).to_owned();
            let is_whole = page.len() < wanted;
            let is_wanted = |row: &Listed| self.workflow.as_ref().is_none_or(|name| *name == *workflow(row));
            listed.extend(page.into_iter().filter(is_wanted));
            if is_whole || listed.len() >= wanted {
                break;
            }
        }
        listed.truncate(wanted);
        Ok(listed)
    }

    fn print(&self, listed: &[Listed]) {
        let shown = &listed[..listed.len().min(self.limit)];
        let next = (listed.len() > shown.len()).then(|| shown.last().map(id)).flatten();
        if self.json {
            output::json(&json!({ "invocations": shown.iter().map(describe).collect::<Vec<_>>(), "after": next }));
            return;
        }
        let mut table = tables::invocations();
        for row in shown {
            let row = match row {
                Ok(row) => row,
                Err(damaged) => {
                    let (id, workflow) = (damaged.id.clone(), damaged.workflow.clone());
                    let cells = [id, workflow, DAMAGED.to_owned(), String::new(), damaged.to_string(), String::new()];
                    table.add_row(cells.map(|cell| Line(cell).to_string()));
                    continue;
                }
            };
            let waits: Vec<_> =
                row.waits.iter().map(|wait| format!("{}[{}] {}", wait.step, wait.instance, wait.what)).collect();
            let cells = [
                row.id.to_string(),
                row.workflow.clone(),
                row.status.name().to_owned(),
                row.due.map(date).unwrap_or_default(),
                row.reason.clone().unwrap_or_else(|| waits.join(", ")),
                row.checkpoint.as_ref().map(|checkpoint| format!("{} B", checkpoint.bytes)).unwrap_or_default(),
            ];
            table.add_row(cells.map(|cell| Line(cell).to_string()));
        }
        output::text(format_args!("{}\n", table::text(&table)));
        if let Some(next) = next {
            output::note(format_args!("monohull: there are more: --after {next}"));
        }
    }
}

fn id(row: &Listed) -> &str {
    row.as_ref().map_or_else(|damaged| damaged.id.as_str(), |row| row.id.as_str())
}

fn workflow(row: &Listed) -> &str {
    row.as_ref().map_or_else(|damaged| &damaged.workflow, |row| &row.workflow)
}

fn describe(row: &Listed) -> Value {
    let damaged = |row: &DamagedRow| {
        json!({
            "id": row.id,
            "workflow": row.workflow,
            "status": DAMAGED,
            "reason": row.to_string(),
            "started": date(row.started),
        })
    };
    row.as_ref().map_or_else(damaged, leg::describe)
}
