//! The domain clock: the monotonic time that functions and modules see.
//!
//! The host's monotonic clock begins anew with each boot and differs from host to host. A domain that is captured goes on in
//! another process, perhaps on another host and days later, and an `Instant` that a function has kept must not lie in the
//! future there. So the domain has a clock of its own: the host's, moved by one offset.
//!
//! ```text
//!   host     ──100──────400──▶  captured          another host ──7──────────▶
//!   domain   ────0──────300──▶  300       ...                ──300─────────▶
//!                                         └─ time away, as far as the domain's next timer ─┘
//! ```
//!
//! All deadlines inside the visor (timers, carriers, sleeping) are the host's. They are converted where a deadline comes from a
//! module, and when they are captured and restored; nothing on the way of a thread switch knows of the offset.
//!
//! **Time that is skipped.** A run may move its clock instead of sleeping ([`Options::skip_time`](crate::Options)). This moves all of its
//! clocks: the host's time as this domain has it ([`DomainClock::host_now`]), with it the domain's, and the wall clock. It happens only
//! while no carrier works. Where the kernel is given a time, it is converted back ([`DomainClock::on_kernel`]).
//!
//! **Time that stands still.** A domain that waits in its process, captured, goes on at the time at which it would be restored. Its clock is
//! moved by the same means, back as a rule ([`DomainClock::go_on_at`]); the wall clock stays.

use super::host_time::{monotonic_ns, wall_ns};
use monohull_abi::module::NEVER;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// The clock of one domain.
#[derive(Debug, Default)]
pub(crate) struct DomainClock {
    /// What is added to the host's time.
    ahead: AtomicI64,
    /// How much time was skipped by moving the host's monotonic clock (ns); less than zero if it stood still for longer.
    skipped: AtomicI64,
    /// How far the wall clock is ahead of the host's: what was skipped now, and before the domain was restored.
    wall_ahead: AtomicU64,
}

impl DomainClock {
    /// A clock that shows the host's time.
    pub(crate) fn start() -> DomainClock {
        DomainClock::default()
    }

    /// Goes on from this domain time.
    pub(crate) fn go_on_from(&self, time: u64) {
        let ahead = i128::from(time) - i128::from(self.host_now());
        self.ahead.store(ahead.clamp(i64::MIN.into(), i64::MAX.into()) as i64, Ordering::Relaxed);
    }

    /// Domain time (ns).
    pub(crate) fn now(&self) -> u64 {
        self.of_host(self.host_now())
    }

    /// The host's monotonic time (ns), with what was skipped.
    pub(crate) fn host_now(&self) -> u64 {
        monotonic_ns().saturating_add_signed(self.skipped.load(Ordering::Relaxed))
    }

    /// The time so much later; never [`NEVER`].
    pub(crate) fn after(&self, delay: Duration) -> u64 {
        self.host_now().saturating_add(u64::try_from(delay.as_nanos()).unwrap_or(NEVER)).min(NEVER - 1)
    }

    /// The kernel's monotonic time at this time of the host, which may have been skipped to; [`NEVER`] stays that.
    pub(crate) fn on_kernel(&self, at: u64) -> u64 {
        convert(at, -i128::from(self.skipped.load(Ordering::Relaxed)))
    }

    /// Wall-clock time (ns since 1970).
    pub(crate) fn wall(&self) -> u64 {
        wall_ns().saturating_add(self.wall_ahead())
    }

    /// How far the wall clock is ahead of the host's.
    pub(crate) fn wall_ahead(&self) -> u64 {
        self.wall_ahead.load(Ordering::Relaxed)
    }

    /// Moves all clocks to a time of the host, if that is to come. No carrier works.
    pub(crate) fn skip_to(&self, at: u64) {
        let by = at.saturating_sub(self.host_now());
        self.skipped.fetch_add(i64::try_from(by).unwrap_or(i64::MAX), Ordering::Relaxed);
        self.wall_ahead.fetch_add(by, Ordering::Relaxed);
    }

    /// Domain time is this now, and whatever was to happen so much later still is. The wall clock stays. No carrier works.
    pub(crate) fn go_on_at(&self, time: u64) {
        let by = i128::from(time) - i128::from(self.now());
        self.skipped.fetch_add(by.clamp(i64::MIN.into(), i64::MAX.into()) as i64, Ordering::Relaxed);
    }

