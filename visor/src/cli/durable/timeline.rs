//! `monohull timeline`: what has happened to an invocation across its suspensions.

use super::super::exit::Exit;
use super::super::show::time;
use super::super::suspend::date;
use super::super::{concat_help, output, table};
use super::{Place, Trouble, Where, remote, tables};
use clap::Args;
use monohull_durable::{ENTRIES_KEPT, InvocationId, Meta, Store, timeline_document};
use monohull_report::escape::Line;
use serde_json::Value;

/// Show what has happened to a durable invocation: each leg that a process ran it, what woke it, and what was done to it
#[derive(Debug, Args)]
#[command(after_help = concat_help!("monohull timeline order-17 --state sleepers", "monohull timeline order-17 --limit 20 --json"))]
pub(in super::super) struct Timeline {
    /// The invocation
    id: InvocationId,
    #[command(flatten)]
    place: Where,
    /// At most this many: the newest
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=ENTRIES_KEPT))]
    limit: u64,
    /// Only those before this one, as the end of another list says
    #[arg(long, value_name = "NUMBER")]
    before: Option<u64>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Timeline {
    pub(in super::super) fn run(&self) -> Exit {
        let shown = self.place.open().and_then(|place| match place {
            Place::Folder(store) => self.find(&store),
            Place::Server(client) => remote::timeline(&client, &self.id, self.limit, self.before),
        });
        match shown {
            Err(trouble) => self.place.at(trouble).report(self.json),
            Ok(document) if self.json => {
                output::json(&document);
                Exit::Done
            }
            Ok(document) => {
                print(&document);
                Exit::Done
            }
        }
    }

    /// The document that a server answers with.
    fn find(&self, store: &Store) -> Result<Value, Trouble> {
        let mut meta = store.meta()?;
        store.expire_the_dead(&mut meta)?;
        let row = meta.get(&self.id)?.ok_or_else(|| Trouble::Unknown(self.id.clone()))?;
        let entries = meta.timeline(&self.id, self.before.unwrap_or(u64::MAX), self.limit as usize)?;
        Ok(timeline_document(&row, &entries, date, str::to_owned))
    }
}

fn print(document: &Value) {
    let word = |value: &Value| Line(value.as_str().unwrap_or_default()).to_string();
    let woken = |value: &Value| format!("{} {}", word(&value["by"]), word(&value["name"])).trim().to_owned();
    let mut table = tables::timeline();
    let older = document["older"].as_u64().unwrap_or(0);
    let next = document["next_cursor"].as_str();
    if older == 0 && next.is_none() {
        table.add_row([word(&document["started"]), "started".to_owned()]);
    }
    for entry in document["entries"].as_array().into_iter().flatten() {
        let ran = entry["duration_us"].as_u64().map(time).unwrap_or_default();
        let [at, what, about] = ["at", "what", "about"].map(|field| word(&entry[field]));
        table.add_row([at, what, woken(&entry["woken"]), ran, about]);
    }
    let running = &document["running"];
    if running.is_object() {
        let since = format!("since {}", word(&running["began"]));
        table.add_row([String::new(), "running".to_owned(), woken(&running["woken"]), String::new(), since]);
    }
    output::text(format_args!("{}\n", table::text(&table)));
    match next {
        Some(next) => output::note(format_args!("monohull: there are earlier ones: --before {}", Line(next))),
        None if older > 0 => output::note(format_args!("monohull: {older} earlier ones are not kept any more")),
        None => {}
    }
}
