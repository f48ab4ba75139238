//! The workflow files of children: those that a command line names, and others beside their parent's.

use super::super::build::BuildError;
use super::super::programs::{Images, replace_programs};
use super::start::ChildFile;
use monohull_report::escape::shown;
use monohull_workflow::{self as workflow, Plan, WorkflowError};
use std::path::{Path, PathBuf};

/// The most workflows that one invocation and those that it starts can start.
const MOST: usize = 64;

/// Why there is no workflow for a child.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum ChildFileError {
    /// The file is wrong, or cannot be read.
    #[error("the workflow `{name}`, which `starts` of `{parent}` names: {source}")]
    Workflow {
        /// The workflow.
        name: String,
        /// The one that may start it.
        parent: String,
        /// What is wrong.
        source: WorkflowError,
    },
    /// A file that was named is wrong, or cannot be read.
    #[error("--child: {0}")]
    Given(WorkflowError),
    /// The file has another workflow.
    #[error("{}: its workflow is `{found}`, and `starts` of `{parent}` names `{name}`", shown(path))]
    Other {
        /// The file.
        path: PathBuf,
        /// Its workflow.
        found: String,
        /// The one that is looked for.
        name: String,
        /// The one that may start it.
        parent: String,
    },
    /// Nothing starts it.
    #[error("--child: no `starts` names the workflow `{0}`")]
    NotStarted(String),
    /// There are too many.
    #[error("an invocation and those that it starts can start at most {MOST} workflows")]
    TooMany,
    /// A program of one cannot be made.
    #[error("the workflow `{name}`: {source}")]
    Program {
        /// The workflow.
        name: String,
        /// What is wrong.
        source: BuildError,
    },
}

/// The workflows that a workflow may start, and those that these may start: from the given files, or else `NAME.json` beside the file that names it.
/// Programs are images as long as the second result lives.
pub(in super::super) fn find(
    plan: &Plan,
    file: &Path,
    given: &[PathBuf],
) -> Result<(Vec<ChildFile>, Vec<Images>), ChildFileError> {
    let mut own = Vec::new();
    for path in given {
        own.push(read(path).map_err(ChildFileError::Given)?);
    }
    let mut found: Vec<ChildFile> = Vec::new();
    let wanted = |plan: &Plan, file: &Path| {
        let each = plan.starts.iter().map(|name| (name.clone(), plan.name.clone(), file.to_owned()));
        each.collect::<Vec<_>>()
    };
    let mut missing = wanted(plan, file);
    while let Some((name, parent, beside)) = missing.pop() {
        if found.iter().any(|child| child.plan.name == name) {
            continue;
        }
        if found.len() == MOST {
            return Err(ChildFileError::TooMany);
        }
        let child = match own.iter().position(|child| child.plan.name == name) {
            Some(index) => own.swap_remove(index),
            None => {
                let path = beside.with_file_name(format!("{name}.json"));
                let failed = |source| ChildFileError::Workflow { name: name.clone(), parent: parent.clone(), source };
                read(&path).map_err(failed)?
            }
        };
        if child.plan.name != name {
            let ChildFile { file: path, plan, .. } = child;
            return Err(ChildFileError::Other { path, found: plan.name, name, parent });
        }
        missing.extend(wanted(&child.plan, &child.file));
        found.push(child);
    }
    if let Some(child) = own.first() {
        return Err(ChildFileError::NotStarted(child.plan.name.clone()));
    }
    let mut images = Vec::new();
    for child in &mut found {
        let made = replace_programs(&mut child.plan);
        images.push(made.map_err(|source| ChildFileError::Program { name: child.plan.name.clone(), source })?);
    }
    Ok((found, images))
}

fn read(path: &Path) -> Result<ChildFile, WorkflowError> {
    let document = workflow::read_file(path)?;
    let plan = workflow::check_bytes(path, &document).into_plan()?;
    let file = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    Ok(ChildFile { file, plan, document })
}
