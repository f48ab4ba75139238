//! The pauses between attempts of a step.

use core::time::Duration;

/// The pause after the first failure, unless it is said.
pub(crate) const FIRST: Duration = Duration::from_secs(1);
/// The longest pause, unless it is said.
pub(crate) const LONGEST: Duration = Duration::from_secs(60 * 60);

/// Between half of a pause and all of it, by some number: many that fail together do not try again together.
pub(crate) fn shortened(pause: Duration, number: u64) -> Duration {
    let half = pause / 2;
    let (whole, parts) = (u64::from(u16::MAX), number % u64::from(u16::MAX));
    let share = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX) / whole * parts;
    half + Duration::from_nanos(share)
}

/// The pause after so many failures, at least one: each is twice as long as the one before, and none longer than the longest.
pub(crate) fn after(failures: u32, first: Duration, longest: Duration) -> Duration {
    let doubled = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(doubled).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses = [1, 2, 3, 11, 12, 13, 32, 33, u32::MAX].map(|failures| after(failures, FIRST, LONGEST).as_secs());
        assert_eq!(pauses, [1, 2, 4, 1024, 2048, 3600, 3600, 3600, 3600]);
        assert_eq!(after(1, LONGEST, FIRST), FIRST);
        for number in [0, 1, 65_534, 65_535, u64::MAX] {
            let pause = shortened(FIRST, number);
            assert!((FIRST / 2..=FIRST).contains(&pause), "{pause:?}");
        }
    }
}
