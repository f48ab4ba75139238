//! Ends at bad moments: while its threads start others, take turns with other instances' threads, or have just been woken
//! from waits with a deadline. Each of these once broke the run loop; run many times, they would again.
#![no_std]
#![deny(unsafe_code)]

mod coroutines;

use core::sync::atomic::{AtomicU32, Ordering};
use monohull_abi::network::SocketAddress;
use monohull_abi::{Errno, number};
use monohull_std::error::Error;
use monohull_std::mmap::Mmap;
use monohull_std::net::{SocketAddr, UdpSocket};
use monohull_std::prelude::*;
use monohull_std::time::Duration;
use monohull_std::{fs, thread};
use monohull_trampoline::user::hostcall;

#[monohull::main]
fn main(how: String) -> Result<(), Box<dyn Error>> {
    match how.as_str() {
        "start" => threads_start_threads(),
        "turns" => threads_take_turns(),
        "timers" => cancelled_timers(),
        "listen" => end_while_others_listen()?,
        "close" => close_while_another_thread_reads()?,
        "coroutines" => coroutines::run_on_many_stacks(),
        "mapped-word" => wait_on_a_mapped_word()?,
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

/// A thread that reads from a socket must learn that it is closed while the carrier of the thread that closed it is busy.
fn close_while_another_thread_reads() -> Result<(), Box<dyn Error>> {
    static DONE: AtomicU32 = AtomicU32::new(0);
    let address = SocketAddress::from(SocketAddr::from(([127, 0, 0, 1], 0)));
    let socket = hostcall(number::UDP_BIND, [&raw const address as u64, 0, 0, 0, 0, 0]) as u64;
    let reader = thread::spawn(move || {
        let mut byte = [0u8; 1];
        let answer = hostcall(number::SOCKET_RECV, [socket, byte.as_mut_ptr() as u64, 1, 0, 0, 0]);
        DONE.store(1, Ordering::Release);
        answer
    });
    thread::sleep(Duration::from_millis(20));
    hostcall(number::SOCKET_CLOSE, [socket, 0, 0, 0, 0, 0]);
    // No hostcall from here on: only another carrier can wake the reader.
    while DONE.load(Ordering::Acquire) == 0 {}
    let answer = reader.join().expect("the reader ends");
    if answer < 0 { Ok(()) } else { Err(format!("{answer} bytes of a socket that is closed").into()) }
}

/// A word in a mapped file is none that threads wait on: reading it may take as long as the host's disk does.
fn wait_on_a_mapped_word() -> Result<(), Box<dyn Error>> {
    fs::write("/data/file", [0u8; 8192])?;
    let mapped = Mmap::map(&fs::File::open("/data/file")?)?;
    let word = mapped.as_ptr() as u64;
    for call in [number::FUTEX_WAIT, number::FUTEX_WAKE] {
        let answer = hostcall(call, [word, 0, 0, 0, 0, 0]);
        if answer != Errno::Fault.to_value() {
            return Err(format!("hostcall {call} answered {answer}").into());
        }
    }
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
