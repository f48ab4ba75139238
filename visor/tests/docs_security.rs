//! `docs/security.md` names a test for every promise; each of them exists, and something runs it.
//!
//! A test is what a runner finds: a function with `#[test]`, or an entry of a list that a program hands to its own runner. A
//! helper of that name, or words in a comment, are none. One that is ignored counts if a lane of `cargo xtask test` runs it.

use std::collections::BTreeMap;
use std::path::Path;

/// The lanes that run what is ignored elsewhere.
const LANES: [&str; 2] = ["cargo xtask test --keys", "cargo xtask test --network"];

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

#[test]
fn every_promise_names_a_test_that_is_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("visor lies in the root");
    let text = std::fs::read_to_string(root.join("docs/security.md")).expect("docs/security.md");
    let promises = text.lines().skip_while(|line| !line.starts_with("| promise")).skip(2);
    let promises: Vec<_> = promises.take_while(|line| line.starts_with('|')).collect();
    assert!(promises.len() >= 10, "the table of promises was not found");
    for promise in promises {
        let quoted: Vec<_> = promise.split('`').skip(1).step_by(2).collect();
        let (file, named) = quoted.split_first().unwrap_or_else(|| panic!("no test: {promise}"));
        let folder = root.join(file).parent().expect("a test lies in a folder").to_owned();
        let mut source = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        if file.ends_with("main.rs") {
            for entry in std::fs::read_dir(folder).expect("the folder of the test").flatten() {
                source += "\n";
                source += &std::fs::read_to_string(entry.path()).unwrap_or_default();
            }
        }
        let found = tests(&source);
        assert!(!named.is_empty(), "no test: {promise}");
        for test in named {
            let ignored = found.get(*test).unwrap_or_else(|| panic!("{file} has no test {test}"));
            let is_run = |reason: &String| LANES.iter().any(|lane| reason.contains(lane));
            assert!(ignored.as_ref().is_none_or(is_run), "{file}: no lane runs {test}, which is ignored");
        }
    }
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
