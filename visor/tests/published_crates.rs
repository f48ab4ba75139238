//! Published crates with their default features as functions: what the programs of the workspace `programs` print.

#[path = "support/https_host.rs"]
mod https_host;
mod support;

use https_host::{Authority, Host};
use monohull_visor::disk::Disk;
use monohull_visor::report::{RunReport, Status, Stream};
use serde_json::{Value, json};
use std::fs;

/// A workflow with one step that runs the program.
fn document(program: &str) -> Value {
    let image = support::root().join(format!("target/programs/images/{program}.so"));
    json!({
        "name": program,
        "functions": { program: { "image": image } },
        "files": [{ "at": "/tmp", "memory": "64MiB" }],
        "steps": [{ "name": program, "function": program }],
        "limits": { "timeout": "300s" },
    })
}

/// The lines of one of its streams.
fn lines(report: &RunReport, stream: Stream) -> Vec<&str> {
    let lines = report.steps[0].instances[0].lines.iter();
    lines.filter(|line| line.stream == stream).map(|line| line.text.as_str()).collect()
}

/// It succeeds, and prints this to the letter; what it prints on its standard error is the answer.
#[track_caller]
fn prints(document: &Value, expected: &[&str]) -> Vec<String> {
    let report = support::run(document);
    let errors = lines(&report, Stream::Stderr);
    assert_eq!(report.status, Status::Done, "{errors:#?} {:#?}", report.error);
    assert_eq!(lines(&report, Stream::Stdout), expected);
    errors.into_iter().map(str::to_owned).collect()
}

/// A network on which a program reaches itself.
fn network() -> Value {
    json!({ "mode": "host", "listen": ["127.0.0.1:*"], "connect": ["127.0.0.1:*"] })
}

/// What mappings of a file say, wherever it is.
const MAPPED: &str = "memmap2: 12288 bytes, ship Dove, own copy Brgo, file Argo, anonymous 7";

#[test]
fn numbers_text_formats_and_coroutines() {
    prints(
        &document("libraries"),
        &[
            "rayon: 333338333350000, true, [0, 1, 2], 42 joined",
            "ndarray: [12, 15, 18, 21] [14, 126, 366]",
            "nalgebra: 1.000 2.000 3.000, trace 9.000",
            "fancy-regex: the the, and and",
            "quick-xml: 2 ships, mass 7",
            "minijinja: 1. ARGO 2. DOVE",
            "pulldown-cmark: <h1>A <em>ship</em></h1><ul><li>one</li><li><code>two</code></li></ul>",
            MAPPED,
            "corosensei: [2, 4, 6] and 4 in 3 steps; [2, 4, 6] and 4 in 3 steps; true; dropped: by a panic, unfinished",
        ],
    );
}

/// What crates read of the machine and the process, and an allocator that a crate brings along.
#[test]
fn what_crates_read_of_the_system() {
    let mut document = document("system");
    document["steps"][0]["env"] = json!({ "TZ": "CET-1" });
    document["steps"][0]["memory"] = json!("256MiB");
    let expected = [
        "mimalloc: 21753036",
        "num_cpus: true true",
        r#"sysinfo: (256, true) true Some("6.1.0")"#,
        "chrono: 2001-09-09 02:46:40 +01:00, this century: true",
        "std: /system",
    ];
    prints(&document, &expected);
}

/// Mappings of a file in a directory of the host, which has what was stored through them.
#[test]
fn mapped_files_of_the_host() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let mut document = document("libraries");
    document["files"] = json!([
        { "at": "/tmp", "memory": "16MiB" },
        { "at": "/data", "directory": folder.path(), "access": "write" },
    ]);
    document["steps"][0]["args"] = json!({ "mapped": "/data/ships" });
    prints(&document, &[MAPPED]);
    let bytes = fs::read(folder.path().join("ships")).expect("the file");
    assert_eq!((bytes.len(), &bytes[..4], &bytes[8192..8196]), (12288, &b"Argo"[..], &b"Dove"[..]));
}

/// What SQLite does with a file is the same in memory and on a disk image.
const DATABASE: [&str; 5] = [
    "rows: 10000, mass 12498750, ship 4321 is 4322",
    "journal: true, 10 and again 10000, false",
    "locks: true, then 2 rows",
    "log: wal, and delete",
    "whole: ok, 10100 rows",
];

#[test]
fn a_database_in_memory() {
    prints(&document("database"), &DATABASE);
}

#[test]
fn a_database_on_a_disk_image() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let image = folder.path().join("disk.img");
    drop(Disk::create(&image, 8 << 20, true).expect("an image"));
    let mut document = document("database");
    document["files"] = json!([
        { "at": "/tmp", "memory": "16MiB" },
        { "at": "/data", "image": image, "access": "write" },
    ]);
    document["steps"][0]["args"] = json!({ "path": "/data/ships.db" });
    prints(&document, &DATABASE);
    // It is there afterwards, and nothing else is.
    let disk = Disk::open(&image, false).expect("an image");
    let names: Vec<_> = disk.list("/").expect("a directory").into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["ships.db"]);
}

#[test]
#[ignore = "its image takes minutes to compile: `cargo xtask build --programs`"]
fn pictures_of_many_formats() {
    prints(
        &document("pictures"),
        &[
            "format: Some(Png)",
            "same: true",
            "jpeg: 160 × 120, near: true",
            "smaller: true",
            "Gif: 160 × 120",
            "WebP: 160 × 120",
            "Tiff: 160 × 120",
            "Bmp: 160 × 120",
            "Qoi: 160 × 120",
        ],
    );
}

/// A client with TLS, and a host of this test's own. The authority that has signed its certificate is in a file.
#[test]
fn https_by_reqwest_and_rustls() {
    let authority = Authority::new();
    let host = Host::start(&authority, "localhost", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nships\n");
    let mut document = document("servers");
    document["network"] = json!({ "mode": "host", "connect": ["127.0.0.1:*", "localhost:*"] });
    document["files"] = json!([
        { "at": "/tmp", "memory": "1MiB" },
        { "at": "/authority", "directory": authority.folder(), "access": "read" },
    ]);
    let port = host.address.port();
    document["steps"][0]["args"] = json!({
        "https": format!("https://localhost:{port}/ships"),
        "other": format!("https://127.0.0.1:{port}/ships"),
        "roots": "/authority/roots.pem",
    });
    prints(
        &document,
        &["trusted: 200, ships", "another name: true", "untrusted: invalid peer certificate: UnknownIssuer"],
    );
    let request = host.request();
    assert!(request.starts_with("GET /ships HTTP/1.1\r\n"), "{request}");
}

/// Tasks, timers, files, sockets, and servers that are asked by clients of other crates, in one instance.
#[test]
fn servers_and_their_clients() {
    let mut document = document("servers");
    document["network"] = network();
    let errors = prints(
        &document,
        &[
            "tasks: 100 tasks, sum 4950, a panic is caught: true",
            "timers: true, the short one, true",
            "blocking: 31996000",
            "files: 0.txt 5, 1.txt 10, 2.txt 15, 3 lines",
            "tcp: 8 clients, 2400000 bytes, then Some(ConnectionRefused)",
            "udp: datagram true",
            "pairs: 200000 bytes",
            "http: reqwest: visit 1; {\"sum\":42}; 404; 20 at once; ureq: visit 22",
            "process: unsupported",
        ],
    );
    assert!(errors.iter().any(|line| line.contains("cannot start another (fork")), "{errors:#?}");
}
