//! Why the state of a module cannot be captured or rebuilt.

/// The state of a module cannot be captured, or its record is refused.
#[derive(Debug, thiserror::Error)]
#[error("{}{reason} (libos module `{module}`)", whose(function.as_deref(), instance.as_deref()))]
pub struct RecordError {
    /// The module.
    pub module: String,
    /// The function of the instance, if that lives.
    pub function: Option<String>,
    /// The instance that is concerned: its step and which of the step's instances it is; its id if it does not live.
    pub instance: Option<String>,
    /// What it is about.
    pub reason: String,
    /// Whether the host is at fault, and not the record: another program has an address of the workflow.
    pub is_hosts: bool,
}

fn whose(function: Option<&str>, instance: Option<&str>) -> String {
    match (function, instance) {
        (Some(function), Some(instance)) => format!("function `{function}`, instance {instance}: "),
        (None, Some(instance)) => format!("instance {instance}: "),
        (_, None) => String::new(),
    }
}
