//! How many, how large, with whom.

use crate::{point, stats};
use core::hint::black_box;
use monohull_abi::{Errno, number};
use monohull_std::continuation::{CHECKPOINTS_MAX, Captured, VALUE_MAX, capture, rewind, try_rewind};
use monohull_std::prelude::*;
use monohull_std::sync::mpsc;
use monohull_std::thread;
use monohull_trampoline::user::hostcall;

pub(crate) fn threads() {
    let (checkpoint, rewinds, _) = point();
    let (sender, receiver) = mpsc::channel::<()>();
    let number = format!("{checkpoint:?}");
    let other = thread::spawn(move || {
        // A thread that is not the first can do neither.
        assert_eq!(capture().expect_err("two threads").errno(), Errno::Busy);
        let number: u64 = number.trim_matches(|sign: char| !sign.is_ascii_digit()).parse().expect("a number");
        assert_eq!(hostcall(number::REWIND, [number, 0, 0, 0, 0, 0]), Errno::Busy.to_value());
        receiver.recv()
    });
    assert_eq!(capture().expect_err("two threads").errno(), Errno::Busy);
    let error = try_rewind(&checkpoint, &[]);
    assert_eq!(error.errno(), Errno::Busy);
    assert!(error.to_string().contains("1 other threads"), "{error}");
    drop(sender);
    other.join().expect("it ends").expect_err("nothing was sent");
    if rewinds < 3 {
        rewind(&checkpoint, &[]);
    }
}

pub(crate) fn many() {
    let mut points = Vec::new();
    for number in 0..CHECKPOINTS_MAX as u64 {
        let (checkpoint, rewinds, _) = point();
        if rewinds > 0 {
            // All but one are gone, and there is room again.
            assert_eq!((number, points.len()), (1, 1));
            points.push(checkpoint);
            break;
        }
        points.push(checkpoint);
    }
    if points.len() == CHECKPOINTS_MAX {
        let error = capture().expect_err("too many");
        assert_eq!(error.errno(), Errno::TooMany);
        rewind(&points[1], &[]);
    }
    points.clear();
    let before = stats().heap;
    for _ in 0..10 * CHECKPOINTS_MAX {
        assert!(matches!(capture(), Ok(Captured::Original(_))));
    }
    assert_eq!(stats().heap, before);
}

/// A chain of checkpoints ends at the memory limit, and not later. What is freed can be used again.
pub(crate) fn limit() {
    let limit = stats().limit;
    let mut words = vec![0_u8; limit as usize / 8];
    let mut points = Vec::new();
    let error = loop {
        words.iter_mut().step_by(4096).for_each(|byte| *byte = byte.wrapping_add(1));
        match capture() {
            Ok(Captured::Original(checkpoint)) => points.push(checkpoint),
            Ok(Captured::Resumed { .. }) => panic!("there is no rewind here"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.errno(), Errno::OutOfMemory);
    assert!(error.to_string().contains("memory limit"), "{error}");
    assert!((1..8).contains(&points.len()), "{}", points.len());
    // Now there is no room for anything of this size either.
    let grown = hostcall(number::HEAP_GROW, [limit / 8, 0, 0, 0, 0, 0]);
    assert_eq!(grown, Errno::OutOfMemory.to_value());
    let last = points.pop().expect("there is one");
    drop(points);
    let value = black_box(words[0]);
    let (checkpoint, rewinds, _) = point();
    assert_eq!(words[0], value);
    words.fill(9);
    if rewinds < 2 {
        rewind(&checkpoint, &[]);
    }
    drop((checkpoint, last));
}

pub(crate) fn value() {
    let (checkpoint, rewinds, value) = point();
    assert_eq!(value.len(), if rewinds == 0 { 0 } else { VALUE_MAX / rewinds as usize });
    assert!(value.iter().all(|byte| u64::from(*byte) == rewinds));
    let error = try_rewind(&checkpoint, &[0; VALUE_MAX + 1]);
    assert_eq!(error.errno(), Errno::MessageTooLong);
    assert!(error.to_string().contains("the value has 1025 bytes, and there was room for 1024"), "{error}");
    if rewinds < 4 {
        let next = rewinds as usize + 1;
        rewind(&checkpoint, &vec![next as u8; VALUE_MAX / next]);
    }
}
