//! `monohull validate`: everything that is wrong with a workflow file, at once.

use std::path::PathBuf;

use clap::Args;
use hyper::Method;
use serde::Serialize;

use super::client::{Client, ClientError, Server, read};
use super::exit::Exit;
use crate::workflow::{self, Checked, Level, Mistake};

/// Check a workflow file and report all mistakes in it; with --server also what that server would refuse
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!(
    "monohull validate workflows/word-count.json",
    "monohull validate --server http://127.0.0.1:7070 workflows/word-count.json"
))]
pub(super) struct Validate {
    /// The workflow file
    file: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: Server,
}

#[derive(Serialize)]
struct Verdict<'a> {
    status: &'static str,
    file: &'a PathBuf,
    mistakes: &'a [Mistake],
}

impl Validate {
    pub(super) fn run(&self) -> Exit {
        let checked = match workflow::check_file(&self.file) {
            Ok(checked) => checked,
            Err(error) => return super::fail(Exit::Usage, &error),
        };
        let valid = checked.plan.is_some();
        if valid
            && self.server.is_named()
            && let Err(error) = self.ask()
        {
            return error.tell(self.json);
        }
        if self.json {
            let status = if valid { "valid" } else { "invalid" };
            super::print_json(&Verdict { status, file: &self.file, mistakes: &checked.mistakes });
        } else {
            self.show(&checked);
        }
        if valid { Exit::Done } else { Exit::Usage }
    }

    /// Asks the server whether it would take the workflow and grants what it uses.
    fn ask(&self) -> Result<(), ClientError> {
        let document = read(&self.file)?;
        let client = Client::new(&self.server)?;
        client.send(Method::POST, "/validate", Some("application/json"), document).map(drop)
    }

    fn show(&self, checked: &Checked) {
        for mistake in &checked.mistakes {
            eprintln!("{mistake}");
        }
        match &checked.plan {
            Some(plan) => super::print(&format!(
                "{}: workflow `{}` is valid (steps: {}, functions: {})\n",
                self.file.display(),
                plan.name,
                plan.steps.len(),
                plan.functions.len()
            )),
            None => {
                let errors = checked.mistakes.iter().filter(|mistake| mistake.level == Level::Error).count();
                let plural = if errors == 1 { "mistake" } else { "mistakes" };
                eprintln!("{}: {errors} {plural}; the workflow file is at fault", self.file.display());
            }
        }
    }
}
