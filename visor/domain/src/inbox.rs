//! Events that come while a domain runs, on their way to the functions that wait for them.
//!
//! ```text
//!   from outside, any thread: Inbox::put ── kept here, an idle carrier is woken ──▶ carrier: Inbox::take ──▶ given
//! ```
//!
//! An inbox outlives the domain: what one has not taken is there for the next, when a workflow begins again.

use super::given_events::GivenEvent;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// What wakes a carrier of the domain that takes the events.
type Wake = Box<dyn Fn() + Send>;

/// Events that no carrier has taken yet.
#[derive(Default)]
pub struct Inbox {
    waiting: Mutex<Waiting>,
    /// Held while events are taken and given.
    giving: Mutex<()>,
    /// There are some. Carriers look at this.
    has_some: AtomicBool,
    /// None may come yet.
    is_closed: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    events: Vec<GivenEvent>,
    wake: Option<Wake>,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("inbox")
    }

    /// One for which nothing comes before it [is opened](Self::open).
    pub fn closed() -> Inbox {
        Inbox { is_closed: AtomicBool::new(true), ..Inbox::default() }
    }

    /// From here on events may come. Those that no carrier has taken are dropped, before `announce` is called: they come again. A carrier is
    /// woken, as the domain has stood still.
    pub fn open(&self, announce: impl FnOnce()) {
        let mut waiting = self.lock();
        waiting.events.clear();
        self.has_some.store(false, Ordering::Release);
        self.is_closed.store(false, Ordering::Release);
        announce();
        if let Some(wake) = &waiting.wake {
            wake();
        }
    }

    /// Something else has come for the domain. A carrier is woken, as the domain has stood still.
    pub fn announce(&self, announce: impl FnOnce()) {
        let waiting = self.lock();
        announce();
        if let Some(wake) = &waiting.wake {
            wake();
        }
    }

    /// Whether events may come.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_closed.load(Ordering::Acquire)
    }

    /// Adds events, which the domain takes when a carrier looks for work next.
    pub fn put(&self, mut events: Vec<GivenEvent>) {
        let mut waiting = self.lock();
        waiting.events.append(&mut events);
        self.has_some.store(!waiting.events.is_empty(), Ordering::Release);
        // With the lock: a domain that has been detached is not touched any more.
        if let Some(wake) = &waiting.wake {
            wake();
        }
    }

    /// Whether there are events.
    pub(crate) fn has_some(&self) -> bool {
        self.has_some.load(Ordering::Acquire)
    }

    /// Takes all of them, and gives them by `give`. One carrier at a time does: of two, the one with the later events could be the first to
    /// give them.
    pub(crate) fn take(&self, give: impl FnOnce(Vec<GivenEvent>)) {
        let _one = self.giving.lock().expect("inbox");
        let events = {
            let mut waiting = self.lock();
            self.has_some.store(false, Ordering::Relaxed);
            std::mem::take(&mut waiting.events)
        };
        give(events);
    }

    /// A domain takes the events from here on, and is woken like this.
    pub(crate) fn attach(&self, wake: Wake) {
        self.lock().wake = Some(wake);
    }

    /// It does not any more.
    pub(crate) fn detach(&self) {
        self.lock().wake = None;
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("waiting", &self.lock().events.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    fn event(number: u64) -> GivenEvent {
        GivenEvent { number, name: "e".to_owned(), bytes: Vec::new() }
    }

    fn taken(inbox: &Inbox) -> Vec<GivenEvent> {
        let mut taken = Vec::new();
        inbox.take(|events| taken = events);
        taken
    }

    #[test]
    fn carriers_give_events_in_the_order_in_which_they_came() {
        const EVENTS: u64 = 2000;
        let (inbox, given) = (Inbox::default(), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while given.lock().expect("no panic").len() < EVENTS as usize {
                        inbox.take(|events| {
                            std::thread::yield_now();
                            given.lock().expect("no panic").extend(events.iter().map(|event| event.number));
                        });
                    }
                });
            }
            (0..EVENTS).for_each(|number| inbox.put(vec![event(number)]));
        });
        assert!(given.into_inner().expect("no panic").is_sorted());
    }

    #[test]
    fn what_was_not_taken_when_it_is_opened_comes_again() {
        let inbox = Inbox::closed();
        assert!(!inbox.is_open());
        inbox.put(vec![event(1)]);
        inbox.open(|| ());
        assert!(inbox.is_open() && !inbox.has_some() && taken(&inbox).is_empty());
        inbox.put(vec![event(1), event(2)]);
        assert_eq!(taken(&inbox), [event(1), event(2)]);
    }

    #[test]
    fn what_one_domain_has_not_taken_is_there_for_the_next() {
        let (inbox, woken) = (Inbox::default(), Arc::new(AtomicU32::new(0)));
        let counter = || {
            let woken = woken.clone();
            Box::new(move || _ = woken.fetch_add(1, Ordering::Relaxed))
        };
        assert!(!inbox.has_some());
        inbox.put(vec![event(1)]);
        inbox.attach(counter());
        assert!(inbox.has_some(), "from before there was a domain");
        inbox.put(vec![event(2)]);
        assert_eq!((taken(&inbox), woken.load(Ordering::Relaxed)), (vec![event(1), event(2)], 1));
        assert!(!inbox.has_some() && taken(&inbox).is_empty());
        inbox.detach();
        inbox.put(vec![event(3)]);
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        inbox.attach(counter());
        assert_eq!(taken(&inbox), [event(3)]);
    }
}
