//! `monohull deploy`: gives a workflow file and its images to a server.

use std::path::{Path, PathBuf};

use clap::Args;
use hyper::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::build::BuildError;
use super::client::{Client, ClientError, Server, read};
use super::exit::Exit;
use super::mistakes::placed;
use super::programs::image_of;
use super::wasm::{Level, Wanted};
use monohull_ipc::sealed::read_sealed;
use monohull_report::escape::shown;
use monohull_workflow::plan::registered_name;
use monohull_workflow::{self as workflow, Blame, Making, Places, WorkflowError};

/// Give a workflow file and its images to a server
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!("monohull deploy workflows/word-count.json"))]
pub(super) struct Deploy {
    /// The workflow file, `-` for standard input; its images become functions called WORKFLOW-FUNCTION
    file: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// The level of the processors that WebAssembly programs of the file are compiled for. An image is sent as it is
    #[arg(long, value_name = "LEVEL", default_value_t = Level::V2, value_enum)]
    cpu: Level,
    #[command(flatten)]
    server: Server,
}

/// The file cannot be given to a server.
#[derive(Debug, thiserror::Error)]
enum DeployError {
    /// the file is wrong
    #[error(transparent)]
    Workflow(#[from] WorkflowError),
    /// a program cannot be compiled
    #[error(transparent)]
    Program(#[from] BuildError),
    /// the server
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Deploy {
    pub(super) fn run(&self) -> Exit {
        match self.deploy() {
            Ok(done) => {
                if self.json {
                    super::output::json(&done);
                } else {
                    let names = done["functions"].as_array().map_or(0, Vec::len);
                    let name = done["workflow"].as_str().unwrap_or_default();
                    super::output::text(format_args!("{name}: deployed (functions: {names})\n"));
                    if let Some(older @ 1..) = done["older"].as_u64() {
                        super::output::text(format_args!(
                            "{name}: invocations that go on in older versions: {older}\n"
                        ));
                    }
                }
                Exit::Done
            }
            Err(DeployError::Workflow(error)) => {
                let wrong = matches!(error, WorkflowError::Mistakes { .. });
                super::refuse(self.json, Exit::Usage, if wrong { "workflow" } else { "invocation" }, &error)
            }
            Err(DeployError::Program(error)) => {
                let blame = if error.blame() == Blame::Workflow { "workflow" } else { "function" };
                super::refuse(self.json, error.exit(), blame, &error)
            }
            Err(DeployError::Client(error)) => error.report(self.json),
        }
    }

    fn deploy(&self) -> Result<Value, DeployError> {
        let bytes = workflow::read_file(&self.file)?;
        let checked = workflow::check_bytes(&self.file, &bytes);
        if checked.plan.is_some() {
            workflow::first_mistakes(&checked.mistakes).0.iter().for_each(super::output::note);
        }
        let plan = checked.into_plan()?;
        let text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
        let unreadable = |error: serde_json::Error| ClientError::Answer(format!("{}: {error}", shown(&self.file)));
        let mut document: Value = serde_json::from_slice(text).map_err(unreadable)?;
        let client = Client::new(&self.server)?;
        // Before anything is replaced: a workflow that runs keeps its functions if its new document is refused.
        let validated = client.send(Method::POST, "/validate", Some("application/json"), text.to_vec());
        validated.map_err(|error| placed(error, &self.file, |line, column| (line, column)))?;
        let folder = self.file.parent().unwrap_or(Path::new(""));
        // All of them are read, and compiled where they are programs, before any is sent: a program that does not compile changes
        // nothing on the server.
        let mut images = Vec::new();
        let wanted = Wanted { level: self.cpu, known: None };
        // A part that is not there stays away: indexing would put a null in its place.
        for (function, entry) in document.get_mut("functions").and_then(Value::as_object_mut).into_iter().flatten() {
            let image = PathBuf::from(entry["image"].as_str().unwrap_or_default());
            if registered_name(&image).is_some() {
                continue;
            }
            let image = folder.join(&image);
            // A server gets ordinary images and never runs the compiler.
            let making = Making { target: taken(entry, "target"), checks: taken(entry, "checks") };
            let bytes = match image_of(&image, making, wanted)? {
                Some((memory, _)) => {
                    read_sealed(memory, u64::MAX).map_err(|source| BuildError::File { path: image.clone(), source })?
                }
                None => read(&image)?,
            };
            let hash = format!("{:x}", Sha256::digest(&bytes));
            let name = name_for(&plan.name, function, &hash);
            entry["image"] = format!("function:{name}").into();
            images.push((name, hash, bytes));
        }
        let mut functions = Vec::new();
        for (name, hash, bytes) in images {
            let sent = put(&client, &name, &hash, bytes)?;
            functions.push(json!({ "name": name, "image": format!("sha256:{hash}"), "sent": sent }));
        }
        for input in document.get_mut("inputs").and_then(Value::as_array_mut).into_iter().flatten() {
            if input.as_object_mut().is_some_and(|input| input.remove("path").is_some()) {
                super::output::note(format_args!(
                    "input slot {}: its file stays here; each invocation brings the content",
                    input["slot"]
                ));
            }
        }
        let path = format!("/workflows/{}", plan.name);
        let sent = format!("{document:#}");
        let put = client.send(Method::PUT, &path, Some("application/json"), sent.clone().into_bytes());
        put.map_err(|error| {
            let places = Places::new(&sent, &String::from_utf8_lossy(text));
            placed(error, &self.file, |line, column| places.in_file(line, column))
        })?;
        // The number of those that have not ended in versions before this one. Earlier servers do not say.
        let versions = client.get(&format!("{path}/versions")).and_then(|reply| reply.json());
        let older = versions.ok().and_then(|versions| versions["older"].as_u64());
        Ok(json!({ "workflow": plan.name, "functions": functions, "older": older }))
    }
}

/// Takes a field out of a function of the document; what is not there is the default.
fn taken<T: DeserializeOwned + Default>(entry: &mut Value, name: &str) -> T {
    let value = entry.as_object_mut().and_then(|entry| entry.remove(name));
    value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
}

/// Registers an image unless the server has it; whether it was sent.
fn put(client: &Client, name: &str, hash: &str, bytes: Vec<u8>) -> Result<bool, ClientError> {
    let path = format!("/functions/{name}");
    let known = client.get(&path).and_then(|reply| reply.json());
    if known.is_ok_and(|known| known["image"] == format!("sha256:{hash}")) {
        return Ok(false);
    }
    client.send(Method::PUT, &path, Some("application/octet-stream"), bytes).map(|_| true)
}

/// What a function of a workflow is called on a server, so that workflows do not replace each other's. The last `-` ends the
/// workflow's name; where the function's own has one too, a digest of both says which names these were. What is too long
/// is called by the hash of its image.
fn name_for(workflow: &str, function: &str, hash: &str) -> String {
    let mut name = format!("{workflow}-{function}");
    if function.contains('-') {
        let both = Sha256::digest(format!("{workflow}/{function}"));
        name.push_str(&format!("-{:x}", both)[..9]);
    }
    if workflow::is_name(&name) { name } else { format!("f-{}", &hash[..40]) }
}

/// Whether a function may be one that [`Deploy`] has registered for a workflow.
pub(super) fn is_name_for(workflow: &str, function: &str) -> bool {
    let hash = function.strip_prefix("f-");
    let is_hash = hash.is_some_and(|hash| hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_hash || function.strip_prefix(workflow).is_some_and(|rest| rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_different_workflows_have_different_names() {
        let hash = "0".repeat(64);
        assert_eq!(name_for("word-count", "map", &hash), "word-count-map");
        assert_ne!(name_for("a", "b-c", &hash), name_for("a-b", "c", &hash));
        assert_ne!(name_for("a", "b-c-d", &hash), name_for("a-b", "c-d", &hash));
        for (workflow, function) in [("w", "no-op"), (&*"w".repeat(40), &*"f".repeat(40))] {
            let name = name_for(workflow, function, &hash);
            assert!(workflow::is_name(&name), "{name}");
            assert!(is_name_for(workflow, &name) && !is_name_for("other", "w-no-op"), "{name}");
        }
    }
}
