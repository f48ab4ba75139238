//! `docs/abi.md` says the same as the crate `monohull-abi`.

use monohull_abi::{ABI_VERSION, Errno, number};

const PAGE: &str = include_str!("../../docs/abi.md");

/// Rows of all tables whose first two columns are a number and a name in backticks.
fn rows() -> Vec<(u32, &'static str)> {
    let row = |line: &'static str| {
        let mut columns = line.strip_prefix('|')?.split('|').map(str::trim);
        let number = columns.next()?.parse().ok()?;
        Some((number, columns.next()?.strip_prefix('`')?.strip_suffix('`')?))
    };
    PAGE.lines().filter_map(row).collect()
}

#[test]
fn every_hostcall_is_documented_with_its_number() {
    let rows = rows();
    for number in 0..number::TABLE_SIZE as u32 {
        if let Some(name) = number::name_of(number) {
            assert!(rows.contains(&(number, name)), "docs/abi.md lacks | {number} | `{name}` |");
        }
    }
}

#[test]
fn every_hostcall_stands_under_its_module() {
    let mut module = "";
    for line in PAGE.lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            module = heading.split('`').nth(1).unwrap_or("core");
        }
        if line.starts_with("## Error") {
            break;
        }
        let number = line.strip_prefix("| ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        if let Some(number) = number {
            assert_eq!(number::module_of(number), Some(module), "{line}");
        }
    }
}

#[test]
fn every_error_number_is_documented() {
    let rows = rows();
    for errno in Errno::ALL {
        let row = (errno as u32, format!("{errno:?}"));
        assert!(rows.iter().any(|&(number, name)| (number, name) == (row.0, &row.1)), "docs/abi.md lacks {row:?}");
    }
}

#[test]
fn what_functions_may_not_call_is_documented_as_no_call() {
    let said = format!("Numbers from {} on are for the visor and for modules", number::SYSTEM_ONLY);
    let answer = format!("a function that calls one gets `{:?}`", Errno::NoSuchCall);
    let line = PAGE.lines().find(|line| line.starts_with(&said)).expect("a line about them");
    assert!(line.contains(&answer), "{line}");
}

#[test]
fn nothing_is_documented_that_does_not_exist() {
    for (number, name) in rows() {
        let is_call = number::name_of(number) == Some(name);
        let is_error = Errno::ALL.iter().any(|errno| *errno as u32 == number && format!("{errno:?}") == name);
        assert!(is_call || is_error, "docs/abi.md has | {number} | `{name}` |");
    }
}

#[test]
fn the_version_is_the_crates() {
    assert!(PAGE.starts_with(&format!("# The hostcall interface, version {ABI_VERSION}\n")));
}
