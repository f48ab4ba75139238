//! Memory is what it was.

use crate::{point, stats};
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::layout::PAGE;
use monohull_abi::number;
use monohull_abi::types::MapAccess;
use monohull_std::continuation::{Checkpoint, rewind, try_rewind};
use monohull_std::prelude::*;
use monohull_trampoline::user::hostcall;

/// Data and bss of the image.
static DATA: AtomicU64 = AtomicU64::new(7);
static ZERO: AtomicU64 = AtomicU64::new(0);

pub(crate) fn all_of_it() {
    const TIMES: u64 = 1000;
    let mut local = black_box(1_u64);
    let mut heap = vec![3_u8; 100_000];
    let mut texts: Vec<String> = (0..10).map(|number| format!("text {number}")).collect();
    let (checkpoint, rewinds, value) = point();
    assert_eq!((DATA.load(Ordering::Relaxed), ZERO.load(Ordering::Relaxed), black_box(local)), (7, 0, 1));
    assert!(heap.len() == 100_000 && heap.iter().all(|byte| *byte == 3));
    assert!(texts.len() == 10 && texts[9] == "text 9");
    assert_eq!(value, if rewinds == 0 { Vec::new() } else { rewinds.to_le_bytes().to_vec() });
    DATA.store(8, Ordering::Relaxed);
    ZERO.store(9, Ordering::Relaxed);
    local += 1;
    black_box(&mut local);
    heap.fill(rewinds as u8);
    heap.extend_from_slice(&[1; 5000]);
    texts.clear();
    texts.push(format!("{rewinds}"));
    if rewinds < TIMES {
        rewind(&checkpoint, &(rewinds + 1).to_le_bytes());
    }
}

/// Heap that was added since is taken back, and what it held does not show when it is added again.
pub(crate) fn heap_grows_and_shrinks() {
    const MUCH: usize = 8 << 20;
    let (checkpoint, rewinds, value) = point();
    let heap = stats().heap;
    if rewinds > 0 {
        assert_eq!(heap.to_le_bytes(), value[..8], "as at the checkpoint");
    }
    let added = hostcall(number::HEAP_GROW, [MUCH as u64, 0, 0, 0, 0, 0]);
    assert!(added > 0);
    // SAFETY: the pages have just been added to the heap, and nothing else uses them.
    let added = unsafe { core::slice::from_raw_parts_mut(added as *mut u8, MUCH) };
    assert!(added.iter().all(|byte| *byte == 0), "new memory is zero");
    added.fill(0xa5);
    // The added heap is in a checkpoint of its own, which is freed with it.
    let inner = point();
    added[0] = 1;
    assert_eq!(stats().heap, heap + MUCH as u64);
    if rewinds < 20 {
        rewind(&checkpoint, &heap.to_le_bytes());
    }
    drop(inner);
}

fn page(address: u64) -> &'static mut [u8] {
    // SAFETY: the callers have mapped it.
    unsafe { core::slice::from_raw_parts_mut(address as *mut u8, PAGE as usize) }
}

fn map(pages: u64) -> u64 {
    let mapped = hostcall(number::MAP, [pages * PAGE, 0, MapAccess::ReadWrite as u64, 0, 0, 0]);
    assert!(mapped > 0, "{mapped}");
    mapped as u64
}

pub(crate) fn mapped() {
    let base = map(8);
    (0..8).for_each(|at| page(base + at * PAGE).fill(at as u8 + 1));
    let call = |number, args: [u64; 3]| {
        assert_eq!(hostcall(number, [args[0], args[1], args[2], 0, 0, 0]), 0, "{number}");
    };
    call(number::PROTECT, [base + 7 * PAGE, PAGE, MapAccess::Read as u64]);
    let before = stats().heap;
    let (checkpoint, rewinds, _) = point();
    assert_eq!(stats().heap, before);
    for at in 0..8 {
        assert!(page(base + at * PAGE).iter().all(|byte| *byte == at as u8 + 1), "page {at} after {rewinds}");
    }
    // Each time something else happens to it.
    page(base).fill(99);
    match rewinds {
        0 => {}
        1 => call(number::UNMAP, [base + PAGE, 2 * PAGE, 0]),
        2 => call(number::DISCARD, [base, 8 * PAGE, 0]),
        3 => call(number::PROTECT, [base + PAGE, PAGE, MapAccess::None as u64]),
        4 => call(number::PROTECT, [base + 7 * PAGE, PAGE, MapAccess::ReadWrite as u64]),
        5 => page(map(100)).fill(5),
        6 => {
            call(number::UNMAP, [base, 8 * PAGE, 0]);
            // The same place, for something else.
            let other = map(8);
            assert!(page(other).iter().all(|byte| *byte == 0), "what was there does not show");
            page(other).fill(77);
            // And in a checkpoint of its own.
            let inner = point();
            page(other).fill(78);
            assert_eq!(inner.1, 0);
            rewind(&checkpoint, &[]);
        }
        7 => {
            call(number::UNMAP, [base + 3 * PAGE, PAGE, 0]);
            assert!(map(1) > 0);
        }
        _ => return,
    }
    rewind(&checkpoint, &[]);
}

