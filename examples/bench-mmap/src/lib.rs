//! Maps a large file again and again, goes over it in every way, and leaves nanoseconds per page in slot `figures`, a line for each
//! way.
#![no_std]
#![deny(unsafe_code)]

use example_kernels::mapped::Sweep;
use monohull_std::error::Error;
use monohull_std::fs::File;
use monohull_std::hint::black_box;
use monohull_std::io::Write;
use monohull_std::mmap::MmapOptions;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;
use monohull_std::time::Instant;

#[monohull::main]
fn main(path: String, bytes: u64, rounds: u32) -> Result<(), Box<dyn Error>> {
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
    if file.metadata()?.len() != bytes {
        (0..bytes >> 20).try_for_each(|_| file.write_all(&[7; 1 << 20]))?;
    }
    let mut slot = SlotString::with_slot("figures");
    for populate in [false, true] {
        for sweep in Sweep::ALL {
            let mut options = MmapOptions::new();
            if populate {
                options.populate();
            }
            let start = Instant::now();
            for _ in 0..rounds {
                black_box(sweep.run(&options.map(&file)?));
            }
            let pages = f64::from(rounds) * sweep.pages(bytes as usize) as f64;
            let how = if populate { ", filled at once" } else { "" };
            slot.push_str(&format!("{}{how}: {}\n", sweep.name(), start.elapsed().as_nanos() as f64 / pages));
        }
    }
    Ok(())
}
