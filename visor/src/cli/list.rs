//! `monohull list`: what a server knows, and what it has done lately.

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::client::{Client, ClientError, Server};
use super::exit::Exit;
use super::table;
use monohull_report::escape::Line;

/// List the workflows, functions, invocations or schedules of a server
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!("monohull list", "monohull list invocations --json"))]
pub(super) struct List {
    /// What to list
    #[arg(value_enum, default_value_t)]
    what: What,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum What {
    #[default]
    Workflows,
    Functions,
    Invocations,
    Schedules,
}

impl What {
    /// Its path, and the fields of the JSON that become columns.
    const fn columns(self) -> (&'static str, &'static [&'static str]) {
        match self {
            What::Workflows => ("workflows", &["name", "steps", "functions", "inputs", "outputs", "missing"]),
            What::Functions => ("functions", &["name", "bytes", "image", "workflows"]),
            What::Schedules => {
                ("schedules", &["name", "workflow", "cron", "zone", "missed", "paused", "next", "reason"])
            }
            What::Invocations => ("invocations", &["id", "workflow", "call_id", "mode", "status", "duration_us"]),
        }
    }
}

impl List {
    pub(super) fn run(&self) -> Exit {
        match self.list() {
            Ok(()) => Exit::Done,
            Err(error) => error.report(self.json),
        }
    }

    fn list(&self) -> Result<(), ClientError> {
        let (what, columns) = self.what.columns();
        let listed = Client::new(&self.server)?.get(&format!("/{what}"))?.json()?;
        if self.json {
            super::output::json(&listed);
            return Ok(());
        }
        let mut table = table::new(columns);
        for entry in listed[what].as_array().into_iter().flatten() {
            table.add_row(columns.iter().map(|column| cell(&entry[*column])));
        }
        super::output::text(format_args!("{}\n", table::text(&table)));
        Ok(())
    }
}

/// A value for people.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => Line(text).to_string(),
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
