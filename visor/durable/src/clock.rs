//! What time it is, for an engine: a process that goes on with what is due.
//!
//! ```text
//!   wall clock        ──▶ what is due: stored times are compared with it, whatever it does
//!   time that passes  ──▶ when an engine looks again: it sleeps for no more than a nap at a time
//! ```
//!
//! A wall clock may be set: by an hour, or by thirty days. So it decides what is due, and never for how long an engine sleeps. One that is set forward makes
//! things due, which are found a nap later; one that is set back makes them due later, and none of them twice. The same rule makes hints
//! ([`Hints`](crate::Hints)) superfluous: what an engine was not told of it finds after its nap.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A wall clock.
pub trait Clock: Send + Sync {
    /// The time, in ns since 1970. It may go back.
    fn now(&self) -> u64;
}

/// That of the host.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A time as RFC 3339 has it, with any offset from UTC, in ns since 1970. What is earlier than that is 0. `None` if the text is none.
pub fn time_of(text: &str) -> Option<u64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(u64::try_from(time.as_nanosecond().max(0)).unwrap_or(u64::MAX))
}

/// One that shows what it was set to: for tests, in which thirty days pass at once.
#[derive(Debug, Default)]
pub struct SetClock(AtomicU64);

impl SetClock {
    /// One that shows this time (ns since 1970).
    pub fn at(now: u64) -> SetClock {
        SetClock(AtomicU64::new(now))
    }

    /// Sets it.
    pub fn set(&self, now: u64) {
        self.0.store(now, Ordering::Relaxed);
    }

    /// Sets it forward, or back, by so many ns: at most to the ends of time.
    pub fn jump(&self, by: i64) {
        self.set(self.now().saturating_add_signed(by));
    }
}

impl Clock for SetClock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// For how long an engine sleeps before it looks again, if the first thing is due then, or nothing is known to be: no longer than `longest`.
pub fn nap(due: Option<u64>, now: u64, longest: Duration) -> Duration {
    due.map_or(longest, |due| Duration::from_nanos(due.saturating_sub(now)).min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_may_have_any_offset() {
        assert_eq!(time_of("1970-01-01T00:00:01.5Z"), Some(1_500_000_000));
        assert_eq!(time_of("1970-01-01T01:00:01+01:00"), Some(1_000_000_000));
        assert_eq!(time_of("1969-12-31T19:00:02-05:00"), Some(2_000_000_000));
        assert_eq!(time_of("1969-12-31T00:00:00Z"), Some(0));
        for wrong in ["", "soon", "1970-01-01", "1970-01-01T00:00:00", "1970-13-01T00:00:00Z"] {
            assert_eq!(time_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_nap_ends_when_something_is_due_and_before_the_clock_can_matter() {
        let longest = Duration::from_secs(1);
        assert_eq!(nap(Some(5), 7, longest), Duration::ZERO);
        assert_eq!(nap(Some(7), 5, longest), Duration::from_nanos(2));
        assert_eq!([nap(Some(u64::MAX), 0, longest), nap(None, 5, longest)], [longest; 2]);
    }

    #[test]
    fn a_clock_is_set_forward_and_back_and_not_beyond_its_ends() {
        let clock = SetClock::at(10);
        clock.jump(-3);
        assert_eq!(clock.now(), 7);
        clock.jump(-30);
        assert_eq!(clock.now(), 0);
        clock.set(u64::MAX);
        clock.jump(1);
        assert_eq!(clock.now(), u64::MAX);
        assert!(WallClock.now() > 1_700_000_000_000_000_000);
    }
}