    /// The wall clock goes on from no earlier than this: that of a domain which has skipped time before.
    pub(crate) fn catch_up(&self, wall: u64) {
        self.wall_ahead.fetch_add(wall.saturating_sub(self.wall()), Ordering::Relaxed);
    }

    /// The host's time at this domain time; [`NEVER`] stays that. A time before the host's first is its first.
    pub(crate) fn on_host(&self, at: u64) -> u64 {
        convert(at, -i128::from(self.ahead()))
    }

    /// The domain time at this time of the host; [`NEVER`] stays that.
    pub(crate) fn of_host(&self, at: u64) -> u64 {
        convert(at, self.ahead().into())
    }

    fn ahead(&self) -> i64 {
        self.ahead.load(Ordering::Relaxed)
    }
}

/// A time moved by this much, within the times that are a time.
fn convert(at: u64, by: i128) -> u64 {
    if at == NEVER {
        return NEVER;
    }
    (i128::from(at) + by).clamp(0, i128::from(NEVER) - 1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_agree_and_never_stays_never() {
        for ahead in [0, 5, -5, 1 << 40] {
            let clock = DomainClock { ahead: AtomicI64::new(ahead), ..DomainClock::default() };
            assert_eq!((clock.on_host(NEVER), clock.of_host(NEVER)), (NEVER, NEVER));
            for at in [1 << 20, 1 << 50] {
                assert_eq!(clock.on_host(clock.of_host(at)), at);
            }
        }
        let resumed = DomainClock::start();
        for time in [1 << 62, 7] {
            // A host that has run for longer than the domain, and one that has just started.
            resumed.go_on_from(time);
            let now = resumed.now();
            assert!((time..time + (1 << 40)).contains(&now), "{now}");
        }
        let late = DomainClock { ahead: AtomicI64::new(1 << 40), ..DomainClock::default() };
        assert_eq!(late.on_host(7), 0, "it is past already");
        assert_eq!(late.of_host(NEVER - 1), NEVER - 1, "a time does not become no time");
    }

    #[test]
    fn what_stands_still_moves_the_domain_and_not_the_wall_clock() {
        const HOUR: u64 = 3600 * 1_000_000_000;
        let clock = DomainClock::start();
        // As on a host that has run for longer than anything stands still.
        clock.skip_to(clock.host_now() + 10 * HOUR);
        clock.go_on_from(2 * HOUR);
        let (wall, timer) = (clock.wall(), clock.on_host(3 * HOUR));
        for time in [HOUR, 7 * HOUR, 2 * HOUR] {
            clock.go_on_at(time);
            let now = clock.now();
            assert!((time..time + HOUR / 60).contains(&now), "{now}");
            assert_eq!(clock.on_host(3 * HOUR), timer, "timers stay where they are in domain time");
            let until = i128::from(clock.on_kernel(timer)) - i128::from(monotonic_ns());
            let left = i128::from(3 * HOUR) - i128::from(time);
            assert!((left - i128::from(HOUR / 60)..=left).contains(&until) || left < 0, "{until}");
        }
        assert!((wall..wall + HOUR / 60).contains(&clock.wall()));
    }

    #[test]
    fn what_is_skipped_moves_all_clocks_and_nothing_of_the_kernels() {
        const MONTH: u64 = 30 * 24 * 3600 * 1_000_000_000;
        let clock = DomainClock::start();
        clock.go_on_from(7);
        let (wall, now) = (clock.wall(), clock.host_now());
        clock.skip_to(now + MONTH);
        clock.skip_to(now);
        assert!((MONTH..2 * MONTH).contains(&clock.now()), "{}", clock.now());
        assert!((now + MONTH..now + 2 * MONTH).contains(&clock.host_now()));
        assert!((wall + MONTH - 1_000_000_000..wall + 2 * MONTH).contains(&clock.wall()));
        assert_eq!(clock.on_host(clock.of_host(now + MONTH)), now + MONTH);
        assert!(clock.on_kernel(clock.host_now()) <= monotonic_ns(), "the kernel's clock stays");
        assert_eq!(clock.on_kernel(NEVER), NEVER);
        // In another process.
        let resumed = DomainClock::start();
        resumed.catch_up(clock.wall());
        assert!(resumed.wall() >= clock.wall() - 1_000_000_000);
        resumed.catch_up(wall);
        assert!(resumed.wall() >= wall + MONTH - 1_000_000_000, "it is not set back");
    }
}
