//! `monohull schedule` and `unschedule`: workflows that a server starts at times of a cron expression.

use std::ffi::OsStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::{Args, ValueEnum};
use hyper::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::client::{Client, ClientError, Server, read};
use super::exit::Exit;
use super::slots::one_standard_input;
use monohull_report::escape::{Line, shown};

/// Let a server start a workflow at times of a cron expression
///
/// Each due time has one invocation, called NAME-YYYYMMDDTHHMMZ. `monohull list schedules` lists what is defined.
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!(
    "monohull schedule monthly report --cron '0 6 1 * *' --zone Europe/Berlin --missed once"
))]
pub(super) struct Schedule {
    /// The schedule's name
    name: String,
    /// The name of a registered workflow
    workflow: String,
    /// Minute, hour, day of the month, month, day of the week
    #[arg(long, value_name = "EXPRESSION")]
    cron: String,
    /// The time zone of the expression
    #[arg(long, default_value = "UTC")]
    zone: String,
    /// What becomes of times at which no server ran
    #[arg(long, value_enum, default_value_t)]
    missed: Missed,
    /// A file that is an input of each invocation, or alone the workflow's one input; the server keeps its content
    #[arg(long = "input", value_name = "SLOT=FILE")]
    inputs: Vec<String>,
    /// Start nothing for now
    #[arg(long)]
    paused: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

/// What becomes of missed times.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Missed {
    /// Nothing.
    #[default]
    Skip,
    /// One invocation, for the last of them.
    Once,
    /// An invocation for each of them.
    All,
}

impl Missed {
    const fn name(self) -> &'static str {
        match self {
            Missed::Skip => "skip",
            Missed::Once => "once",
            Missed::All => "all",
        }
    }
}

impl Schedule {
    pub(super) fn run(&self) -> Exit {
        match self.define() {
            Ok(shown) => {
                if self.json {
                    super::output::json(&shown);
                } else {
                    let next = shown["next"].as_str().map_or("paused".into(), |next| format!("next {}", Line(next)));
                    super::output::text(format_args!("{}: {next}\n", Line(&self.name)));
                }
                Exit::Done
            }
            Err(error) => error.report(self.json),
        }
    }

    fn define(&self) -> Result<Value, ClientError> {
        let paths = self.inputs.iter().filter_map(|input| input.split_once('=')).map(|(_, path)| OsStr::new(path));
        one_standard_input(paths).map_err(|why| ClientError::Usage(why.to_owned()))?;
        let client = Client::new(&self.server)?;
        let mut inputs = Map::new();
        for input in &self.inputs {
            let only;
            let (slot, path) = match input.split_once('=') {
                Some(named) => named,
                None => {
                    only = self.only_input(&client, input)?;
                    (only.as_str(), input.as_str())
                }
            };
            let content = json!({ "base64": BASE64.encode(read(path.as_ref())?) });
            if inputs.insert(slot.to_owned(), content).is_some() {
                return Err(ClientError::Usage(format!("slot {slot} is given twice")));
            }
        }
        let order = json!({
            "workflow": self.workflow,
            "cron": self.cron,
            "zone": self.zone,
            "missed": self.missed.name(),
            "inputs": inputs,
            "paused": self.paused,
        });
        let body = order.to_string().into_bytes();
        client.send(Method::PUT, &path(&self.name), Some("application/json"), body)?.json()
    }

    /// The slot of a file that stands alone: the only input slot of the workflow.
    fn only_input(&self, client: &Client, file: &str) -> Result<String, ClientError> {
        let name = utf8_percent_encode(&self.workflow, NON_ALPHANUMERIC);
        let document = client.get(&format!("/workflows/{name}"))?.json()?;
        let slots = document["inputs"].as_array().map(Vec::as_slice).unwrap_or_default();
        match slots {
            [only] => Ok(only.as_str().or(only["slot"].as_str()).unwrap_or_default().to_owned()),
            several => Err(ClientError::Usage(format!(
                "an input is SLOT=FILE, and {} has no slot: the workflow has {} input slots",
                shown(file),
                several.len()
            ))),
        }
    }
}

/// Remove a schedule of a server; what it has started goes on
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!("monohull unschedule monthly"))]
pub(super) struct Unschedule {
    /// The schedule's name
    name: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

impl Unschedule {
    pub(super) fn run(&self) -> Exit {
        let removed = Client::new(&self.server)
            .and_then(|client| client.send(Method::DELETE, &path(&self.name), None, Vec::new()).map(drop));
        match removed {
            Ok(()) if self.json => super::output::json(&json!({ "schedule": self.name })),
            Ok(()) => super::output::text(format_args!("{}: removed\n", Line(&self.name))),
            Err(error) => return error.report(self.json),
        }
        Exit::Done
    }
}

fn path(name: &str) -> String {
    format!("/schedules/{}", utf8_percent_encode(name, NON_ALPHANUMERIC))
}
