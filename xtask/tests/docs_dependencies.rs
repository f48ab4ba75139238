//! `docs/dependencies.md` names every direct dependency of the workspace and of the fuzz targets, and no other.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Each is a workspace of its own.
const WORKSPACES: [&str; 5] =
    ["Cargo.toml", "wasi/Cargo.toml", "programs/Cargo.toml", "visor/fuzz/Cargo.toml", "checker/fuzz/Cargo.toml"];
/// How a table of dependencies begins.
const HEADING: &str = "| crate | for | kept by | licence | looked at |";

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root")
}

/// The packages from registries that the members of a workspace name, whatever they call them.
fn direct(manifest: &str) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--format-version=1", "--offline", "--manifest-path"]);
    let output = cargo.arg(root().join(manifest)).output().expect("cargo");
    assert!(output.status.success(), "{manifest}: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let dependencies = packages.iter().flat_map(|package| package["dependencies"].as_array().expect("dependencies"));
    let published = dependencies.filter(|dependency| !dependency["source"].is_null());
    published.map(|dependency| dependency["name"].as_str().expect("a name").to_owned()).collect()
}

/// What the tables name: words in backticks in the first column of rows with five.
fn named(page: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut lines = page.lines();
    while lines.any(|line| line == HEADING) {
        for row in lines.by_ref().skip(1).take_while(|line| line.starts_with('|')) {
            let columns: Vec<_> = row.trim_matches('|').split(" | ").collect();
            assert_eq!(columns.len(), 5, "columns of {row}");
            names.extend(columns[0].split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    names
}

#[test]
fn every_direct_dependency_is_on_the_page() {
    let page = std::fs::read_to_string(root().join("docs/dependencies.md")).expect("docs/dependencies.md");
    let names = named(&page);
    let page: BTreeSet<_> = names.iter().cloned().collect();
    assert_eq!(names.len(), page.len(), "a crate is named twice: {names:?}");
    let used: BTreeSet<_> = WORKSPACES.into_iter().flat_map(direct).collect();
    assert!(used.contains("serde") && used.contains("libfuzzer-sys"), "not all workspaces were read: {used:?}");
    let missing: Vec<_> = used.difference(&page).collect();
    assert!(missing.is_empty(), "not in docs/dependencies.md: {missing:?}");
    let unused: Vec<_> = page.difference(&used).collect();
    assert!(unused.is_empty(), "in docs/dependencies.md, but nothing depends on it: {unused:?}");
}

#[test]
fn the_first_column_names_crates() {
    let page = format!(
        "# Title\n\n{HEADING}\n| --- | --- | --- | --- | --- |\n| `a`, `b-c` | `d` | e | f | `g` |\n\n| `h` |\n"
    );
    assert_eq!(named(&page), ["a", "b-c"]);
}
