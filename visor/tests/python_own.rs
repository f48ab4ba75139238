//! CPython's own tests, as its source has them in `Lib/test`, in the function. Most test the interpreter and its C modules.
//!
//! As in `python_programs`, these tests are ignored where the interpreter is not asked for.

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A module of tests, how many it has, and those of them that fail: because they start another interpreter, or because the libc has one locale.
type Module = (&'static str, u64, &'static [&'static str]);

/// A handful, of which each takes less than two seconds.
const FEW: [Module; 5] = [
    ("test_bisect", 46, &[]),
    ("test_dict", 113, &[]),
    ("test_heapq", 51, &[]),
    ("test_struct", 39, &["test_struct_cleans_up_at_runtime_shutdown"]),
    ("test_textwrap", 66, &[]),
];
/// More.
const MORE: [Module; 9] = [
    ("test_complex", 35, &[]),
    ("test_copy", 81, &[]),
    ("test_csv", 124, &[]),
    ("test_int", 46, &[]),
    ("test_list", 65, &["test_deopt_from_append_list"]),
    ("test_queue", 162, &[]),
    ("test_re", 165, &["test_locale_caching", "test_locale_compiled"]),
    ("test_shlex", 18, &[]),
    ("test_string", 38, &[]),
];
/// What several modules import.
const SHARED: [&str; 5] = ["__init__", "list_tests", "mapping_tests", "re_tests", "seq_tests"];

/// Runs modules, and prints for each how many tests it has, and the names of those that failed. Without any, the interpreter's version.
const MAIN: &str = "\
import sys
if len(sys.argv) == 1:
    sys.exit(print(sys.version.split()[0]))
import unittest
for name in sys.argv[1:]:
    suite = unittest.defaultTestLoader.loadTestsFromName('test.' + name)
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=0).run(suite)
    failed = sorted(test.id().rpartition('.')[2] for test, _ in result.failures + result.errors)
    print(name, result.testsRun, *failed, flush=True)
";

/// The folder of the tests in the source that an interpreter of this version was compiled from, of all builds in a folder.
fn tests_of(version: &str, builds: &Path) -> PathBuf {
    let entries = fs::read_dir(builds).expect("`cargo xtask build --python` has been called");
    let mut sources = entries.map(|entry| entry.expect("an entry").path().join("source"));
    let is_of = |source: &PathBuf| {
        let header = fs::read_to_string(source.join("Include/patchlevel.h")).unwrap_or_default();
        header.lines().any(|line| line.split_whitespace().eq(["#define", "PY_VERSION", &format!("\"{version}\"")]))
    };
    sources.find(is_of).unwrap_or_else(|| panic!("no source of {version}")).join("Lib/test")
}

/// A version that was built before, and may be there still, has other tests.
#[test]
fn tests_are_those_of_the_version() {
    let folder = TempDir::new().expect("a folder");
    for version in ["3.12.9", "3.13.5", "3.13.51"] {
        let include = folder.path().join(version).join("source/Include");
        fs::create_dir_all(&include).expect("made");
        let text = format!("#define PY_MAJOR_VERSION 3\n#define PY_VERSION             \"{version}\"\n");
        fs::write(include.join("patchlevel.h"), text).expect("written");
    }
    fs::create_dir(folder.path().join("3.13.5/target")).expect("made");
    fs::write(folder.path().join("lock"), "").expect("written");
    for version in ["3.12.9", "3.13.5", "3.13.51"] {
        assert_eq!(tests_of(version, folder.path()), folder.path().join(version).join("source/Lib/test"));
    }
}

/// Runs the program `own` of a folder with these arguments: its report.
#[track_caller]
fn run(folder: &Path, arguments: &[&str]) -> Value {
    let workflow = json!({
        "name": "own",
        "functions": { "own": { "image": "own" } },
        "files": [{ "at": "/tmp", "memory": "64MiB" }],
        "steps": [{
            "name": "own",
            "function": "own",
            "args": { "argv": arguments },
            "stack": "8MiB",
            "memory": "1GiB",
        }],
        "limits": { "timeout": "600s" },
    });
    fs::write(folder.join("workflow.json"), workflow.to_string()).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.env_remove("STATE_DIRECTORY").env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.env("XDG_CACHE_HOME", folder).current_dir(folder);
    let output = command.args(["run", "workflow.json", "--json"]).output().expect("monohull starts");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(report["status"], "done", "{report:#}");
    report
}

/// The lines of a stream.
fn lines<'r>(report: &'r Value, stream: &str) -> Vec<&'r str> {
    let lines = report["steps"][0]["instances"][0]["lines"].as_array().expect("lines");
    lines.iter().filter(|line| line["stream"] == stream).filter_map(|line| line["text"].as_str()).collect()
}

/// Runs modules in one instance: each prints what is expected.
#[track_caller]
fn pass(modules: &[Module]) {
    let folder = TempDir::new().expect("a folder");
    let test = folder.path().join("own/test");
    fs::create_dir_all(&test).expect("made");
    fs::write(folder.path().join("own/main.py"), MAIN).expect("written");
    // Without modules it says which version it is.
    let report = run(folder.path(), &[]);
    let version = lines(&report, "stdout").concat();
    let source = tests_of(&version, &Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/python-build"));
    let names = || modules.iter().map(|(name, ..)| *name);
    for name in SHARED.into_iter().chain(names()) {
        fs::copy(source.join(name).with_extension("py"), test.join(name).with_extension("py")).expect(name);
    }
    let copied = Command::new("cp").arg("-r").arg(source.join("support")).arg(&test).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let report = run(folder.path(), &names().collect::<Vec<_>>());
    let expected: Vec<String> = modules
        .iter()
        .map(|(name, count, failed)| [&[*name, &count.to_string()], *failed].concat().join(" "))
        .collect();
    assert_eq!(lines(&report, "stdout"), expected, "{:#?}", lines(&report, "stderr"));
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn a_handful_of_cpythons_own_tests() {
    pass(&FEW);
}

#[test]
#[ignore = "the interpreter takes minutes to compile: `cargo xtask build --python`"]
fn more_of_cpythons_own_tests() {
    pass(&MORE);
}
