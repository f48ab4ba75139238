//! Mapped memory that goes while a hostcall reads or writes it.
//!
//! ```text
//!   thread 1   UNMAP, MAP │ PROTECT none, rw │ DISCARD …    as fast as it can
//!   thread 2   FILE_PWRITE from there, FILE_PREAD and GETRANDOM into it
//! ```
//!
//! A call succeeds or is refused as an address is. What it has read are bytes of that memory: those that were written, or the zeros
//! of memory that has come anew.

use crate::changing::Verdict;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use monohull_abi::Errno::{Fault, Io};
use monohull_abi::file::{WORKING_DIRECTORY, open};
use monohull_abi::layout::PAGE;
use monohull_abi::number::*;
use monohull_abi::types::MapAccess;
use monohull_std::prelude::*;
use monohull_std::thread;
use monohull_trampoline::user::hostcall;

const NONE: u64 = MapAccess::None as u64;
const WRITE: u64 = MapAccess::ReadWrite as u64;
/// Bytes of the memory: long enough for a call to be interrupted in the middle.
const LEN: u64 = 64 * PAGE;
/// At least so many rounds of calls, and at most so many until success and refusal have been met.
const ROUNDS: u32 = 300;
const ROUNDS_MAX: u32 = 100_000;
/// The other thread has had its turn so often before that is all.
const TURNS_LEAST: u64 = 10_000;
/// What is written to the memory.
const BYTE: u8 = 0x5a;

/// All of them.
pub(crate) fn all() -> Vec<Verdict> {
    vec![
        ("UNMAP: memory that goes during a call", goes(UNMAP)),
        ("PROTECT: memory that goes during a call", goes(PROTECT)),
        ("DISCARD: memory that goes during a call", goes(DISCARD)),
    ]
}

/// Takes the memory away once, and gives it back.
pub(crate) fn take_away(how: u32, at: u64) -> Result<(), String> {
    let done = |answer: i64| if answer == 0 { Ok(()) } else { Err(format!("it cannot be taken away: {answer}")) };
    match how {
        UNMAP => {
            done(hostcall(UNMAP, [at, LEN, 0, 0, 0, 0]))?;
            thread::yield_now();
            // The highest room that is free is where it was.
            done(hostcall(MAP, [LEN, 0, WRITE, 0, 0, 0]) - at as i64)
        }
        PROTECT => {
            done(hostcall(PROTECT, [at, LEN, NONE, 0, 0, 0]))?;
            thread::yield_now();
            done(hostcall(PROTECT, [at, LEN, WRITE, 0, 0, 0]))
        }
        _ => done(hostcall(DISCARD, [at, LEN, 0, 0, 0, 0])),
    }
}

fn goes(how: u32) -> Result<(), String> {
    let path = "/work/going";
    let flags = open::READ | open::WRITE | open::CREATE;
    let path = [WORKING_DIRECTORY, path.as_ptr() as u64, path.len() as u64];
    let file = hostcall(FILE_OPEN, [path[0], path[1], path[2], flags, 0, 0]) as u64;
    let full = vec![BYTE; LEN as usize];
    hostcall(FILE_PWRITE, [file, full.as_ptr() as u64, LEN, 0, 0, 0]);
    let at = hostcall(MAP, [LEN, 0, WRITE, 0, 0, 0]) as u64;
    let (stop, turns) = (AtomicBool::new(false), AtomicU64::new(0));
    let result = thread::scope(|scope| {
        let taker = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                take_away(how, at)?;
                turns.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
            }
            Ok(())
        });
        let result = calls(how, file, at, &turns);
        stop.store(true, Ordering::Relaxed);
        taker.join().map_err(|_| String::from("it panicked"))?.and(result)
    });
    hostcall(UNMAP, [at, LEN, 0, 0, 0, 0]);
    hostcall(FILE_CLOSE, [file, 0, 0, 0, 0, 0]);
    hostcall(FILE_UNLINK, [path[0], path[1], path[2], 0, 0, 0]);
    result
}

/// Calls on memory that goes, until some have succeeded and, if it can, some have been refused.
fn calls(how: u32, file: u64, at: u64, turns: &AtomicU64) -> Result<(), String> {
    let mut copy = vec![0u8; LEN as usize];
    let (mut served, mut refused) = (0, 0);
    for round in 0.. {
        let calls = [(FILE_PREAD, LEN), (FILE_PWRITE, LEN), (FILE_PREAD, 100), (FILE_PWRITE, 100)];
        for (number, len) in calls {
            match hostcall(number, [file, at, len, 0, 0, 0]) {
                answer if answer == Fault.to_value() => refused += 1,
                // The buffer was back when it was asked for which side had failed.
                answer if number == FILE_PWRITE && answer == Io.to_value() => refused += 1,
                1.. => served += 1,
                answer => return Err(format!("{answer} is no answer")),
            }
            let read = hostcall(FILE_PREAD, [file, copy.as_mut_ptr() as u64, LEN, 0, 0, 0]);
            if read != LEN as i64 || copy.iter().any(|byte| ![0, BYTE].contains(byte)) {
                return Err("the file holds what was never in the memory".into());
            }
            thread::yield_now();
        }
        // So that there is something to read again.
        copy.fill(BYTE);
        hostcall(FILE_PWRITE, [file, copy.as_ptr() as u64, LEN, 0, 0, 0]);
        if round >= ROUNDS && served > 0 && (refused > 0 || how == DISCARD) {
            return Ok(());
        }
        if round >= ROUNDS_MAX && turns.load(Ordering::Relaxed) >= TURNS_LEAST {
            break;
        }
    }
    Err(format!("{served} calls were served and {refused} refused: {Fault:?} was not met"))
}
