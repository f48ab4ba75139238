//! Figures of a program that measures itself: it prints a line `NAME: NUMBER` for each.

use crate::harness::{Result, Row, Samples, Unit};
use std::collections::BTreeMap;

/// Nanoseconds, by name.
pub(super) type Figures = BTreeMap<String, f64>;

/// The lines of a program.
pub(super) fn figures<'l>(lines: impl Iterator<Item = &'l str>) -> Result<Figures> {
    let figure = |line: &str| {
        let (name, number) = line.rsplit_once(": ")?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    lines.map(|line| figure(line).ok_or_else(|| format!("the program said {line:?}"))).collect()
}

/// All figures of both sides, in turns. The first turn of each is thrown away.
pub(super) struct Rounds(Vec<(Figures, Figures)>);

impl Rounds {
    pub(super) fn measure(
        rounds: usize,
        mut ours: impl FnMut() -> Result<Figures>,
        mut host: impl FnMut() -> Result<Figures>,
    ) -> Result<Rounds> {
        ours()?;
        host()?;
        (0..rounds).map(|_| Ok((ours()?, host()?))).collect::<Result<_>>().map(Rounds)
    }

    /// The names of the figures.
    pub(super) fn names(&self) -> Vec<String> {
        self.0.first().map(|(ours, _)| ours.keys().cloned().collect()).unwrap_or_default()
    }

    /// One of them.
    pub(super) fn row(
        &self,
        title: &str,
        name: &str,
        host: &str,
        unit: Unit,
        limit: impl Into<Option<f64>>,
    ) -> Result<Row> {
        let of = |figures: &Figures| figures.get(name).copied().ok_or_else(|| format!("no figure {name:?}"));
        let ours = self.0.iter().map(|(ours, _)| of(ours)).collect::<Result<Vec<_>>>()?;
        let hosts = self.0.iter().map(|(_, host)| of(host)).collect::<Result<Vec<_>>>()?;
        Ok(Row::new(title, (Samples::of(ours), Samples::of(hosts)), host, unit, limit.into()))
    }
}
