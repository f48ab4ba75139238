//! `--set STEP.ARG=VALUE`: arguments given from outside override those in the file.

use serde_json::Value;

use super::plan::Plan;
use super::source::{quoted, suggestion};

/// Why an argument cannot be set. The invocation is at fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SetError {
    /// the workflow has no step {name}{hint}
    #[error("the workflow has no step {name}{hint}")]
    UnknownStep {
        /// The name, quoted.
        name: String,
        /// A similar name, or nothing.
        hint: String,
    },
    /// an argument needs a name
    #[error("an argument needs a name: STEP.ARG=VALUE")]
    EmptyName,
}

impl Plan {
    /// Sets an argument of a step: as JSON if `value` is valid JSON, else as a string.
    pub fn set_arg(&mut self, step: &str, arg: &str, value: &str) -> Result<(), SetError> {
        if arg.is_empty() {
            return Err(SetError::EmptyName);
        }
        let Some(found) = self.steps.iter().position(|candidate| candidate.name == step) else {
            let hint = suggestion(step, self.steps.iter().map(|step| step.name.as_str()));
            return Err(SetError::UnknownStep { name: quoted(step), hint });
        };
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        self.steps[found].args.insert(arg.to_owned(), value);
        Ok(())
    }
}
