//! Ticks of the time-stamp counter as microseconds.
//!
//! Every switch between threads takes a time stamp, so it must be cheap: the counter is read, and only a report
//! converts, by comparing counter and clock over the whole run.

use monohull_domain::host_time::{monotonic_ns, ticks};

/// The beginning of a run, on both scales.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    /// When the run was asked for (monotonic ns).
    requested: u64,
    ticks: u64,
    ns: u64,
}

impl Clock {
    /// A clock for a run that was asked for at this time (monotonic ns).
    pub(super) fn start(requested: u64) -> Clock {
        Clock { requested, ticks: ticks(), ns: monotonic_ns() }
    }

    /// The scale so far.
    pub(super) fn scale(&self) -> Scale {
        let ticks = ticks().saturating_sub(self.ticks).max(1);
        let ns = monotonic_ns().saturating_sub(self.ns).max(1);
        let offset = self.ns.saturating_sub(self.requested);
        Scale { requested: self.requested, begin: self.ticks, offset, ns_per_tick: ns as f64 / ticks as f64 }
    }
}

/// Converts ticks.
pub(super) struct Scale {
    requested: u64,
    begin: u64,
    /// From the request to the first tick, in ns.
    offset: u64,
    ns_per_tick: f64,
}

impl Scale {
    /// Microseconds in an interval.
    pub(super) fn us(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.ns_per_tick / 1000.0).round() as u64
    }

    /// Microseconds from the request to a time stamp; 0 for a stamp that was never taken.
    pub(super) fn since_request(&self, stamp: u64) -> u64 {
        if stamp == 0 { 0 } else { (self.at(stamp) - self.requested) / 1000 }
    }

    /// When a time stamp was taken (monotonic ns).
    pub(super) fn at(&self, stamp: u64) -> u64 {
        let since = stamp.saturating_sub(self.begin) as f64 * self.ns_per_tick;
        self.requested + self.offset + since.round() as u64
    }
}
