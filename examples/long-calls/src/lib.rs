//! Makes one kind of hostcall over and over, each as long as it can be, until its deadline ends it. Between two calls there
//! are a few instructions of its own: a deadline that was only kept in user code would hardly ever find any.
//!
//! `calls.txt` lists the kinds, for `visor/tests/e2e_deadlines.rs` and `cargo xtask bench deadlines`.
#![no_std]
#![deny(unsafe_code)]

use core::hint::black_box;
use core::sync::atomic::AtomicU32;
use monohull_abi::file::{FIRST_DESCRIPTOR, IoVec, VECTOR_MAX};
use monohull_abi::layout::PAGE;
use monohull_abi::network::QueueEvent;
use monohull_abi::number;
use monohull_abi::types::{BYTES_FINGERPRINT, Clock, MapAccess, SlotView, TAKE_NOW, TypeDesc};
use monohull_std::error::Error;
use monohull_std::fs::{self, File};
use monohull_std::io::{self, Read, Write};
use monohull_std::mmap::MmapOptions;
use monohull_std::prelude::*;
use monohull_std::slot::SlotBuffer;
use monohull_std::time::{Duration, Instant};
use monohull_std::{println, thread};
use monohull_trampoline::user::hostcall;

/// Bytes that a long call moves.
const MANY: usize = 64 << 20;
/// Most random bytes of one call.
const RANDOM_MAX: usize = 64 << 10;
/// A file of [`MANY`] bytes.
const FILE: &str = "/data/file";

#[monohull::main]
fn main(call: String) -> Result<(), Box<dyn Error>> {
    let mut bytes = vec![0u8; RANDOM_MAX];
    match call.as_str() {
        "null" => for_ever(|| _ = hostcall(number::NULL, [0; 6])),
        "random" => for_ever(|| {
            hostcall(number::GETRANDOM, [bytes.as_mut_ptr() as u64, RANDOM_MAX as u64, 0, 0, 0, 0]);
        }),
        "clock" => for_ever(|| _ = black_box(Instant::now())),
        "yield" => for_ever(thread::yield_now),
        "sleep" => for_ever(|| thread::sleep(Duration::from_micros(100))),
        "thread" => for_ever(|| thread::spawn(|| {}).join().expect("it ends")),
        "lines" => for_ever(|| println!("one more line")),
        "slot" => for_ever(|| SlotBuffer::<[u8]>::with_slot_len("buffer", MANY).discard()),
        "slot-move" => for_ever(move_a_buffer),
        "slot-hand-over" => for_ever(hand_a_buffer_over),
        "futex" => for_ever(|| wait_on_a_word(Duration::from_micros(100))),
        "map-memory" => for_ever(|| unmap(map_touched())),
        "discard" => for_ever(|| {
            let memory = map_touched();
            checked(number::DISCARD, [memory, MANY as u64, 0, 0, 0, 0]);
            unmap(memory);
        }),
        "protect" => {
            let memory = map_touched();
            for_ever(|| {
                for access in [MapAccess::None, MapAccess::ReadWrite] {
                    checked(number::PROTECT, [memory, MANY as u64, access as u64, 0, 0, 0]);
                }
            })
        }
        "queue" => for_ever(|| drop(Queue::new())),
        "queue-post" => {
            let queue = Queue::new();
            for_ever(|| {
                queue.post();
                queue.wait(Duration::ZERO);
            })
        }
        "queue-wait" => {
            let queue = Queue::new();
            for_ever(|| queue.wait(Duration::from_micros(100)))
        }
        _ => files(&call),
    }
}

/// The same for calls that can fail.
fn files(call: &str) -> Result<(), Box<dyn Error>> {
    let file = file_of_many()?;
    let mut bytes = vec![0u8; MANY];
    if call == "preadv" {
        // Holes take no memory of the mount.
        file.set_len(8 << 30)?;
    }
    loop {
        match call {
            "write" => io::stdout().write_all(&bytes[..1 << 20])?,
            "pread" => _ = file.read_at(&mut bytes, 0)?,
            "preadv" => {
                // The same buffer many times over. The descriptor is the first and only one.
                let buffer = IoVec { address: bytes.as_mut_ptr() as u64, len: 8 << 20 };
                let list = vec![buffer; VECTOR_MAX as usize];
                hostcall(number::FILE_READV, [FIRST_DESCRIPTOR, list.as_ptr() as u64, VECTOR_MAX, 0, 0, 0]);
            }
            "pwrite" => _ = file.write_at(&bytes, 0)?,
            "read" => _ = File::open(FILE)?.read(&mut bytes)?,
            "resize" => {
                file.set_len(0)?;
                file.set_len(MANY as u64)?;
            }
            "stat" => _ = fs::metadata(FILE)?,
            "directory" => {
                fs::create_dir("/data/one")?;
                fs::rename("/data/one", "/data/other")?;
                fs::read_dir("/data")?.for_each(drop);
                fs::remove_dir("/data/other")?;
            }
            "map" => drop(MmapOptions::new().populate().map(&file)?),
            _ => return Err(format!("no call is named {call}").into()),
        }
    }
}

