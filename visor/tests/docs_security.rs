//! `docs/security.md` names tests for every promise and for every threat; each of them exists, and something runs it.
//!
//! A test is what a runner finds: a function with `#[test]`, or an entry of a list that a program hands to its own runner. A
//! helper of that name, or words in a comment, are none. One that is ignored counts if a lane of `cargo xtask test` runs it.

use std::collections::BTreeMap;
use std::path::Path;

/// The lanes that run what is ignored elsewhere, as reasons name them. The last is all of them.
const LANES: [&str; 3] = ["cargo xtask test --keys", "cargo xtask test --network", "`cargo xtask test`"];

/// The tests of a source file, with the reason why each is ignored, if it is.
fn tests(source: &str) -> BTreeMap<String, Option<String>> {
    let mut tests = BTreeMap::new();
    // Of the function whose attributes are being read: whether it is a test, and why it is ignored.
    let (mut is_test, mut ignored) = (false, None);
    for line in source.lines().map(str::trim) {
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        if let Some(attribute) = line.strip_prefix("#[") {
            is_test |= attribute.starts_with("test]") || attribute.starts_with("tokio::test");
            if attribute.starts_with("ignore") {
                ignored = Some(attribute.trim_end_matches(']').to_owned());
            }
            continue;
        }
        let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        if let (true, Some((name, _))) = (is_test, function.and_then(|function| function.split_once('('))) {
            tests.insert(name.to_owned(), ignored.clone());
        }
        // An entry of a list: `("name", function),`.
        if let Some((name, function)) = line.strip_prefix("(\"").and_then(|entry| entry.split_once("\", "))
            && function.starts_with(|first: char| first.is_ascii_lowercase())
            && line.ends_with("),")
        {
            tests.insert(name.to_owned(), None);
        }
        (is_test, ignored) = (false, None);
    }
    tests
}

/// A row of a table: everything quoted in its last column is a file of tests, or a test of the file before it.
#[track_caller]
fn names_tests_that_are_run(root: &Path, row: &str) {
    let column = row.trim_end().trim_end_matches('|').rsplit('|').next().expect("a column");
    let mut quoted = column.split('`').skip(1).step_by(2).peekable();
    assert!(quoted.peek().is_some(), "no test: {row}");
    while let Some(file) = quoted.next() {
        let found = tests(&sources(&root.join(file)));
        let mut named = 0;
        while let Some(test) = quoted.next_if(|name| !name.contains('/')) {
            let ignored = found.get(test).unwrap_or_else(|| panic!("{file} has no test {test}"));
            let is_run = |reason: &String| LANES.iter().any(|lane| reason.contains(lane));
            assert!(ignored.as_ref().is_none_or(is_run), "{file}: no lane runs {test}, which is ignored");
            named += 1;
        }
        assert!(named > 0, "no test of {file}: {row}");
    }
}

/// What a test program consists of: its file, those beside a `main.rs`, and those that it takes from elsewhere by their paths.
fn sources(file: &Path) -> String {
    let mut source = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    if file.ends_with("main.rs") {
        let folder = file.parent().expect("a test lies in a folder");
        let elsewhere = source.lines().filter_map(|line| line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]"));
        let mut parts: Vec<_> = elsewhere.map(|path| folder.join(path)).collect();
        parts.extend(std::fs::read_dir(folder).expect("the folder of the test").flatten().map(|entry| entry.path()));
        for part in parts {
            source += "\n";
            source += &std::fs::read_to_string(part).unwrap_or_default();
        }
    }
    source
}

/// The rows of the table whose first column has this title.
fn rows<'t>(text: &'t str, title: &str) -> Vec<&'t str> {
    let rows = text.lines().skip_while(|line| !line.starts_with(&format!("| {title} |"))).skip(2);
    rows.take_while(|line| line.starts_with('|')).collect()
}

#[test]
fn every_promise_and_every_threat_names_a_test_that_is_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("visor lies in the root");
    let text = std::fs::read_to_string(root.join("docs/security.md")).expect("docs/security.md");
    let (promises, threats) = (rows(&text, "promise"), rows(&text, "a checkpoint that is"));
    assert!(promises.len() >= 10 && threats.len() >= 4, "the tables were not found");
    promises.into_iter().chain(threats).for_each(|row| names_tests_that_are_run(root, row));
}

/// A test of a program that takes it from another one's folder is a test of that program.
#[test]
fn a_row_that_names_no_test_is_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("visor lies in the root");
    let refused = |column: &str| {
        let row = format!("| promise | {column} |");
        std::panic::catch_unwind(|| names_tests_that_are_run(root, &row)).is_err()
    };
    let here = "`visor/tests/docs_security.rs`: `a_row_that_names_no_test_is_found`";
    let restored = "`visor/tests/keys_restored/main.rs`: `memory_of_the_visor_is_out_of_reach`";
    assert!(
        !refused(here)
            && !refused(restored)
            && !refused(&format!("{here}; {restored}, `nothing_is_left_in_registers`"))
    );
    for wrong in [
        "",
        "`visor/tests/docs_security.rs`",
        "`visor/tests/no_such_file.rs`: `x`",
        "`visor/tests/docs_security.rs`: `rows`",
    ] {
        assert!(refused(wrong), "{wrong}");
        assert!(refused(&format!("{here}, {wrong}")) || wrong.is_empty(), "{wrong}");
    }
    // Races are left out there.
    assert!(refused("`visor/tests/keys_restored/main.rs`: `a_buffer_in_use_does_not_change_hands`"));
}

/// Each part of the reset that can be left out has a row, and a test of its name.
#[test]
fn every_part_of_the_reset_is_listed_and_left_out_by_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("visor lies in the root");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let names = read("visor/domain/src/fault_injection/compiled_in.rs");
    let names: Vec<_> = names.split("(\"reset-").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(names.len() > 20, "{names:?}");
    let docs = read("docs/security.md");
    let listed: Vec<_> = docs.split("| `reset-").skip(1).filter_map(|rest| rest.split('`').next()).collect();
    assert_eq!(names.len(), listed.len(), "{listed:?}");
    let tests = tests(&read("visor/tests/keys_reuse/negative.rs"));
    for name in names {
        assert!(listed.contains(&name), "reset-{name} has no row");
        let test = format!("reset_{}", name.replace('-', "_"));
        assert!(tests.contains_key(&test), "there is no test {test}");
    }
}

#[test]
fn only_what_a_runner_finds_is_a_test() {
    let source = r##"
        /// Like `fn in_a_comment()`.
        // #[test]
        fn helper() {}

        #[test]
        #[ignore = "needs much: cargo xtask test --keys"]
        fn with_reason() {}

        #[test]
        #[should_panic]
        /// A comment in between.
        fn plain() { helper(); }

        #[cfg(test)]
        fn only_compiled() {}

        #[tokio::test]
        async fn waits() {}

        pub(crate) const TESTS: &[Test] = &[
            ("listed", listed),
            // ("not_listed", not_listed),
        ];
        fn asks() { ask("(", "no_entry"); }
    "##;
    let names: Vec<_> = tests(source).into_iter().map(|(name, ignored)| (name, ignored.is_some())).collect();
    let expected = [("listed", false), ("plain", false), ("waits", false), ("with_reason", true)];
    assert_eq!(names, expected.map(|(name, ignored)| (name.to_owned(), ignored)));
}
