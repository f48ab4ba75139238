//! Calls that a program of good will does not make.

use crate::point;
use core::arch::asm;
use monohull_abi::layout::{ARENA_BASE, CELL_SIZE, INFO_BASE, PAGE};
use monohull_abi::types::{Captured, REWIND_VALUE_MAX};
use monohull_abi::{Errno, number};
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec};
use monohull_trampoline::user::{self, hostcall};

fn call(number: u32, args: [u64; 4]) -> i64 {
    hostcall(number, [args[0], args[1], args[2], args[3], 0, 0])
}

fn refused(number: u32, args: [u64; 4], errno: Errno) {
    assert_eq!(call(number, args), errno.to_value(), "{number} {args:x?}");
}

/// What a capture writes.
fn here() -> (i64, Captured) {
    let mut here = Captured::default();
    let answer = call(number::CAPTURE, [&raw mut here as u64, 0, 0, 0]);
    // SAFETY: the call has written it.
    (answer, unsafe { (&raw const here).read_volatile() })
}

/// Forged and stale numbers, and flags.
pub(crate) fn handles() {
    for number in [0, 1, 2, u64::MAX, i64::MAX as u64, INFO_BASE] {
        refused(number::REWIND, [number, 0, 0, 0], Errno::NotFound);
        refused(number::REWIND, [number, 0, 0, 1], Errno::NotFound);
    }
    let (answer, first) = here();
    assert_eq!((answer, first.rewinds), (0, 0));
    for number in [0, first.checkpoint + 1, first.checkpoint | 1 << 63, first.checkpoint << 32] {
        refused(number::REWIND, [number, 0, 0, 0], Errno::NotFound);
        refused(number::REWIND, [number, 0, 0, 1], Errno::NotFound);
    }
    for flags in [2, 3, u64::MAX] {
        refused(number::REWIND, [first.checkpoint, 0, 0, flags], Errno::Invalid);
    }
    assert_eq!(call(number::REWIND, [first.checkpoint, 0, 0, 1]), 0);
    refused(number::REWIND, [first.checkpoint, 0, 0, 1], Errno::NotFound);
    refused(number::REWIND, [first.checkpoint, 0, 0, 0], Errno::NotFound);
    let (_, second) = here();
    assert!(second.checkpoint > first.checkpoint, "a number is not used again");
    // A capture that is gone back from: its number is stale, and stays so.
    let mut tried = 0_u64;
    let (answer, outer) = here();
    if answer == 0 {
        let (_, inner) = here();
        tried = inner.checkpoint;
        assert!(tried > outer.checkpoint);
        let value = tried.to_le_bytes();
        refused(number::REWIND, [outer.checkpoint, value.as_ptr() as u64, 8, 0], Errno::MessageTooLong);
        call(number::REWIND, [outer.checkpoint, 0, 0, 0]);
        panic!("it does not return");
    }
    assert_eq!((answer, outer.rewinds, tried), (1, 1, 0));
    refused(number::REWIND, [outer.checkpoint + 1, 0, 0, 0], Errno::NotFound);
}

/// Two instances at the same time: the number of the one means nothing to the other.
pub(crate) fn foreign() {
    let index = monohull_std::instance().index;
    let slot = |name: &str, which: usize| format!("{name}.{which}");
    // So that the numbers differ.
    let mut last = Captured::default();
    for _ in 0..=10 * index {
        (_, last) = here();
    }
    let mut words = vec![index as u64; 1000];
    let mut own = SlotVec::<u64>::with_slot(&slot("number", index));
    own.push(last.checkpoint);
    own.publish().expect("it is published");
    let other = SlotBuffer::<[u64]>::from_slot(&slot("number", 1 - index)).expect("the other one's");
    let number = other[0];
    other.discard();
    assert_ne!(number, last.checkpoint);
    // The one with more of them has one of this number itself, and no more.
    if number > last.checkpoint {
        refused(number::REWIND, [number, 0, 0, 0], Errno::NotFound);
        refused(number::REWIND, [number, 0, 0, 1], Errno::NotFound);
    }
    words.fill(7);
    drop(SlotVec::<u64>::with_slot(&slot("tried", index)));
    SlotBuffer::<[u64]>::from_slot(&slot("tried", 1 - index)).expect("the other one has tried").discard();
    assert!(words.iter().all(|word| *word == 7), "no rewind has happened");
    if index > 0 {
        // One result.
        hostcall(number::EXIT, [0; 6]);
    }
}

