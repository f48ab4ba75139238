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
    /// What, in the order in which it was measured.
    pub results: Vec<Measured>,
    /// What is no figure, or not one alone.
    pub tables: Vec<Table>,
    /// What could not be measured here.
    pub skipped: Vec<Skipped>,
}

/// What one scenario has measured.
#[derive(Serialize)]
pub(crate) struct Measured {
    /// Its name.
    pub scenario: &'static str,
    /// What it measures, and against what.
    pub about: &'static str,
    /// Its figures.
    pub rows: Vec<Row>,
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

impl Report {
    /// The result as a page of documentation: a section for each scenario. Samples are not in it, only their medians.
    pub(crate) fn markdown(&self) -> String {
        let m = &self.machine;
        let mut text = format!("{}, {} cores, Linux {}, isolation `{}`.\n", m.cpu, m.cores, m.kernel, m.isolation);
        for Measured { scenario, about, rows } in &self.results {
            text += &format!("\n### `{scenario}`: {about}\n\n");
            text += "| what | ours | peer | ratio | goal | peer is |\n| --- | --- | --- | --- | --- | --- |\n";
            for row in rows {
                let Row { scenario, unit, peer_name, .. } = row;
                let (ours, peer, goal) = (short(row.ours), short(row.peer), goal(row));
                let ratio = short(row.ratio);
                text += &format!("| {scenario} | {ours} {unit} | {peer} {unit} | {ratio} | {goal} | {peer_name} |\n");
            }
        }
        text + &self.tables.iter().map(|table| format!("\n### {table}")).collect::<String>()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let m = &self.machine;
        writeln!(f, "{}, {} cores, Linux {}, isolation {}", m.cpu, m.cores, m.kernel, m.isolation)?;
        writeln!(f, "Medians; smallest and largest sample in brackets. Goal: the ratio is at most this.\n")?;
        let cells: Vec<[String; 6]> = self.results.iter().flat_map(|measured| &measured.rows).map(cells).collect();
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
    [
        row.scenario.clone(),
        side(row.ours, row.ours_spread),
        side(row.peer, row.peer_spread),
        format!("{:.3}", row.ratio),
        goal(row),
        row.peer_name.clone(),
    ]
}

/// What the ratio may be at most, and whether it is more.
fn goal(row: &Row) -> String {
    match row.limit {
        Some(limit) => {
            format!("{} {}", (limit * 1000.0).round() / 1000.0, if row.ratio <= limit { "ok" } else { "over" })
        }
        None => "–".to_owned(),
    }
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
        assert_eq!(cells(&row(Some(1.0 / 3.0)))[4], "0.333 over");
    }

    #[test]
    fn a_page_has_a_section_for_each_scenario() {
        let samples = |ns: f64| Samples::of(vec![ns]);
        let row = Row::new("x", (samples(500.0), samples(1000.0)), "p", Unit::Microseconds, Some(0.5));
        let machine = Machine { cpu: "a".into(), cores: 2, kernel: "6".into(), isolation: "process".into() };
        let table = Table { title: "t".into(), head: vec!["h".into()], rows: vec![vec!["c".into()]] };
        let results = vec![Measured { scenario: "s", about: "x against p", rows: vec![row] }];
        let page = Report { machine, results, tables: vec![table], skipped: Vec::new() }.markdown();
        assert!(
            page.starts_with("a, 2 cores, Linux 6, isolation `process`.\n\n### `s`: x against p\n\n| what |"),
            "{page}"
        );
        assert!(
            page.contains("\n| x | 0.50 µs | 1.00 µs | 0.50 | 0.5 ok | p |\n\n### t\n\n| h |\n| --- |\n| c |\n"),
            "{page}"
        );
    }
}
