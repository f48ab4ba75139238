//! `monohull result`: what came of a durable invocation.

use super::super::client::Client;
use super::super::exit::Exit;
use super::super::output::{self, Data};
use super::super::{concat_help, show, slots, suspend};
use super::started_with::Start;
use super::{Place, Trouble, Where, leg, remote};
use clap::Args;
use monohull_durable::{Invocation, InvocationId, Meta, Status, Store};
use monohull_engine::output_file;
use monohull_report::RunReport;
use monohull_report::escape::{Line, shown};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// How often a state folder is looked at for an end.
const LOOK: Duration = Duration::from_millis(100);

/// Show what came of a durable invocation
///
/// Of a server's it prints the output slot. In a state folder it names the files of outputs, and prints the beginning of those that have none. It ends with 1 if the invocation has failed or was
/// cancelled, and with 4 if it has not ended.
#[derive(Debug, Args)]
#[command(after_help = concat_help!("monohull result order-17 --wait --server http://127.0.0.1:7070", "monohull result order-17 --state sleepers --json"))]
pub(in super::super) struct Result {
    /// The invocation
    id: InvocationId,
    #[command(flatten)]
    place: Where,
    /// Wait for its end, unless it is paused
    #[arg(long)]
    wait: bool,
    /// Which output slot, if there are several; of a server's invocation
    #[arg(long, conflicts_with_all = ["folder", "state_key"])]
    slot: Option<String>,
    /// Write the output to a file instead of standard output, or as SLOT=FILE; of a server's invocation
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "folder", "state_key"])]
    output: Option<OsString>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Result {
    pub(in super::super) fn run(&self) -> Exit {
        let shown = self.place.open().and_then(|place| match place {
            Place::Folder(store) => self.of_folder(&store),
            Place::Server(client) => self.of_server(&client),
        });
        shown.unwrap_or_else(|trouble| self.place.at(trouble).report(self.json))
    }

    fn of_folder(&self, store: &Store) -> std::result::Result<Exit, Trouble> {
        let mut meta = store.meta()?;
        let row = loop {
            store.expire_the_dead(&mut meta)?;
            let row = meta.get(&self.id)?.ok_or_else(|| Trouble::Unknown(self.id.clone()))?;
            if !self.wait || row.status.is_end() || row.status == Status::Paused {
                break row;
            }
            thread::sleep(LOOK);
        };
        self.print(&row);
        Ok(match row.status {
            Status::Completed => Exit::Done,
            Status::Failed | Status::Cancelled => Exit::WorkflowFailed,
            _ => Exit::Suspended,
        })
    }

    fn print(&self, row: &Invocation) {
        let outputs = Start::decode(&row.start).filter(|_| row.status == Status::Completed);
        let outputs = outputs.map(|start| start.outputs).unwrap_or_default();
        let report: Option<RunReport> = row.report.as_ref().and_then(|bytes| serde_json::from_slice(bytes).ok());
        if self.json {
            let outputs = outputs.iter().map(|(slot, path)| (slot.clone(), json!(path.to_string_lossy())));
            let mut document = leg::describe(row);
            document["outputs"] = Value::Object(outputs.collect());
            document["report"] = json!(report);
            output::json(&document);
            return;
        }
        output::text(format_args!("{}: {}\n", row.id, row.status.name()));
        match (row.status, report) {
            (Status::Completed, report) => {
                for (slot, path) in &outputs {
                    output::text(format_args!("{:<12}{}\n", shown(slot).to_string(), shown(path)));
                }
                // The others are in the report, as far as it has them.
                let mut others = report.map(|report| report.output).unwrap_or_default();
                others.retain(|slot, _| !outputs.iter().any(|(kept, _)| kept == slot));
                output::text(show::outputs(&others));
            }
            (_, Some(report)) => {
                suspend::print(&report, false);
            }
            _ => {}
        }
    }

    fn of_server(&self, client: &Client) -> std::result::Result<Exit, Trouble> {
        let (chosen, file) = self.wanted()?;
        if let Some(path) = file {
            output_file::check(path).map_err(|why| Trouble::Usage(format!("--output: {why}")))?;
        }
        let document = remote::ended(client, &self.id, self.wait)?;
        let status = document["status"].as_str().unwrap_or_default();
        match status {
            "completed" => {}
            "failed" | "cancelled" => return Err(remote::failure(document).into()),
            _ => {
                if self.json {
                    output::json(&document);
                } else {
                    output::note(format_args!("monohull: invocation {} is {}", self.id, Line(status)));
                }
                return Ok(Exit::Suspended);
            }
        }
        if self.json {
            output::json(&document);
            return Ok(Exit::Done);
        }
        let slots = document["result"].as_object().cloned().unwrap_or_default();
        let slot = match (chosen, slots.len()) {
            (Some(slot), _) => slot.to_owned(),
            (None, 0) => return Ok(Exit::Done),
            (None, 1) => slots.keys().next().cloned().unwrap_or_default(),
            (None, _) => {
                let names: Vec<_> = slots.keys().map(String::as_str).collect();
                let names = shown(&names.join(", ")).to_string();
                return Err(Trouble::Usage(format!("it has several outputs: --slot is one of {names}")));
            }
        };
        let at = remote::path(&self.id, &format!("/outputs/{}", remote::encoded(&slot)));
        match file {
            Some(path) => {
                let bytes = client.get(&at)?.body;
                let unwritten = |why| Trouble::Usage(format!("--output: {why}"));
                output_file::write_whole(path, |file| file.write_all(&bytes)).map_err(unwritten)?;
            }
            None => {
                let mut to = Data::for_programs(false);
                client.stream(&at, &mut |piece| {
                    let _ = to.put(piece);
                    Ok(())
                })?;
                to.finish();
            }
        }
        Ok(Exit::Done)
    }

    /// Which output slot is wanted, if that is said, and the file that it goes to, if that is not standard output.
    fn wanted(&self) -> std::result::Result<(Option<&str>, Option<&Path>), Trouble> {
        let chosen = self.slot.as_deref();
        let Some(to) = &self.output else { return Ok((chosen, None)) };
        let (slot, path) = slots::of_output(to, chosen).map_err(|why| Trouble::Usage(why.to_owned()))?;
        Ok((slot, Some(path).filter(|path| path.as_os_str() != "-")))
    }
}
