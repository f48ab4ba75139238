//! The time in which a run stood still in its process: none that it has taken.

/// Moments at which a run went on after it had stood still, in ticks, and how long it had stood still until then in all, in µs.
#[derive(Default)]
pub(super) struct Away(Vec<(u64, u64)>);

/// Of runs that go on again and again the first moments are forgotten: what they are needed for has ended by then, as a rule.
const KEPT_MAX: usize = 1000;

impl Away {
    /// It goes on now, after so many µs.
    pub(super) fn add(&mut self, now: u64, time: u64) {
        let all = self.0.last().map_or(0, |(_, all)| *all);
        if self.0.len() == KEPT_MAX {
            self.0.remove(0);
        }
        self.0.push((now, all.saturating_add(time)));
    }

    /// How long it had stood still before a moment (µs).
    pub(super) fn before(&self, moment: u64) -> u64 {
        let next = self.0.partition_point(|(at, _)| *at <= moment);
        next.checked_sub(1).map_or(0, |last| self.0[last].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_knows_what_was_before_it() {
        let mut away = Away::default();
        assert_eq!(away.before(7), 0);
        away.add(10, 100);
        away.add(20, 30);
        assert_eq!([9, 10, 19, 20, 99].map(|moment| away.before(moment)), [0, 100, 100, 130, 130]);
        (0..2 * KEPT_MAX as u64).for_each(|step| away.add(100 + step, 1));
        assert_eq!((away.before(u64::MAX), away.0.len()), (130 + 2 * KEPT_MAX as u64, KEPT_MAX));
    }
}
