//! The result, for people and for programs.

use crate::harness::Row;
use crate::machine::Machine;
use serde::Serialize;
use std::fmt;

/// Everything one run has measured.
#[derive(Serialize)]
pub(crate) struct Report {
    /// Where.
    pub machine: Machine,
    /// What.
    pub results: Vec<Row>,
    /// What is no figure, or not one alone.
    pub tables: Vec<Table>,
    /// What could not be measured here.
    pub skipped: Vec<Skipped>,
}

/// Texts in columns.
#[derive(Serialize)]
pub(crate) struct Table {
    /// What it is about.
    pub title: String,
    /// What each column is.
    pub head: Vec<String>,
    /// The cells of each row.
    pub rows: Vec<Vec<String>>,
}

impl fmt::Display for Table {
    /// As a table of Markdown, so that it can be shown where such figures are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.title)?;
        let rule = vec!["---".to_owned(); self.head.len()];
        [&self.head, &rule].into_iter().chain(&self.rows).try_for_each(|row| writeln!(f, "| {} |", row.join(" | ")))
    }
}

/// A scenario that was not run.
#[derive(Serialize)]
pub(crate) struct Skipped {
    /// Which one.
    pub scenario: &'static str,
    /// What it would need.
    pub lack: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let m = &self.machine;
        writeln!(f, "{}, {} cores, Linux {}, isolation {}", m.cpu, m.cores, m.kernel, m.isolation)?;
        writeln!(f, "Medians; smallest and largest sample in brackets. Goal: the ratio is at most this.\n")?;
        let cells: Vec<[String; 6]> = self.results.iter().map(cells).collect();
        let head = ["scenario", "ours", "peer", "ratio", "goal", "peer is"].map(str::to_owned);
        let width = |column: usize| {
            std::iter::once(&head).chain(&cells).map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: [usize; 6] = std::array::from_fn(width);
        for row in std::iter::once(&head).chain(&cells) {
            let [scenario, ours, peer, ratio, goal, name] = row;
            writeln!(
                f,
                "{scenario:<w0$}  {ours:>w1$}  {peer:>w2$}  {ratio:>w3$}  {goal:<w4$}  {name}",
                w0 = widths[0],
                w1 = widths[1],
                w2 = widths[2],
                w3 = widths[3],
                w4 = widths[4],
            )?;
        }
        self.tables.iter().try_for_each(|table| write!(f, "\n{table}"))?;
        for Skipped { scenario, lack } in &self.skipped {
            writeln!(f, "SKIPPED {scenario}: {lack}")?;
        }
        Ok(())
    }
}

fn cells(row: &Row) -> [String; 6] {
    let side =
        |median: f64, [min, max]: [f64; 2]| format!("{} {} [{}, {}]", short(median), row.unit, short(min), short(max));
    let goal = match row.limit {
        Some(limit) if row.ratio <= limit => format!("{limit} ok"),
        Some(limit) => format!("{limit} over"),
        None => "–".to_owned(),
    };
    [
        row.scenario.clone(),
        side(row.ours, row.ours_spread),
        side(row.peer, row.peer_spread),
        format!("{:.3}", row.ratio),
        goal,
        row.peer_name.clone(),
    ]
}

/// Three significant digits.
fn short(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Samples, Unit};

    #[test]
    fn shows_goal_and_mark() {
        let samples = |ns: f64| Samples::of(vec![ns]);
        let row = |limit| Row::new("x", (samples(500.0), samples(1000.0)), "p", Unit::Microseconds, limit);
        assert_eq!(cells(&row(Some(0.5)))[1..5], ["0.50 µs [0.50, 0.50]", "1.00 µs [1.00, 1.00]", "0.500", "0.5 ok"]);
        assert_eq!(cells(&row(Some(0.4)))[4], "0.4 over");
        assert_eq!(cells(&row(None))[4], "–");
    }
}
