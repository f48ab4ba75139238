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

/// The last second (ns since 1970) that a row can have: times are signed numbers of 64 bits there.
pub const LAST_TIME: u64 = i64::MAX as u64 / NS_PER_S * NS_PER_S;
const NS_PER_S: u64 = 1_000_000_000;

/// A time that cannot be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoTime {
    /// It is none.
    #[error("is a time such as 2027-01-31T09:00:00Z")]
    Other,
    /// It is later than [`LAST_TIME`].
    #[error("is later than 2262-04-11T23:47:16Z, the last time that can be kept")]
    TooLate,
}

/// A time as RFC 3339 has it, with any offset from UTC, in ns since 1970. What is earlier than that is 0.
pub fn time_of(text: &str) -> Result<u64, NoTime> {
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => match u64::try_from(time.as_nanosecond().max(0)) {
            Ok(time) if time <= LAST_TIME => Ok(time),
            _ => Err(NoTime::TooLate),
        },
        Err(_) if is_beyond(text).unwrap_or(false) => Err(NoTime::TooLate),
        Err(_) => Err(NoTime::Other),
    }
}

/// Whether a text is a time of the last hours that RFC 3339 has, which may be later than the last one that can be reckoned with.
fn is_beyond(text: &str) -> Option<bool> {
    let pieces = jiff::fmt::temporal::Pieces::parse(text).ok()?;
    let time = pieces.date().to_datetime(pieces.time()?);
    Some(time.year() > 0 && pieces.to_numeric_offset()?.to_timestamp(time).is_err())
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
        assert_eq!(time_of("1970-01-01T00:00:01.5Z"), Ok(1_500_000_000));
        assert_eq!(time_of("1970-01-01T01:00:01+01:00"), Ok(1_000_000_000));
        assert_eq!(time_of("1969-12-31T19:00:02-05:00"), Ok(2_000_000_000));
        assert_eq!(time_of("1969-12-31T00:00:00Z"), Ok(0));
        for wrong in ["", "soon", "1970-01-01", "1970-01-01T00:00:00", "1970-13-01T00:00:00Z"] {
            assert_eq!(time_of(wrong), Err(NoTime::Other), "{wrong}");
        }
    }

    #[test]
    fn a_time_that_a_row_cannot_have_is_refused() {
        assert_eq!(time_of("2262-04-11T23:47:16Z"), Ok(LAST_TIME));
        assert!(i64::try_from(LAST_TIME).is_ok());
        for late in [
            "2262-04-11T23:47:16.1Z",
            "2262-04-11T23:47:17Z",
            "2554-07-22T00:00:00Z",
            "9999-12-31T23:59:59Z",
            "9999-12-31T23:59:59-12:00",
        ] {
            assert_eq!(time_of(late), Err(NoTime::TooLate), "{late}");
        }
        // What is no time is none in those hours either.
        for wrong in ["9999-12-31T23:59:59", "9999-12-32T23:59:59Z", "10000-01-01T00:00:00Z"] {
            assert_eq!(time_of(wrong), Err(NoTime::Other), "{wrong}");
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
