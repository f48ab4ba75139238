//! Gives events from outside to the instances of a domain.

use super::given_events::GivenEvent;
use super::shared::Shared;
use monohull_abi::Errno;

impl Shared {
    /// Gives an event to whichever instance waits for its name first.
    pub fn give_event(&self, event: GivenEvent) -> Result<(), Errno> {
        self.publish_event(&event.name, event.number, &event.bytes)?;
        self.given.lock().push(event);
        Ok(())
    }

    /// The numbers of the events that were given and have been taken.
    pub(crate) fn events_taken(&self) -> Vec<u64> {
        let given = self.given.lock();
        let taken = given.iter().filter(|event| self.is_event_taken(&event.name, event.number));
        taken.map(|event| event.number).collect()
    }

    /// What a domain is given that begins the workflow again: the events that no checkpoint has.
    pub fn events_for_another(&self) -> Vec<GivenEvent> {
        std::mem::take(&mut *self.given.lock())
    }
}
