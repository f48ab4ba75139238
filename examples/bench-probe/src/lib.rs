//! Measures Monohull from inside a function. Argument `what` chooses the measurement; the figures, in nanoseconds per
//! operation, are left in slot `figures` for the benchmark to read.
//!
//! The name of a libos module makes the first call of that module, and no other.
//! `ping` and `pong`, `give` and `sum`, `first` and `relay`, `hoard` and `beside` are parts of a measurement: instances that run at the same time.
#![no_std]
#![deny(unsafe_code)]

mod durable;

use core::hint::black_box;
use core::sync::atomic::{AtomicU32, Ordering};
use monohull_abi::number;
use monohull_abi::types::{Clock, MemoryStats};
use monohull_std::continuation::{Captured, capture, rewind};
use monohull_std::error::Error;
use monohull_std::mmap::Mmap;
use monohull_std::net::UdpSocket;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotError, SlotString};
use monohull_std::time::{Duration, Instant};
use monohull_std::{fs, println, thread};
use monohull_trampoline::user::hostcall;

#[monohull::main]
fn main(
    what: String,
    count: u64,
    bytes: Option<usize>,
    cell_bytes: Option<usize>,
    threads: Option<usize>,
    pages: Option<usize>,
    times: Option<u64>,
) -> Result<(), Box<dyn Error>> {
    let bytes = bytes.unwrap_or(0);
    if let Some(ended) = durable::run(&what, count, bytes) {
        return ended;
    }
    match what.as_str() {
        "hostcall" => leave(&[("hostcall", null_calls(count))]),
        "park" => leave(&[("park", parks(count, cell_bytes.unwrap_or(0)))]),
        "ping" => leave(&[("ping", ping(count, bytes)?)]),
        "pong" => pong(count)?,
        "give" => {
            let (in_place, handed_over) = give(count, bytes)?;
            leave(&[("in place", in_place), ("handed over", handed_over)]);
        }
        "sum" => sum_given(count)?,
        "first" => leave(&[("hop", first(bytes, threads.unwrap_or(2))?)]),
        "relay" => relay(count)?,
        "hoard" => hoard(count),
        "beside" => {
            let (worst, glimpses) = beside()?;
            leave(&[("worst", worst), ("glimpses", glimpses)]);
        }
        "alone" => leave(&[("worst", (0..count).map(|_| slot_calls()).fold(0.0, f64::max))]),
        "rewind" => leave(&[("rewind", rewinds(count, bytes, pages.unwrap_or(0))?)]),
        "wake" => wake(count, bytes, pages.unwrap_or(0), times.unwrap_or(1)),
        "stay" => stay(count, bytes, threads.unwrap_or(0))?,
        "nothing" => {}
        "time" => _ = black_box(Instant::now()),
        "mm" => SlotBuffer::<[u8]>::with_slot_len("scratch", 1).discard(),
        "stdio" => println!(),
        "fdtab" => _ = black_box(fs::metadata("/")?),
        "fdtab, ramfs" | "fdtab, fatfs" => _ = black_box(fs::metadata("/data")?),
        // The two of a file that can be had; what comes on top of them is the mapping's.
        "fdtab, fatfs, file" => _ = black_box(fs::read("/data/file")?),
        "fdtab, fatfs, mmap-file" => _ = black_box(Mmap::map(&fs::File::open("/data/file")?)?[0]),
        "socket" => _ = black_box(UdpSocket::bind("127.0.0.1:0")?),
        _ => return Err(format!("no measurement is called {what}").into()),
    }
    Ok(())
}

/// Leaves figures as lines `NAME: NUMBER`.
fn leave(figures: &[(&str, f64)]) {
    let mut slot = SlotString::with_slot("figures");
    figures.iter().for_each(|(name, figure)| slot.push_str(&format!("{name}: {figure}\n")));
}

fn nanoseconds_per(start: Instant, count: u64) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}

/// The call that does nothing.
fn null_calls(count: u64) -> f64 {
    let start = Instant::now();
    for _ in 0..count {
        black_box(hostcall(number::NULL, [0; 6]));
    }
    nanoseconds_per(start, count)
}

