//! The calls on mapped memory: ranges that are the caller's and others; and mapped memory as the buffer of other calls.

use super::{Cases, HERE, MAX, MIN, Own, room, want};
use monohull_abi::Errno::{Fault, Invalid, NotPermitted, OutOfMemory};
use monohull_abi::layout::{CELL_SIZE, PAGE};
use monohull_abi::number::*;
use monohull_abi::types::{MAP_ALIGN_MAX, MapAccess};
use monohull_trampoline::user::hostcall;

pub(super) const NONE: u64 = MapAccess::None as u64;
pub(super) const READ: u64 = MapAccess::Read as u64;
pub(super) const WRITE: u64 = MapAccess::ReadWrite as u64;

/// Two pages of constants, which lie in the image.
#[repr(align(4096))]
pub(super) struct Constants([u8; 2 * PAGE as usize]);

pub(super) static CONSTANTS: Constants = Constants([b'c'; 2 * PAGE as usize]);

pub(super) fn all(cases: &mut Cases<'_>, own: &Own) {
    let map = |pages: u64, access| hostcall(MAP, [pages * PAGE, 0, access, 0, 0, 0]) as u64;
    let (open, fixed, reserved) = (map(4, WRITE), map(4, READ), map(4, NONE));

    cases.refused("nothing", MAP, &[0, 0, WRITE], Invalid);
    for bytes in [1 << 40, MIN, MAX] {
        cases.refused("very much", MAP, &[bytes, 0, NONE], OutOfMemory);
        cases.refused("very much", MAP, &[bytes, 0, WRITE], OutOfMemory);
    }
    cases.refused("more than its limit", MAP, &[16 << 30, 0, WRITE], OutOfMemory);
    for align in [3, PAGE - 1, 2 * MAP_ALIGN_MAX, MIN, MAX] {
        cases.refused("no alignment", MAP, &[PAGE, align, WRITE], Invalid);
    }
    for access in [3, 4, 5, 6, 7, 1 << 32, MIN, MAX] {
        cases.refused("no access, such as to code", MAP, &[PAGE, 0, access], Invalid);
        cases.refused("no access, such as to code", PROTECT, &[open, PAGE, access], Invalid);
    }
    let stack = (&raw const cases.list) as u64 & !(PAGE - 1);
    let constants = (&raw const CONSTANTS.0) as u64;
    let code = all as fn(&mut Cases<'_>, &Own) as usize as u64 & !(PAGE - 1);
    for (number, third) in [(UNMAP, READ), (DISCARD, READ), (PROTECT, READ), (MAP_IMAGE, constants)] {
        // A range that is not mapped is refused as an address is, wherever it lies.
        cases.bad("memory", number, &[HERE, PAGE, third], want(PAGE, PAGE));
        cases.refused("its stack", number, &[stack, PAGE, third], Fault);
        cases.refused("its code", number, &[code, PAGE, third], Fault);
        cases.refused("its heap", number, &[own.bytes & !(PAGE - 1), PAGE, third], Fault);
        cases.refused("its slot buffer", number, &[own.buffer, PAGE, third], Fault);
        cases.refused("the neighbour's", number, &[open + CELL_SIZE, PAGE, third], Fault);
        cases.refused("the other neighbour's", number, &[open - CELL_SIZE, PAGE, third], Fault);
        cases.refused("no page", number, &[open, 0, third], Invalid);
        cases.refused("a page's middle", number, &[open + 8, PAGE, third], Fault);
        for bytes in [1 << 40, MIN, MAX] {
            cases.refused("very much from there", number, &[open, bytes, third], Fault);
        }
    }
    let name = [monohull_abi::types::InfoString::Function as u64];
    let into = |address| [name[0], address, 512];
    cases.add("a call into it", GET_STRING, &into(open), 14);
    cases.refused("a call into what can only be read", GET_STRING, &into(fixed), Fault);
    cases.add("a call from what can only be read", STDIO_WRITE, &[1, fixed, 0], 0);
    cases.refused("a call into what is reserved", GET_STRING, &into(reserved), Fault);
    cases.add("gives up its rights", PROTECT, &[open, PAGE, NONE], 0);
    cases.refused("a call into what it gave up", GET_STRING, &into(open), Fault);
    cases.refused("a call from what it gave up", STDIO_WRITE, &[1, open, 16], Fault);
    cases.add("has them again", PROTECT, &[open, PAGE, WRITE], 0);
    cases.add("a call into it again", GET_STRING, &into(open), 14);
    cases.add("empties it", DISCARD, &[open, 4 * PAGE], 0);
    cases.refused("a word that is zero again", FUTEX_WAIT, &[open, 1, MAX], monohull_abi::Errno::Again);
    cases.add("takes it back", UNMAP, &[open, 4 * PAGE], 0);
    for (number, third) in [(UNMAP, READ), (DISCARD, READ), (PROTECT, READ), (MAP_IMAGE, constants)] {
        cases.refused("what is gone", number, &[open, PAGE, third], Fault);
        cases.refused("a part of which is gone", number, &[fixed, 8 * PAGE, third], Fault);
    }
    cases.refused("a call into what is gone", GET_STRING, &into(open), Fault);
    cases.bad("room", GET_STRING, &[name[0], HERE, 512], room(14, 1));
    image(cases, own, constants, (stack, code), fixed);
    for address in [fixed, reserved] {
        cases.add("the rest", UNMAP, &[address, 4 * PAGE], 0);
    }
}

/// A private copy of the image: of its constants only, and none of it is written to.
fn image(cases: &mut Cases<'_>, own: &Own, constants: u64, (stack, code): (u64, u64), at: u64) {
    let heap = own.bytes & !(PAGE - 1);
    for (what, source) in [
        ("its stack", stack),
        ("its code", code),
        ("its heap", heap),
        ("its slot buffer", own.buffer & !(PAGE - 1)),
        ("what it has mapped", at),
        ("the neighbour's image", constants + CELL_SIZE),
        ("the other neighbour's image", constants.wrapping_sub(CELL_SIZE)),
        ("a page's middle", constants + 8),
        ("no address", MIN),
        ("no address", MAX & !(PAGE - 1)),
        ("nothing", 0),
    ] {
        cases.refused(what, MAP_IMAGE, &[at, PAGE, source], NotPermitted);
    }
    cases.add("its constants", MAP_IMAGE, &[at, 2 * PAGE, constants], 0);
    // A word of them; it waits no longer than until now.
    let word = u64::from(u32::from_ne_bytes([b'c'; 4]));
    cases.refused("a word that is not a constant's", FUTEX_WAIT, &[at, 0, 0], monohull_abi::Errno::Again);
    cases.refused("a word of them", FUTEX_WAIT, &[at + PAGE, word, 0], monohull_abi::Errno::TimedOut);
    cases.add("a call into the copy", GET_STRING, &[monohull_abi::types::InfoString::Function as u64, at, 512], 14);
    cases.refused("a word of the image", FUTEX_WAIT, &[constants, word, 0], monohull_abi::Errno::TimedOut);
    cases.add("empties a part", DISCARD, &[at, PAGE], 0);
    cases.refused("a word that is zero", FUTEX_WAIT, &[at, 0, 0], monohull_abi::Errno::TimedOut);
    cases.refused("a word behind it", FUTEX_WAIT, &[at + PAGE, word, 0], monohull_abi::Errno::TimedOut);
}
