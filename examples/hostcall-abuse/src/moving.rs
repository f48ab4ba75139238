//! Pages that move between slot buffers and mapped memory: what is right works, also very often, and what another thread does to either side
//! meanwhile harms neither.
//!
//! ```text
//!   thread 1   UNMAP, MAP │ PROTECT none, rw │ DISCARD …    or    SLOT_FREE, SLOT_PUBLISH and SLOT_TAKE of the buffer
//!   thread 2   SLOT_MOVE_IN to there, SLOT_MOVE_OUT from there
//! ```

use crate::changing::Verdict;
use crate::going::take_away;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use monohull_abi::Errno::{Busy, Fault};
use monohull_abi::layout::PAGE;
use monohull_abi::number::*;
use monohull_abi::types::{MAP_RANGES_MAX, MOVED_MIN, MapAccess, SlotView, TAKE_NOW};
use monohull_std::prelude::*;
use monohull_std::thread;
use monohull_trampoline::user::hostcall;

/// Bytes that are moved, as many as [`take_away`] takes away.
const LEN: u64 = 64 * PAGE;
const WORDS: usize = (LEN / 8) as usize;
/// At least so many rounds, and at most so many until success and refusal have been met.
const ROUNDS: u32 = 300;
const ROUNDS_MAX: u32 = 100_000;
const TURNS_LEAST: u64 = 10_000;
const FIRST: u64 = 0x1111_2222_3333_4444;
const SECOND: u64 = 0x5555_6666_7777_8888;

/// All of them.
pub(crate) fn all() -> Vec<Verdict> {
    vec![
        ("SLOT_MOVE_OUT: pages there and back", there_and_back()),
        ("SLOT_MOVE_IN: a storm of places", places()),
        ("SLOT_MOVE_IN: memory that is unmapped during a move", goes(UNMAP)),
        ("SLOT_MOVE_IN: memory that is protected during a move", goes(PROTECT)),
        ("SLOT_MOVE_IN: memory that is discarded during a move", goes(DISCARD)),
        ("SLOT_MOVE_IN: a buffer that is given away during a move", given_away()),
        ("SLOT_MOVE_IN: a place that is read during a move", looked_at()),
    ]
}

fn map(bytes: u64) -> u64 {
    hostcall(MAP, [bytes, 0, MapAccess::ReadWrite as u64, 0, 0, 0]) as u64
}

fn alloc() -> u64 {
    hostcall(SLOT_ALLOC, [LEN, 8, 0, 0, 0, 0]) as u64
}

/// Memory that the caller holds or has mapped.
fn words<'a>(address: u64) -> &'a mut [u64; WORDS] {
    // SAFETY: the callers pass a buffer or mapped memory of this size that is theirs; where another thread changes it they expect that.
    unsafe { &mut *(address as *mut [u64; WORDS]) }
}

fn holds(address: u64, word: u64) -> Result<(), String> {
    match words(address).iter().find(|found| **found != word) {
        None => Ok(()),
        Some(found) => Err(format!("{found:#x} instead of {word:#x}")),
    }
}

fn served(what: &str, answer: i64) -> Result<u64, String> {
    if answer >= 0 { Ok(answer as u64) } else { Err(format!("{what}: {answer}")) }
}

/// The positive control: what is moved arrives, and is gone where it was; twice, through two buffers.
fn there_and_back() -> Result<(), String> {
    let (from, to) = (map(LEN), map(LEN));
    words(from).fill(FIRST);
    words(to).fill(SECOND);
    for (from, to) in [(from, to), (to, from)] {
        let buffer = served("out", hostcall(SLOT_MOVE_OUT, [from, LEN, 0, 0, 0, 0]))?;
        holds(buffer, FIRST)?;
        holds(from, 0)?;
        served("in", hostcall(SLOT_MOVE_IN, [buffer, to, LEN, 0, 0, 0]))?;
        holds(to, FIRST)?;
        holds(buffer, 0)?;
        served("freed", hostcall(SLOT_FREE, [buffer, 0, 0, 0, 0, 0]))?;
    }
    [from, to].iter().try_for_each(|at| served("unmapped", hostcall(UNMAP, [*at, LEN, 0, 0, 0, 0])).map(drop))
}

/// More places, and more buffers at a time, than the kernel may get mappings for: the rest is copied, with the same result.
fn places() -> Result<(), String> {
    let count = MAP_RANGES_MAX as u64;
    let step = MOVED_MIN + PAGE;
    let at = map(count * step);
    for place in 0..count {
        let buffer = served("a buffer", hostcall(SLOT_ALLOC, [MOVED_MIN, 8, 0, 0, 0, 0]))?;
        words_of(buffer)[0] = place + 1;
        served("in", hostcall(SLOT_MOVE_IN, [buffer, at + place * step, MOVED_MIN, 0, 0, 0]))?;
        served("freed", hostcall(SLOT_FREE, [buffer, 0, 0, 0, 0, 0]))?;
    }
    let mut buffers = Vec::new();
    for place in 0..count {
        let found = words_of(at + place * step)[0];
        if found != place + 1 {
            return Err(format!("place {place} holds {found}"));
        }
        buffers.push(served("out", hostcall(SLOT_MOVE_OUT, [at + place * step, MOVED_MIN, 0, 0, 0, 0]))?);
    }
    for (place, buffer) in buffers.into_iter().enumerate() {
        let found = words_of(buffer)[0];
        if found != place as u64 + 1 {
            return Err(format!("buffer {place} holds {found}"));
        }
        served("freed", hostcall(SLOT_FREE, [buffer, 0, 0, 0, 0, 0]))?;
    }
    served("unmapped", hostcall(UNMAP, [at, count * step, 0, 0, 0, 0])).map(drop)
}

