//! Events are given to functions before a run.
//!
//! They come from a mailbox, which keeps those that were not taken for the next run.

use super::options::Event;
use monohull_abi::Errno;
use monohull_domain::Domain;
use monohull_report::Failure;
use monohull_report::failure::{Blame, FailureKind};

/// Gives all events.
pub(super) fn give(domain: &Domain, events: Vec<Event>) -> Result<(), Box<Failure>> {
    for event in events {
        let name = event.name.clone();
        domain.give_event(event).map_err(|errno| {
            let blame = if errno == Errno::OutOfMemory { Blame::Host } else { Blame::Monohull };
            let text = format!("event `{name}` cannot be given: {errno}");
            Box::new(Failure::blamed(FailureKind::Input, blame, text))
        })?;
    }
    Ok(())
}
