//! `docs/security.md` names a test for every promise; each of them exists.

use std::path::Path;

#[test]
fn every_promise_names_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("visor lies in the root");
    let text = std::fs::read_to_string(root.join("docs/security.md")).expect("docs/security.md");
    let promises = text.lines().skip_while(|line| !line.starts_with("| promise")).skip(2);
    let promises: Vec<_> = promises.take_while(|line| line.starts_with('|')).collect();
    assert!(promises.len() >= 10, "the table of promises was not found");
    for promise in promises {
        let quoted: Vec<_> = promise.split('`').skip(1).step_by(2).collect();
        let (file, tests) = quoted.split_first().unwrap_or_else(|| panic!("no test: {promise}"));
        let folder = root.join(file).parent().expect("a test lies in a folder").to_owned();
        let mut source = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        if file.ends_with("main.rs") {
            for entry in std::fs::read_dir(folder).expect("the folder of the test").flatten() {
                source += &std::fs::read_to_string(entry.path()).unwrap_or_default();
            }
        }
        assert!(!tests.is_empty(), "no test: {promise}");
        for test in tests {
            assert!(source.contains(&format!("fn {test}(")), "{file} has no test {test}");
        }
    }
}
