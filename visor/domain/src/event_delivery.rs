//! Gives events from outside to the instances of a domain.

use super::given_events::GivenEvent;
use super::shared::Shared;
use monohull_abi::Errno;
use monohull_abi::event::CANCEL_EVENT;

impl Shared {
    /// Gives an event to whichever instance waits for its name first.
    pub fn give_event(&self, event: GivenEvent) -> Result<(), Errno> {
        self.publish_event(&event.name, event.number, &event.bytes)?;
        self.given.lock().push(event);
        Ok(())
    }

    /// From here on events that come are taken by carriers.
    pub(crate) fn open_inbox(&self) {
        let Some(inbox) = &self.options.inbox else { return };
        let weak = self.weak.clone();
        inbox.attach(Box::new(move || {
            if let Some(domain) = weak.upgrade() {
                let mut scheduler = domain.lock();
                domain.sched.wake_carrier(&mut scheduler);
            }
        }));
    }

    /// The run is over: what comes is another domain's.
    pub(crate) fn close_inbox(&self) {
        if let Some(inbox) = &self.options.inbox {
            inbox.detach();
        }
    }

    /// Whether events may come.
    pub(crate) fn receives_events(&self) -> bool {
        self.options.inbox.as_ref().is_some_and(|inbox| inbox.is_open())
    }

    /// Whether some have come.
    pub(crate) fn has_arrivals(&self) -> bool {
        self.options.inbox.as_ref().is_some_and(|inbox| inbox.has_some())
    }

    /// Gives those that have come, unless another carrier has.
    pub(crate) fn take_arrivals(&self) {
        if let Some(inbox) = &self.options.inbox {
            inbox.take(|events| self.give_events(events));
        }
    }

    /// Gives events that a mailbox outside has too.
    pub(crate) fn give_events(&self, events: Vec<GivenEvent>) {
        for event in events {
            let (name, number) = (event.name.clone(), event.number);
            if let Err(errno) = self.give_event(event) {
                // It stays in its mailbox, and is given to the next process.
                tracing::warn!("event {number}, `{name}`, cannot be given now: {errno}");
            }
        }
    }

    /// The numbers of the events that were given and have been taken.
    pub(crate) fn events_taken(&self) -> Vec<u64> {
        let given = self.given.lock();
        let taken = given.iter().filter(|event| self.is_event_taken(&event.name, event.number));
        taken.map(|event| event.number).collect()
    }

    /// Whether the event that tells the workflow to end was given and has been taken.
    pub fn is_told_to_end(&self) -> bool {
        let given = self.given.lock();
        given.iter().any(|event| event.name == CANCEL_EVENT && self.is_event_taken(&event.name, event.number))
    }

    /// What a domain is given that begins the workflow again: the events that no checkpoint has.
    pub fn events_for_another(&self) -> Vec<GivenEvent> {
        std::mem::take(&mut *self.given.lock())
    }
}
