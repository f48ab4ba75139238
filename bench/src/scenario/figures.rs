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
        let hosts = self.samples(name, |(_, host)| host)?;
        Ok(Row::new(title, (self.ours(name)?, hosts), host, unit, limit.into()))
    }

    /// One of ours against another of ours, below which it cannot be.
    pub(super) fn against_floor(&self, title: &str, name: &str, floor: &str, unit: Unit) -> Result<Row> {
        Ok(Row::new(title, (self.ours(name)?, self.ours(floor)?), floor, unit, None))
    }

    /// One of ours against another of the host's, below which it cannot be.
    pub(super) fn against_hosts(&self, title: &str, name: &str, floor: &str, unit: Unit) -> Result<Row> {
        let hosts = self.samples(floor, |(_, host)| host)?;
        Ok(Row::new(title, (self.ours(name)?, hosts), &format!("{floor}, by the host"), unit, None))
    }

    fn ours(&self, name: &str) -> Result<Samples> {
        self.samples(name, |(ours, _)| ours)
    }

    fn samples(&self, name: &str, side: impl Fn(&(Figures, Figures)) -> &Figures) -> Result<Samples> {
        let of = |round| side(round).get(name).copied().ok_or_else(|| format!("no figure {name:?}"));
        self.0.iter().map(of).collect::<Result<_>>().map(Samples::of)
    }
}
