//! Events on their way out of a workflow.

use serde::{Deserialize, Serialize};

/// An event that a function has sent to another invocation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Outgoing {
    /// The invocation's id.
    pub to: String,
    /// The event's name.
    pub name: String,
    /// What it says.
    pub bytes: Vec<u8>,
    /// Which of the workflow's events it is: step, instance and number. The same if the instance is run again.
    pub origin: String,
}