/// Checkpoints behind the one that is gone back to are freed, and those before it stay.
pub(crate) fn nested() {
    let mut words = vec![0_u64; 4096];
    let mut kept: Vec<Checkpoint> = Vec::new();
    let (first, rewinds, _) = point();
    assert!(words.iter().all(|word| *word == 0));
    words[0] = 1;
    let (second, again, value) = point();
    assert_eq!((words[0], words[4000], kept.len()), (1, 0, 0));
    if again == 0 {
        words[4000] = 2;
        let (third, ..) = point();
        assert_eq!(words[4000], 2);
        words[0] = 3;
        kept.push(third);
        rewind(&second, &[again as u8 + 1]);
    }
    assert_eq!(value, [1]);
    if rewinds < 3 {
        words[2000] = 9;
        rewind(&first, &[]);
    }
}

/// One in the middle is freed: those around it lead to the same memory.
pub(crate) fn forgotten() {
    let mut words = vec![0_u64; 8192];
    let (first, rewinds, value) = point();
    let states = |words: &[u64]| (words[0], words[2048], words[4096]);
    assert_eq!(states(&words), (0, 0, 0), "after {rewinds}");
    words[0] = 1;
    let (second, ..) = point();
    words[0] = 2;
    words[2048] = 2;
    let (third, thirds, _) = point();
    assert_eq!(states(&words), (2, 2, 0));
    words[0] = 3;
    words[4096] = 3;
    if thirds > 0 {
        rewind(&first, &[1]);
    }
    match (rewinds, value.as_slice()) {
        (0, _) => {
            drop(second);
            rewind(&first, &[0]);
        }
        (1, [0]) => {
            drop(second);
            rewind(&third, &[]);
        }
        (2, [1]) => {
            drop(third);
            rewind(&first, &[2]);
        }
        (3, [2]) => {
            // The copy is that of a checkpoint which is gone.
            drop((second, third));
            words[6000] = 4;
            let (fourth, fourths, _) = point();
            assert_eq!((states(&words), words[6000]), ((3, 2, 3), 4));
            words[6000] = 5;
            if fourths == 0 {
                rewind(&fourth, &[]);
            }
            rewind(&first, &[3]);
        }
        (4, [3]) => {
            let number = second;
            drop(first);
            words[0] = 9;
            let error = try_rewind(&third, &vec![0; 5000]);
            assert_eq!(error.errno(), monohull_abi::Errno::MessageTooLong);
            drop((number, third));
            // From the beginning, with nothing before it.
            let (fresh, fresh_times, _) = point();
            assert_eq!(words[0], 9);
            words.fill(1);
            if fresh_times < 3 {
                rewind(&fresh, &[]);
            }
        }
        other => panic!("{other:?}"),
    }
}

/// From the depth of a recursion, over many frames.
pub(crate) fn deep() {
    #[inline(never)]
    fn descend(depth: u64, sum: u64) -> (Checkpoint, u64, u64) {
        let words = black_box([depth; 64]);
        if depth == 0 {
            let (checkpoint, rewinds, _) = point();
            return (checkpoint, rewinds, sum);
        }
        let (checkpoint, rewinds, sum) = descend(depth - 1, sum + words[3]);
        assert!(words.iter().all(|word| *word == depth), "a frame is as it was");
        black_box(&words);
        (checkpoint, rewinds, sum)
    }
    let (checkpoint, rewinds, sum) = descend(500, 0);
    assert_eq!(sum, 500 * 501 / 2);
    // Other frames lie there meanwhile.
    let other = descend_elsewhere(400);
    assert_eq!(other, 400);
    if rewinds < 10 {
        rewind(&checkpoint, &[]);
    }
}

#[inline(never)]
fn descend_elsewhere(depth: u64) -> u64 {
    let words = black_box([!depth; 80]);
    let below = if depth == 0 { 0 } else { 1 + descend_elsewhere(depth - 1) };
    black_box(&words);
    below
}
