//! Crates that look at the machine they run on, with mimalloc as the allocator of all of them.
//!
//! Each prints one line, with results that do not change from run to run.

use std::collections::HashMap;
use std::env;
use std::thread;

use chrono::{Local, TimeZone};
use mimalloc::MiMalloc;
use sysinfo::System;

#[global_allocator]
static HEAP: MiMalloc = MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("mimalloc: {}", heap());
    let processors = thread::available_parallelism()?.get();
    println!("num_cpus: {} {}", num_cpus::get() == processors, num_cpus::get_physical() == processors);
    let system = System::new_all();
    let of_system = (system.total_memory() >> 20, system.available_memory() <= system.total_memory());
    println!("sysinfo: {of_system:?} {} {:?}", system.cpus().len() == processors, System::kernel_version());
    let moment = Local.timestamp_opt(1_000_000_000, 0).single().ok_or("no such moment")?;
    println!("chrono: {moment}, this century: {}", Local::now() > moment);
    println!("std: {}", env::current_exe()?.display());
    Ok(())
}

/// Memory that one thread takes and another gives back, small and large.
fn heap() -> usize {
    let makers = (1..=8_usize).map(|number| {
        thread::spawn(move || {
            let texts = (0..2000).map(|at| (at, "x".repeat(at * number % 3000)));
            (texts.collect::<HashMap<_, _>>(), vec![number; 1 << 18])
        })
    });
    let made: Vec<_> = makers.collect::<Vec<_>>().into_iter().filter_map(|maker| maker.join().ok()).collect();
    made.iter().map(|(texts, numbers)| texts.values().map(String::len).sum::<usize>() + numbers[77]).sum()
}
