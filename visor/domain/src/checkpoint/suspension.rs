//! Whether the run of a domain has ended in a suspension, and with what.

use super::Suspended;
use std::sync::{Mutex, MutexGuard};

/// Whether the domain is to be suspended, and what became of it.
#[derive(Default)]
pub(crate) struct Suspension(Mutex<State>);

#[derive(Default)]
struct State {
    suspended: Option<Box<Suspended>>,
    /// Why it could not be suspended. It is not tried again: what is in the way is there to stay, as a rule.
    refused: Option<String>,
}

impl Suspension {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("suspension")
    }

    /// Whether the run has ended that way.
    pub(crate) fn is_done(&self) -> bool {
        self.lock().suspended.is_some()
    }

    /// Takes what the run ended with, if it was suspended.
    pub(crate) fn take(&self) -> Option<Box<Suspended>> {
        self.lock().suspended.take()
    }

    /// Why the run was not suspended when it only waited.
    pub(crate) fn refused(&self) -> Option<String> {
        self.lock().refused.clone()
    }

    /// Whether it has been found that it cannot be suspended.
    pub(super) fn is_refused(&self) -> bool {
        self.lock().refused.is_some()
    }

    /// The run ends with this.
    pub(super) fn succeed(&self, suspended: Suspended) {
        self.lock().suspended = Some(Box::new(suspended));
    }

    /// It cannot be suspended.
    pub(super) fn refuse(&self, reason: String) {
        self.lock().refused = Some(reason);
    }
}
