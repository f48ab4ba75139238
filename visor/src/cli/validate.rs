//! `monohull validate`: everything that is wrong with a workflow file, at once.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::exit::Exit;
use crate::escape::shown;
use crate::workflow::{self, Checked, Level, Mistake};

/// Check a workflow file and report all mistakes in it
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!("monohull validate workflows/word-count.json"))]
pub(super) struct Validate {
    /// The workflow file
    file: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
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
        if self.json {
            let status = if valid { "valid" } else { "invalid" };
            super::output::json(&Verdict { status, file: &self.file, mistakes: &checked.mistakes });
        } else {
            self.show(&checked);
        }
        if valid { Exit::Done } else { Exit::Usage }
    }

    fn show(&self, checked: &Checked) {
        for mistake in &checked.mistakes {
            super::output::note(mistake);
        }
        match &checked.plan {
            Some(plan) => super::output::text(format_args!(
                "{}: workflow `{}` is valid (steps: {}, functions: {})\n",
                shown(&self.file),
                plan.name,
                plan.steps.len(),
                plan.functions.len()
            )),
            None => {
                let errors = checked.mistakes.iter().filter(|mistake| mistake.level == Level::Error).count();
                let plural = if errors == 1 { "mistake" } else { "mistakes" };
                let file = shown(&self.file);
                super::output::note(format_args!("{file}: {errors} {plural}; the workflow file is at fault"));
            }
        }
    }
}
