//! What decides which instances a domain runs.

use super::event::Event;
use super::shared::Shared;

/// Decides what runs. Called by whichever carrier has heard the event; never by two at once.
pub trait Driver: Send {
    /// Something happened. The driver may start and cancel instances, set timers, and finish the run.
    fn on_event(&mut self, event: Event, domain: &Shared);
}
