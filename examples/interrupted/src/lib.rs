//! A program that has everything which programs have in the midst of their work, for tests that interrupt it again and again: threads
//! that wait for a lock, a condition, a channel, another thread, a time or a slot; open and mapped files; an unfinished line; buffers of
//! slots.
//!
//! Nothing that it prints or gives depends on time or on the order of its threads. So an interrupted run and an uninterrupted one must
//! not differ in a byte.
#![no_std]
#![deny(unsafe_code)]

use core::hint::black_box;
use monohull_std::collections::{BTreeMap, HashMap};
use monohull_std::fmt::Write as _;
use monohull_std::fs::File;
use monohull_std::io::{Read, Seek, SeekFrom, Write};
use monohull_std::mmap::{Advice, Mmap, MmapOptions};
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotString, indexed_name};
use monohull_std::sync::{Arc, Condvar, Mutex, mpsc};
use monohull_std::thread;
use monohull_std::time::{Duration, Instant};

/// What has come through the channel. Its lock is held while the main thread naps.
static RECEIVED: Mutex<Vec<u32>> = Mutex::new(Vec::new());
static ARRIVED: Condvar = Condvar::new();

/// Pages of the file that is mapped.
const PAGES: usize = 64;
const PAGE: usize = 4096;

/// Naps `naps` times for so many milliseconds. In the role `works` it does everything above, and fills `part.0`, `part.1`, …; in the role
/// `forgets` it leaves secrets behind in what it has freed; in any other it takes the parts and fills the slot `result`.
#[monohull::main]
fn main(role: String, naps: u32, milliseconds: u64) {
    match role.as_str() {
        "works" => work(naps, Duration::from_millis(milliseconds)),
        "forgets" => forget(Duration::from_millis(milliseconds)),
        _ => collect(naps),
    }
}

