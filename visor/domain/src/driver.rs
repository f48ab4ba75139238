//! What decides which instances a domain runs.

use super::event::Event;
use super::instance::Usage;
use super::shared::Shared;
use std::time::Duration;

/// Decides what runs. Called on the carrier that has taken the event from the queue; never by two at once.
pub trait Driver: Send {
    /// Something happened. The driver may start and cancel instances, set timers, and finish the run.
    fn on_event(&mut self, event: Event, domain: &Shared);

    /// The driver's own state, for the continuation of the run. `live` is what the live instances have used so far, by the tokens
    /// that the driver has given them.
    fn save(&mut self, live: &[(u64, Usage)], domain: &Shared) -> Vec<u8> {
        let _ = (live, domain);
        Vec::new()
    }

    /// The run has stood still for so long, and goes on. That is no time that it has taken. By the wall clock it was away for `away`.
    fn stood_still(&mut self, time: Duration, away: Duration) {
        let _ = (time, away);
    }
}
