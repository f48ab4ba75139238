//! The calls that move pages between slot buffers and mapped memory: ranges that are the caller's and others.

use super::mapped::{CONSTANTS, NONE, READ, WRITE};
use super::{Cases, HERE, MAX, MIN, Own, want};
use crate::addresses::Want;
use monohull_abi::Errno::{Fault, Invalid, OutOfMemory};
use monohull_abi::layout::{CARRIER_BASE, CELL_SIZE, INFO_BASE, PAGE, WINDOW_BASE};
use monohull_abi::number::*;
use monohull_abi::types::MOVED_MIN;
use monohull_trampoline::user::hostcall;

/// Bytes of the buffer: enough to be moved.
const BYTES: u64 = 2 * MOVED_MIN;

pub(super) fn all(cases: &mut Cases<'_>, own: &Own) {
    let map = |bytes: u64, access| hostcall(MAP, [bytes, 0, access, 0, 0, 0]) as u64;
    let (open, fixed, reserved) = (map(BYTES, WRITE), map(BYTES, READ), map(BYTES, NONE));
    let buffer = hostcall(SLOT_ALLOC, [BYTES, 8, 0, 0, 0, 0]) as u64;
    let into = |address: u64, bytes: u64| [buffer, address, bytes];

    for bytes in [PAGE, MOVED_MIN, BYTES] {
        cases.bad("memory", SLOT_MOVE_IN, &into(HERE, bytes), want(PAGE, PAGE));
        cases.bad("memory", SLOT_MOVE_OUT, &[HERE, bytes], want(PAGE, PAGE));
    }
    // Not the memory behind it is wanted here, but a buffer of the caller's that starts there.
    cases.bad(
        "a buffer",
        SLOT_MOVE_IN,
        &[HERE, open, PAGE],
        Want { bytes: 64, align: 1, writes: false, touches: true },
    );
    cases.refused("the middle of a buffer", SLOT_MOVE_IN, &[buffer + PAGE, open, PAGE], Fault);
    cases.refused("mapped memory as a buffer", SLOT_MOVE_IN, &[open, fixed, PAGE], Fault);
    let stack = (&raw const cases.list) as u64 & !(PAGE - 1);
    let constants = (&raw const CONSTANTS) as u64;
    let code = all as fn(&mut Cases<'_>, &Own) as usize as u64 & !(PAGE - 1);
    for (what, address) in [
        ("its stack", stack),
        ("its code", code),
        ("its constants", constants),
        ("its heap", own.bytes & !(PAGE - 1)),
        ("the buffer itself", buffer),
        ("another buffer of its own", own.buffer),
        ("what can only be read", fixed),
        ("what is reserved", reserved),
        ("the end of what is mapped", open + BYTES),
        ("a page before it", reserved - PAGE),
        ("the neighbour's", open + CELL_SIZE),
        ("the other neighbour's", open - CELL_SIZE),
        ("the info page", INFO_BASE),
        ("a carrier's memory", CARRIER_BASE),
        ("where pages are on their way", WINDOW_BASE),
        ("the null page", 0),
        ("the last page", MAX & !(PAGE - 1)),
    ] {
        for bytes in [PAGE, MOVED_MIN] {
            cases.refused(what, SLOT_MOVE_IN, &into(address, bytes), Fault);
            cases.refused(what, SLOT_MOVE_OUT, &[address, bytes], Fault);
        }
    }
    cases.refused("more than is mapped", SLOT_MOVE_IN, &into(open + PAGE, BYTES), Fault);
    cases.refused("more than is mapped", SLOT_MOVE_OUT, &[open + PAGE, BYTES], Fault);
    cases.refused("more than may be written to", SLOT_MOVE_OUT, &[reserved, 3 * BYTES], Fault);
    for address in [open + 1, open + 8, open + PAGE - 8] {
        cases.refused("a page's middle", SLOT_MOVE_IN, &into(address, MOVED_MIN), Fault);
        cases.refused("a page's middle", SLOT_MOVE_OUT, &[address, MOVED_MIN], Fault);
    }
    cases.refused("nothing", SLOT_MOVE_IN, &into(open, 0), Invalid);
    cases.refused("nothing", SLOT_MOVE_OUT, &[open, 0], Invalid);
    for bytes in [BYTES + 1, 1 << 40, MIN, MAX] {
        cases.refused("more than the buffer has", SLOT_MOVE_IN, &into(open, bytes), Invalid);
    }
    for bytes in [1 << 40, MIN, MAX] {
        cases.refused("very much", SLOT_MOVE_OUT, &[open, bytes], OutOfMemory);
    }
    // The same pages, again and again; what was moved is gone from the buffer.
    for what in ["the buffer", "the buffer again"] {
        cases.add(what, SLOT_MOVE_IN, &into(open, BYTES), 0);
    }
    cases.add("the constants of the image", MAP_IMAGE, &[open, 2 * PAGE, constants], 0);
    cases.add("the buffer in their place", SLOT_MOVE_IN, &into(open, MOVED_MIN), 0);
    let word = u64::from(u32::from_ne_bytes([b'c'; 4]));
    cases.refused("a word of the place", FUTEX_WAIT, &[open, 0, 0], monohull_abi::Errno::TimedOut);
    cases.refused("a word of the image", FUTEX_WAIT, &[constants, word, 0], monohull_abi::Errno::TimedOut);
    cases.add("the buffer", SLOT_FREE, &[buffer], 0);
    cases.refused("what it has freed", SLOT_MOVE_IN, &into(open, PAGE), Fault);
    cases.add("the memory", UNMAP, &[open, BYTES], 0);
    cases.refused("what is gone", SLOT_MOVE_OUT, &[open, MOVED_MIN], Fault);
    for address in [fixed, reserved] {
        cases.add("the rest", UNMAP, &[address, BYTES], 0);
    }
}
