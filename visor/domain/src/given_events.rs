//! Events from outside that a domain was given, until a checkpoint has them.
//!
//! An event is in one place: in a mailbox outside, or in a checkpoint as taken. So a capture names those that functions have taken, and
//! once it is kept nothing here remembers them. The others go to the next domain if the workflow begins again.

use serde::{Deserialize, Serialize};
use std::sync::{Mutex, MutexGuard};

/// An event from outside of a workflow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GivenEvent {
    /// Its place among all that the workflow is ever given. A number is given once, and again only if the event was not taken.
    pub number: u64,
    /// Its name.
    pub name: String,
    /// What it says.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// Those that were given and are in no checkpoint.
#[derive(Default)]
pub(crate) struct GivenEvents(Mutex<Vec<GivenEvent>>);

impl GivenEvents {
    /// For a look at them, or another one.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<GivenEvent>> {
        self.0.lock().expect("events")
    }

    /// A checkpoint that is kept has these.
    pub(crate) fn forget(&self, taken: &[u64]) {
        self.lock().retain(|event| !taken.contains(&event.number));
    }
}
