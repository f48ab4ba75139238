//! A buffer that changes hands while a hostcall copies from or to it.
//!
//! ```text
//!   giver   thread 1   FILE_PREAD into the buffer, again and again           (or FILE_PWRITE out of it)
//!           thread 2   hands the buffer on, in the middle of it, and waits for slot `next`
//!   taker              has the buffer now: keeps its secret in it, and looks whether it stays
//! ```
//!
//! `what` names the call: `read` and `read-vector` write a file's bytes into the buffer, `write` and `write-vector` the
//! buffer's into the file. `how` names the way the buffer goes: `publish` to the taker, or `free` or `resize` back to the
//! arena, from where the taker gets it.

use crate::{MARK, SECRET};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use monohull_abi::Errno;
use monohull_abi::file::{IoVec, open};
use monohull_abi::number;
use monohull_abi::types::TypeDesc;
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec};
use monohull_std::thread;
use monohull_trampoline::user::hostcall;

type Ended = Result<(), Box<dyn Error>>;

/// Bytes of the buffer, and of the file: as many as one call moves, so that a copy takes long enough to be met in the middle.
const SIZE: usize = 8 << 20;
/// Words from one copy of the secret to the next: four pages.
const STEP: usize = 4 * 512;
/// How often the taker looks at all of its buffer.
const LOOKS: u32 = 200;
/// How long thread 1 leaves the buffer alone after its first call, so that it can be handed on at all; after the second
/// twice as long, and so on.
const PAUSE: u64 = 5000;

/// What the two threads of the giver share.
struct Target {
    /// The buffer.
    address: u64,
    /// An open file of the same size.
    file: u64,
    stop: AtomicBool,
    calls: AtomicU64,
}

/// The hostile side: hands `rounds` buffers on while it has them read or written.
pub(crate) fn give(what: &str, how: &str, rounds: u32) -> Ended {
    let path = "/work/file";
    let flags = open::READ | open::WRITE | open::CREATE;
    let file = hostcall(number::FILE_OPEN, [u64::MAX, path.as_ptr() as u64, path.len() as u64, flags, 0, 0]) as u64;
    let copy = vec![MARK; SIZE / 8];
    let bytes = SIZE as u64;
    if hostcall(number::FILE_PWRITE, [file, copy.as_ptr() as u64, bytes, 0, 0, 0]) != SIZE as i64 {
        return Err("the file cannot be written".into());
    }
    works(what, file)?;
    let mut refused = 0;
    for _ in 0..rounds {
        let target = Target { address: allocate()?, file, stop: AtomicBool::new(false), calls: AtomicU64::new(0) };
        // What a moved buffer cannot grow into.
        let wall = allocate()?;
        thread::scope(|scope| {
            scope.spawn(|| {
                while !target.stop.load(Ordering::Relaxed) {
                    call(what, &target);
                    (0..target.calls.load(Ordering::Relaxed) * PAUSE).for_each(|_| core::hint::spin_loop());
                }
            });
            let given = hand_on(how, &target, &mut refused);
            let answered = given.and_then(|()| {
                SlotBuffer::<[u64]>::from_slot("next")?.discard();
                Ok(())
            });
            target.stop.store(true, Ordering::Relaxed);
            answered
        })?;
        free(wall);
        // Has the taker's secret got into the file?
        let file = vec![0u64; SIZE / 8];
        hostcall(number::FILE_PREAD, [target.file, file.as_ptr() as u64, bytes, 0, 0, 0]);
        if file.contains(&SECRET) {
            println!("got the secret");
        }
    }
    println!("refused {}", if refused > 0 { "in the middle" } else { "never" });
    Ok(())
}

/// With a buffer that stays its own the call does what it is to do to another's.
fn works(what: &str, file: u64) -> Ended {
    let target = Target { address: allocate()?, file, stop: AtomicBool::new(false), calls: AtomicU64::new(0) };
    let moved = call(what, &target);
    free(target.address);
    println!("{what} {}", if moved > 0 { "works" } else { "does not work" });
    Ok(())
}

