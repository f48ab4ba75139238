//! The carriers of a domain: how many there are, which are idle, and which of them a wake-up goes to.
//!
//! ```text
//!   working ──sleep(until)──▶ sleeper: waits on a condition variable
//!      ▲                      poller:  waits in epoll; at most one idle carrier does
//!      └──── wake_one: one wake-up at a time is under way ────┘
//! ```

use monohull_abi::layout::CARRIER_MAX;
use monohull_abi::module::NEVER;

/// What the scheduler knows of the carriers.
pub(super) struct CarrierSet {
    /// Carriers that have been started; their indices are below this.
    started: usize,
    /// Those among them that could not be set up.
    failed: usize,
    /// Those among them that have nothing to do.
    idle: usize,
    /// One of the idle carriers waits in epoll.
    polling: bool,
    /// A wake-up has been sent, and no carrier has woken since.
    wakeup_pending: bool,
    /// When each idle carrier wakes by itself (monotonic ns); [`NEVER`] for working ones.
    wakes_at: [u64; CARRIER_MAX],
}

/// Where a wake-up goes.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WakeUp {
    /// Nowhere: no carrier is idle, or one is being woken already.
    Nothing,
    /// To the carrier that waits in epoll.
    Poller,
    /// To one that waits on the condition variable.
    Sleeper,
}

impl CarrierSet {
    pub(super) fn new() -> CarrierSet {
        CarrierSet {
            started: 0,
            failed: 0,
            idle: 0,
            polling: false,
            wakeup_pending: false,
            wakes_at: [NEVER; CARRIER_MAX],
        }
    }

    /// A run begins with one carrier that works.
    pub(super) fn begin(&mut self) {
        self.started = 1;
        self.idle = 0;
    }

    /// How many have been started.
    pub(super) fn started(&self) -> usize {
        self.started
    }

    /// Whether any is idle.
    pub(super) fn any_idle(&self) -> bool {
        self.idle > 0
    }

    /// Whether no other carrier works than the caller's.
    pub(super) fn others_idle(&self) -> bool {
        self.idle + self.failed + 1 == self.started
    }

    /// The index of a carrier to start, if one more is of use: all carriers work, and all that were started could be.
    pub(super) fn start_one(&mut self, most: usize) -> Option<usize> {
        if self.idle > 0 || self.failed > 0 || self.started >= most {
            return None;
        }
        self.started += 1;
        Some(self.started - 1)
    }

    /// A carrier that was started could not be set up.
    pub(super) fn fail_one(&mut self) {
        self.failed += 1;
    }

    /// A carrier has nothing to do until `until` (monotonic ns).
    pub(super) fn sleep(&mut self, carrier: usize, until: u64) {
        self.idle += 1;
        self.wakes_at[carrier] = until;
    }

    /// It has woken.
    pub(super) fn wake(&mut self, carrier: usize) {
        self.idle -= 1;
        self.wakes_at[carrier] = NEVER;
        self.wakeup_pending = false;
    }

    /// Whether an idle carrier waits in epoll.
    pub(super) fn is_polling(&self) -> bool {
        self.polling
    }

    /// An idle carrier begins to wait in epoll. False if another one does already.
    pub(super) fn begin_polling(&mut self) -> bool {
        !std::mem::replace(&mut self.polling, true)
    }

    /// It has come back. Whether another idle carrier can take over.
    pub(super) fn end_polling(&mut self) -> bool {
        self.polling = false;
        self.idle > 1
    }

    /// When the first idle carrier wakes by itself.
    pub(super) fn wakes_at(&self) -> u64 {
        self.wakes_at[..self.started].iter().copied().min().unwrap_or(NEVER)
    }

    /// There is work for an idle carrier. The poller is woken last, since it has to be replaced.
    pub(super) fn wake_one(&mut self) -> WakeUp {
        if self.idle == 0 || std::mem::replace(&mut self.wakeup_pending, true) {
            return WakeUp::Nothing;
        }
        if self.polling && self.idle == 1 { WakeUp::Poller } else { WakeUp::Sleeper }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wake_up_at_a_time_and_the_poller_last() {
        let mut carriers = CarrierSet::new();
        carriers.begin();
        assert_eq!((carriers.start_one(2), carriers.start_one(2)), (Some(1), None));
        assert_eq!(carriers.wake_one(), WakeUp::Nothing, "all work");
        carriers.sleep(0, 500);
        assert!(carriers.begin_polling() && !carriers.begin_polling());
        carriers.sleep(1, 300);
        assert_eq!(carriers.wakes_at(), 300);
        assert_eq!(carriers.wake_one(), WakeUp::Sleeper);
        assert_eq!(carriers.wake_one(), WakeUp::Nothing, "it is under way");
        carriers.wake(1);
        assert_eq!(carriers.wakes_at(), 500);
        assert!(carriers.others_idle());
        assert_eq!(carriers.wake_one(), WakeUp::Poller);
        assert!(!carriers.end_polling(), "no idle carrier can take over");
        carriers.wake(0);
        assert_eq!(carriers.wakes_at(), NEVER);
        assert!(!carriers.others_idle());
    }

    #[test]
    fn after_a_failure_no_carrier_is_started() {
        let mut carriers = CarrierSet::new();
        carriers.begin();
        assert_eq!(carriers.start_one(4), Some(1));
        carriers.fail_one();
        assert_eq!(carriers.start_one(4), None);
        assert!(carriers.others_idle());
    }
}