fn work(naps: u32, nap: Duration) {
    let begin = Instant::now();
    let mut log = File::options().read(true).write(true).create(true).open("/work/log").expect("there is room");
    let mut second = File::open("/work/log").expect("it was just made");
    let mut table = File::options().read(true).write(true).create(true).open("/work/table").expect("there is room");
    let rows: Vec<u8> = (0..PAGES * PAGE).map(|place| (place / PAGE) as u8).collect();
    table.write_all(&rows).expect("there is room");
    let seen = Mmap::map(&table).expect("there is room");
    let mut copy = MmapOptions::new().map_copy(&table).expect("there is room");
    seen.advise(Advice::Random).and(copy.advise(Advice::Random)).expect("it is mapped");
    let known: HashMap<u32, String> = (0..64).map(|number| (number, format!("number {number}"))).collect();
    let (sender, receiver) = mpsc::channel::<u32>();
    let (bounded, limited) = mpsc::sync_channel::<u32>(1);
    // Waits in the channel, then for the lock.
    let consumer = thread::spawn(move || {
        for number in receiver {
            RECEIVED.lock().expect("locks are never poisoned").push(number);
            ARRIVED.notify_all();
        }
    });
    // Waits for room in its channel: nothing is taken out of it before the end.
    let producer = thread::spawn(move || {
        for number in 0..8 {
            bounded.send(number).expect("the other end is there");
        }
    });
    // Waits for a time of its own.
    let ticker = thread::spawn(move || {
        (0..naps / 2).fold(7_u32, |sum, tick| {
            thread::sleep(nap * 3 / 2);
            sum.wrapping_mul(31).wrapping_add(tick)
        })
    });
    // Waits for the end of a thread.
    let joiner = thread::spawn(move || ticker.join().expect("no thread ends with a panic"));
    let open = Arc::new((Mutex::new(0_u32), Condvar::new()));
    // Wait for the same condition.
    let waiters: Vec<_> = (0..3)
        .map(|index| {
            let open = open.clone();
            thread::spawn(move || {
                let (count, changed) = &*open;
                let mut count = count.lock().expect("locks are never poisoned");
                while *count < naps {
                    count = changed.wait(count).expect("locks are never poisoned");
                }
                *count + index
            })
        })
        .collect();
    let mut checks: BTreeMap<&str, bool> = BTreeMap::new();
    let mut check = |what, holds: bool| {
        let so_far = checks.entry(what).or_insert(true);
        *so_far &= holds;
    };
    for number in 0..naps {
        let mut part = SlotString::with_slot(&indexed_name("part", number as usize));
        // Of the file's pages one more is looked at each time, and written to afterwards; of the copy's one is changed.
        let (row, after) = (number as usize % PAGES, number as usize / PAGES);
        check("a mapped page stays as it was first seen", seen[row * PAGE] == row as u8 && seen[0] == 0);
        table.seek(SeekFrom::Start((row * PAGE) as u64)).expect("it is a file");
        table.write_all(&[!(row as u8)]).expect("there is room");
        copy[row * PAGE + 1] = number as u8;
        let received = RECEIVED.lock().expect("locks are never poisoned");
        sender.send(number).expect("the other end is there");
        print!("nap {number} … ");
        let before = Instant::now();
        thread::sleep(nap);
        check("sleeps are long enough", before.elapsed() >= nap);
        check("nothing passes a held lock", received.len() == number as usize);
        check("a copy of a mapped page keeps what was written to it", copy[row * PAGE + 1] == number as u8);
        check("and no other page has it", after > 0 || copy[(row + 1) % PAGES * PAGE + 1] == ((row + 1) % PAGES) as u8);
        drop(received);
        let mut received = RECEIVED.lock().expect("locks are never poisoned");
        while received.len() <= number as usize {
            received = ARRIVED.wait(received).expect("locks are never poisoned");
        }
        println!("received {}", received.last().expect("one has arrived"));
        drop(received);
        writeln!(log, "line {number}").expect("there is room");
        let mut tail = String::new();
        second.read_to_string(&mut tail).expect("it is text");
        check("an open file stays where it is", tail == format!("line {number}\n"));
        *open.0.lock().expect("locks are never poisoned") += 1;
        open.1.notify_all();
        let _ = write!(part, "{} of {}", known[&(number % 64)], known.len());
    }
    drop(sender);
    consumer.join().expect("no thread ends with a panic");
    let limited: Vec<u32> = limited.into_iter().collect();
    producer.join().expect("no thread ends with a panic");
    check("a bounded channel keeps its order", limited == (0..8).collect::<Vec<_>>());
    let woken: Vec<u32> =
        waiters.into_iter().map(|waiter| waiter.join().expect("no thread ends with a panic")).collect();
    check("conditions wake all", woken == [naps, naps + 1, naps + 2]);
    log.seek(SeekFrom::Start(0)).expect("it is a file");
    let mut whole = String::new();
    log.read_to_string(&mut whole).expect("it is text");
    check("files keep what was written", whole.lines().count() == naps as usize);
    check("time goes on", begin.elapsed() >= nap * naps);
    println!("ticks {:#x}", joiner.join().expect("no thread ends with a panic"));
    for (what, holds) in checks {
        println!("{what}: {holds}");
    }
}

fn collect(parts: u32) {
    let mut result = SlotString::with_slot("result");
    for number in 0..parts {
        let part = SlotString::from_slot(&indexed_name("part", number as usize)).expect("the other step fills it");
        let _ = writeln!(result, "{number}: {}", part.as_str());
        part.discard();
    }
}

/// Bytes that a capture must not have if they lie in what is not in use any more.
const SECRET: u8 = 0xa7;
/// Bytes that it must have.
const KEPT: u8 = 0x5c;

/// Fills a slot buffer, a stack and the stack of a thread with secrets, and gives them up; and a buffer that it keeps with something else.
fn forget(nap: Duration) {
    #[inline(never)]
    fn deep(depth: u32) -> u64 {
        let frame = black_box([SECRET; 16 << 10]);
        let below = if depth == 0 { 0 } else { deep(depth - 1) };
        below + black_box(&frame).iter().map(|byte| u64::from(*byte)).sum::<u64>()
    }
    let mut kept = SlotBuffer::<[u8]>::with_slot_len("kept", 64 << 10);
    kept.fill(KEPT);
    for bytes in [4096, 64 << 10, 2 << 20] {
        let mut buffer = SlotBuffer::<[u8]>::with_slot_len("secret", bytes);
        buffer.fill(SECRET);
        buffer.discard();
    }
    let sum = deep(2);
    let other = thread::spawn(|| deep(2)).join().expect("no thread ends with a panic");
    thread::sleep(nap);
    assert_eq!((sum, kept[0]), (other, KEPT));
    kept.discard();
    SlotString::with_slot("result").push_str("slept");
}