unsafe extern "C" {
    /// The shim's way out: it keeps registers on whatever stack there is.
    fn monohull_leave();
}

/// With the stack pointer elsewhere: a call leaves some words there.
fn on_stack(stack: u64, number: u32, args: [u64; 3]) -> i64 {
    let answer: i64;
    // SAFETY: the stack has room for the words of a call, and the old one is put back.
    unsafe {
        asm!(
            "mov r12, rsp",
            "mov rsp, {stack}",
            "call {leave}",
            "mov rsp, r12",
            stack = in(reg) stack,
            leave = sym monohull_leave,
            inlateout("rax") u64::from(number) as i64 => answer,
            inlateout("rdi") args[0] => _,
            inlateout("rsi") args[1] => _,
            inlateout("rdx") args[2] => _,
            inlateout("rcx") 0_u64 => _,
            out("r12") _,
            clobber_abi("C"),
        );
    }
    answer
}

pub(crate) fn stack_pointer() {
    let mut here = Captured::default();
    let place = &raw mut here as u64;
    let mut heap = vec![0_u64; 4096];
    let on_heap = heap.as_mut_ptr() as u64 + 16_384;
    let fault = Errno::Fault.to_value();
    assert_eq!(on_stack(on_heap, number::CAPTURE, [place, 0, 0]), fault, "on the heap");
    let buffer = SlotBuffer::<[u64]>::with_slot_len("never", 4096);
    let in_buffer = buffer.as_ptr() as u64 + 16_384;
    assert_eq!(on_stack(in_buffer, number::CAPTURE, [place, 0, 0]), fault, "in a slot buffer");
    buffer.discard();
    let odd = (user::stack_pointer() - 4096) | 1;
    assert_eq!(on_stack(odd, number::CAPTURE, [place, 0, 0]), fault, "not a multiple of 8");
    // On its own stack it is captured, wherever that is.
    assert_eq!(on_stack(user::stack_pointer() - 4096, number::CAPTURE, [place, 0, 0]), 0);
    // SAFETY: the call has written it.
    let number = unsafe { (&raw const here).read_volatile() }.checkpoint;
    // A rewind does not depend on where the stack pointer is now. It is refused for another reason.
    assert_eq!(on_stack(on_heap, number::REWIND, [number + 1, 0, 0]), Errno::NotFound.to_value());
    assert_eq!(call(number::REWIND, [number, 0, 0, 1]), 0);
    // From another stack it comes back to the right one.
    let (checkpoint, rewinds, _) = point();
    if rewinds == 0 {
        let number: u64 =
            format!("{checkpoint:?}").trim_matches(|sign: char| !sign.is_ascii_digit()).parse().expect("a number");
        on_stack(on_heap, number::REWIND, [number, 0, 0]);
        panic!("it does not return");
    }
    heap.fill(1);
}

