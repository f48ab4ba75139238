//! Parks very many threads at once, then lets them all go on and counts those that finish.
//!
//! When all are parked it prints `parked`, so that an observer can measure what they cost.
#![no_std]
#![deny(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering};
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;
use monohull_std::sync::{Condvar, Mutex};
use monohull_std::thread;
use monohull_std::time::Duration;

/// Threads that are about to park.
static ARRIVED: AtomicUsize = AtomicUsize::new(0);
/// Threads that have been woken.
static FINISHED: AtomicUsize = AtomicUsize::new(0);
/// What they wait for.
static OPEN: Mutex<bool> = Mutex::new(false);
static OPENED: Condvar = Condvar::new();

/// `together`: all wait for one condition; else each waits for its own.
#[monohull::main]
fn main(threads: usize, together: bool) {
    let body = if together { wait_together } else { wait_alone };
    let handles: Vec<_> = (0..threads).map(|_| thread::spawn(body)).collect();
    while ARRIVED.load(Ordering::Acquire) < threads {
        thread::sleep(Duration::from_millis(1));
    }
    // The last ones have arrived a few instructions before they park.
    thread::sleep(Duration::from_millis(20));
    println!("parked");
    *OPEN.lock().expect("locks are never poisoned") = true;
    if together {
        OPENED.notify_all();
    } else {
        handles.iter().for_each(|handle| handle.thread().unpark());
    }
    for handle in handles {
        handle.join().expect("no thread ends with a panic");
    }
    SlotString::with_slot("finished").push_str(&FINISHED.load(Ordering::Acquire).to_string());
}

fn wait_together() {
    let mut open = OPEN.lock().expect("locks are never poisoned");
    ARRIVED.fetch_add(1, Ordering::Release);
    while !*open {
        open = OPENED.wait(open).expect("locks are never poisoned");
    }
    FINISHED.fetch_add(1, Ordering::Release);
}

fn wait_alone() {
    ARRIVED.fetch_add(1, Ordering::Release);
    while !*OPEN.lock().expect("locks are never poisoned") {
        thread::park();
    }
    FINISHED.fetch_add(1, Ordering::Release);
}
