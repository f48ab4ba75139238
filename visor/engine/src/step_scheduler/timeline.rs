//! The moments of a run that its report names, each of the first time, wherever the run was then.
//!
//! A run that is captured takes them along by the wall clock: the monotonic one means nothing in another process. There they lie as long ago as they do.

use super::{State, StepScheduler};
use crate::clock::Scale;
use monohull_domain::Shared;
use monohull_domain::host_time::{monotonic_ns, wall_ns};
use monohull_report::Point;

/// Their names.
const NAMES: [&str; 4] = ["dispatched", "domain-ready", "image-mapped", "first-instruction"];

/// Those that have been.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline(Vec<Moment>);

#[derive(Clone, Copy, Debug)]
struct Moment {
    name: &'static str,
    /// CLOCK_MONOTONIC, ns.
    at_ns: u64,
    /// The same by the wall clock (ns since 1970).
    wall: u64,
}

impl Timeline {
    /// Notes a moment; false if there has been one of its name.
    fn note(&mut self, name: &'static str, at_ns: u64) -> bool {
        let is_new = !self.0.iter().any(|moment| moment.name == name);
        if is_new {
            let ago = monotonic_ns().saturating_sub(at_ns);
            self.0.push(Moment { name, at_ns, wall: wall_ns().saturating_sub(ago) });
        }
        is_new
    }

    /// With those that a domain has noted itself.
    pub(super) fn with(&self, scale: &Scale, domain: &Shared) -> Timeline {
        let mut all = self.clone();
        let stamps = [("image-mapped", domain.first_mapped()), ("first-instruction", domain.first_entry())];
        for (name, stamp) in stamps.into_iter().filter(|(_, stamp)| *stamp != 0) {
            all.note(name, scale.at(stamp));
        }
        all
    }

    /// For a report.
    pub(super) fn points(&self) -> Vec<Point> {
        self.0.iter().map(|moment| Point { name: moment.name.to_owned(), at_ns: moment.at_ns }).collect()
    }

    /// For a continuation.
    pub(super) fn record(&self) -> Vec<(String, u64)> {
        self.0.iter().map(|moment| (moment.name.to_owned(), moment.wall)).collect()
    }

    /// Those of a continuation; `None` if no run has these.
    pub(super) fn of(record: &[(String, u64)]) -> Option<Timeline> {
        let (now, wall_now) = (monotonic_ns(), wall_ns());
        let mut all = Timeline::default();
        for (name, wall) in record {
            let name = NAMES.into_iter().find(|known| known == name)?;
            if all.0.iter().any(|moment| moment.name == name) {
                return None;
            }
            let at_ns = now.saturating_sub(wall_now.saturating_sub(*wall));
            all.0.push(Moment { name, at_ns, wall: *wall });
        }
        Some(all)
    }
}

impl StepScheduler {
    /// Notes a moment of the run (CLOCK_MONOTONIC, ns); false if there has been one of its name.
    pub(crate) fn note(&self, name: &'static str, at_ns: u64) -> bool {
        self.lock().timeline.note(name, at_ns)
    }
}

impl State {
    /// µs from the request to the first instruction; 0 if there was none.
    pub(super) fn cold_start(&self, scale: &Scale, first_entry: u64) -> u64 {
        self.cold_start_us.unwrap_or_else(|| scale.since_request(first_entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_as_long_ago_in_another_process() {
        let mut first = Timeline::default();
        let now = monotonic_ns();
        assert!(first.note("dispatched", now.saturating_sub(5_000_000)) && first.note("domain-ready", now));
        assert!(!first.note("domain-ready", now + 1), "the first one counts");
        let again = Timeline::of(&first.record()).expect("moments of a run");
        for (before, after) in first.points().iter().zip(again.points()) {
            assert_eq!(before.name, after.name);
            assert!(before.at_ns.abs_diff(after.at_ns) < 1_000_000_000, "{before:?}, {after:?}");
        }
        assert_eq!(again.record(), first.record());
        let of = |names: &[&str]| Timeline::of(&names.iter().map(|name| ((*name).to_owned(), 0)).collect::<Vec<_>>());
        assert_eq!(of(&["dispatched"]).expect("one of long ago").record()[0].1, 0);
        for bad in [&["gone-on"][..], &["dispatched", "dispatched"], &["\u{1b}"]] {
            assert!(of(bad).is_none(), "{bad:?}");
        }
    }
}
