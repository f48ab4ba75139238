//! `monohull migrate`: moves the invocations of older versions of a workflow to the registered one.

use clap::Args;
use hyper::Method;
use monohull_report::escape::Line;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::client::{Client, ClientError, Server};
use super::exit::Exit;

/// Move invocations of older versions of a workflow to the registered version
///
/// Each begins at the beginning of the new version, with its id, its inputs and its events, and with what it had published. It is moved if it
/// comes to its first wait or ends well there; else it stays where it is.
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!("monohull migrate counter --dry-run", "monohull migrate counter --id visits"))]
pub(super) struct Migrate {
    /// The name of the workflow
    workflow: String,
    /// Only this invocation
    #[arg(long)]
    id: Option<String>,
    /// Only the invocations of this version, as `monohull versions` lists it
    #[arg(long, value_name = "VERSION", conflicts_with = "id")]
    from: Option<String>,
    /// Only try the new version. What functions do outside of the workflow happens
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

impl Migrate {
    pub(super) fn run(&self) -> Exit {
        match self.migrate() {
            Ok(true) => Exit::Done,
            Ok(false) => Exit::WorkflowFailed,
            Err(error) => error.report(self.json),
        }
    }

    /// Whether none has failed.
    fn migrate(&self) -> Result<bool, ClientError> {
        let client = Client::new(&self.server)?;
        let path = format!("/workflows/{}/migrate", utf8_percent_encode(&self.workflow, NON_ALPHANUMERIC));
        let mut order = json!({ "dry_run": self.dry_run });
        let named = [("id", &self.id), ("from", &self.from)];
        for (name, value) in named.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
            order[name] = value.as_str().into();
        }
        let (mut all, mut is_well) = (Vec::new(), true);
        loop {
            let body = order.to_string().into_bytes();
            let mut page = client.send(Method::POST, &path, Some("application/json"), body)?.json()?;
            let results = page["results"].as_array().cloned().unwrap_or_default();
            is_well &= results.iter().all(|result| result["came"] != "failed");
            if !self.json {
                results.iter().for_each(print);
            }
            all.extend(results);
            match page["next_cursor"].take() {
                Value::Null if self.json => {
                    page["results"] = all.into();
                    if let Some(page) = page.as_object_mut() {
                        page.remove("next_cursor");
                    }
                    super::output::json(&page);
                    return Ok(is_well);
                }
                Value::Null => {
                    if all.is_empty() {
                        super::output::text("no invocation is in an older version\n");
                    }
                    return Ok(is_well);
                }
                cursor => order["cursor"] = cursor,
            }
        }
    }
}

fn print(result: &Value) {
    let text = |field: &str| Line(result[field].as_str().unwrap_or_default()).to_string();
    let came = match result["came"].as_str() {
        Some("migrated") => "migrated".to_owned(),
        Some("possible") => "can be migrated".to_owned(),
        Some("same") => "is in this version already".to_owned(),
        _ => format!("stays in its version: {}", text("reason")),
    };
    super::output::text(format_args!("{}: {came}\n", text("id")));
}
