//! Where the values of headers are that are added to requests over HTTPS. It takes root to look into a worker's memory.
//!
//! Part of a lane of its own, `cargo xtask test --network`. Elsewhere these tests are ignored.

use serde_json::json;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const PIECE: usize = 1 << 20;

/// How often each of these texts is in a process's memory.
fn count<const N: usize>(process: u32, texts: [&str; N]) -> [usize; N] {
    let memory = File::open(format!("/proc/{process}/mem")).expect("its memory");
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).expect("its mappings");
    let mut counts = [0; N];
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ').expect("a range");
        let (start, end) = range.split_once('-').expect("two addresses");
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).expect("an address"));
        // Pages of the kernel's own cannot be read by their addresses as files have them.
        if !rest.starts_with('r') || start >> 63 != 0 {
            continue;
        }
        let mut at = start;
        while at < end {
            let mut room = vec![0; PIECE.min((end - at) as usize)];
            // What cannot be read holds no text.
            let Ok(read @ 1..) = memory.read_at(&mut room, at) else { break };
            for (count, text) in counts.iter_mut().zip(texts) {
                *count += room[..read].windows(text.len()).filter(|bytes| *bytes == text.as_bytes()).count();
            }
            at += read as u64;
        }
    }
    counts
}

/// The processes below one.
fn below(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("its threads");
    let children = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|text| text.split_whitespace().map(|id| id.parse().expect("a number")).collect::<Vec<_>>())
        .collect();
    children.iter().flat_map(|child| [vec![*child], below(*child)].concat()).collect()
}

#[test]
#[ignore = "needs root: cargo xtask test --network"]
fn a_workers_memory_does_not_hold_the_credential() {
    // What the function sends, which is the positive control; and what is added, in pieces, for this program has them too.
    let texts = ["GET /looked-for", &["in-the-", "environment"].concat(), &["in-the-", "file"].concat()];
    let folder = TempDir::new().expect("a folder");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("its address");
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/network-probe.so");
    let questions = json!([{ "exchange": ["localhost:80", "GET /looked-for HTTP/1.1\r\nHost: a\r\n\r\n"] }]);
    let document = json!({
        "name": "w",
        "functions": { "f": { "image": image } },
        "steps": [{ "name": "s", "function": "f", "args": { "questions": questions }, "timeout": "10m" }],
        "network": { "mode": "host", "connect": [address.to_string()], "https": [{
            "host": "localhost", "port": address.port(),
            "headers": { "x-a": { "environment": "LOOKED_FOR" }, "x-b": { "file": "value" } },
        }] },
    });
    fs::write(folder.path().join("value"), texts[2]).expect("written");
    fs::write(folder.path().join("w.json"), document.to_string()).expect("written");
    let mut run = Command::new(env!("CARGO_BIN_EXE_monohull"))
        .arg("run")
        .arg(folder.path().join("w.json"))
        .env("LOOKED_FOR", texts[1])
        .stdout(Stdio::null())
        .spawn()
        .expect("monohull starts");
    // From here on the request has been read, and waits for the host to answer.
    let _client = silent.accept().expect("the broker");
    let above = count(run.id(), texts);
    let workers = below(run.id());
    let counts: Vec<_> = workers.iter().map(|worker| count(*worker, texts)).collect();
    run.kill().expect("it runs");
    run.wait().expect("it has ended");
    assert!(above[1] > 0 && above[2] > 0, "the process above has them: {above:?}");
    assert!(counts.iter().any(|count| count[0] > 0), "a worker has what its function sends: {counts:?}");
    assert!(counts.iter().all(|count| count[1..] == [0, 0]), "{counts:?}");
}
