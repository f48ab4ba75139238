//! The same passes over a file of the host's, by the kernel's `read` and `write`.

use crate::harness::Result;
use example_kernels::files::{self, Pass, Storage};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

struct Opened(File);

impl Storage for Opened {
    fn read(&mut self, buffer: &mut [u8]) {
        self.0.read_exact(buffer).expect("bytes to read");
    }

    fn read_at(&mut self, buffer: &mut [u8], offset: u64) {
        assert_eq!(self.0.read_at(buffer, offset).expect("bytes to read"), buffer.len());
    }

    fn write(&mut self, buffer: &[u8]) {
        self.0.write_all(buffer).expect("room to write");
    }

    fn write_at(&mut self, buffer: &[u8], offset: u64) {
        assert_eq!(self.0.write_at(buffer, offset).expect("room to write"), buffer.len());
    }

    fn seek(&mut self, offset: u64) {
        self.0.seek(SeekFrom::Start(offset)).expect("a position");
    }
}

/// Nanoseconds per request of one figure of files that are made in a folder.
pub(super) fn growth(folder: &Path, bytes: usize, which: usize) -> Result<f64> {
    let first = Instant::now();
    let make = |name: &str| {
        let mut options = OpenOptions::new();
        let made = options.read(true).write(true).create(true).truncate(true).open(folder.join(name));
        Opened(made.expect("it is made"))
    };
    let remove = |name: &str| std::fs::remove_file(folder.join(name)).expect("it is there");
    let mut figures = Vec::new();
    files::growth(bytes as u64, make, remove, || first.elapsed().as_nanos() as f64, |_, figure| figures.push(figure));
    figures.get(which).copied().ok_or_else(|| "there is no such figure".into())
}

/// Nanoseconds per request of one pass.
pub(super) fn pass(path: &Path, bytes: usize, rounds: usize, which: usize) -> Result<f64> {
    let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map(Opened);
    let said = |error: std::io::Error| format!("{}: {error}", path.display());
    if open().map_err(said)?.0.metadata().map_err(said)?.len() != bytes as u64 {
        let mut file = open().map_err(said)?;
        (0..bytes >> 20).for_each(|_| file.write(&[7; 1 << 20]));
    }
    let pass = *Pass::all().get(which).ok_or("there is no such pass")?;
    let share = |index: u64| {
        let mut file = open().expect("it opens");
        let mut buffer = vec![1; pass.request];
        // Once to have everything in place, then in earnest.
        pass.run(&mut file, bytes as u64, index, &mut buffer);
        let start = Instant::now();
        (0..rounds).for_each(|_| pass.run(&mut file, bytes as u64, index, &mut buffer));
        let requests = bytes as u64 / pass.request as u64 / pass.threads;
        start.elapsed().as_nanos() as f64 / rounds as f64 / requests as f64
    };
    let share = &share;
    let times: Vec<f64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..pass.threads).map(|index| scope.spawn(move || share(index))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
    });
    Ok(times.iter().sum::<f64>() / times.len() as f64)
}
