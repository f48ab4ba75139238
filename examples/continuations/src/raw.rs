//! Hostcalls as they are, in ways that the library does not allow.

use monohull_abi::continuation::{CONTINUATION_FINGERPRINT, CONTINUATION_NAME};
use monohull_abi::types::{BYTES_FINGERPRINT, SlotView, TAKE_NOW, TypeDesc};
use monohull_abi::{Errno, number};
use monohull_std::prelude::*;
use monohull_trampoline::user::hostcall;

fn call<const N: usize>(number: u32, args: [u64; N]) -> Result<u64, Errno> {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&args);
    Errno::from_value(hostcall(number, all))
}

/// The type of continuations, or that of bytes.
fn desc(is_continuation: bool) -> TypeDesc {
    let (name, fingerprint) = match is_continuation {
        true => (CONTINUATION_NAME, CONTINUATION_FINGERPRINT),
        false => ("[u8]", BYTES_FINGERPRINT),
    };
    TypeDesc { fingerprint, name: name.as_ptr() as u64, name_len: name.len() as u64, element_size: 1 }
}

fn alloc() -> u64 {
    call(number::SLOT_ALLOC, [64, 8]).unwrap_or(0)
}

fn make() -> Result<(u64, [u8; 18]), Errno> {
    let mut name = [0_u8; 18];
    call(number::CONTINUATION, [name.as_mut_ptr() as u64]).map(|address| (address, name))
}

fn take(slot: &[u8], is_continuation: bool) -> Result<SlotView, Errno> {
    take_with(slot, is_continuation, 0)
}

fn take_with(slot: &[u8], is_continuation: bool, flags: u64) -> Result<SlotView, Errno> {
    let (desc, mut view) = (desc(is_continuation), SlotView::default());
    let (desc, out) = (&raw const desc as u64, &raw mut view as u64);
    call(number::SLOT_TAKE, [slot.as_ptr() as u64, slot.len() as u64, desc, out, flags]).map(|_| view)
}

fn publish(slot: &[u8], address: u64) -> Result<u64, Errno> {
    let desc = desc(true);
    call(number::SLOT_PUBLISH, [slot.as_ptr() as u64, slot.len() as u64, address, 1, &raw const desc as u64])
}

/// Makes continuations until it is refused, uses all of them, and takes what they were used with.
pub(crate) fn storm() -> String {
    let mut made = Vec::new();
    let refused = loop {
        match make() {
            Ok(one) => made.push(one),
            Err(errno) => break errno,
        }
    };
    let used = made.iter().filter(|(address, _)| call(number::RESUME, [*address, alloc(), 8]).is_ok()).count();
    let taken = made.iter().filter(|(_, name)| take(name, false).is_ok()).count();
    let more = make().is_ok();
    format!("{} made, then {refused:?}, {used} used, {taken} taken, more: {more}", made.len())
}

/// A continuation as a request for an effect.
pub(crate) fn as_request() -> String {
    let Ok(token) = take(b"next", true) else { return "none".to_owned() };
    let (effect, mut name) = ("blob", [0_u8; 18]);
    let args = [effect.as_ptr() as u64, 4, token.address, 1, name.as_mut_ptr() as u64];
    let refused = call(number::PERFORM, args);
    let used = call(number::RESUME, [token.address, alloc(), 0]);
    format!("as a request: {refused:?}, as what it is: {used:?}")
}

/// Publishes a buffer of its own as a continuation.
pub(crate) fn forge() -> String {
    format!("{:?}", publish(b"next", alloc()))
}

/// All that is none of its own continuations, and its own one in all wrong ways; at the end in the right way.
pub(crate) fn abuse() -> String {
    let mut said = String::new();
    let mut tell = |what: &str, came: Result<u64, Errno>| said.push_str(&format!("{what}: {came:?}\n"));
    let value = alloc();
    // While it lies in its slot its address can be guessed: it is near the buffer that was made last.
    let mut guessed = Ok(0);
    for page in 1..256_u64 {
        for near in [value.wrapping_add(page << 12), value.wrapping_sub(page << 12)] {
            match call(number::RESUME, [near, value, 1]) {
                Err(Errno::Fault) => {}
                other => guessed = other,
            }
        }
    }
    tell("guessed addresses", guessed);
    let forged = alloc();
    tell("published as one", publish(b"forged", forged));
    let forged = take(b"forged", true).map_or(0, |view| view.address);
    tell("a buffer of its type", call(number::RESUME, [forged, value, 1]));
    let Ok(SlotView { address: token, .. }) = take(b"next", true) else { return "none".to_owned() };
    tell("itself as a value", call(number::RESUME, [token, token, 1]));
    let own = make().map_or(0, |(address, _)| address);
    tell("another one as a value", call(number::RESUME, [token, own, 1]));
    tell("its middle", call(number::RESUME, [token + 8, value, 1]));
    tell("no value", call(number::RESUME, [token, 0, 1]));
    tell("too many bytes", call(number::RESUME, [token, value, 1 << 20]));
    // The slot of another's continuation, whose names are no secret.
    for (started, cell, number) in (1..8).flat_map(|s| (0..8).flat_map(move |c| (1..4).map(move |n| (s, c, n)))) {
        let name = format!("\0k{:016x}", (started << 8 | cell) << 32 | number as u64);
        if let Ok(taken) = take_with(name.as_bytes(), false, TAKE_NOW) {
            tell("took the slot of another", Ok(taken.address));
        }
        if publish(name.as_bytes(), value).is_ok() {
            tell("filled the slot of another", Ok(0));
        }
    }
    tell("passed on", publish(b"passed", token));
    tell("after it was passed on", call(number::RESUME, [token, value, 1]));
    tell("passed on again", publish(b"again", token));
    let token = take(b"passed", true).map_or(0, |view| view.address);
    // What is in the buffer means nothing.
    let edited = call(number::GETRANDOM, [token, 64, 0]);
    tell("other bytes", edited);
    let larger = call(number::SLOT_RESIZE, [token, 1 << 20]);
    tell("made larger", larger.map(|_| 0));
    let token = larger.unwrap_or(0);
    tell("used", call(number::RESUME, [token, value, 0]));
    tell("used again", call(number::RESUME, [token, alloc(), 0]));
    said
}
