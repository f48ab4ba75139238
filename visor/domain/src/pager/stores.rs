//! Stores to files that are under way, for those who have to know that all earlier ones are over.
//!
//! A store asks, before it changes a byte, whether a mapping shows the page. A new mapping is entered where stores ask, then its pages
//! are mapped, and then all stores are waited for that may have asked before: only after that does the function get the address. So of
//! two that meet, either the store has kept the page for the mapping, or the function sees what was stored from the first access on.
//!
//! ```text
//!   store     counted ─▶ asks ─▶ stores ─▶ not counted
//!   mapping              entered ─▶ pages mapped ─▶ waits for those counted ─▶ the function gets it
//! ```
//!
//! There are two counts, of which stores use one at a time, so that new ones do not make the wait longer.

use monohull_abi::Errno;
use std::hint;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Looks at a count before its end is slept for.
const SPINS: u32 = 200;
/// For so long each time: a store takes up to a millisecond.
const NAP: Duration = Duration::from_micros(50);

/// The stores under way.
#[derive(Debug, Default)]
pub(super) struct Stores {
    /// The count that new ones use.
    current: AtomicUsize,
    counts: [AtomicU64; 2],
    /// Held by the one that waits.
    waiting: Mutex<()>,
}

impl Stores {
    /// Counts a store: the number to end it with.
    pub(super) fn begin(&self) -> usize {
        let number = self.current.load(Ordering::SeqCst) % 2;
        self.counts[number].fetch_add(1, Ordering::SeqCst);
        number
    }

    /// It is over.
    pub(super) fn end(&self, number: usize) {
        self.counts[number % 2].fetch_sub(1, Ordering::SeqCst);
    }

    /// Waits until all stores are over that have begun; `TimedOut` if `interrupted` says so before.
    ///
    /// One that has read which count it is to use, and is not counted yet, is not waited for: it asks after this began.
    pub(super) fn wait(&self, interrupted: impl Fn() -> bool) -> Result<(), Errno> {
        let _waiting = self.waiting.lock().expect("nothing panics while it is held");
        for _ in 0..2 {
            let old = self.current.fetch_add(1, Ordering::SeqCst) % 2;
            let mut looks = 0;
            while self.counts[old].load(Ordering::SeqCst) != 0 {
                if interrupted() {
                    return Err(Errno::TimedOut);
                }
                looks += 1;
                if looks < SPINS { hint::spin_loop() } else { thread::sleep(NAP) }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_wait_ends_when_all_that_had_begun_are_over() {
        let stores = Stores::default();
        assert_eq!(stores.wait(|| false), Ok(()));
        let early = [stores.begin(), stores.begin()];
        assert_eq!(stores.wait(|| true), Err(Errno::TimedOut));
        let late = stores.begin();
        early.into_iter().for_each(|number| stores.end(number));
        assert_eq!(stores.wait(|| true), Err(Errno::TimedOut), "whichever count it is in");
        stores.end(late);
        assert_eq!(stores.wait(|| false), Ok(()));
    }

    /// Others that come and go all the time do not keep it from ending, and what has begun before is over when it has.
    #[test]
    fn those_that_come_later_are_not_waited_for() {
        let all = (Stores::default(), AtomicBool::new(false), AtomicBool::new(false));
        let (stores, stop, first) = (&all.0, &all.1, &all.2);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let number = stores.begin();
                        thread::yield_now();
                        stores.end(number);
                    }
                });
            }
            for _ in 0..100 {
                first.store(false, Ordering::SeqCst);
                let number = stores.begin();
                scope.spawn(move || {
                    thread::yield_now();
                    first.store(true, Ordering::SeqCst);
                    stores.end(number);
                });
                stores.wait(|| false).expect("it ends");
                assert!(first.load(Ordering::SeqCst));
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