/// Where a capture is to write: not to what is not the caller's.
pub(crate) fn places() {
    let mut here = Captured::default();
    let place = &raw mut here as u64;
    let buffer = SlotBuffer::<[u64]>::with_slot_len("never", 512);
    let own_code = places as *const () as u64;
    let cell = place / CELL_SIZE * CELL_SIZE;
    let bad = [
        0,
        8,
        place | 1,
        own_code & !7,
        cell,
        cell + CELL_SIZE,
        buffer.as_ptr() as u64,
        ARENA_BASE,
        INFO_BASE,
        u64::MAX - 7,
        1 << 63,
    ];
    for address in bad {
        refused(number::CAPTURE, [address, 0, 0, 0], Errno::Fault);
        if address != place | 1 {
            refused(number::CAPTURE, [place, address, PAGE, 0], Errno::Fault);
        }
    }
    refused(number::CAPTURE, [place, place, REWIND_VALUE_MAX as u64 + 1, 0], Errno::Invalid);
    refused(number::CAPTURE, [place, place, u64::MAX, 0], Errno::Invalid);
    buffer.discard();
    let (checkpoint, rewinds, _) = point();
    let number: u64 =
        format!("{checkpoint:?}").trim_matches(|sign: char| !sign.is_ascii_digit()).parse().expect("a number");
    for address in bad.into_iter().filter(|address| *address != place | 1 && *address != own_code & !7) {
        refused(number::REWIND, [number, address, 16, 0], Errno::Fault);
    }
    refused(number::REWIND, [number, place, u64::MAX, 0], Errno::MessageTooLong);
    assert_eq!(rewinds, 0);
    drop(checkpoint);
}

/// What the next instance in this cell must not see.
const SECRET: u64 = 0x5ec2_e75e_c2e7_5ec2;

static BSS: monohull_std::sync::Mutex<[u64; 20_000]> = monohull_std::sync::Mutex::new([0; 20_000]);

/// Leaves a secret in memory and in the copy of it, in all that a checkpoint has.
pub(crate) fn leave_a_secret() {
    let mut heap = vec![SECRET; 1 << 17];
    BSS.lock().expect("not poisoned").fill(SECRET);
    let mapped = hostcall(number::MAP, [64 * PAGE, 0, 2, 0, 0, 0]) as *mut u64;
    for word in 0..64 * PAGE as usize / 8 {
        // SAFETY: these pages have just been mapped.
        unsafe { mapped.add(word).write(SECRET) };
    }
    let (checkpoint, rewinds, _) = point();
    heap.fill(!SECRET);
    let (inner, ..) = point();
    if rewinds == 0 {
        monohull_std::continuation::rewind(&checkpoint, &[]);
    }
    assert!(BSS.lock().expect("not poisoned").iter().all(|word| *word == SECRET), "the positive control");
    core::mem::forget((checkpoint, inner));
}

/// Looks wherever the one before has left it.
pub(crate) fn look_for_it() {
    let found = |words: &[u64]| words.iter().filter(|word| **word == SECRET || **word == !SECRET).count();
    let all_zero = |words: &[u64]| words.iter().all(|word| *word == 0);
    assert!(all_zero(&BSS.lock().expect("not poisoned")[..]), "bss");
    let bytes = (1 << 20) + 64 * PAGE;
    let heap = hostcall(number::HEAP_GROW, [bytes, 0, 0, 0, 0, 0]) as *const u64;
    // SAFETY: these pages have just been added.
    let heap = unsafe { core::slice::from_raw_parts(heap, bytes as usize / 8) };
    assert_eq!((found(heap), all_zero(heap)), (0, true), "heap");
    let mapped = hostcall(number::MAP, [64 * PAGE, 0, 2, 0, 0, 0]) as *const u64;
    // SAFETY: these pages have just been mapped.
    let mapped = unsafe { core::slice::from_raw_parts(mapped, 64 * PAGE as usize / 8) };
    assert_eq!((found(mapped), all_zero(mapped)), (0, true), "mapped memory");
    // In a capture, and behind it.
    let (checkpoint, rewinds, _) = point();
    assert!(all_zero(heap) && all_zero(mapped) && all_zero(&BSS.lock().expect("not poisoned")[..]), "{rewinds}");
    if rewinds == 0 {
        monohull_std::continuation::rewind(&checkpoint, &[]);
    }
    let far = hostcall(number::HEAP_GROW, [1 << 20, 0, 0, 0, 0, 0]) as *const u64;
    // SAFETY: as above.
    assert!(all_zero(unsafe { core::slice::from_raw_parts(far, 1 << 17) }), "more heap");
}
