//! `monohull validate`: everything that is wrong with a workflow file, at once, and with what it refers to on this host.
//!
//! An image is judged by the loader itself, and a disk image and a directory are opened as a run opens them: what passes here is
//! not refused there.

use std::path::{Path, PathBuf};

use clap::Args;
use hyper::Method;
use serde::Serialize;

use super::client::{Client, ClientError, Server};
use super::exit::Exit;
use super::imports;
use super::mistakes::placed;
use super::programs::image_of;
use super::wasm::Wanted;
use monohull_domain::image;
use monohull_engine::mounts;
use monohull_host_files::input::{self, InputError};
use monohull_report::escape::{json_path, shown};
use monohull_workflow::{self as workflow, Blame, Checked, Level, Making, Mistake, Plan, Reference};

/// Check a workflow file and what it refers to, and report the mistakes, all up to a hundred; with --server what that server would
/// refuse
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!(
    "monohull validate workflows/word-count.json",
    "monohull validate --server http://127.0.0.1:7070 workflows/word-count.json"
))]
pub(super) struct Validate {
    /// The workflow file, `-` for standard input
    file: PathBuf,
    /// Check the file alone, and not the images, disk images, directories and input files that it names
    #[arg(long, conflicts_with = "server")]
    file_only: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

#[derive(Serialize)]
struct Verdict<'a> {
    status: &'static str,
    #[serde(serialize_with = "json_path")]
    file: &'a PathBuf,
    mistakes: Vec<&'a Mistake>,
    /// How many mistakes there are besides those.
    #[serde(skip_serializing_if = "is_zero")]
    more: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Validate {
    pub(super) fn run(&self) -> Exit {
        if let Some(option) = self.server.option_without_server() {
            let why = format!("{option} is for --server, which asks a server");
            return super::refuse(self.json, Exit::Usage, "invocation", &why);
        }
        let bytes = match workflow::read_file(&self.file) {
            Ok(bytes) => bytes,
            Err(error) => return super::refuse(self.json, Exit::Usage, "invocation", &error),
        };
        let mut checked = workflow::check_bytes(&self.file, &bytes);
        if checked.plan.is_some() && self.server.is_named() {
            if let Err(error) = self.ask(bytes) {
                return error.report(self.json);
            }
        } else if let (Some(plan), false) = (&checked.plan, self.file_only) {
            checked.mistakes.extend(workflow::references(&self.file, &bytes, plan, judge));
        }
        let errors = checked.mistakes.iter().filter(|mistake| mistake.level == Level::Error).count();
        if self.json {
            let status = if errors == 0 { "valid" } else { "invalid" };
            let (mistakes, more) = workflow::first_mistakes(&checked.mistakes);
            super::output::json(&Verdict { status, file: &self.file, mistakes, more });
        } else {
            self.show(&checked, errors);
        }
        if errors == 0 { Exit::Done } else { Exit::Usage }
    }

    /// Asks the server whether it would take the workflow and grants what it uses.
    fn ask(&self, document: Vec<u8>) -> Result<(), ClientError> {
        let client = Client::new(&self.server)?;
        let asked = client.send(Method::POST, "/validate", Some("application/json"), document);
        asked.map(drop).map_err(|error| placed(error, &self.file, |line, column| (line, column)))
    }

    fn show(&self, Checked { plan, mistakes }: &Checked, errors: usize) {
        let (first, more) = workflow::first_mistakes(mistakes);
        first.iter().for_each(super::output::note);
        if more > 0 {
            super::output::note(format_args!("… and {more} more"));
        }
        let file = shown(&self.file);
        match plan {
            Some(Plan { name, steps, functions, .. }) if errors == 0 => super::output::text(format_args!(
                "{file}: workflow `{name}` is valid (steps: {}, functions: {})\n",
                steps.len(),
                functions.len()
            )),
            _ => {
                let plural = if errors == 1 { "mistake" } else { "mistakes" };
                let of_the_file = mistakes.iter().all(|mistake| mistake.blame == Blame::Workflow);
                let culprit =
                    if of_the_file { "the workflow file" } else { "the workflow file, or an image it names," };
                super::output::note(format_args!("{file}: {errors} {plural}; {culprit} is at fault"));
            }
        }
    }
}

/// What is wrong with something that a workflow file refers to, and the party at fault.
fn judge(reference: Reference<'_>) -> Result<(), (Blame, String)> {
    match reference {
        Reference::Function { name, image, making } => judge_image(name, image, making),
        Reference::Mount(mount) => mounts::inspect(mount).map_err(|message| (Blame::Workflow, message)),
        Reference::Input(path) => match input::open(path) {
            Ok(_) => Ok(()),
            Err(error) => Err((Blame::Workflow, format!("the input file {}: {error}", shown(path)))),
        },
    }
}

/// A judgement of one image.
type Judge = fn(&str, &Path, Making) -> Result<(), (Blame, String)>;

/// What is wrong with the images that a workflow file names, at its places. Those that were made of programs have been looked at.
pub(super) fn image_mistakes(file: &Path, bytes: &[u8], plan: &Plan, judge: Judge) -> Vec<Mistake> {
    let is_made =
        |name: &str| plan.functions.iter().any(|function| function.name == name && function.made_of.is_some());
    workflow::references(file, bytes, plan, |reference| match reference {
        Reference::Function { name, image, making } if !is_made(name) => judge(name, image, making),
        _ => Ok(()),
    })
}

/// Whether an image is there. What is in it is not looked at.
pub(super) fn is_there(_: &str, path: &Path, _: Making) -> Result<(), (Blame, String)> {
    input::open_regular(path, false).map(drop).map_err(|error| unread(path, &error))
}

fn unread(path: &Path, error: &InputError) -> (Blame, String) {
    (Blame::Workflow, format!("the image {}: {error}; `monohull build` makes one from a crate", shown(path)))
}

pub(super) fn judge_image(name: &str, path: &Path, making: Making) -> Result<(), (Blame, String)> {
    match image_of(path, making, Wanted::here()) {
        Ok(None) => {}
        Ok(Some(_)) => return Ok(()),
        Err(error) => return Err((error.blame(), error.to_string())),
    }
    let bytes = input::read_regular(path, input::FILE_MAX).map_err(|error| unread(path, &error))?;
    image::verify(name, &bytes).map(drop).map_err(|error| {
        let explanation = imports::explain(&error, &bytes).map(|text| format!("\n{text}")).unwrap_or_default();
        (Blame::Function, format!("the image {} is refused: {error}{explanation}", shown(path)))
    })
}
