//! Checkpoints of its own memory: addresses and numbers that are not the caller's. Those who go back for good are in the example `rewinds`.

use super::{Cases, HERE, MAX, MIN, Own, room, want};
use monohull_abi::Errno::{Fault, Invalid, MessageTooLong, NotFound};
use monohull_abi::number::{CAPTURE, REWIND};
use monohull_abi::types::{Captured, REWIND_FORGET, REWIND_VALUE_MAX};

const CAPTURED: u64 = size_of::<Captured>() as u64;

pub(super) fn all(cases: &mut Cases<'_>, own: &Own) {
    cases.bad("where it is told", CAPTURE, &[HERE, own.bytes, 16], room(CAPTURED, 8));
    cases.bad("room for a value", CAPTURE, &[own.view, HERE, 16], room(16, 1));
    cases.refused("where it is told in its own slot buffer", CAPTURE, &[own.buffer, own.bytes, 16], Fault);
    cases.refused("room for a value in its own slot buffer", CAPTURE, &[own.view, own.buffer, 16], Fault);
    for len in [REWIND_VALUE_MAX as u64 + 1, MIN, MAX] {
        cases.refused("room for a value without end", CAPTURE, &[own.view, own.bytes, len], Invalid);
        cases.refused("a value without end", REWIND, &[1, own.bytes, len], MessageTooLong);
    }
    cases.bad("a value", REWIND, &[1, HERE, 16], want(16, 1));
    for number in [0, 1, 256, MIN, MAX] {
        cases.refused("a checkpoint that never was", REWIND, &[number, own.bytes, 16], NotFound);
        cases.refused("a checkpoint that never was", REWIND, &[number, 0, 0, REWIND_FORGET], NotFound);
    }
    for flags in [2, 3, MIN, MAX] {
        cases.refused("no such flag", REWIND, &[1, own.bytes, 16, flags], Invalid);
    }
}
