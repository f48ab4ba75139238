//! The calls that make and use continuations: with addresses and buffers that are not the caller's, and with what is none.

use super::{Cases, HERE, MAX, MIN, Own, keep, room};
use monohull_abi::Errno::{Fault, Invalid, NeverFilled, NotPermitted};
use monohull_abi::effect::EFFECT_SLOT_LEN;
use monohull_abi::number::*;
use monohull_abi::types::TAKE_NOW;
use monohull_std::prelude::*;
use monohull_trampoline::user::hostcall;

const OUT: u64 = EFFECT_SLOT_LEN as u64;

pub(super) fn all(cases: &mut Cases<'_>, own: &Own) {
    let Own { desc, view, .. } = *own;
    cases.bad("room for the name", CONTINUATION, &[HERE], room(OUT, 1));
    // Slots of continuations have such names: of another instance, of none, of the highest number.
    for id in ["0000000000000001", "0000010000000001", "ffffffffffffffff", "0000000000000000"] {
        let forged = keep(<[u8; 18]>::try_from(format!("\0k{id}").as_bytes()).expect("18 bytes"));
        cases.refused("what another waits for", SLOT_TAKE, &[forged, OUT, desc, view, TAKE_NOW], Invalid);
        cases.refused("what another waits for", SLOT_PUBLISH, &[forged, OUT, own.buffer, 1, desc], Invalid);
    }
    let (name, second_name) = (keep([0u8; 24]), keep([0u8; 24]));
    let continuation = hostcall(CONTINUATION, [name, 0, 0, 0, 0, 0]) as u64;
    let second = hostcall(CONTINUATION, [second_name, 0, 0, 0, 0, 0]) as u64;
    let value = hostcall(SLOT_ALLOC, [64, 8, 0, 0, 0, 0]) as u64;
    for address in [0, 1, 8, MIN, MAX, value, continuation + 8, continuation - 8, own.bytes, own.word] {
        cases.refused("what is no continuation", RESUME, &[address, value, 1], Fault);
    }
    for address in [0, 1, 8, MIN, MAX, value + 8, value - 8, own.bytes, own.word] {
        cases.refused("with no buffer of its own", RESUME, &[continuation, address, 1], Fault);
    }
    for count in [4097, 1 << 40, MIN, MAX] {
        cases.refused("with more than the buffer has", RESUME, &[continuation, value, count], Invalid);
    }
    for with in [continuation, second] {
        cases.refused("with a continuation", RESUME, &[continuation, with, 1], NotPermitted);
    }
    cases.refused("its name as a slot to fill", SLOT_PUBLISH, &[name, OUT, value, 1, desc], Invalid);
    cases.add("a continuation", RESUME, &[continuation, value, 5], 0);
    cases.refused("once more", RESUME, &[continuation, value, 5], Fault);
    cases.refused("a continuation that was used", SLOT_FREE, &[continuation], Fault);
    cases.refused("a value that was given away", SLOT_FREE, &[value], Fault);
    cases.add("what it was used with", SLOT_TAKE, &[name, OUT, desc, view, 0], 0);
    cases.refused("what it was used with, again", SLOT_TAKE, &[name, OUT, desc, view, 0], NeverFilled);
    cases.add("a continuation that nothing uses", SLOT_FREE, &[second], 0);
    cases.refused("what never comes", SLOT_TAKE, &[second_name, OUT, desc, view, 0], NeverFilled);
}
