//! `docs/programs.md` says the same as the libc.

use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../docs/programs.md");
const TABLE: &str = include_str!("../../libc/src/table.rs");

/// The system calls of the libc's table: lines such as `0 "read" files::read,`.
fn answered() -> BTreeSet<&'static str> {
    let table = TABLE.split_once("\ntable! {\n").expect("the table").1;
    let name = |line: &'static str| {
        let (number, rest) = line.trim().split_once(" \"")?;
        let _: u32 = number.parse().ok()?;
        Some(rest.split_once('"')?.0)
    };
    table.lines().filter_map(name).collect()
}

/// The names in backticks in the first column of the page's table, in order.
fn documented() -> Vec<&'static str> {
    let rows = PAGE.lines().skip_while(|line| !line.starts_with("| system calls |")).skip(2);
    let first = |row: &'static str| row.split('|').nth(1).expect("a row has cells");
    let cells = rows.take_while(|line| line.starts_with('|')).map(first);
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_system_call_is_documented_once() {
    let (answered, documented) = (answered(), documented());
    assert!(answered.len() > 180, "{} calls are read from the table", answered.len());
    let rows: BTreeSet<_> = documented.iter().copied().collect();
    let (missing, unknown): (Vec<_>, Vec<_>) =
        (answered.difference(&rows).collect(), rows.difference(&answered).collect());
    assert!(missing.is_empty(), "docs/programs.md lacks {missing:?}");
    assert!(unknown.is_empty(), "docs/programs.md has {unknown:?}, which the libc does not answer");
    assert_eq!(documented.len(), rows.len(), "a call stands in two rows");
}
