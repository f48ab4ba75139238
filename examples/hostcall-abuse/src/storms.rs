//! Far more of a resource than a program needs: queues, posted events, mapped ranges, waits. Each has a limit, and what is
//! freed can be allocated again.

use crate::changing::Verdict;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use monohull_abi::Errno::{Fault, NotFound, NotPermitted, OutOfMemory, TooMany};
use monohull_abi::continuation::CONTINUATIONS_MAX;
use monohull_abi::effect::{EFFECT_SLOT_LEN, PERFORMS_MAX};
use monohull_abi::layout::PAGE;
use monohull_abi::network::{QUEUES_MAX, QueueEvent};
use monohull_abi::number::*;
use monohull_abi::types::{MAP_RANGES_MAX, MapAccess, SlotView};
use monohull_std::prelude::*;
use monohull_std::thread;
use monohull_trampoline::user::hostcall;

/// More than any limit.
const MANY: u64 = 100_000;

/// All of them.
pub(crate) fn all() -> Vec<Verdict> {
    vec![
        ("QUEUE_NEW: a storm of queues", queues()),
        ("QUEUE_POST: a storm of events", posts()),
        ("MAP: a storm of ranges", ranges()),
        ("MAP_IMAGE: a storm of images", images()),
        ("EVENT_WAIT: a storm of waits", waits()),
        ("PERFORM: a storm of requests", requests()),
        ("CONTINUATION: a storm of continuations", continuations()),
        ("RESUME: two threads use one continuation", both()),
    ]
}

/// Requests without end, of which no reply is taken until there can be no more; and once more after that.
fn requests() -> Result<(), String> {
    let name = *b"echo";
    for _ in 0..2 {
        let mut slots = Vec::new();
        for _ in 0..MANY / 10 {
            let buffer = hostcall(SLOT_ALLOC, [8, 8, 0, 0, 0, 0]) as u64;
            let mut slot = [0u8; EFFECT_SLOT_LEN];
            let answer = hostcall(PERFORM, [name.as_ptr() as u64, 4, buffer, 8, slot.as_mut_ptr() as u64, 0]);
            match answer {
                0 => slots.push(slot),
                _ => _ = hostcall(SLOT_FREE, [buffer, 0, 0, 0, 0, 0]),
            }
            // Of a workflow in which no step handles it there are none at all.
            if answer == NotFound.to_value() {
                return Ok(());
            }
            if answer != 0 && answer != TooMany.to_value() {
                return Err(format!("{answer} is no answer"));
            }
        }
        if slots.len() != PERFORMS_MAX {
            return Err(format!("it has made {} requests", slots.len()));
        }
        for slot in &slots {
            let (desc, mut view) = (crate::cases::bytes(), SlotView::default());
            let args = [slot.as_ptr() as u64, slot.len() as u64, &raw const desc as u64, &raw mut view as u64, 0, 0];
            let answer = hostcall(SLOT_TAKE, args);
            if answer != 0 || hostcall(SLOT_FREE, [view.address, 0, 0, 0, 0, 0]) != 0 {
                return Err(format!("{answer} is no reply"));
            }
        }
    }
    Ok(())
}

/// A continuation, and the slot of what it is used with.
fn continuation() -> Result<(u64, [u8; EFFECT_SLOT_LEN]), i64> {
    let mut slot = [0u8; EFFECT_SLOT_LEN];
    match hostcall(CONTINUATION, [slot.as_mut_ptr() as u64, 0, 0, 0, 0, 0]) {
        address @ 1.. => Ok((address as u64, slot)),
        answer => Err(answer),
    }
}

/// Continuations without end, which are freed when there can be no more; and once more after that.
fn continuations() -> Result<(), String> {
    for _ in 0..2 {
        let mut made = Vec::new();
        for _ in 0..MANY / 10 {
            match continuation() {
                Ok((address, _)) => made.push(address),
                Err(answer) if answer == TooMany.to_value() => {}
                Err(answer) => return Err(format!("{answer} is no answer")),
            }
        }
        if made.len() != CONTINUATIONS_MAX {
            return Err(format!("it has made {} continuations", made.len()));
        }
        made.iter().for_each(|address| _ = hostcall(SLOT_FREE, [*address, 0, 0, 0, 0, 0]));
    }
    Ok(())
}

/// One of two threads uses each continuation, and what comes is from that one.
fn both() -> Result<(), String> {
    const ROUNDS: u64 = 2_000;
    let (shared, answered) = (AtomicU64::new(0), AtomicI64::new(i64::MAX));
    let value = || hostcall(SLOT_ALLOC, [8, 8, 0, 0, 0, 0]) as u64;
    let resume = |continuation: u64, value: u64, count: u64| {
        let answer = hostcall(RESUME, [continuation, value, count, 0, 0, 0]);
        if answer != 0 {
            hostcall(SLOT_FREE, [value, 0, 0, 0, 0, 0]);
        }
        answer
    };
    let round = || {
        let (continuation, slot) = continuation().map_err(|answer| format!("no continuation: {answer}"))?;
        let mine = value();
        answered.store(i64::MAX, Ordering::Relaxed);
        shared.store(continuation, Ordering::Release);
        let first = resume(continuation, mine, 1);
        let second = loop {
            match answered.load(Ordering::Acquire) {
                i64::MAX => thread::yield_now(),
                answer => break answer,
            }
        };
        let (desc, mut view) = (crate::cases::bytes(), SlotView::default());
        let args = [slot.as_ptr() as u64, slot.len() as u64, &raw const desc as u64, &raw mut view as u64, 0, 0];
        let taken = hostcall(SLOT_TAKE, args);
        hostcall(SLOT_FREE, [view.address, 0, 0, 0, 0, 0]);
        let fault = Fault.to_value();
        match (first, second, taken, view.count) {
            (0, other, 0, 1) | (other, 0, 0, 2) if other == fault => Ok(()),
            came => Err(format!("{came:?}")),
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                match shared.swap(0, Ordering::Acquire) {
                    0 => thread::yield_now(),
                    u64::MAX => return,
                    continuation => answered.store(resume(continuation, value(), 2), Ordering::Release),
                }
            }
        });
        let came = (0..ROUNDS).try_for_each(|_| round());
        shared.store(u64::MAX, Ordering::Release);
        came
    })
}

