//! The victim: keeps a secret on its stack, in its heap, its image's data and a slot buffer, and says at the end whether
//! everything is as it was.
//!
//! `what` says how it spends its time until then: `watch` waits, `map` waits with a file mapped that is full of the secret, `show` with
//! one that is large enough for its own pages to be mapped, `busy` counts for long stretches. Two never come to an end: `call` makes hostcalls as fast as it can, `sleep` lies in one.

use crate::SECRET;
use crate::own::own_key;
use core::arch::asm;
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::number;
use monohull_std::error::Error;
use monohull_std::fs::OpenOptions;
use monohull_std::io::{Seek, SeekFrom, Write};
use monohull_std::mmap::{Advice, MmapMut, MmapOptions};
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec};
use monohull_trampoline::user::hostcall;

/// Heap that is large enough to have been grown for it alone.
const LARGE: usize = 4 << 20;

/// Where in its file nothing is filled in yet.
const UNFILLED: usize = 256 << 10;
/// Bytes of a file whose own pages are mapped.
const SHOWN: usize = 2 << 20;

/// The secret in the image's data.
static DATA: AtomicU64 = AtomicU64::new(SECRET);

/// How often it has gone round, if that is what it does; [`OVER`] at the end.
static TURNS: AtomicU64 = AtomicU64::new(0);
pub(crate) const OVER: u64 = u64::MAX;
/// Turns between two looks at whether the attacker is done.
const STRETCH: u64 = 1 << 22;

/// Code of the victim's, which knows where the secret is.
#[inline(never)]
extern "C" fn kept_by_code() -> u64 {
    DATA.load(Ordering::Relaxed)
}

/// What the victim leaves for the attacker, in the order of [`Dear`].
#[derive(Clone, Copy)]
pub(crate) enum Dear {
    Stack,
    Heap,
    Data,
    Code,
    Buffer,
    Large,
    Key,
    Turns,
    Mapped,
    Unfilled,
}

pub(crate) fn watch(how: &str) -> Result<(), Box<dyn Error>> {
    let on_stack = AtomicU64::new(SECRET);
    let in_heap = Box::new(AtomicU64::new(SECRET));
    let large = black_box(vec![SECRET; LARGE / 8]);
    let mut kept = SlotVec::<u64>::with_slot("kept");
    kept.push(SECRET);
    let mut addresses = SlotVec::<u64>::with_slot("addresses");
    addresses.extend_from_slice(&[
        black_box(&on_stack).as_ptr() as u64,
        in_heap.as_ptr() as u64,
        DATA.as_ptr() as u64,
        kept_by_code as *const () as u64,
        kept.as_ptr() as u64,
        &raw const large[LARGE / 16] as u64,
        own_key().into(),
        TURNS.as_ptr() as u64,
    ]);
    let file = match how {
        "map" => Some(map(2 * UNFILLED)?),
        "show" => Some(map(SHOWN)?),
        _ => None,
    };
    if let Some(file) = &file {
        addresses.extend_from_slice(&[file.as_ptr() as u64, &raw const file[UNFILLED] as u64]);
    }
    addresses.publish()?;
    match how {
        "busy" => count()?,
        "call" => call(),
        "sleep" => sleep(),
        _ => SlotBuffer::<[u64]>::from_slot("done")?.discard(),
    }
    let now = [on_stack.load(Ordering::Relaxed), in_heap.load(Ordering::Relaxed), kept_by_code(), kept[0]];
    let in_file = file.iter().flat_map(|file| file.chunks(8)).all(|word| word == SECRET.to_ne_bytes());
    let intact = control_words_are_usual() && now == [SECRET; 4] && in_file && large.iter().all(|word| *word == SECRET);
    println!("{}", if intact { "intact" } else { "harmed" });
    SlotVec::<u8>::with_slot("verdict").publish()?;
    // Its memory stays its own until the attacker is done.
    SlotBuffer::<[u64]>::from_slot("end")?.discard();
    kept.discard();
    Ok(())
}

/// No other instance's control words are in force: MXCSR but for its flags, and x87's.
fn control_words_are_usual() -> bool {
    let (mut mxcsr, mut x87) = (0u32, 0u16);
    // SAFETY: writes two variables.
    unsafe { asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &raw mut mxcsr, in(reg) &raw mut x87, options(nostack)) };
    mxcsr & !0x3f == 0x1f80 && x87 == 0x37f
}

/// A file that is full of the secret, mapped to be read and written. Of its pages the first is there, a copy, and the one at [`UNFILLED`]
/// is made at the first access, or is the file's.
fn map(bytes: usize) -> Result<MmapMut, Box<dyn Error>> {
    let mut file = OpenOptions::new().read(true).write(true).create(true).open("/map/secret")?;
    file.write_all(&SECRET.to_ne_bytes().repeat(bytes / 8))?;
    let map = MmapOptions::new().map_copy(&file)?;
    map.advise(Advice::Random)?;
    black_box(map[0]);
    // What a mapping shows is copied for it before it changes.
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&SECRET.to_ne_bytes())?;
    Ok(map)
}

/// Counts, until the attacker is done.
fn count() -> Result<(), Box<dyn Error>> {
    loop {
        for _ in 0..STRETCH {
            TURNS.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(done) = SlotBuffer::<[u64]>::try_from_slot("done")? {
            done.discard();
            TURNS.store(OVER, Ordering::Relaxed);
            return Ok(());
        }
    }
}

/// Makes hostcalls without end.
fn call() -> ! {
    loop {
        hostcall(number::THREAD_YIELD, [0; 6]);
    }
}

/// What this code ends with if another instance than the victim runs it.
const NOT_THE_VICTIM: u64 = 77;

/// Makes hostcalls that come back, all from the same stack, and then one that never does: who comes back from that was led here.
fn sleep() -> ! {
    for _ in 0..4 {
        hostcall(number::THREAD_YIELD, [0; 6]);
    }
    hostcall(number::NANOSLEEP, [u64::MAX, 0, 0, 0, 0, 0]);
    hostcall(number::EXIT, [NOT_THE_VICTIM, 0, 0, 0, 0, 0]);
    unreachable!("EXIT does not come back")
}
