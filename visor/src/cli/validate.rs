//! `monohull validate`: everything that is wrong with a workflow file, at once.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::exit::Exit;
use crate::workflow::{self, Checked, Level, Mistake};

/// Check a workflow file and report the mistakes in it, all of them up to a hundred
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
        let checked = match workflow::check_file(&self.file) {
            Ok(checked) => checked,
            Err(error) => return super::fail(Exit::Usage, &error),
        };
        let valid = checked.plan.is_some();
        if self.json {
            let status = if valid { "valid" } else { "invalid" };
            let (mistakes, more) = workflow::first_mistakes(&checked.mistakes);
            super::print_json(&Verdict { status, file: &self.file, mistakes, more });
        } else {
            self.show(&checked);
        }
        if valid { Exit::Done } else { Exit::Usage }
    }

    fn show(&self, checked: &Checked) {
        let (shown, more) = workflow::first_mistakes(&checked.mistakes);
        for mistake in shown {
            eprintln!("{mistake}");
        }
        if more > 0 {
            eprintln!("… and {more} more");
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
