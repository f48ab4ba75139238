//! A workflow loads the libos modules it uses, and no other: what each shipped one loads.

use crate::harness::{Workflow, root};
use std::collections::BTreeSet;
use std::path::Path;

/// A workflow's name, what fills its input slots, and what it loads.
type Expected = (&'static str, &'static [(&'static str, &'static [u8])], &'static [&'static str]);

const EXPECTED: &[Expected] = &[
    ("conformance", &[("input", b"one line\n")], &["fdtab", "mm", "ramfs", "stdio", "time"]),
    ("crates", &[], &["mm", "stdio"]),
    ("echo", &[("in", b"hello\n")], &["mm"]),
    ("fan-out", &[("text", b"one fish two fish\n")], &["mm"]),
    ("file-tour", &[], &["fdtab", "mm", "ramfs", "stdio", "time"]),
    ("forked", &[], &["mm", "stdio", "time"]),
    ("function-chain", &[], &["mm"]),
    ("jq", &[("orders", b"[{\"customer\": \"Ada\", \"price\": 3.5}]")], &["fdtab", "mm", "stdio"]),
    ("blob", &[], &["fdtab", "mm", "stdio"]),
    ("generator", &[], &["mm", "stdio"]),
    ("http-hello", &[("request", b"GET / HTTP/1.1\r\n\r\n")], &["mm"]),
    ("json-report", &[], &["mm", "stdio"]),
    ("kinds", &[], &["mm", "stdio"]),
    ("log-analytics", &[], &["fdtab", "mm", "mmap-file", "ramfs"]),
    ("lua", &[("orders", b"Ada 3.50\n")], &["mm", "stdio", "time"]),
    ("minigzip", &[], &["fdtab", "mm", "ramfs", "stdio"]),
    ("network-tour", &[], &["mm", "socket", "stdio", "time"]),
    ("no-op", &[], &[]),
    ("parallel-sort", &[("lines", b"17\n4\n300\n")], &["mm"]),
    (
        "photos",
        &[
            ("photo.0", PIXEL),
            ("photo.1", PIXEL),
            ("photo.2", PIXEL),
            ("photo.3", PIXEL),
            ("photo.4", PIXEL),
            ("photo.5", PIXEL),
        ],
        &["mm", "stdio"],
    ),
    ("quickjs", &[("orders", b"Ada 3.50\n")], &["fdtab", "mm", "stdio", "time"]),
    ("relay", &[], &["mm"]),
    ("real-std", &[], &["fdtab", "mm", "ramfs", "stdio", "time"]),
    ("sqlite3", &[("orders", b"Ada,3.50\n")], &["fdtab", "mm", "stdio"]),
    ("std-tour", &[], &["mm", "stdio", "time"]),
    ("sudoku", &[], &["mm", "stdio"]),
    ("wasi-component", &[("text", b"typed\n")], &["fdtab", "mm", "ramfs", "socket", "stdio", "time"]),
    ("wasi-http", &[("request", b"GET / HTTP/1.1\r\n\r\n")], &["mm"]),
    ("wasi-tour", &[("text", b"typed\n")], &["fdtab", "mm", "ramfs", "stdio", "time"]),
    ("word-count", &[("text", b"one fish two fish\n")], &["mm"]),
];

/// A photo in PNG: one red pixel.
const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9cc\xb8\xa3\xa1\x01\0\x03\x10\x01-.\x8e%\xda\0\0\0\0IEND\xaeB\x60\x82";

/// Folders of workflows that other tests run, and where those name them.
const ELSEWHERE: [(&str, &[&str]); 6] = [
    ("disk", &[include_str!("../e2e_photos.rs")]),
    (
        "durable",
        &[
            include_str!("../durable_branches.rs"),
            include_str!("../durable_events.rs"),
            include_str!("../durable_examples.rs"),
            include_str!("../serve_children.rs"),
            include_str!("../../../docs/example-approval.md"),
        ],
    ),
    ("failures", &[include_str!("../e2e_failures.rs")]),
    (
        "network",
        &[
            include_str!("../e2e_network/http.rs"),
            include_str!("../e2e_network/https.rs"),
            include_str!("../tap_network/peers.rs"),
        ],
    ),
    ("python", &[include_str!("../python_programs.rs")]),
    ("wasi", &[include_str!("../wasi_programs.rs"), include_str!("../wasi_programs/ffmpeg.rs")]),
];

#[test]
fn each_workflow_loads_what_it_uses() {
    for (name, inputs, modules) in EXPECTED {
        let ran = Workflow::shipped(name).run(inputs.iter().copied(), None);
        assert_eq!((ran.code, ran.report["status"].as_str()), (0, Some("done")), "{name}: {:#}", ran.report);
        let loaded = ran.report["modules"].as_array().expect("a list").iter();
        let loaded: BTreeSet<_> = loaded.map(|module| module.as_str().expect("a name")).collect();
        assert_eq!(loaded, modules.iter().copied().collect(), "{name}");
    }
}

#[test]
fn no_workflow_is_forgotten() {
    let folder = root().join("workflows");
    let (workflows, folders) = names_in(&folder);
    let expected = EXPECTED.iter().map(|(name, ..)| (*name).to_owned());
    assert_eq!(workflows, expected.collect::<BTreeSet<_>>());
    assert_eq!(folders, ELSEWHERE.iter().map(|(name, _)| (*name).to_owned()).collect::<BTreeSet<_>>());
    for (name, tests) in ELSEWHERE {
        let (workflows, folders) = names_in(&folder.join(name));
        assert!(!workflows.is_empty() && folders.is_empty(), "{name}: {folders:?}");
        for workflow in workflows {
            let (quoted, path) = (format!("\"{workflow}\""), format!("workflows/{name}/{workflow}.json"));
            let runs = |test: &&str| test.contains(&quoted) || test.contains(&path);
            assert!(tests.iter().any(runs), "no test runs {name}/{workflow}");
        }
    }
}

/// The workflows in a folder, and the folders.
fn names_in(folder: &Path) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut workflows, mut folders) = (BTreeSet::new(), BTreeSet::new());
    for entry in std::fs::read_dir(folder).expect("a folder of workflows") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        if entry.path().is_dir() {
            folders.insert(name);
        } else if let Some(name) = name.strip_suffix(".json").filter(|name| !name.contains('.')) {
            workflows.insert(name.to_owned());
        }
    }
    (workflows, folders)
}