/// The first words of a buffer or a place.
fn words_of<'a>(address: u64) -> &'a mut [u64; 8] {
    // SAFETY: as for `words`.
    unsafe { &mut *(address as *mut [u64; 8]) }
}

/// Runs calls while another thread does something again and again, until some have succeeded and, if they `may_fail`, some were refused.
fn meanwhile(
    may_fail: bool,
    change: impl Fn() -> Result<(), String> + Sync,
    call: impl Fn() -> Result<bool, String>,
) -> Result<(), String> {
    let (stop, turns) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let changer = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                change()?;
                turns.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
            }
            Ok(())
        });
        let (mut met, mut rounds) = ([0u32; 2], 0);
        let result = loop {
            match call() {
                Ok(is_served) => met[usize::from(is_served)] += 1,
                Err(wrong) => break Err(wrong),
            }
            rounds += 1;
            if rounds >= ROUNDS && met[1] > 0 && (met[0] > 0 || !may_fail) {
                break Ok(());
            }
            if rounds >= ROUNDS_MAX && turns.load(Ordering::Relaxed) >= TURNS_LEAST {
                break Err(format!("{} calls were served and {} refused", met[1], met[0]));
            }
            thread::yield_now();
        };
        stop.store(true, Ordering::Relaxed);
        changer.join().map_err(|_| String::from("it panicked"))?.and(result)
    })
}

/// A refusal leaves the buffer as it was; a success leaves it empty.
fn goes(how: u32) -> Result<(), String> {
    let at = map(LEN);
    let result = meanwhile(
        how != DISCARD,
        || take_away(how, at),
        || {
            let buffer = alloc();
            words(buffer).fill(FIRST);
            let moved = hostcall(SLOT_MOVE_IN, [buffer, at, LEN, 0, 0, 0]);
            let is_served = match moved {
                0 => holds(buffer, 0).map(|()| true),
                answer if answer == Fault.to_value() => holds(buffer, FIRST).map(|()| false),
                answer => Err(format!("{answer} is no answer")),
            };
            served("freed", hostcall(SLOT_FREE, [buffer, 0, 0, 0, 0, 0]))?;
            match hostcall(SLOT_MOVE_OUT, [at, LEN, 0, 0, 0, 0]) {
                answer if answer == Fault.to_value() => {}
                buffer => {
                    let buffer = served("out", buffer)?;
                    if let Some(word) = words(buffer).iter().find(|word| ![0, FIRST].contains(*word)) {
                        return Err(format!("{word:#x} was never there"));
                    }
                    served("freed", hostcall(SLOT_FREE, [buffer, 0, 0, 0, 0, 0]))?;
                }
            }
            is_served
        },
    );
    hostcall(UNMAP, [at, LEN, 0, 0, 0, 0]);
    result
}

/// The other thread publishes the buffer and takes it again.
fn given_away() -> Result<(), String> {
    let (at, buffer, name) = (map(LEN), alloc(), *b"moving");
    let desc = crate::cases::bytes();
    words(buffer).fill(FIRST);
    let result = meanwhile(
        true,
        || {
            let args = [name.as_ptr() as u64, name.len() as u64, buffer, LEN, &raw const desc as u64, 0];
            match hostcall(SLOT_PUBLISH, args) {
                0 => {}
                // The other thread is moving it.
                answer if answer == Busy.to_value() => return Ok(()),
                answer => return Err(format!("it cannot be published: {answer}")),
            }
            thread::yield_now();
            let mut view = SlotView::default();
            let args = [args[0], args[1], args[4], &raw mut view as u64, TAKE_NOW, 0];
            match (hostcall(SLOT_TAKE, args), view.address == buffer) {
                (0, true) => Ok(()),
                answer => Err(format!("it cannot be taken again: {answer:?}")),
            }
        },
        || match hostcall(SLOT_MOVE_IN, [buffer, at, LEN, 0, 0, 0]) {
            0 => Ok(true),
            answer if answer == Fault.to_value() => Ok(false),
            answer => Err(format!("{answer} is no answer")),
        },
    );
    hostcall(SLOT_FREE, [buffer, 0, 0, 0, 0, 0]);
    hostcall(UNMAP, [at, LEN, 0, 0, 0, 0]);
    result
}

/// A reader of the place finds one content or the other, and never a hole.
fn looked_at() -> Result<(), String> {
    let at = map(LEN);
    let turn = AtomicU64::new(0);
    let result = meanwhile(
        false,
        || {
            for word in words(at).iter().step_by(PAGE as usize / 8) {
                // SAFETY: a word of memory that is mapped all the time.
                let found = unsafe { (&raw const *word).read_volatile() };
                if ![0, FIRST, SECOND].contains(&found) {
                    return Err(format!("{found:#x} was never there"));
                }
            }
            Ok(())
        },
        || {
            let buffer = alloc();
            let word = if turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) { FIRST } else { SECOND };
            words(buffer).fill(word);
            let moved = served("in", hostcall(SLOT_MOVE_IN, [buffer, at, LEN, 0, 0, 0]));
            moved.and_then(|_| holds(at, word))?;
            served("freed", hostcall(SLOT_FREE, [buffer, 0, 0, 0, 0, 0])).map(|_| true)
        },
    );
    hostcall(UNMAP, [at, LEN, 0, 0, 0, 0]);
    result
}
