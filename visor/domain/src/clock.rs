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

use super::carrier::monotonic_ns;
use monohull_abi::module::NEVER;
use std::sync::atomic::{AtomicI64, Ordering};

/// The clock of one domain.
#[derive(Debug)]
pub(crate) struct DomainClock {
    /// What is added to the host's time.
    ahead: AtomicI64,
}

impl DomainClock {
    /// A clock that shows the host's time.
    pub(crate) fn start() -> DomainClock {
        DomainClock { ahead: AtomicI64::new(0) }
    }

    /// Goes on from this domain time.
    pub(crate) fn go_on_from(&self, time: u64) {
        let ahead = i128::from(time) - i128::from(monotonic_ns());
        self.ahead.store(ahead.clamp(i64::MIN.into(), i64::MAX.into()) as i64, Ordering::Relaxed);
    }

    /// Domain time (ns).
    pub(crate) fn now(&self) -> u64 {
        self.of_host(monotonic_ns())
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
            let clock = DomainClock { ahead: AtomicI64::new(ahead) };
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
        let late = DomainClock { ahead: AtomicI64::new(1 << 40) };
        assert_eq!(late.on_host(7), 0, "it is past already");
        assert_eq!(late.of_host(NEVER - 1), NEVER - 1, "a time does not become no time");
    }
}
