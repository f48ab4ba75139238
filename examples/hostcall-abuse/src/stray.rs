//! Hostcalls with arguments by chance, one of them an address in a zone of the caller's: what a call writes lies at that address, and
//! is no longer than another argument says, or than the structure that the call fills.

use crate::gate;
use core::hint::black_box;
use monohull_abi::number::{
    ABORT, EXIT, FUTEX_WAIT, HEAP_GROW, NANOSLEEP, SLOT_TAKE, SYSTEM_ONLY, THREAD_EXIT, THREAD_JOIN, THREAD_SPAWN,
    module_of, name_of,
};
use monohull_std::collections::BTreeMap;
use monohull_std::prelude::*;

/// Bytes of the zone, and where addresses in it begin and end: there is room on both sides.
const ZONE: usize = 32 << 10;
const ADDRESSES: core::ops::Range<u64> = (8 << 10)..(24 << 10);
/// The largest number among the other arguments, and the longest structure that a call fills without being given its length.
const NUMBERS: u64 = 4096;
const STRUCTURE: u64 = 256;
/// What the zone holds.
const UNTOUCHED: u8 = 0xa5;
/// Calls that are made.
const CALLS: u32 = 10_000;
/// Calls that end the caller, wait, or take memory away.
const LEFT_OUT: [u32; 9] =
    [EXIT, ABORT, THREAD_SPAWN, THREAD_EXIT, THREAD_JOIN, FUTEX_WAIT, NANOSLEEP, HEAP_GROW, SLOT_TAKE];

/// Naps, with its zone. Prints which calls have written, and in a line that begins with `WRONG` what lies elsewhere.
pub(crate) fn writes(seed: u64, nap: impl FnOnce()) {
    let mut zone = black_box(vec![UNTOUCHED; ZONE]);
    nap();
    let base = zone.as_mut_ptr() as u64;
    // Marsaglia's xorshift: the same seed makes the same calls.
    let mut state = seed | 1;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let numbers: Vec<u32> = (0..SYSTEM_ONLY)
        .filter(|number| {
            matches!(module_of(*number), Some("core" | "mm" | "time" | "fdtab")) && !LEFT_OUT.contains(number)
        })
        .collect();
    let mut written = BTreeMap::new();
    for _ in 0..CALLS {
        let number = numbers[random(numbers.len() as u64) as usize];
        let mut args = [0; 6].map(|_: u64| if random(2) == 0 { random(8) } else { random(NUMBERS) });
        let longest = args.into_iter().fold(STRUCTURE, u64::max);
        let address = base + ADDRESSES.start + random(ADDRESSES.end - ADDRESSES.start);
        args[random(3) as usize] = address;
        gate::any_hostcall(number.into(), args);
        let zone = black_box(&mut zone);
        let touched = |byte: &u8| *byte != UNTOUCHED;
        if let (Some(first), Some(last)) = (zone.iter().position(touched), zone.iter().rposition(touched)) {
            let (from, to) = (base + first as u64, base + last as u64 + 1);
            if from < address || to > address + longest {
                println!("WRONG: {:?} {args:x?} wrote {from:x}..{to:x}", name_of(number));
            }
            written.insert(name_of(number).unwrap_or_default(), ());
            zone.fill(UNTOUCHED);
        }
    }
    println!("written by {}", written.into_keys().collect::<Vec<_>>().join(" "));
}
