//! Clocks, as in `std::time`.

use crate::{error, fmt, sys};
use core::ops::{Add, AddAssign, Sub, SubAssign};
use monohull_abi::types::Clock;

pub use core::time::{Duration, TryFromFloatSecsError};

const NS_PER_S: i128 = 1_000_000_000;

/// A reading of the clock that never goes back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    /// Nanoseconds since the clock's zero, which may be the start of the host: a reading may be reckoned back to before it.
    ns: i128,
}

impl Instant {
    /// The present.
    pub fn now() -> Instant {
        Instant { ns: i128::from(sys::clock(Clock::Monotonic)) }
    }

    /// Time passed since `earlier`; zero if it is later.
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }

    /// Time passed since `earlier`, unless it is later.
    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        (self.ns >= earlier.ns).then(|| duration(self.ns.abs_diff(earlier.ns)))
    }

    /// Time passed since `earlier`; zero if it is later.
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.checked_duration_since(earlier).unwrap_or_default()
    }

    /// Time passed since this reading.
    pub fn elapsed(&self) -> Duration {
        Instant::now().duration_since(*self)
    }

    /// This reading plus `duration`, if it can be represented.
    pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
        moved(self.ns, duration, i128::checked_add_unsigned).map(|ns| Instant { ns })
    }

    /// This reading minus `duration`, if it can be represented.
    pub fn checked_sub(&self, duration: Duration) -> Option<Instant> {
        moved(self.ns, duration, i128::checked_sub_unsigned).map(|ns| Instant { ns })
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        self.checked_add(duration).expect("overflow when adding duration to instant")
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        self.checked_sub(duration).expect("overflow when subtracting duration from instant")
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        as_timespec(f, "Instant", self.ns)
    }
}

/// The start of 1970, UTC.
pub const UNIX_EPOCH: SystemTime = SystemTime { ns: 0 };

/// A reading of the wall clock, which may be set back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SystemTime {
    /// Nanoseconds since 1970-01-01 00:00 UTC.
    ns: i128,
}

/// The other time was later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SystemTimeError(Duration);

impl SystemTimeError {
    /// How much later.
    pub fn duration(&self) -> Duration {
        self.0
    }
}

impl fmt::Display for SystemTimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("second time provided was later than self")
    }
}

impl error::Error for SystemTimeError {}

impl SystemTime {
    /// The start of 1970, UTC.
    pub const UNIX_EPOCH: SystemTime = UNIX_EPOCH;

    /// The present.
    pub fn now() -> SystemTime {
        SystemTime { ns: i128::from(sys::clock(Clock::Realtime)) }
    }

    /// Nanoseconds since 1970.
    pub(crate) fn since_1970(self) -> i128 {
        self.ns
    }

    /// Time passed since `earlier`.
    pub fn duration_since(&self, earlier: SystemTime) -> Result<Duration, SystemTimeError> {
        let difference = duration(self.ns.abs_diff(earlier.ns));
        if self.ns >= earlier.ns { Ok(difference) } else { Err(SystemTimeError(difference)) }
    }

    /// Time passed since this reading.
    pub fn elapsed(&self) -> Result<Duration, SystemTimeError> {
        SystemTime::now().duration_since(*self)
    }

    /// This reading plus `duration`, if it can be represented.
    pub fn checked_add(&self, duration: Duration) -> Option<SystemTime> {
        moved(self.ns, duration, i128::checked_add_unsigned).map(|ns| SystemTime { ns })
    }

    /// This reading minus `duration`, if it can be represented.
    pub fn checked_sub(&self, duration: Duration) -> Option<SystemTime> {
        moved(self.ns, duration, i128::checked_sub_unsigned).map(|ns| SystemTime { ns })
    }
}

/// A time that is moved by a duration. std counts whole seconds in an i64, so others are none.
fn moved(ns: i128, by: Duration, how: fn(i128, u128) -> Option<i128>) -> Option<i128> {
    how(ns, by.as_nanos()).filter(|ns| i64::try_from(ns.div_euclid(NS_PER_S)).is_ok())
}

fn as_timespec(f: &mut fmt::Formatter<'_>, name: &str, ns: i128) -> fmt::Result {
    let (seconds, rest) = (ns.div_euclid(NS_PER_S), ns.rem_euclid(NS_PER_S));
    f.debug_struct(name).field("tv_sec", &seconds).field("tv_nsec", &rest).finish()
}

fn duration(ns: u128) -> Duration {
    // Two representable times are less than 2^64 seconds apart.
    Duration::new((ns / 1_000_000_000) as u64, (ns % 1_000_000_000) as u32)
}

impl Add<Duration> for SystemTime {
    type Output = SystemTime;

    fn add(self, duration: Duration) -> SystemTime {
        self.checked_add(duration).expect("overflow when adding duration to instant")
    }
}

impl Sub<Duration> for SystemTime {
    type Output = SystemTime;

    fn sub(self, duration: Duration) -> SystemTime {
        self.checked_sub(duration).expect("overflow when subtracting duration from instant")
    }
}

impl AddAssign<Duration> for SystemTime {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl SubAssign<Duration> for SystemTime {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl fmt::Debug for SystemTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        as_timespec(f, "SystemTime", self.ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_add_and_subtract() {
        let start = Instant::now();
        let later = start + Duration::from_millis(1500);
        assert_eq!(later - start, Duration::from_millis(1500));
        assert_eq!(start - later, Duration::ZERO);
        assert_eq!(start.checked_duration_since(later), None);
        assert_eq!(later - Duration::from_millis(1500), start);
        assert_eq!(start.checked_add(Duration::MAX), None);
        assert!(start.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn instants_may_lie_before_the_start_of_the_clock() {
        let now = Instant::now();
        // The clock has not run for a thousand years.
        let age = Duration::from_secs(365 * 86_400 * 1000);
        let before = now - age;
        assert!(before < now);
        assert_eq!((now - before, before + age), (age, now));
        assert_eq!(now.checked_sub(Duration::MAX), None);
    }

    #[test]
    fn system_times_may_lie_before_1970() {
        let before = UNIX_EPOCH - Duration::new(1, 1);
        assert_eq!(UNIX_EPOCH.duration_since(before), Ok(Duration::new(1, 1)));
        assert_eq!(before.duration_since(UNIX_EPOCH).unwrap_err().duration(), Duration::new(1, 1));
        assert_eq!(before + Duration::new(1, 1), UNIX_EPOCH);
        assert_eq!(UNIX_EPOCH.checked_add(Duration::MAX), None);
        assert_eq!(host_std::format!("{before:?}"), "SystemTime { tv_sec: -2, tv_nsec: 999999999 }");
        assert!(SystemTime::now() > UNIX_EPOCH);
    }
}
