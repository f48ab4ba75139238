//! Random steps, compared with what memory should be.

use crate::{point, stats};
use monohull_abi::number;
use monohull_std::continuation::{Checkpoint, rewind};
use monohull_std::prelude::*;
use monohull_trampoline::user::hostcall;

const PAGE: usize = 4096;

/// A generator of random numbers, which a rewind passes on: otherwise the same would happen again.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

fn digest(pages: &[Vec<u8>], extra: &[(usize, usize)]) -> u64 {
    let mix = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let grown = extra.iter().flat_map(|(address, bytes)| {
        // SAFETY: heap that was added and is used by this test alone.
        unsafe { core::slice::from_raw_parts(*address as *const u8, *bytes) }
    });
    let all = pages.iter().flatten().chain(grown).copied();
    all.fold(pages.len() as u64 ^ (extra.len() as u64) << 32, mix)
}

/// A checkpoint, and what memory was there.
struct Known {
    checkpoint: Checkpoint,
    digest: u64,
    /// The step.
    since: u64,
}

pub(crate) fn random_steps(rounds: u64) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut pages: Vec<Vec<u8>> = (0..24).map(|page| vec![page as u8; PAGE]).collect();
    let mut extra: Vec<(usize, usize)> = Vec::new();
    let mut known: Vec<Known> = Vec::new();
    let mut steps = 0;
    let word = |value: &[u8], at: usize| u64::from_le_bytes(value[at * 8..][..8].try_into().expect("eight bytes"));
    while steps < rounds {
        steps += 1;
        match random.next(10) {
            0..=3 => {
                let (page, at) = (random.next(pages.len() as u64) as usize, random.next(PAGE as u64) as usize);
                if let Some(byte) = pages[page].get_mut(at) {
                    *byte = random.next(256) as u8;
                }
            }
            4 => {
                let page = random.next(pages.len() as u64) as usize;
                pages[page].fill(0);
            }
            5 if extra.len() < 6 => {
                let bytes = (1 + random.next(4)) as usize * PAGE;
                let added = hostcall(number::HEAP_GROW, [bytes as u64, 0, 0, 0, 0, 0]);
                assert!(added > 0);
                // SAFETY: these pages have just been added.
                let added_bytes = unsafe { core::slice::from_raw_parts_mut(added as *mut u8, bytes) };
                assert!(added_bytes.iter().all(|byte| *byte == 0), "step {steps}");
                added_bytes[random.next(bytes as u64) as usize] = 1;
                extra.push((added as usize, bytes));
            }
            6 => {
                if pages.len() > 4 && random.next(2) == 0 {
                    pages.pop();
                } else {
                    pages.push(vec![random.next(256) as u8; PAGE]);
                }
            }
            7 if known.len() < 20 => {
                let (now, taken_at) = (digest(&pages, &extra), steps);
                let (checkpoint, rewinds, value) = point();
                if rewinds > 0 {
                    (random, steps) = (Random(word(&value, 0)), word(&value, 1));
                    assert_eq!(digest(&pages, &extra), word(&value, 2), "step {steps}");
                    // What has been freed since is back in memory, and stays freed.
                    let left: Vec<u64> = (3..value.len() / 8).map(|at| word(&value, at)).collect();
                    known.retain(|known| left.contains(&known.since));
                    assert_eq!(known.len(), left.len(), "step {steps}");
                }
                known.push(Known { checkpoint, digest: now, since: taken_at });
            }
            8 if !known.is_empty() => {
                known.remove(random.next(known.len() as u64) as usize);
            }
            _ if !known.is_empty() => {
                let at = random.next(known.len() as u64) as usize;
                let target = &known[at];
                let value = [random.0, steps, target.digest].into_iter();
                let value = value.chain(known[..at].iter().map(|known| known.since));
                let value: Vec<u8> = value.flat_map(u64::to_le_bytes).collect();
                rewind(&target.checkpoint, &value);
            }
            _ => {}
        }
    }
    assert!(stats().heap > 0);
}
