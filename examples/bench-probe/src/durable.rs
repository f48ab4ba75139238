//! What is measured of durable invocations: one figure each, in the slot `result`.

use core::cmp::Ordering;
use core::hint::black_box;
use monohull_std::collections::{HashMap, HashSet};
use monohull_std::durable;
use monohull_std::error::Error;
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;
use monohull_std::time::{Duration, SystemTime, UNIX_EPOCH};
use monohull_std::{random, thread};

/// Makes words of a table that are all different.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// How long a nap is by which a workflow is suspended again and again: what is left of it, when nothing runs any more, must be as long as the server wants.
const NAP: Duration = Duration::from_millis(5);

/// Does what the workflow's name says; nothing if there is no such name.
pub(crate) fn run(what: &str, count: u64, bytes: usize) -> Option<Result<(), Box<dyn Error>>> {
    let figure = match what {
        "steps" => steps(count, false),
        "kept-steps" => steps(count, true),
        "late" => Ok(late(Duration::from_millis(count))),
        "event" => event(count, bytes),
        "index" => index(bytes),
        "naps" => Ok(naps(count)),
        "whims" => whims(count),
        "deep" => Ok(deep(count)),
        "points" => points(count),
        "before" => before(),
        _ => return None,
    };
    Some(figure.map(|figure| SlotString::with_slot("result").push_str(&figure.to_string())))
}

/// So many effects, each with its key; the results of all are kept by the next wait or the end, or by a save point after each.
fn steps(count: u64, kept: bool) -> Result<u64, Box<dyn Error>> {
    let mut done = 0;
    for _ in 0..count {
        done += durable::step("step").run(|key| if key.is_empty() { Err("no key") } else { Ok(1) })?;
        if kept {
            durable::checkpoint("step")?;
        }
    }
    Ok(done)
}

/// By how many nanoseconds a sleep is too long, by the host's wall clock.
fn late(time: Duration) -> u64 {
    let begin = wall();
    durable::sleep(time);
    (wall() - begin).saturating_sub(time).as_nanos() as u64
}

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The number in an event, after so many steps, with so many bytes of heap.
fn event(count: u64, bytes: usize) -> Result<u64, Box<dyn Error>> {
    let mut heap = vec![0_u8; bytes];
    heap.iter_mut().step_by(4096).enumerate().for_each(|(page, byte)| *byte = page as u8 | 1);
    steps(count, false)?;
    durable::publish("published", "17")?;
    let number = asked_for()?;
    black_box(&heap);
    Ok(number)
}

/// The number in the event `go`.
fn asked_for() -> Result<u64, Box<dyn Error>> {
    let event = durable::event("go").wait()?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&event).trim().parse()?)
}

/// Looks one word up in a table of so many bytes that was made before the wait: 1 if it is right.
fn index(bytes: usize) -> Result<u64, Box<dyn Error>> {
    let table: Vec<u64> = (0..bytes as u64 / 8).map(|at| at.wrapping_mul(GOLDEN)).collect();
    let at = asked_for()?;
    Ok(u64::from(black_box(&table)[at as usize] == at.wrapping_mul(GOLDEN)))
}

/// Waits so often.
fn naps(count: u64) -> u64 {
    (0..count).for_each(|_| durable::sleep(NAP));
    count
}

/// When it waits, by the wall clock: the last thing that it does.
fn before() -> Result<u64, Box<dyn Error>> {
    let begin = wall();
    durable::event("go").wait()?;
    Ok(begin.as_nanos() as u64)
}

/// A program that keeps to no rule: it draws random numbers, asks for the time and walks over a map in the order of its hashes, and decides by that
/// what it does. How many values were not what they had been, after so many waits.
fn whims(count: u64) -> Result<u64, Box<dyn Error>> {
    let (mut wrong, mut drawn) = (0, HashMap::new());
    for round in 0..count {
        let mut bytes = [0; 8];
        random::fill(&mut bytes);
        let (number, time) = (u64::from_le_bytes(bytes), wall());
        drawn.insert(number, time);
        let order: Vec<u64> = drawn.keys().copied().collect();
        let text = format!("{round} {number} {time:?} {order:?}");
        let copies = (text.clone(), order.clone(), HashSet::<u64>::from_iter(order));
        // Another wait each time.
        match number % 3 {
            0 => durable::sleep(NAP),
            1 => thread::sleep(2 * NAP),
            _ => drop(durable::event("never").timeout(NAP).wait()?),
        }
        let now: Vec<u64> = drawn.keys().copied().collect();
        let again = format!("{round} {number} {:?} {now:?}", drawn.get(&number).copied().unwrap_or_default());
        let same =
            (&text, &again) == (&copies.0, &text) && now == copies.1 && now.iter().all(|key| copies.2.contains(key));
        wrong += u64::from(!same);
    }
    Ok(wrong)
}

/// Waits at the bottom of a recursion, and in the comparisons of a sort: 1 if both come out right.
fn deep(depth: u64) -> u64 {
    fn down(depth: u64) -> u64 {
        if depth == 0 {
            durable::sleep(2 * NAP);
            return 0;
        }
        1 + black_box(down(depth - 1))
    }
    let mut numbers: Vec<u32> = (0..8).rev().collect();
    numbers.sort_by(|left, right| -> Ordering {
        durable::sleep(NAP);
        left.cmp(right)
    });
    u64::from(down(depth) == depth && numbers.is_sorted())
}

/// Makes so many save points, and waits for an event.
fn points(count: u64) -> Result<u64, Box<dyn Error>> {
    for number in 0..count {
        durable::checkpoint(&format!("point {number}"))?;
    }
    asked_for()
}
