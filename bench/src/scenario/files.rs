//! A file of 256 MiB, read and written in order and at random, by 4 KiB and 1 MiB, by one and two threads: from a disk
//! image and from memory, against the host's own file system with its pages in the cache. A sample is one pass; the sides
//! take turns pass by pass.

use crate::harness::{Effort, Result, Row, Samples, Unit};
use crate::ours::{self, Workflow};
use crate::peer;
use example_kernels::files::Pass;
use monohull::disk::Disk;
use serde_json::{Value, json};

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
    Ok(rows)
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
