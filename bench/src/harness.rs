//! How a scenario measures: in rounds, ours and the peer taking turns, so that a noisy machine is noisy for both.
//!
//! ```text
//! warm-up   round 1        round 2        …
//! ours peer │ ours peer    │ ours peer    │      →  median, smallest and largest of each side
//! ```

use serde::Serialize;
use std::fmt;

/// What a scenario ends with: an error is a sentence for the person at the terminal.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// How much to measure.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    /// Tiny sizes and one round: only whether everything works.
    pub smoke: bool,
    /// Rounds of each scenario.
    pub rounds: usize,
}

impl Effort {
    /// A size or count: `full`, or `tiny` in a smoke run.
    pub(crate) fn size<T>(self, full: T, tiny: T) -> T {
        if self.smoke { tiny } else { full }
    }
}

/// Samples of one side.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Samples {
    /// Half of the samples are at most this.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Samples {
    /// Sums up at least one sample.
    pub(crate) fn of(mut values: Vec<f64>) -> Samples {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => (values[middle - 1] + values[middle]) / 2.0,
            _ => values[middle],
        };
        Samples { median, min: values[0], max: values[values.len() - 1] }
    }

    /// The same in another unit.
    pub(crate) fn scaled(&self, factor: f64) -> Samples {
        Samples { median: self.median * factor, min: self.min * factor, max: self.max * factor }
    }
}

/// Measures both sides in turns. The first turn of each is thrown away.
pub(crate) fn take_turns(
    effort: Effort,
    mut ours: impl FnMut() -> Result<f64>,
    mut peer: impl FnMut() -> Result<f64>,
) -> Result<(Samples, Samples)> {
    pairs(effort, || Ok((ours()?, peer()?)))
}

/// The same for sides that are measured together.
pub(crate) fn pairs(effort: Effort, mut both: impl FnMut() -> Result<(f64, f64)>) -> Result<(Samples, Samples)> {
    both()?;
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let (our, peer) = both()?;
        ours.push(our);
        peers.push(peer);
    }
    Ok((Samples::of(ours), Samples::of(peers)))
}

/// Units of what is measured; samples of time are taken in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Units of 1024 bytes; samples are bytes.
    #[serde(rename = "KiB")]
    Kibibytes,
}

impl Unit {
    fn per_sample(self) -> f64 {
        match self {
            Unit::Nanoseconds => 1.0,
            Unit::Microseconds => 1e-3,
            Unit::Milliseconds => 1e-6,
            Unit::Kibibytes => 1.0 / 1024.0,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Unit::Nanoseconds => "ns",
            Unit::Microseconds => "µs",
            Unit::Milliseconds => "ms",
            Unit::Kibibytes => "KiB",
        })
    }
}

/// One line of the result.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// The scenario, with its variant.
    pub scenario: String,
    /// Our median.
    pub ours: f64,
    /// The peer's median.
    pub peer: f64,
    /// The peer.
    pub peer_name: String,
    /// Unit of all figures.
    pub unit: Unit,
    /// `ours / peer`.
    pub ratio: f64,
    /// The goal: the ratio should be at most this. Scenarios without one are only reported.
    pub limit: Option<f64>,
    /// Our smallest and largest sample.
    pub ours_spread: [f64; 2],
    /// The peer's.
    pub peer_spread: [f64; 2],
}

impl Row {
    /// Puts the two sides (in nanoseconds) side by side.
    pub(crate) fn new(
        scenario: impl Into<String>,
        (ours, peer): (Samples, Samples),
        peer_name: &str,
        unit: Unit,
        limit: Option<f64>,
    ) -> Row {
        let (ours, peer) = (ours.scaled(unit.per_sample()), peer.scaled(unit.per_sample()));
        Row {
            scenario: scenario.into(),
            ours: ours.median,
            peer: peer.median,
            peer_name: peer_name.into(),
            unit,
            ratio: ours.median / peer.median,
            limit,
            ours_spread: [ours.min, ours.max],
            peer_spread: [peer.min, peer.max],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_up() {
        let odd = Samples::of(vec![3.0, 1.0, 2.0]);
        assert_eq!((odd.median, odd.min, odd.max), (2.0, 1.0, 3.0));
        assert_eq!(Samples::of(vec![4.0, 1.0]).median, 2.5);
    }

    #[test]
    fn the_first_turn_does_not_count() {
        let mut turn = 0.0;
        let effort = Effort { smoke: false, rounds: 2 };
        let (ours, peer) = take_turns(
            effort,
            || {
                turn += 1.0;
                Ok(turn)
            },
            || Ok(10.0),
        )
        .unwrap();
        assert_eq!((ours.min, ours.max, peer.median), (2.0, 3.0, 10.0));
    }
}
