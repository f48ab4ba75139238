//! Goes over a large file in every way and leaves nanoseconds per request in slot `figures`, a line for each pass. Without rounds it
//! makes files in the folder instead, and reports the figures of these.
#![no_std]
#![deny(unsafe_code)]

use example_kernels::files::{self, Pass, Storage};
use monohull_std::error::Error;
use monohull_std::fs::{self, File, OpenOptions};
use monohull_std::io::{Read, Seek, SeekFrom, Write};
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;
use monohull_std::thread;
use monohull_std::time::Instant;

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

#[monohull::main]
fn main(path: String, bytes: u64, rounds: u32) -> Result<(), Box<dyn Error>> {
    let mut slot = SlotString::with_slot("figures");
    if rounds == 0 {
        let (folder, first) = (&path, Instant::now());
        let make = |name: &str| {
            let mut options = OpenOptions::new();
            Opened(
                options.read(true).write(true).create_new(true).open(format!("{folder}/{name}")).expect("it is made"),
            )
        };
        let remove = |name: &str| fs::remove_file(format!("{folder}/{name}")).expect("it is there");
        let report = |name: &str, figure| slot.push_str(&format!("{name}: {figure}\n"));
        files::growth(bytes, make, remove, || first.elapsed().as_nanos() as f64, report);
        return Ok(());
    }
    let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map(Opened);
    if open()?.0.metadata()?.len() != bytes {
        let mut file = open()?;
        (0..bytes >> 20).for_each(|_| file.write(&[7; 1 << 20]));
    }
    for pass in Pass::all() {
        let share = |index: u64| {
            let mut file = open().expect("it opens");
            let mut buffer = vec![1; pass.request];
            // Once to have everything in place, then in earnest.
            pass.run(&mut file, bytes, index, &mut buffer);
            let start = Instant::now();
            (0..rounds).for_each(|_| pass.run(&mut file, bytes, index, &mut buffer));
            start.elapsed().as_nanos() as f64 / f64::from(rounds) / (bytes / pass.request as u64 / pass.threads) as f64
        };
        let share = &share;
        let times: Vec<f64> = thread::scope(|scope| {
            let threads: Vec<_> = (0..pass.threads).map(|index| scope.spawn(move || share(index))).collect();
            threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
        });
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        slot.push_str(&format!("{}: {mean}\n", pass.name()));
    }
    Ok(())
}