/// Computes for so many milliseconds, with so many bytes of heap that are not zero, and so many threads that wait. It writes to the same few
/// pages all the time.
fn stay(milliseconds: u64, bytes: usize, threads: usize) -> Result<(), Box<dyn Error>> {
    const WRITTEN: usize = 40 * 4096;
    static OVER: AtomicU32 = AtomicU32::new(0);
    let wait = || {
        while OVER.load(Ordering::Acquire) == 0 {
            hostcall(number::FUTEX_WAIT, [OVER.as_ptr() as u64, 0, u64::MAX, 0, 0, 0]);
        }
    };
    let mut waiting = Vec::new();
    for _ in 0..threads {
        waiting.push(thread::Builder::new().spawn(wait)?);
    }
    let mut heap = vec![0_u8; bytes.max(WRITTEN)];
    for (page, bytes) in heap.chunks_mut(4096).enumerate() {
        bytes.fill(page as u8 | 1);
    }
    let start = Instant::now();
    while start.elapsed().as_millis() < milliseconds.into() {
        heap[..WRITTEN].iter_mut().for_each(|byte| *byte = byte.wrapping_add(2));
        black_box(&mut heap);
    }
    OVER.store(1, Ordering::Release);
    hostcall(number::FUTEX_WAKE, [OVER.as_ptr() as u64, u64::MAX, 0, 0, 0, 0]);
    waiting.into_iter().for_each(|one| _ = one.join());
    Ok(())
}

/// Sleeps for so many milliseconds, with so many bytes of heap in which no two pages are equal, and writes to some of them afterwards; so often.
fn wake(milliseconds: u64, bytes: usize, pages: usize, times: u64) {
    let words = bytes / 8;
    let mut heap: Vec<u64> = (0..words as u64).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1).collect();
    black_box(&mut heap);
    for _ in 0..times {
        thread::sleep(Duration::from_millis(milliseconds));
        heap.iter_mut().step_by((words / pages.max(1)).max(1)).take(pages).for_each(|word| *word = !*word);
        black_box(&mut heap);
    }
}

/// Writes so many pages of a heap of so many bytes, and goes back, so often.
fn rewinds(count: u64, bytes: usize, pages: usize) -> Result<f64, Box<dyn Error>> {
    let now = || hostcall(number::CLOCK_GETTIME, [Clock::Monotonic as u64, 0, 0, 0, 0, 0]) as u64;
    let mut heap = vec![1_u8; bytes];
    let (checkpoint, rewinds, value) = match capture()? {
        Captured::Original(checkpoint) => (checkpoint, 0, Vec::new()),
        Captured::Resumed { checkpoint, value, rewinds } => (checkpoint, rewinds, value),
    };
    // The first time after the capture is not measured.
    let start = if rewinds < 2 { now() } else { u64::from_le_bytes(value[..].try_into()?) };
    if rewinds <= count {
        for byte in heap.iter_mut().step_by(bytes / pages.max(1)).take(pages) {
            *byte = byte.wrapping_add(1);
        }
        black_box(&mut heap);
        rewind(&checkpoint, &start.to_le_bytes());
    }
    match heap.iter().step_by(4096).all(|byte| *byte == 1) {
        true => Ok((now() - start) as f64 / count as f64),
        false => Err("memory is not what it was".into()),
    }
}

/// Two threads take turns on one carrier. A turn is two switches, out of one thread and into the other: one parks, the
/// other resumes. `cell_bytes` of the instance's memory are in use meanwhile.
fn parks(count: u64, cell_bytes: usize) -> f64 {
    /// Whose turn it is: 0 or 1.
    static TURN: AtomicU32 = AtomicU32::new(0);
    fn take_turns(me: u32, count: u64) {
        for _ in 0..count {
            while TURN.load(Ordering::Acquire) != me {
                let address = TURN.as_ptr() as u64;
                hostcall(number::FUTEX_WAIT, [address, u64::from(1 - me), u64::MAX, 0, 0, 0]);
            }
            TURN.store(1 - me, Ordering::Release);
            hostcall(number::FUTEX_WAKE, [TURN.as_ptr() as u64, 1, 0, 0, 0, 0]);
        }
    }

    let mut memory = vec![0u8; cell_bytes];
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    let other = thread::spawn(move || take_turns(1, count / 2));
    let start = Instant::now();
    take_turns(0, count / 2);
    other.join().expect("the other thread takes turns and ends");
    let time = nanoseconds_per(start, count);
    black_box(&memory);
    time
}

/// A message there and one back; both sides write and read every byte. Half of it is one way.
fn ping(count: u64, bytes: usize) -> Result<f64, SlotError> {
    let mut message = SlotBuffer::<[u8]>::with_slot_len("ping", bytes);
    let start = Instant::now();
    for round in 0..count {
        message.fill(round as u8);
        message.hand_on("ping")?;
        message = SlotBuffer::from_slot("pong")?;
        black_box(sum_of_bytes(&message));
    }
    let time = nanoseconds_per(start, 2 * count);
    message.discard();
    Ok(time)
}

/// The other side of [`ping`].
fn pong(count: u64) -> Result<(), SlotError> {
    for _ in 0..count {
        let mut message = SlotBuffer::<[u8]>::from_slot("ping")?;
        let sum = black_box(sum_of_bytes(&message));
        message.fill(sum as u8);
        message.hand_on("pong")?;
    }
    Ok(())
}