/// One call that reads or writes the buffer.
fn call(what: &str, target: &Target) -> i64 {
    let (file, address, len) = (target.file, target.address, SIZE as u64);
    let vector = IoVec { address, len };
    let list = &raw const vector as u64;
    target.calls.fetch_add(1, Ordering::Relaxed);
    match what {
        "read" => hostcall(number::FILE_PREAD, [file, address, len, 0, 0, 0]),
        "write" => hostcall(number::FILE_PWRITE, [file, address, len, 0, 0, 0]),
        "read-vector" => hostcall(number::FILE_READV, [file, list, 1, 0, 0, 0]),
        _ => hostcall(number::FILE_WRITEV, [file, list, 1, 0, 0, 0]),
    }
}

fn allocate() -> Result<u64, Box<dyn Error>> {
    match hostcall(number::SLOT_ALLOC, [SIZE as u64, 8, 0, 0, 0, 0]) {
        address if address > 0 => Ok(address as u64),
        _ => Err("no buffer is to be had".into()),
    }
}

fn free(address: u64) {
    while hostcall(number::SLOT_FREE, [address, 0, 0, 0, 0, 0]) == Errno::Busy.to_value() {}
}

/// Lets the buffer go, in the middle of a call if it may; counts how often it may not.
fn hand_on(how: &str, target: &Target, refused: &mut u32) -> Ended {
    while target.calls.load(Ordering::Relaxed) == 0 {
        thread::yield_now();
    }
    // The first call is about to be made: it has to have begun.
    (0..PAUSE).for_each(|_| core::hint::spin_loop());
    let (name, type_name) = ("gift", "[u64]");
    let type_name = TypeDesc {
        // The taker does not ask for a type, but for this number.
        fingerprint: monohull_abi::types::BYTES_FINGERPRINT,
        name: type_name.as_ptr() as u64,
        name_len: type_name.len() as u64,
        element_size: 1,
    };
    let (number, args) = match how {
        "publish" => {
            let (name, len, desc) = (name.as_ptr() as u64, name.len() as u64, &raw const type_name as u64);
            (number::SLOT_PUBLISH, [name, len, target.address, SIZE as u64, desc, 0])
        }
        "free" => (number::SLOT_FREE, [target.address, 0, 0, 0, 0, 0]),
        _ => (number::SLOT_RESIZE, [target.address, 2 * SIZE as u64, 0, 0, 0, 0]),
    };
    loop {
        match hostcall(number, args) {
            busy if busy == Errno::Busy.to_value() => *refused += 1,
            gone if gone < 0 => return Err(format!("the buffer cannot go: {gone}").into()),
            0 if how == "publish" => return Ok(()),
            moved => {
                if how == "resize" {
                    free(moved as u64);
                }
                return Ok(SlotVec::<u8>::with_slot(name).publish()?);
            }
        }
    }
}

/// The victim: keeps its secret in each buffer it gets.
pub(crate) fn take(how: &str, rounds: u32) -> Ended {
    let mut harmed = 0;
    for _ in 0..rounds {
        let gift = SlotBuffer::<[u8]>::from_slot("gift")?;
        let mut kept = match how {
            "publish" => gift,
            _ => {
                gift.discard();
                SlotBuffer::<[u8]>::with_slot_len("kept", SIZE)
            }
        };
        let words = kept.as_mut_ptr().cast::<AtomicU64>();
        // SAFETY: the buffer is this instance's, aligned to pages, and as large; others may try to write it meanwhile.
        let words = unsafe { core::slice::from_raw_parts(words, SIZE / 8) };
        // From behind: a copy that is under way has not come that far.
        let secrets = || words.iter().step_by(STEP).rev();
        secrets().for_each(|word| word.store(SECRET, Ordering::Relaxed));
        let intact = (0..LOOKS).all(|_| secrets().all(|word| word.load(Ordering::Relaxed) == SECRET));
        harmed += u32::from(!intact);
        words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        kept.discard();
        SlotVec::<u64>::with_slot("next").publish()?;
    }
    println!("{}", if harmed == 0 { "intact" } else { "harmed" });
    Ok(())
}
