//! Makes one kind of hostcall over and over, each as long as it can be, until its deadline ends it. Between two calls there
//! are a few instructions of its own: a deadline that was only kept in user code would hardly ever find any.
#![no_std]
#![deny(unsafe_code)]

use core::hint::black_box;
use monohull_abi::file::{FIRST_DESCRIPTOR, IoVec, VECTOR_MAX};
use monohull_abi::number;
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