fn for_ever(mut call: impl FnMut()) -> ! {
    loop {
        call();
    }
}

fn file_of_many() -> io::Result<File> {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(FILE)?;
    let piece = vec![7u8; 1 << 20];
    for index in 0..MANY / piece.len() {
        file.write_at(&piece, (index * piece.len()) as u64)?;
    }
    Ok(file)
}

/// A buffer that cannot grow where it is: another one lies behind it.
fn move_a_buffer() {
    let small = MANY as u64;
    let alloc = |bytes: u64| hostcall(number::SLOT_ALLOC, [bytes, 4096, 0, 0, 0, 0]) as u64;
    let (first, behind) = (alloc(small), alloc(4096));
    let moved = hostcall(number::SLOT_RESIZE, [first, 4 * small, 0, 0, 0, 0]);
    for buffer in [if moved < 0 { first } else { moved as u64 }, behind] {
        hostcall(number::SLOT_FREE, [buffer, 0, 0, 0, 0, 0]);
    }
}

/// A call that does not fail.
#[track_caller]
fn checked(number: u32, args: [u64; 6]) -> u64 {
    let value = hostcall(number, args);
    assert!(value >= 0, "hostcall {number}: {value}");
    value as u64
}

/// A buffer through a slot, to the instance that has filled it.
fn hand_a_buffer_over() {
    let name = "buffer";
    let (name, len) = (name.as_ptr() as u64, name.len() as u64);
    let desc = TypeDesc { fingerprint: BYTES_FINGERPRINT, name, name_len: len, element_size: 1 };
    let (desc, mut view) = (&raw const desc as u64, SlotView::default());
    let buffer = checked(number::SLOT_ALLOC, [4096, 8, 0, 0, 0, 0]);
    checked(number::SLOT_PUBLISH, [name, len, buffer, 4096, desc, 0]);
    checked(number::SLOT_TAKE, [name, len, desc, &raw mut view as u64, TAKE_NOW, 0]);
    checked(number::SLOT_FREE, [view.address, 0, 0, 0, 0, 0]);
}

fn wait_on_a_word(most: Duration) {
    let word = AtomicU32::new(0);
    hostcall(number::FUTEX_WAIT, [word.as_ptr() as u64, 0, most.as_nanos() as u64, 0, 0, 0]);
}

/// [`MANY`] bytes of mapped memory, all of it in use.
fn map_touched() -> u64 {
    let memory = checked(number::MAP, [MANY as u64, 0, MapAccess::ReadWrite as u64, 0, 0, 0]);
    // A byte of each page, written by the visor.
    for at in (0..MANY as u64).step_by(PAGE as usize) {
        checked(number::GETRANDOM, [memory + at, 1, 0, 0, 0, 0]);
    }
    memory
}

fn unmap(memory: u64) {
    checked(number::UNMAP, [memory, MANY as u64, 0, 0, 0, 0]);
}

/// A queue that watches no socket.
struct Queue(u64);

impl Queue {
    fn new() -> Queue {
        Queue(checked(number::QUEUE_NEW, [0; 6]))
    }

    fn post(&self) {
        checked(number::QUEUE_POST, [self.0, 7, 0, 0, 0, 0]);
    }

    fn wait(&self, most: Duration) {
        let mut events = [QueueEvent::default(); 8];
        let (to, room) = (events.as_mut_ptr() as u64, events.len() as u64);
        let now = checked(number::CLOCK_GETTIME, [Clock::Monotonic as u64, 0, 0, 0, 0, 0]);
        checked(number::QUEUE_WAIT, [self.0, to, room, now + most.as_nanos() as u64, 0, 0]);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        checked(number::QUEUE_CLOSE, [self.0, 0, 0, 0, 0, 0]);
    }
}
