//! A file of 256 MiB, read and written in order and at random, by 4 KiB and 1 MiB, by one and two threads: from a disk
//! image and from memory, against the host's own file system with its pages in the cache. A sample is one pass; the sides
//! take turns pass by pass.
//!
//! And files that are made: written from nothing to 256 MiB, for the first time in a new image and once more, and read when they lie in
//! pieces because two were written by turns. All of them are made for each sample, so that no side starts with pages of the other.

use crate::harness::{Effort, Result, Row, Samples, Unit};
use crate::ours::{self, Workflow};
use crate::peer;
use example_kernels::files::{Pass, growth_names};
use monohull_visor::disk::Disk;
use serde_json::{Value, json};
use std::path::Path;

pub(super) fn run(effort: Effort) -> Result<Vec<Row>> {
    let bytes = effort.size(256u64 << 20, 8 << 20);
    let folder = ours::scratch()?;
    let image = folder.join("files.img");
    Disk::create(&image, bytes + (64 << 20), true).map_err(|error| error.to_string())?;
    let on_host = folder.join("files.host");
    let arguments = [on_host.to_string_lossy().into_owned(), bytes.to_string(), "2".to_owned()];
    let memory = json!({"at": "/files", "memory": bytes + (16 << 20)});
    let disk = json!({"at": "/files", "image": image, "access": "write"});
    let passes = Pass::all();
    let mut rows = Vec::new();
    for (name, mount) in [("fatfs", disk), ("ramfs", memory)] {
        let workflow = Workflow::new(&document(&mount, bytes))?;
        let (mut ours, mut peers) = (vec![Vec::new(); passes.len()], vec![Vec::new(); passes.len()]);
        for _ in 0..effort.rounds.min(5) {
            let run = workflow.run()?;
            for (index, pass) in passes.iter().enumerate() {
                let [path, bytes, rounds] = &arguments;
                ours[index].push(run.figure(&pass.name())?);
                peers[index].push(peer::measure("files", &[path, bytes, rounds, &index.to_string()])?);
            }
        }
        for (index, pass) in passes.iter().enumerate() {
            let sides = (Samples::of(ours[index].clone()), Samples::of(peers[index].clone()));
            let unit = if pass.request > 4096 { Unit::Microseconds } else { Unit::Nanoseconds };
            rows.push(Row::new(format!("{name} {}", pass.name()), sides, "ext4", unit, Some(1.0)));
        }
    }
    rows.extend(growth(effort, bytes, &folder)?);
    Ok(rows)
}

/// Files that are made.
fn growth(effort: Effort, bytes: u64, folder: &Path) -> Result<Vec<Row>> {
    let image = folder.join("growth.img");
    let on_host = folder.join("growth.host");
    std::fs::create_dir_all(&on_host).map_err(|error| format!("{}: {error}", on_host.display()))?;
    let arguments = [on_host.to_string_lossy().into_owned(), bytes.to_string()];
    let mounts = [
        ("fatfs", json!({"at": "/files", "image": image, "access": "write"})),
        ("ramfs", json!({"at": "/files", "memory": bytes + (16 << 20)})),
    ];
    let names = growth_names();
    let mut rows = Vec::new();
    for (side, mount) in mounts {
        let (mut ours, mut peers) = (vec![Vec::new(); names.len()], vec![Vec::new(); names.len()]);
        for _ in 0..effort.rounds.min(5) {
            Disk::create(&image, bytes + (64 << 20), true).map_err(|error| error.to_string())?;
            let run = Workflow::new(&growing(&mount, bytes))?.run()?;
            for (index, (name, _)) in names.iter().enumerate() {
                let [folder, bytes] = &arguments;
                ours[index].push(run.figure(name)?);
                peers[index].push(peer::measure("growth", &[folder, bytes, &index.to_string()])?);
            }
        }
        for (index, (name, request)) in names.iter().enumerate() {
            let sides = (Samples::of(ours[index].clone()), Samples::of(peers[index].clone()));
            let unit = if *request > 4096 { Unit::Microseconds } else { Unit::Nanoseconds };
            rows.push(Row::new(format!("{side} {name}"), sides, "ext4", unit, Some(1.0)));
        }
    }
    Ok(rows)
}

fn growing(mount: &Value, bytes: u64) -> Value {
    let mut document = document(mount, bytes);
    document["steps"][0]["args"] = json!({"path": "/files", "bytes": bytes, "rounds": 0});
    document
}

fn document(mount: &Value, bytes: u64) -> Value {
    json!({
        "name": "bench-files",
        "functions": {"files": {"image": ours::image("bench-files")}},
        "steps": [{"name": "files", "function": "files", "args": {"path": "/files/large", "bytes": bytes, "rounds": 2}}],
        "files": [mount],
        "outputs": ["figures"],
        "limits": {"carriers": 2},
    })
}
