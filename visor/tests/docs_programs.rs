//! `docs/programs.md` says the same as the libc, and the table of languages in `docs/functions.md` the same as their libraries.

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

/// The text of the programs that the libc's tests run.
fn programs() -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../libc/programs");
    let files = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let of_c = files.filter(|path| path.extension().is_some_and(|extension| extension == "c"));
    of_c.map(|path| std::fs::read_to_string(path).expect("a text")).collect()
}

/// Each is called there by its number (`SYS_NAME`), or by the library's function of its name.
#[test]
fn every_system_call_is_made_by_a_program() {
    let programs = programs();
    let is_called = |name: &str| {
        [format!("SYS_{name}"), name.to_owned()].iter().any(|word| {
            let is_part = |next: Option<char>| next.is_some_and(|next| next.is_alphanumeric() || next == '_');
            programs.match_indices(word.as_str()).any(|(at, _)| {
                let (before, after) = (&programs[..at], &programs[at + word.len()..]);
                let ends =
                    if word.starts_with("SYS_") { !is_part(after.chars().next()) } else { after.starts_with('(') };
                ends && !is_part(before.chars().next_back())
            })
        })
    };
    let missing: Vec<_> = answered().into_iter().filter(|name| !is_called(name)).collect();
    assert!(missing.is_empty(), "no program of libc/programs calls {missing:?}");
}

const FUNCTIONS: &str = include_str!("../../docs/functions.md");
/// Text of each language's library, by the columns of the table.
const LIBRARIES: [(&str, &[&str]); 6] = [
    ("C", &[include_str!("../../function/include/monohull.h")]),
    ("Python", &[include_str!("../../python/monohull.py")]),
    (
        "Go",
        &[
            include_str!("../../wasi/lib/go/slots.go"),
            include_str!("../../wasi/lib/go/instance.go"),
            include_str!("../../wasi/lib/go/durable.go"),
            include_str!("../../wasi/lib/go/children.go"),
            include_str!("../../wasi/lib/go/callback.go"),
            include_str!("../../wasi/lib/go/effects.go"),
            include_str!("../../wasi/lib/go/continuation.go"),
        ],
    ),
    (
        "JavaScript",
        &[
            include_str!("../../wasi/guests/js/main.c"),
            include_str!("../../wasi/guests/js/invocation.c"),
            include_str!("../../wasi/guests/js/children.c"),
            include_str!("../../wasi/guests/js/continuation.c"),
        ],
    ),
    ("AssemblyScript", &[include_str!("../../wasi/lib/assemblyscript/monohull.ts")]),
    ("components", &[include_str!("../../wasi/include/monohull.wit")]),
];

/// Ways in which the library of a language begins what it declares of this name.
fn declarations(language: &str, name: &str) -> Vec<String> {
    match language {
        "C" => vec![format!(" {name}(")],
        "Python" => vec![format!("def {name}("), format!("class {name}:")],
        "Go" => vec![format!("func {name}(")],
        "JavaScript" => vec![format!("_DEF(\"{name}\""), format!("\"{name}\", JS_NewString")],
        "AssemblyScript" => vec![format!("export function {name}("), format!("export class {name} ")],
        _ => vec![format!(" {name}: func("), format!("interface {name} ")],
    }
}

#[test]
fn what_languages_have_is_in_their_libraries() {
    let table = FUNCTIONS.split_once("| | Rust | C |").expect("the table").1;
    let columns: Vec<&str> =
        ["Rust", "C"].into_iter().chain(table.lines().next().expect("a head").split('|').map(str::trim)).collect();
    let mut found = 0;
    for row in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
        for (cell, column) in row.split('|').skip(2).zip(columns.iter().filter(|column| !column.is_empty())) {
            let Some((language, texts)) = LIBRARIES.iter().find(|(language, _)| language == column) else { continue };
            for name in cell.split('`').skip(1).step_by(2) {
                // Another name of a row in C is cut, and a sleep is that of the language, as some statements are.
                let name = if name.starts_with('_') { format!("monohull{name}") } else { name.to_owned() };
                if ["nanosleep", "try", "defer"].contains(&&*name) || name.starts_with("time.") {
                    continue;
                }
                let ways = declarations(language, &name);
                let is_there = texts.iter().any(|text| ways.iter().any(|way| text.contains(&**way)));
                assert!(is_there, "{language} has no {name}: {row}");
                found += 1;
            }
        }
    }
    assert!(found > 80, "{found} names are read from the table");
}
