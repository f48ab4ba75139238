//! Why the state of a module cannot be captured or rebuilt.

/// The state of a module cannot be captured, or its record is refused.
#[derive(Debug, thiserror::Error)]
#[error("{}{reason} (libos module `{module}`)", whose(function.as_deref(), *instance))]
pub struct RecordError {
    /// The module.
    pub module: String,
    /// The function of the instance, if that lives.
    pub function: Option<String>,
    /// The instance that is concerned.
    pub instance: Option<u32>,
    /// What it is about.
    pub reason: String,
}

fn whose(function: Option<&str>, instance: Option<u32>) -> String {
    match (function, instance) {
        (Some(function), Some(instance)) => format!("function `{function}`, instance {instance}: "),
        (None, Some(instance)) => format!("instance {instance}: "),
        (_, None) => String::new(),
    }
}
