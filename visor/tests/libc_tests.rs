//! musl's libc-test over the libc of functions: each of its programs succeeds, but for those that `docs/programs.md` lists with the reason.
//!
//! Its source is fetched from a registry (`cargo xtask build --libc-tests`), so the test is ignored where it is not asked for:
//! `cargo test -p monohull-visor --test libc_tests -- --ignored`. `cargo xtask test --full` does both.

mod support;

use monohull_visor::report::{RunReport, Status};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;
use std::thread;

/// The least number of programs.
const AT_LEAST: usize = 330;

/// The programs that the table of `docs/programs.md` leaves out.
fn left_out() -> BTreeSet<String> {
    let text = fs::read_to_string(support::root().join("docs/programs.md")).expect("docs/programs.md");
    let rows = text.lines().skip_while(|line| !line.starts_with("| tests of libc-test |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').nth(1).expect("a row has cells").to_owned());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn run(name: &str) -> RunReport {
    let image = support::root().join(format!("target/libc-tests/images/{name}.so"));
    let addresses = ["127.0.0.1:*", "0.0.0.0:*"];
    support::run(&json!({
        "name": "test",
        "functions": { "test": { "image": image } },
        "files": [{ "at": "/", "memory": "64MiB" }, { "at": "/tmp", "memory": "64MiB" }, { "at": "/dev/shm", "memory": "1MiB" }],
        "network": { "mode": "host", "listen": addresses, "connect": addresses },
        "steps": [{ "name": "test", "function": "test", "memory": "512MiB", "stack": "8MiB" }],
        "limits": { "timeout": if left_out().contains(name) { "10s" } else { "120s" } },
    }))
}

#[test]
#[ignore = "its source is fetched: `cargo xtask build --libc-tests`"]
fn all_but_those_that_are_listed_succeed() {
    let images = support::root().join("target/libc-tests/images");
    let entries = fs::read_dir(&images).unwrap_or_else(|error| panic!("{}: {error}", images.display()));
    let names = entries.map(|entry| entry.expect("an entry").path());
    let names: BTreeSet<_> =
        names.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
    assert!(names.len() >= AT_LEAST, "only {} programs", names.len());
    let (left_out, wrong) = (left_out(), Mutex::new(Vec::new()));
    let unknown: Vec<_> = left_out.difference(&names).collect();
    assert!(unknown.is_empty(), "listed, but not there: {unknown:?}");
    let next = Mutex::new(names.iter());
    let work = || {
        while let Some(name) = { next.lock().expect("not poisoned").next() } {
            let report = run(name);
            let lines = report.steps[0].instances.first().map(|instance| instance.lines.as_slice()).unwrap_or_default();
            match (report.status == Status::Done, left_out.contains(name)) {
                (true, false) | (false, true) => {}
                (true, true) => wrong.lock().expect("not poisoned").push(format!("{name} succeeds, but is listed")),
                (false, false) => {
                    let said: Vec<_> = lines.iter().take(3).map(|line| &line.text).collect();
                    wrong.lock().expect("not poisoned").push(format!("{name}: {:?} {said:#?}", report.error));
                }
            }
        }
    };
    thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let wrong = wrong.into_inner().expect("not poisoned");
    assert!(wrong.is_empty(), "{} of {} programs:\n{}", wrong.len(), names.len(), wrong.join("\n"));
}
