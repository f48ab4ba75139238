//! Events are given to functions before a run, and counted after it.
//!
//! They come from a mailbox, which keeps those that were not taken for the next run.

use super::options::Event;
use monohull_abi::Errno;
use monohull_domain::Domain;
use monohull_report::Failure;
use monohull_report::failure::{Blame, FailureKind};

/// Gives all events.
pub(super) fn give(domain: &Domain, events: &[Event]) -> Result<(), Box<Failure>> {
    for event in events {
        domain.give_event(&event.name, event.number, &event.bytes).map_err(|errno| {
            let blame = if errno == Errno::OutOfMemory { Blame::Host } else { Blame::Monohull };
            let text = format!("event `{}` cannot be given: {errno}", event.name);
            Box::new(Failure::blamed(FailureKind::Input, blame, text))
        })?;
    }
    Ok(())
}

/// The numbers of those that were taken.
pub(super) fn taken(domain: &Domain, events: &[Event]) -> Vec<u64> {
    let taken = events.iter().filter(|event| domain.is_event_taken(&event.name, event.number));
    taken.map(|event| event.number).collect()
}
