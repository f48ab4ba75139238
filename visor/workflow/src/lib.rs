//! The workflow file: what it may hold, how it is checked, and the plan it becomes.
//!
//! A workflow is written by people, so everything here aims at telling them *all* that is wrong, *where*, and what
//! would have been right, before anything runs. What passes is a [`Plan`], in which nothing can be wrong any more.
//!
//! ```text
//!   document   the types as written; the JSON Schema and the manual of every field come from here
//!   bounds     how much a field may ask for, its default, what a text looks like
//!   source     text ⇄ line and column; a mistake           reader   reads one JSON value, notes what is wrong
//!   units      "30s", "64MiB"                              shape    the fields of every object
//!   check      names, cycles, order ──▶ plan               set      arguments from the command line
//!   effects    who handles what is asked for               flow     slots that cannot be filled or taken
//!   files      what the file refers to: reports about it at its place in the text
//!   server     what a check asks a server             grants   what a server's operator gives to workflows
//!   places     from a document made of the file back to the file
//! ```
//!
//! ```
//! use monohull_workflow::load_str;
//! use std::path::Path;
//!
//! let text = r#"{
//!     "name": "hello",
//!     "functions": { "greet": { "image": "greet.so" } },
//!     "steps": [{ "name": "all", "function": "greet" }]
//! }"#;
//! let plan = load_str(Path::new("hello.json"), text)?;
//! assert_eq!(plan.name, "hello");
//!
//! let misspelt = text.replace(r#""steps""#, r#""stpes""#);
//! let error = load_str(Path::new("hello.json"), &misspelt).expect_err("it has no steps");
//! assert!(error.to_string().contains("did you mean `steps`?"));
//! # Ok::<(), monohull_workflow::WorkflowError>(())
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

use std::fmt;
use std::path::{Path, PathBuf};

use monohull_report::escape::shown;

pub mod bounds;
mod check;
pub mod document;
mod effects;
mod files;
mod flow;
pub mod grants;
mod places;
pub mod plan;
mod reader;
mod server;
mod set;
pub mod shape;
mod source;
pub mod units;

pub use check::{Checked, check_bytes, check_registered};
pub use document::schema;
pub use files::{Reference, references};
use monohull_host_files::input::{self, InputError};
pub use places::Places;
pub use plan::{Checks, Making, Plan, Target};
pub use server::{Server, Wanted};
pub use set::SetError;
pub use shape::is_name;
pub use source::{Blame, Level, Mistake};

/// Why a workflow file gives no plan.
#[derive(Debug, thiserror::Error)]
pub enum WorkflowError {
    /// The file cannot be read; the invocation is at fault.
    #[error("cannot read the workflow file {}: {source}{}", shown(path), within(*is_project, path))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: InputError,
        /// It is a folder with a workflow file in it.
        is_project: bool,
    },
    /// The file is wrong; it is at fault itself.
    #[error("{}", Lines(mistakes))]
    Mistakes {
        /// Errors and warnings, in the order of the file; at least one error.
        mistakes: Vec<Mistake>,
    },
}

/// What the workflow file of a new function is called.
const USUAL_FILE: &str = "workflow.json";

/// The workflow file in a folder that was named in its place.
fn within(is_project: bool, folder: &Path) -> String {
    let file = folder.join(USUAL_FILE);
    if is_project { format!("; did you mean {}?", shown(&file)) } else { String::new() }
}

/// The most mistakes of one file that are shown.
pub const MISTAKES_SHOWN: usize = 100;

/// The mistakes that are shown, and how many are not: of very many, the first errors.
pub fn first_mistakes(mistakes: &[Mistake]) -> (Vec<&Mistake>, usize) {
    let errors_only = mistakes.len() > MISTAKES_SHOWN && mistakes.iter().any(|mistake| mistake.level == Level::Error);
    let wanted = mistakes.iter().filter(|mistake| !errors_only || mistake.level == Level::Error);
    let shown: Vec<_> = wanted.take(MISTAKES_SHOWN).collect();
    let more = mistakes.len() - shown.len();
    (shown, more)
}

struct Lines<'a>(&'a [Mistake]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, more) = first_mistakes(self.0);
        for (index, mistake) in shown.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{mistake}")?;
        }
        if more > 0 { write!(f, "\n… and {more} more") } else { Ok(()) }
    }
}

/// Reads and checks a workflow file. Warnings alone do not prevent a plan; [`check_file`] returns them.
pub fn load(path: &Path) -> Result<Plan, WorkflowError> {
    check_file(path)?.into_plan()
}

/// Checks a workflow given as text. `file` is what it is called in messages; relative paths in it count from the
/// folder of that file, which need not exist.
pub fn load_str(file: &Path, text: &str) -> Result<Plan, WorkflowError> {
    check_bytes(file, text.as_bytes()).into_plan()
}

/// Reads a workflow file and finds all that is wrong with it.
pub fn check_file(path: &Path) -> Result<Checked, WorkflowError> {
    Ok(check_bytes(path, &read_file(path)?))
}

/// The bytes of a workflow file. Standard input can be read only once, so a caller that needs them twice keeps them.
pub fn read_file(path: &Path) -> Result<Vec<u8>, WorkflowError> {
    let is_project = || path.join(USUAL_FILE).is_file();
    let unreadable = |source| WorkflowError::Unreadable { path: path.to_path_buf(), source, is_project: is_project() };
    input::read(path, input::WORKFLOW_MAX).map_err(unreadable)
}

impl Checked {
    /// The plan, or all mistakes.
    pub fn into_plan(self) -> Result<Plan, WorkflowError> {
        let Checked { plan, mistakes } = self;
        plan.ok_or(WorkflowError::Mistakes { mistakes })
    }
}
