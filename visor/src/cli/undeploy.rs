//! `monohull undeploy`: removes a workflow from a server, and the functions that `monohull deploy` registered for it.

use clap::Args;
use hyper::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::client::{Client, ClientError, Server};
use super::deploy::is_name_for;
use super::exit::Exit;

/// Remove a workflow from a server, with the functions that deploy registered for it
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!("monohull undeploy word-count"))]
pub(super) struct Undeploy {
    /// The workflow's name
    name: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

impl Undeploy {
    pub(super) fn run(&self) -> Exit {
        match self.undeploy() {
            Ok(done) => {
                if self.json {
                    super::output::json(&done);
                } else {
                    let names = done["functions"].as_array().map_or(0, Vec::len);
                    super::output::text(format_args!("{}: removed (functions: {names})\n", self.name));
                }
                Exit::Done
            }
            Err(error) => error.report(self.json),
        }
    }

    fn undeploy(&self) -> Result<Value, ClientError> {
        let client = Client::new(&self.server)?;
        let listed = client.get("/workflows")?.json()?;
        let workflow = listed["workflows"].as_array().into_iter().flatten().find(|known| known["name"] == *self.name);
        let functions = workflow.and_then(|workflow| workflow["functions"].as_array()).cloned().unwrap_or_default();
        // The workflow first: the server keeps functions that a workflow uses, and so those that others share.
        remove(&client, "workflows", &self.name)?;
        let mut removed = Vec::new();
        for function in functions.iter().filter_map(Value::as_str).filter(|name| is_name_for(&self.name, name)) {
            match remove(&client, "functions", function) {
                Ok(()) => removed.push(function),
                Err(ClientError::Refused { status: StatusCode::CONFLICT | StatusCode::NOT_FOUND, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(json!({ "workflow": self.name, "functions": removed }))
    }
}

fn remove(client: &Client, kind: &str, name: &str) -> Result<(), ClientError> {
    let path = format!("/{kind}/{}", utf8_percent_encode(name, NON_ALPHANUMERIC));
    client.send(Method::DELETE, &path, None, Vec::new()).map(drop)
}