/// Looks at every byte. The peer, a pipe, has the same sum.
fn sum_of_bytes(bytes: &[u8]) -> u64 {
    bytes.as_chunks::<8>().0.iter().fold(0, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
}

/// Sums a buffer in place, then has the other side sum it. The sum comes back in the first word, as a proof. Returns
/// the medians of both.
fn give(count: u64, bytes: usize) -> Result<(f64, f64), Box<dyn Error>> {
    let mut buffer = SlotBuffer::<[u64]>::with_slot_len("given", bytes / 8);
    let (mut in_place, mut handed_over) = (Vec::new(), Vec::new());
    for round in 0..count {
        buffer.fill(round);
        let start = Instant::now();
        let expected = black_box(sum_of_words(&buffer));
        in_place.push(nanoseconds_per(start, 1));

        let start = Instant::now();
        buffer.hand_on("given")?;
        buffer = SlotBuffer::from_slot("summed")?;
        handed_over.push(nanoseconds_per(start, 1));
        if buffer[0] != expected {
            return Err(format!("the sum is {expected}, the other side says {}", buffer[0]).into());
        }
    }
    buffer.discard();
    Ok((median(in_place), median(handed_over)))
}

/// The other side of [`give`].
fn sum_given(count: u64) -> Result<(), SlotError> {
    for _ in 0..count {
        let mut buffer = SlotBuffer::<[u64]>::from_slot("given")?;
        let sum = black_box(sum_of_words(&buffer));
        buffer[0] = sum;
        buffer.hand_on("summed")?;
    }
    Ok(())
}

/// How often a buffer goes round. The first time does not count: functions are started then.
const ROUNDS: u32 = 20;

/// Hands a buffer on through so many functions, which do not look at it: nanoseconds of a hop.
fn first(bytes: usize, functions: usize) -> Result<f64, SlotError> {
    let mut buffer = SlotBuffer::<[u8]>::with_slot_len("hop-1", bytes);
    buffer.fill(1);
    let (last, mut start) = (format!("hop-{functions}"), Instant::now());
    for round in 0..ROUNDS {
        if round == 1 {
            start = Instant::now();
        }
        buffer.hand_on("hop-1")?;
        buffer = SlotBuffer::from_slot(&last)?;
    }
    let time = nanoseconds_per(start, u64::from(ROUNDS - 1) * functions as u64);
    buffer.discard();
    Ok(time)
}

/// One of the others.
fn relay(number: u64) -> Result<(), SlotError> {
    let (takes, gives) = (format!("hop-{number}"), format!("hop-{}", number + 1));
    (0..ROUNDS).try_for_each(|_| SlotBuffer::<[u8]>::from_slot(&takes)?.hand_on(&gives))
}

/// Ends while it holds this many buffers of a page.
fn hoard(count: u64) {
    for _ in 0..count {
        let mut buffer = SlotBuffer::<[u8]>::with_slot_len("hoarded", 1);
        buffer[0] = 1;
        core::mem::forget(buffer);
    }
    // Published when it is dropped.
    drop(SlotBuffer::<[u8]>::with_slot_len("hoard", 1));
}

/// Makes slot calls until all that [`hoard`] has left is gone, and lets others run after each: the longest time that both took
/// together, and how often a part of it was gone in between.
fn beside() -> Result<(f64, f64), SlotError> {
    /// The input, which is kept until this instance ends.
    const KEPT: u64 = 1;
    SlotBuffer::<[u8]>::from_slot("hoard")?.discard();
    let (mut worst, mut glimpses, mut left) = (0.0, 0.0, buffers());
    while left > KEPT {
        let start = Instant::now();
        slot_calls();
        // With one carrier the rest is freed only while this instance lets others run.
        thread::yield_now();
        worst = nanoseconds_per(start, 1).max(worst);
        let now = buffers();
        glimpses += f64::from(u8::from(now < left && now > KEPT));
        left = now;
    }
    Ok((worst, glimpses))
}

/// A buffer is allocated and freed; in nanoseconds.
fn slot_calls() -> f64 {
    let start = Instant::now();
    SlotBuffer::<[u8]>::with_slot_len("scratch", 1).discard();
    nanoseconds_per(start, 1)
}

/// How many slot buffers there are in the workflow.
fn buffers() -> u64 {
    let mut stats = MemoryStats::default();
    hostcall(number::MEMORY_STATS, [&raw mut stats as u64, 0, 0, 0, 0, 0]);
    black_box(&stats).arena_buffers
}

/// Not inlined: both sides run the same instructions.
#[inline(never)]
fn sum_of_words(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, &word| sum.wrapping_add(word))
}

/// The middle one of at least one figure.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
