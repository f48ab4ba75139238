//! The call that asks for an effect: with names that are none, with buffers that are not the caller's, and slots of requests as slots.

use super::{Cases, HERE, MAX, MIN, Own, keep, room, want};
use monohull_abi::Errno::{Fault, Invalid, NotFound};
use monohull_abi::effect::{EFFECT_NAME_MAX, EFFECT_SLOT_LEN};
use monohull_abi::number::*;
use monohull_abi::types::TAKE_NOW;
use monohull_std::prelude::*;
use monohull_trampoline::user::hostcall;

const OUT: u64 = EFFECT_SLOT_LEN as u64;

pub(super) fn all(cases: &mut Cases<'_>, own: &Own) {
    let Own { desc, view, .. } = *own;
    let (name, nobody, out) = (keep(*b"echo"), keep(*b"nobody's effects"), keep([0u8; 24]));
    let buffer = hostcall(SLOT_ALLOC, [64, 8, 0, 0, 0, 0]) as u64;
    cases.bad("a name", PERFORM, &[HERE, 16, buffer, 1, out], want(16, 1));
    for len in [0, EFFECT_NAME_MAX as u64 + 1, MIN, MAX] {
        cases.refused("a name of no length", PERFORM, &[name, len, buffer, 1, out], Invalid);
    }
    for broken in [[0xff; 16], [b'\n'; 16], [0; 16], *b"../../etc/passwd", *b"echo\0           ", *b"echo.echo.echo.e"]
    {
        cases.refused("a name that is none", PERFORM, &[keep(broken), 16, buffer, 1, out], Invalid);
    }
    cases.refused("an effect without a handler", PERFORM, &[nobody, 8, buffer, 1, out], Invalid);
    cases.refused("an effect without a handler", PERFORM, &[nobody, 6, buffer, 1, out], NotFound);
    // Slots of requests have such names: of another instance, of none, of the highest number.
    for id in ["0000000000000001", "0000010000000001", "ffffffffffffffff", "0000000000000000"] {
        for part in ["p", "a", "r"] {
            let forged = keep(<[u8; 18]>::try_from(format!("\0{part}{id}").as_bytes()).expect("18 bytes"));
            cases.refused("a request of another", SLOT_TAKE, &[forged, OUT, desc, view, TAKE_NOW], Invalid);
            cases.refused("a reply of its own making", SLOT_PUBLISH, &[forged, OUT, buffer, 1, desc], Invalid);
        }
    }
    let handled = hostcall(PERFORM, [name, 4, 0, 1, out, 0]) != NotFound.to_value();
    // Its reason is read, so that no case finds it.
    let _ = crate::explain();
    if !handled {
        cases.refused("what no step handles", PERFORM, &[name, 4, buffer, 1, out], NotFound);
        cases.add("the buffer of the request", SLOT_FREE, &[buffer], 0);
        return;
    }
    cases.bad("room for the reply's name", PERFORM, &[name, 4, buffer, 1, HERE], room(OUT, 1));
    for address in [0, 1, 8, MIN, MAX, buffer + 8, buffer - 8, own.bytes, own.word] {
        cases.refused("what is no buffer of its own", PERFORM, &[name, 4, address, 1, out], Fault);
    }
    for count in [4097, 1 << 40, MIN, MAX] {
        cases.refused("more than the buffer has", PERFORM, &[name, 4, buffer, count, out], Invalid);
    }
    cases.add("a request", PERFORM, &[name, 4, buffer, 5, out], 0);
    cases.refused("a buffer that was given away", PERFORM, &[name, 4, buffer, 5, keep([0u8; 24])], Fault);
    cases.refused("a buffer that was given away", SLOT_FREE, &[buffer], Fault);
    cases.add("the reply", SLOT_TAKE, &[out, OUT, desc, view, 0], 0);
}
