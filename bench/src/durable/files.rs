//! What is on the disk, and how fast it is.

use crate::harness::Result;
use crate::ours::scratch;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Instant;

/// Bytes that the files of a folder take on the disk, each counted once.
pub(crate) fn stored(folder: &Path) -> u64 {
    let mut seen = std::collections::HashSet::new();
    let mut folders = vec![folder.to_path_buf()];
    let mut bytes = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() {
                folders.push(entry.path());
            } else if seen.insert(about.ino()) {
                bytes += about.blocks() * 512;
            }
        }
    }
    bytes
}

/// Nanoseconds that so many bytes take to be on the disk of the engines' folders, by `fdatasync` of a file whose blocks are there.
pub(crate) fn fdatasync(bytes: usize, times: usize) -> Result<f64> {
    let path = scratch()?.join("fdatasync");
    let measure = || -> std::io::Result<f64> {
        let file = File::create(&path)?;
        file.write_all_at(&vec![1; bytes * times], 0)?;
        let content = vec![2; bytes];
        file.sync_all()?;
        let begin = Instant::now();
        for at in 0..times {
            file.write_all_at(&content, (bytes * at) as u64)?;
            file.sync_data()?;
        }
        Ok(begin.elapsed().as_nanos() as f64 / times as f64)
    };
    let measured = measure().map_err(|error| format!("{}: {error}", path.display()));
    let _ = fs::remove_file(&path);
    measured
}
