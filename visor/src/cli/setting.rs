//! `--set` of `monohull run`, and of what it started: `monohull resume` and `monohull wake` read it again from a record.

use monohull_saved::Engine;
use monohull_workflow::{self as workflow, Plan, SetError};

/// What `--set` sets: an argument of a step, or one of its fields.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// As it was written.
    pub(super) text: String,
    step: String,
    is_field: bool,
    name: String,
    value: String,
}

impl Setting {
    pub(super) fn parse(text: &str) -> Result<Setting, String> {
        let parts = text.split_once('=').and_then(|(target, value)| {
            // The name of a step has neither of the two.
            let at = target.find(['.', ':'])?;
            Some((&target[..at], target.as_bytes()[at] == b':', &target[at + 1..], value))
        });
        match parts {
            Some((step, is_field, name, value)) if !step.is_empty() && !name.is_empty() => {
                let (step, name, value) = (step.to_owned(), name.to_owned(), value.to_owned());
                Ok(Setting { text: text.to_owned(), step, is_field, name, value })
            }
            _ => Err("expected STEP.ARG=VALUE or STEP:FIELD=VALUE".to_owned()),
        }
    }

    pub(super) fn apply(&self, plan: &mut Plan) -> Result<(), SetError> {
        let Setting { step, name, value, .. } = self;
        if self.is_field { plan.set_field(step, name, value) } else { plan.set_argument(step, name, value) }
    }
}

/// The workflow of a checkpoint, checked as any other.
pub(super) fn saved_plan(document: &[u8], engine: &Engine) -> Result<Plan, String> {
    let checked = workflow::check_bytes(&engine.file, document);
    let mut plan = checked.into_plan().map_err(|error| error.to_string())?;
    for text in &engine.settings {
        Setting::parse(text)?.apply(&mut plan).map_err(|error| error.to_string())?;
    }
    Ok(plan)
}
