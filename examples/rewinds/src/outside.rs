//! What lies outside of memory.

use crate::{point, stats};
use core::mem::forget;
use monohull_abi::{Errno, number};
use monohull_std::continuation::{rewind, try_rewind};
use monohull_std::fs::{self, File};
use monohull_std::io::{Read, Write};
use monohull_std::prelude::*;
use monohull_std::slot::{SlotBuffer, SlotVec};
use monohull_std::thread;
use monohull_std::time::Duration;
use monohull_trampoline::user::hostcall;

/// Buffers that the instance has are as they were; those that it has made since are freed.
pub(crate) fn slots() {
    let mut buffer = SlotBuffer::<[u8]>::with_slot_len("kept", 100_000);
    buffer.fill(1);
    let input = SlotBuffer::<[u8]>::from_slot("input").expect("it is filled");
    let (checkpoint, rewinds, value) = point();
    assert!(buffer.iter().all(|byte| *byte == 1) && &input[..] == b"as it was");
    let before = stats();
    if rewinds > 0 {
        assert_eq!([before.owned, before.arena_buffers].map(u64::to_le_bytes).concat(), value);
    }
    buffer.fill(2);
    let mut other = SlotBuffer::<[u8]>::with_slot_len("other", 50_000);
    other.fill(3);
    assert!(stats().owned > before.owned);
    forget(other);
    if rewinds < 5 {
        rewind(&checkpoint, &[before.owned, before.arena_buffers].map(u64::to_le_bytes).concat());
    }
    buffer.discard();
    input.discard();
}

/// A buffer that memory of then would have once more is another instance's.
pub(crate) fn given_away() {
    let mut buffer = SlotVec::<u8>::with_slot("given");
    buffer.extend_from_slice(b"hello");
    let kept = SlotBuffer::<[u8]>::with_slot_len("never", 10);
    let (checkpoint, rewinds, _) = point();
    assert_eq!((rewinds, &buffer[..]), (0, &b"hello"[..]), "it never comes back here");
    buffer.extend_from_slice(b", you");
    buffer.publish().expect("it is published");
    let mut untouched = [5_u8; 3];
    untouched[1] = 6;
    let error = try_rewind(&checkpoint, &[]);
    assert_eq!(error.errno(), Errno::GivenAway);
    assert!(error.to_string().contains("slot buffer of 4096 bytes at 0x"), "{error}");
    assert_eq!((untouched, kept.len()), ([5, 6, 5], 10), "nothing has changed");
    kept.discard();
    let taken = SlotBuffer::<[u8]>::from_slot("given").expect("it is there");
    assert_eq!(&taken[..], b"hello, you");
    // It is this instance's again, where it was: memory of then names nothing that it does not have, but for the other one.
    assert_eq!(try_rewind(&checkpoint, &[]).errno(), Errno::GivenAway);
    taken.discard();
}

pub(crate) fn descriptors() {
    let mut kept = File::create("/mem/kept").expect("a file");
    kept.write_all(b"0123456789").expect("written");
    let mut read = File::open("/mem/kept").expect("a file");
    let mut byte = [0];
    let (checkpoint, rewinds, _) = point();
    if rewinds < 3 {
        // The position does not go back.
        read.read_exact(&mut byte).expect("a byte");
        assert_eq!(u64::from(byte[0]), u64::from(b'0') + rewinds);
        // What is opened and closed since does not exist any more.
        drop(File::open("/mem/kept").expect("a file"));
        fs::write(format!("/mem/{rewinds}"), "1").expect("written");
        // And one stays open, without a name in memory.
        forget(File::open("/mem/kept").expect("a file"));
        let free = hostcall(number::FILE_DUP, [3, 900, 0, 0, 0, 0]);
        assert!(free == 900 || rewinds > 0, "{free}");
        rewind(&checkpoint, &[]);
    }
    let names = fs::read_dir("/mem").expect("a folder").count();
    assert_eq!(names, 4, "files stay");
    drop(read);
    let error = try_rewind(&checkpoint, &[]);
    assert_eq!(error.errno(), Errno::GivenAway);
    assert!(error.to_string().contains("descriptor 4, which was open at the checkpoint, has been closed"), "{error}");
    // Another file has its number now.
    let again = File::open("/mem/kept").expect("a file");
    assert_eq!(try_rewind(&checkpoint, &[]).errno(), Errno::GivenAway);
    // Of a checkpoint that was made later nothing is missing.
    let (later, times, _) = point();
    if times == 0 {
        rewind(&later, &[]);
    }
    drop((again, kept));
    assert_eq!(try_rewind(&later, &[]).errno(), Errno::GivenAway);
}

/// Each line comes once, and none is lost.
pub(crate) fn output() {
    print!("before, ");
    let (checkpoint, rewinds, _) = point();
    print!("after {rewinds}, ");
    if rewinds < 2 {
        rewind(&checkpoint, &[]);
    }
    println!("end");
}

/// Waits with a checkpoint, or, if there is a round, without one.
pub(crate) fn sleep(rounds: u64) {
    let (checkpoint, ..) = point();
    let kept = (rounds == 0).then_some(checkpoint);
    thread::sleep(Duration::from_millis(1500));
    drop(kept);
}
