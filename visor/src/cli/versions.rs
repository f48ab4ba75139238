//! `monohull versions`: the code that the invocations of a workflow are in, and which of them need old code.

use clap::Args;
use monohull_report::escape::Line;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::client::{Client, ClientError, Server};
use super::exit::Exit;

/// Entries of one page.
const PAGE: usize = 1000;
/// The statuses of invocations that need their code.
const NEED_CODE: &str = "pending,running,suspended,paused,failed";

/// List the versions of a workflow that invocations are in
///
/// An invocation ends in the version in which it began. The code of an older version is kept as long as an invocation needs it: one that has not
/// ended, or has failed and can be taken back.
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!("monohull versions approval", "monohull versions approval --invocations"))]
pub(super) struct Versions {
    /// The name of the workflow
    workflow: String,
    /// List the invocations that older versions are kept for
    #[arg(long)]
    invocations: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

impl Versions {
    pub(super) fn run(&self) -> Exit {
        match self.list() {
            Ok(()) => Exit::Done,
            Err(error) => error.report(self.json),
        }
    }

    fn list(&self) -> Result<(), ClientError> {
        let client = Client::new(&self.server)?;
        let workflow = utf8_percent_encode(&self.workflow, NON_ALPHANUMERIC).to_string();
        let mut shown = pages(&client, &format!("/workflows/{workflow}/versions?limit={PAGE}"), "versions")?;
        if self.invocations {
            let mut kept = Vec::new();
            for version in array(&shown["versions"]).filter(|version| version["current"] == false) {
                let name = version["version"].as_str().unwrap_or_default();
                let path = format!("/invocations?workflow={workflow}&version={name}&status={NEED_CODE}&limit={PAGE}");
                let listed = pages(&client, &path, "invocations")?;
                // One that has failed before its first checkpoint cannot be taken back.
                let needs = |row: &&Value| row["status"] != "failed" || !row["checkpoint"].is_null();
                kept.extend(array(&listed["invocations"]).filter(needs).cloned());
            }
            shown = json!({ "workflow": shown["workflow"], "invocations": kept });
        }
        match (self.json, self.invocations) {
            (true, _) => super::output::json(&shown),
            (false, true) => print_invocations(&shown["invocations"]),
            (false, false) => print_versions(&shown["versions"]),
        }
        Ok(())
    }
}

/// A list of which the server gives a page at a time: its last page, with the entries of all.
fn pages(client: &Client, path: &str, entries: &str) -> Result<Value, ClientError> {
    let mut page = client.get(path)?.json()?;
    let mut all: Vec<Value> = array(&page[entries]).cloned().collect();
    while let Some(cursor) = page["next_cursor"].as_str() {
        let cursor = utf8_percent_encode(cursor, NON_ALPHANUMERIC);
        page = client.get(&format!("{path}&cursor={cursor}"))?.json()?;
        all.extend(array(&page[entries]).cloned());
    }
    if let Some(page) = page.as_object_mut() {
        page.insert(entries.to_owned(), all.into());
        page.remove("next_cursor");
    }
    Ok(page)
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A table for terminals of 80 columns.
fn print_versions(versions: &Value) {
    super::output::text(format_args!(
        "{:<19} {:<16} {:>6} {:>4} {:>6} {:>6} {}\n",
        "version (* current)", "deployed", "waits", "runs", "paused", "failed", "next due"
    ));
    for version in array(versions) {
        let mark = if version["current"] == true { "*" } else { "" };
        let name = format!("{}{mark}", version["version"].as_str().unwrap_or_default());
        let of = |status: &str| version["invocations"][status].as_u64().unwrap_or(0);
        super::output::text(format_args!(
            "{:<19} {:<16} {:>6} {:>4} {:>6} {:>6} {}\n",
            Line(name).to_string(),
            minute(&version["deployed"]),
            of("pending") + of("suspended"),
            of("running"),
            of("paused"),
            version["failed"].as_u64().unwrap_or(0),
            minute(&version["due"]),
        ));
    }
}

fn print_invocations(invocations: &Value) {
    super::output::text(format_args!("{:<16} {:<9} {:<16} id\n", "version", "status", "next due"));
    for row in array(invocations) {
        let text = |field: &str| Line(row[field].as_str().unwrap_or_default()).to_string();
        let due = minute(&row["due"]);
        super::output::text(format_args!("{:<16} {:<9} {due:<16} {}\n", text("version"), text("status"), text("id")));
    }
}

/// A time of the server without its seconds, in UTC as all of them; `-` if there is none.
fn minute(time: &Value) -> String {
    let Some(time) = time.as_str() else { return "-".to_owned() };
    let minute = time.get(..16).unwrap_or(time).replace('T', " ");
    Line(minute).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short_and_nothing_acts_on_a_terminal() {
        assert_eq!(minute(&json!("2026-11-24T12:54:20.123Z")), "2026-11-24 12:54");
        assert_eq!(minute(&Value::Null), "-");
        assert!(!minute(&json!("\u{1b}[2J")).contains('\u{1b}'));
    }
}
