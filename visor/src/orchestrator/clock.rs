//! Ticks of the time-stamp counter as microseconds.
//!
//! Every switch between threads takes a time stamp, so it must be cheap: the counter is read, and only a report
//! converts, by comparing counter and clock over the whole run.

use crate::domain::carrier::{monotonic_ns, ticks};

/// The beginning of a run, on both scales.
pub(super) struct Clock {
    ticks: u64,
    ns: u64,
}

impl Clock {
    pub(super) fn start() -> Clock {
        Clock { ticks: ticks(), ns: monotonic_ns() }
    }

    /// The scale so far.
    pub(super) fn scale(&self) -> Scale {
        let ticks = ticks().saturating_sub(self.ticks).max(1);
        let ns = monotonic_ns().saturating_sub(self.ns).max(1);
        Scale { begin: self.ticks, us_per_tick: ns as f64 / ticks as f64 / 1000.0 }
    }
}

/// Converts ticks.
pub(super) struct Scale {
    begin: u64,
    us_per_tick: f64,
}

impl Scale {
    /// Microseconds in an interval.
    pub(super) fn us(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.us_per_tick).round() as u64
    }

    /// Microseconds from the beginning of the run to a time stamp; 0 for a stamp that was never taken.
    pub(super) fn since_begin(&self, stamp: u64) -> u64 {
        self.us(stamp.saturating_sub(self.begin))
    }
}
