//! A file of 256 MiB, mapped anew for each pass and gone over in order, in no order and in part: from memory, from a disk image
//! and from a granted directory, against the kernel's own mapping of a file on the host's file system with its pages in the
//! cache. The kernel maps pages that are there already. So do mappings of files that the workflow alone changes, in memory and in an
//! image that it has to itself; pages of a granted directory are copies.
//!
//! There are two images. In one the file was copied by a program of the host, as by `monohull image`: the kernel keeps its pages in large
//! pieces, as those of the file that it is compared with. In the other one the function has stored it, page by page.

use crate::harness::{Effort, Result, Row, Samples, Unit};
use crate::ours::{self, Workflow};
use crate::peer;
use example_kernels::mapped::Sweep;
use monohull_visor::disk::Disk;
use serde_json::{Value, json};
use std::io::{self, Read};
use std::path::Path;

/// Mappings of each pass.
const ROUNDS: u32 = 2;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let bytes = effort.size(256u64 << 20, 8 << 20);
    let folder = ours::scratch()?;
    let [copied, stored] = ["mapped-copied.img", "mapped-stored.img"].map(|name| folder.join(name));
    let image = |path: &Path| Disk::create(path, bytes + (64 << 20), true);
    image(&copied)
        .and_then(|mut disk| disk.write("large", &mut io::repeat(7).take(bytes), bytes, 0))
        .and_then(|()| image(&stored).map(drop))
        .map_err(|error| error.to_string())?;
    let granted = folder.join("mapped");
    // A run of another size may have left its file there.
    let _ = std::fs::remove_dir_all(&granted);
    std::fs::create_dir_all(&granted).map_err(|error| format!("{}: {error}", granted.display()))?;
    let on_host = folder.join("mapped.host");
    let arguments = [on_host.to_string_lossy().into_owned(), bytes.to_string(), ROUNDS.to_string()];
    let mounts = [
        ("fatfs copied", json!({"at": "/files", "image": copied, "access": "write"})),
        ("fatfs stored", json!({"at": "/files", "image": stored, "access": "write"})),
        ("ramfs", json!({"at": "/files", "memory": bytes + (16 << 20)})),
        ("host", json!({"at": "/files", "directory": granted, "access": "write"})),
    ];
    let ways: Vec<(usize, bool)> = [false, true].iter().flat_map(|p| (0..Sweep::ALL.len()).map(|w| (w, *p))).collect();
    let mut rows = Vec::new();
    for (name, mount) in mounts {
        let workflow = Workflow::new(&document(&mount, bytes))?;
        let (mut ours, mut peers) = (vec![Vec::new(); ways.len()], vec![Vec::new(); ways.len()]);
        for _ in 0..effort.rounds.min(5) {
            let run = workflow.run()?;
            for (index, (which, populate)) in ways.iter().enumerate() {
                let [path, bytes, rounds] = &arguments;
                ours[index].push(run.figure(&named(*which, *populate))?);
                let (which, populate) = (which.to_string(), u8::from(*populate).to_string());
                peers[index].push(peer::measure("mapped", &[path, bytes, rounds, &which, &populate])?);
            }
        }
        for (index, (which, populate)) in ways.iter().enumerate() {
            let sides = (Samples::of(ours[index].clone()), Samples::of(peers[index].clone()));
            let label = format!("{name} {}", named(*which, *populate));
            rows.push(Row::new(label, sides, "mmap of ext4", Unit::Nanoseconds, goal(name, *which, *populate)));
        }
    }
    Ok(rows)
}

/// For the first touch of pages that are shown: of large pieces, and of single pages.
fn goal(mount: &str, which: usize, populate: bool) -> Option<f64> {
    let first_touch = matches!(Sweep::ALL[which], Sweep::Touch | Sweep::Random) && !populate;
    match mount {
        "fatfs copied" | "ramfs" => first_touch.then_some(2.0),
        "fatfs stored" => first_touch.then_some(10.0),
        _ => None,
    }
}

/// What a pass is called.
fn named(which: usize, populate: bool) -> String {
    format!("{}{}", Sweep::ALL[which].name(), if populate { ", filled at once" } else { "" })
}

fn document(mount: &Value, bytes: u64) -> Value {
    json!({
        "name": "bench-mmap",
        "functions": {"mmap": {"image": ours::image("bench-mmap")}},
        "steps": [{
            "name": "mmap", "function": "mmap", "memory": bytes + (64 << 20),
            "args": {"path": "/files/large", "bytes": bytes, "rounds": ROUNDS},
        }],
        "files": [mount],
        "outputs": ["figures"],
        "limits": {"carriers": 2},
    })
}
