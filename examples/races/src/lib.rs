//! Ends at bad moments: while its threads start others, take turns with other instances' threads, or have just been woken
//! from waits with a deadline. Each of these once broke the run loop; run many times, they would again.
#![no_std]
#![deny(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};
use monohull_abi::number;
use monohull_std::error::Error;
use monohull_std::net::UdpSocket;
use monohull_std::prelude::*;
use monohull_std::thread;
use monohull_trampoline::user::hostcall;

#[monohull::main]
fn main(how: String) -> Result<(), Box<dyn Error>> {
    match how.as_str() {
        "start" => threads_start_threads(),
        "turns" => threads_take_turns(),
        "timers" => cancelled_timers(),
        "listen" => end_while_others_listen()?,
        _ => return Err(format!("no race is called {how}").into()),
    }
    Ok(())
}

/// Main ends the instance while its threads are in the middle of starting others.
fn threads_start_threads() {
    let start = || drop(thread::Builder::new().spawn(|| {}));
    for _ in 0..2 {
        thread::spawn(move || {
            loop {
                start();
            }
        });
    }
    for _ in 0..2000 {
        hostcall(number::NULL, [0; 6]);
    }
}

/// Main ends the instance while carriers switch between its threads and those of other instances.
fn threads_take_turns() {
    for _ in 0..2 {
        thread::spawn(|| {
            loop {
                thread::yield_now();
            }
        });
    }
    for _ in 0..40 {
        thread::yield_now();
    }
}

/// Main ends the instance while carriers turn from threads to what happens outside, and back.
fn end_while_others_listen() -> Result<(), Box<dyn Error>> {
    let _socket = UdpSocket::bind("127.0.0.1:0")?;
    for _ in 0..2 {
        thread::spawn(|| {
            loop {
                thread::yield_now();
            }
        });
    }
    (0..20).for_each(|_| thread::yield_now());
    Ok(())
}

/// More than a thousand waits with a far deadline are woken early, so that their timers are swept; the next two run out.
fn cancelled_timers() {
    const WAITS: u32 = 1024;
    const HOUR: u64 = 3_600_000_000_000;
    const MILLISECOND: u64 = 1_000_000;
    static WORD: AtomicU32 = AtomicU32::new(0);
    let wait = |timeout| hostcall(number::FUTEX_WAIT, [WORD.as_ptr() as u64, 0, timeout, 0, 0, 0]);
    let waker = thread::spawn(|| {
        for _ in 0..WAITS {
            while hostcall(number::FUTEX_WAKE, [WORD.as_ptr() as u64, 1, 0, 0, 0, 0]) == 0 {
                thread::yield_now();
            }
        }
    });
    (0..WAITS).for_each(|_| _ = wait(HOUR));
    waker.join().expect("the waker ends");
    (0..2).for_each(|_| _ = wait(MILLISECOND));
    WORD.load(Ordering::Relaxed);
}
