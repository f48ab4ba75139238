//! Computes without hostcalls: for tests that interrupt user code at any instruction.
//!
//! `how` says what is done. What goes wrong is a panic.
#![no_std]
#![allow(unsafe_code, reason = "registers are what it is about")]

mod files;
mod memory;
mod registers;

use core::hint::{black_box, spin_loop};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use monohull_abi::Errno;
use monohull_abi::number::{FUTEX_WAIT, NULL, THREAD_YIELD};
use monohull_std::prelude::*;
use monohull_std::slot::SlotString;
use monohull_std::thread;
use monohull_std::time::Duration;
use monohull_trampoline::user::hostcall;

/// Set by a thread that gets its turn only if others are interrupted.
static SEEN: AtomicBool = AtomicBool::new(false);

#[monohull::main]
fn main(how: String, rounds: u64) {
    match how.as_str() {
        "registers" => (0..rounds).for_each(|seed| registers::hold(seed, 20_000)),
        "threads" => threads(rounds),
        "calls" => (0..rounds).for_each(calls),
        "compute" => {
            let mut result = SlotString::with_slot("result");
            result.push_str(&format!("{:016x}", compute(rounds)));
        }
        "memory" => {
            let mut result = SlotString::with_slot("result");
            result.push_str(&format!("{:016x}", memory::change(rounds)));
        }
        "alternate-pages" => memory::alternate((2_000, 1), Duration::from_millis(rounds)),
        "alternate-parts" => memory::alternate((600, 16), Duration::from_millis(rounds)),
        "files" => {
            let mut result = SlotString::with_slot("result");
            result.push_str(&format!("{:016x}", files::change(rounds)));
        }
        "naps" => {
            let mut result = SlotString::with_slot("result");
            result.push_str(&format!("{:016x}", files::change_between_naps(rounds)));
        }
        "one-page" => {
            let mut result = SlotString::with_slot("result");
            result.push_str(&format!("{:016x}", files::change_one_page(rounds)));
        }
        "spin" => loop {
            spin_loop();
        },
        "spin-until-seen" => until_seen(spin_loop),
        "call-until-seen" => until_seen(|| assert_eq!(hostcall(NULL, [0; 6]), 0)),
        "fail-later" => {
            nap();
            panic!("as it was asked to");
        }
        other => panic!("{other} is nothing that it does"),
    }
}

/// Goes on until another thread of the only carrier has had its turn several times.
fn until_seen(mut each: impl FnMut()) {
    let other = thread::spawn(|| {
        nap();
        SEEN.store(true, Ordering::Release);
    });
    while !SEEN.load(Ordering::Acquire) {
        each();
    }
    other.join().expect("it does not panic");
}

fn nap() {
    (0..5).for_each(|_| thread::sleep(Duration::from_millis(1)));
}

/// Several threads compute the same, each in its own registers.
fn threads(rounds: u64) {
    let expected = compute(rounds);
    let all: Vec<_> = (0..4).map(|_| thread::spawn(move || (compute(rounds), float(rounds)))).collect();
    for one in all {
        assert_eq!(one.join().expect("it does not panic"), (expected, float(rounds)));
    }
}

/// A number that depends on every round.
fn compute(rounds: u64) -> u64 {
    (0..rounds).fold(0x9e37_79b9_7f4a_7c15, |state, round| {
        let state = black_box(state) ^ round;
        state.rotate_left(27).wrapping_mul(0x0100_0000_01b3).wrapping_add(round >> 3)
    })
}

/// The same with floating-point registers, as bits.
fn float(rounds: u64) -> u64 {
    (0..rounds).fold(1.0_f64, |sum, round| black_box(sum) * 0.999 + 1.0 / (round as f64 + 1.0)).to_bits()
}

/// Hostcalls with arguments that matter, between them registers that do.
fn calls(seed: u64) {
    static WORD: AtomicU64 = AtomicU64::new(7);
    let address = WORD.as_ptr() as u64;
    if seed % 8 == 7 {
        registers::hold(seed, 3);
    }
    assert_eq!(hostcall(NULL, [seed; 6]), 0);
    // The word is not 8, so it does not wait.
    assert_eq!(hostcall(FUTEX_WAIT, [address, 8, u64::MAX, 0, 0, 0]), Errno::Again.to_value());
    assert_eq!(hostcall(u32::MAX, [1, 2, 3, 4, 5, 6]), Errno::NoSuchCall.to_value());
    assert_eq!(hostcall(THREAD_YIELD, [0; 6]), 0);
}