fn queues() -> Result<(), String> {
    let mut mine = Vec::new();
    for _ in 0..MANY {
        match hostcall(QUEUE_NEW, [0; 6]) {
            queue @ 0.. => mine.push(queue as u64),
            answer if answer == TooMany.to_value() => {}
            answer => return Err(format!("{answer} is no answer")),
        }
    }
    let count = mine.len();
    mine.iter().for_each(|queue| _ = hostcall(QUEUE_CLOSE, [*queue, 0, 0, 0, 0, 0]));
    if count <= QUEUES_MAX && count > 0 { Ok(()) } else { Err(format!("it has got {count} queues")) }
}

/// Two threads wait for events that cannot arrive, under names without end.
fn waits() -> Result<(), String> {
    let wait = |first: u64| {
        let mut view = SlotView::default();
        for number in first..first + MANY / 2 {
            let name = format!("event {number}");
            let (at, out) = (name.as_ptr() as u64, (&raw mut view) as u64);
            let answer = hostcall(EVENT_WAIT, [at, name.len() as u64, out, u64::MAX, 0, 0]);
            if answer != NotPermitted.to_value() {
                return Err(format!("{answer} is no answer"));
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let other = scope.spawn(move || wait(0));
        wait(MANY).and(other.join().expect("no thread ends with a panic"))
    })
}

/// One thread posts, the other takes what there is.
fn posts() -> Result<(), String> {
    let queue = hostcall(QUEUE_NEW, [0; 6]) as u64;
    let stop = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            for data in 0..MANY {
                // A queue that is full has room again when the other has been there.
                while hostcall(QUEUE_POST, [queue, data, 0, 0, 0, 0]) != 0 && !stop.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            }
        });
        let mut room = [QueueEvent::default(); 64];
        let (mut taken, mut sum) = (0, 0);
        while taken < MANY {
            match hostcall(QUEUE_WAIT, [queue, room.as_mut_ptr() as u64, 64, u64::MAX, 0, 0]) {
                count @ 1..=64 => {
                    taken += count as u64;
                    sum += room[..count as usize].iter().map(|event| event.data).sum::<u64>();
                }
                answer => {
                    stop.store(true, Ordering::Relaxed);
                    return Err(format!("{answer} after {taken} events"));
                }
            }
        }
        // Each came once.
        if sum == MANY * (MANY - 1) / 2 { Ok(()) } else { Err(format!("{taken} events of the sum {sum}")) }
    });
    hostcall(QUEUE_CLOSE, [queue, 0, 0, 0, 0, 0]);
    result
}

/// Pages that have another access than their neighbours, until there can be no more.
fn ranges() -> Result<(), String> {
    let bytes = MANY * 2 * PAGE;
    let at = hostcall(MAP, [bytes, 0, MapAccess::None as u64, 0, 0, 0]) as u64;
    let protect = |page: u64| hostcall(PROTECT, [at + page * PAGE, PAGE, MapAccess::Read as u64, 0, 0, 0]);
    let mut made = 0;
    for page in 0..MANY {
        match protect(2 * page) {
            0 => made += 1,
            answer if answer == TooMany.to_value() || answer == OutOfMemory.to_value() => {}
            answer => return Err(format!("{answer} is no answer")),
        }
    }
    let unmapped = hostcall(UNMAP, [at, bytes, 0, 0, 0, 0]);
    match (made, unmapped) {
        (1.., 0) if made <= MAP_RANGES_MAX => Ok(()),
        _ => Err(format!("it has got {made} pages apart, and unmapping all answers {unmapped}")),
    }
}

/// A page of constants, which lies in the image.
#[repr(align(4096))]
struct Constant([u8; PAGE as usize]);

static CONSTANT: Constant = Constant([b'c'; PAGE as usize]);

/// Copies of the image that are discarded again, each of which may divide the kernel's mappings.
fn images() -> Result<(), String> {
    let source = (&raw const CONSTANT.0) as u64;
    let at = hostcall(MAP, [PAGE, 0, MapAccess::ReadWrite as u64, 0, 0, 0]) as u64;
    let mut made = 0;
    for _ in 0..MANY {
        match hostcall(MAP_IMAGE, [at, PAGE, source, 0, 0, 0]) {
            0 => made += 1,
            answer if answer == TooMany.to_value() => break,
            answer => return Err(format!("{answer} is no answer")),
        }
        match hostcall(DISCARD, [at, PAGE, 0, 0, 0, 0]) {
            0 => {}
            answer if answer == TooMany.to_value() => break,
            answer => return Err(format!("{answer} is no answer")),
        }
    }
    if (1..=MAP_RANGES_MAX).contains(&made) { Ok(()) } else { Err(format!("it has got {made} images")) }
}
