//! Sleeps in the midst of its work, holding what programs hold: locks, threads that wait for each other, collections, a line that is
//! not finished. Afterwards it shows that all of it is as it was.
//!
//! A workflow of it can be suspended while it sleeps (`monohull run --suspend`), and goes on in another process.
#![no_std]
#![deny(unsafe_code)]

use monohull_std::collections::HashMap;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;
use monohull_std::sync::{Condvar, Mutex};
use monohull_std::thread;
use monohull_std::time::{Duration, Instant};

/// Written in the data of the image, on the heap and on the stacks.
static NAPS: Mutex<u32> = Mutex::new(0);
/// What one thread waits for.
static OPEN: Mutex<bool> = Mutex::new(false);
static OPENED: Condvar = Condvar::new();

/// Waits for the slot `takes`, if that is not empty; naps `naps` times for so many milliseconds; and fills the slot `fills`.
#[monohull::main]
fn main(naps: u32, milliseconds: u64, takes: String, fills: String) {
    let taken = match takes.is_empty() {
        true => String::new(),
        false => SlotString::from_slot(&takes).expect("another step fills it").to_string(),
    };
    let begin = Instant::now();
    let nap = Duration::from_millis(milliseconds);
    let known: HashMap<String, u32> = (0..100).map(|number| (format!("key {number}"), number)).collect();
    let waiter = thread::spawn(|| {
        let mut open = OPEN.lock().expect("locks are never poisoned");
        while !*open {
            open = OPENED.wait(open).expect("locks are never poisoned");
        }
        "woken"
    });
    // Begins to join while the other one waits.
    let joiner = thread::spawn(move || waiter.join().expect("no thread ends with a panic").len());
    let sleeper = thread::spawn(move || {
        let begin = Instant::now();
        thread::sleep(nap * naps);
        begin.elapsed() >= nap * naps
    });
    let mut last = begin;
    for _ in 0..naps {
        // Held while it sleeps.
        let mut count = NAPS.lock().expect("locks are never poisoned");
        print!("nap {} … ", *count);
        thread::sleep(nap);
        *count += 1;
        let now = Instant::now();
        println!("{}", if now - last >= nap { "slept" } else { "woken too early" });
        last = now;
    }
    *OPEN.lock().expect("locks are never poisoned") = true;
    OPENED.notify_all();
    let letters = joiner.join().expect("no thread ends with a panic");
    let on_time = sleeper.join().expect("no thread ends with a panic");
    let whole = known.len() == 100 && (0..100).all(|number| known.get(&format!("key {number}")) == Some(&number));
    let enough = begin.elapsed() >= nap * naps;
    let count = *NAPS.lock().expect("locks are never poisoned");
    SlotString::with_slot(&fills)
        .push_str(&format!("{taken}{count} naps, {letters} letters, map {whole}, thread {on_time}, time {enough}\n"));
}
