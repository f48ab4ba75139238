//! `--set`: values given from outside override those in the file.
//!
//! `STEP.ARG=VALUE` sets an argument of the function, `STEP:FIELD=VALUE` a field of the step. The separators differ
//! because a function may have an argument of any name, `timeout` too. Only what the file names can be set: an
//! argument that the file does not have is a misspelt one, and would be ignored by the function.

use std::path::Path;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Range;

use super::bounds::INSTANCES_MAX;
use super::check::too_many;
use super::plan::{Instances, Plan, Step};
use super::reader::{self, Reader};
use super::source::{Level, Mistake, Source};
use monohull_report::text::{quoted, suggestion};

/// Why something cannot be set. The invocation is at fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum SetError {
    /// There is no such step.
    #[error("the workflow has no step {name}{hint}")]
    UnknownStep {
        /// The name, quoted.
        name: String,
        /// A similar name, or nothing.
        hint: String,
    },
    #[error("step {step} has no argument {name} in the workflow file{hint}")]
    UnknownArgument {
        /// The step, quoted.
        step: String,
        /// The name, quoted.
        name: String,
        /// What may have been meant, or nothing.
        hint: String,
    },
    /// Steps have no such field, or it cannot be set.
    #[error("a step has no field {name} that can be set{hint} (expected one of {known})")]
    UnknownField {
        /// The name, quoted.
        name: String,
        /// A similar name, or nothing.
        hint: String,
        /// The fields that can be set.
        known: String,
    },
    /// The value is none for this field.
    #[error("{}", super::Lines(.0))]
    Value(Vec<Mistake>),
}

/// The fields of a step that can be set.
const FIELDS: &[&str] = &["instances", "timeout", "memory", "retry", "stack"];

impl Plan {
    /// Sets an argument that the file gives a step: as JSON if `value` is valid JSON, else as a string.
    pub fn set_argument(&mut self, step: &str, name: &str, value: &str) -> Result<(), SetError> {
        let step = self.step_named(step)?;
        let Some(argument) = step.args.get_mut(name) else {
            let hint = if FIELDS.contains(&name) {
                format!("; `{}:{name}=VALUE` sets the field of the step", step.name)
            } else {
                suggestion(name, step.args.keys().map(String::as_str))
            };
            return Err(SetError::UnknownArgument { step: quoted(&step.name), name: quoted(name), hint });
        };
        *argument = json_or_string(value);
        Ok(())
    }

    /// Sets a field of a step, to a value as it stands in a workflow file; a string needs no quotes.
    pub fn set_field(&mut self, step: &str, field: &str, value: &str) -> Result<(), SetError> {
        let step = self.step_named(step)?;
        let name = format!("{}:{field}", step.name);
        let text = json_or_string(value).to_string();
        let source = Source::new(Path::new(&name), &text);
        let mut reader = Reader::new(&source, None);
        if let Some(value) = reader.parse() {
            read_field(&mut reader, step, field, &value)?;
        }
        if matches!(step.instances, Instances::Each { .. }) && step.after.is_empty() {
            let message = "`each` counts slots that another step fills, and this step has no `after`".to_owned();
            reader.error(Range::from_byte_index(0), message, None);
        }
        if field == "instances" && step.handles.is_some() {
            let message = "a step that handles an effect has an instance for each request".to_owned();
            reader.error(Range::from_byte_index(0), message, None);
        }
        let mut mistakes = reader.into_mistakes();
        let sum = self.instances();
        if sum > INSTANCES_MAX {
            let (at, message) = (Range::from_byte_index(0), format!("with this step there are {sum} instances"));
            mistakes.push(source.mistake(at, Level::Error, message, Some(too_many(INSTANCES_MAX))));
        }
        if mistakes.is_empty() { Ok(()) } else { Err(SetError::Value(mistakes)) }
    }

    fn step_named(&mut self, name: &str) -> Result<&mut Step, SetError> {
        match self.steps.iter().position(|step| step.name == name) {
            Some(found) => Ok(&mut self.steps[found]),
            None => {
                let hint = suggestion(name, self.steps.iter().map(|step| step.name.as_str()));
                Err(SetError::UnknownStep { name: quoted(name), hint })
            }
        }
    }
}

/// Reads the value of a field as in a workflow file.
fn read_field(reader: &mut Reader<'_>, step: &mut Step, field: &str, value: &Value<'_>) -> Result<(), SetError> {
    match field {
        "instances" => step.instances = reader.instances(value).unwrap_or_else(|| step.instances.clone()),
        "timeout" => step.timeout = reader.timeout(value),
        "memory" => step.memory = reader.memory(value).unwrap_or(step.memory),
        "retry" => step.retry = reader.retry(Some(value)),
        "stack" => step.stack = reader.stack(value).unwrap_or(step.stack),
        _ => {
            let hint = suggestion(field, FIELDS.iter().copied());
            let known = reader::list(FIELDS);
            return Err(SetError::UnknownField { name: quoted(field), hint, known });
        }
    }
    Ok(())
}

fn json_or_string(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|_| serde_json::Value::String(text.to_owned()))
}
