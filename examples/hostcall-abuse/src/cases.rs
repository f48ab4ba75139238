//! The calls, and what is the right answer to each.

mod continuations;
mod effects;
mod files;
mod mapped;
mod mappings;
mod moves;
mod neighbour;
mod queues;
mod rewind;
mod sockets;

pub(crate) use sockets::{Network, connection};

use crate::addresses::{Addresses, Want};
use core::arch::x86_64::__cpuid_count;
use monohull_abi::Errno::{self, Exists, Fault, Invalid, NoSuchCall, NotPermitted, OutOfMemory};
use monohull_abi::event::{EVENT_LIST_MAX, EVENT_LIST_NAMES, EVENT_NAME_MAX};
use monohull_abi::number::*;
use monohull_abi::types::{
    BYTES_FINGERPRINT, CPUID_FIRST, CPUID_LEAVES, Info, InfoString, MemoryStats, PUBLISHED_BYTES, PUBLISHED_NAMES,
    SlotView, TAKE_NOW, TypeDesc,
};
use monohull_std::prelude::*;
use monohull_trampoline::user::hostcall;

/// One call.
pub(crate) struct Case {
    /// What is tried, in words.
    pub(crate) what: String,
    pub(crate) number: u64,
    pub(crate) args: [u64; 6],
    /// There must be something to explain before it.
    pub(crate) after_a_refusal: bool,
    /// The right answer.
    pub(crate) value: i64,
}

/// -1, or very many.
const MAX: u64 = u64::MAX;
/// The most negative number, or very many.
const MIN: u64 = i64::MIN as u64;
/// Where a call's argument is replaced by a bad address.
const HERE: u64 = 0xdead;

const STATS: u64 = size_of::<MemoryStats>() as u64;
const VIEW: u64 = size_of::<SlotView>() as u64;
const DESC: u64 = size_of::<TypeDesc>() as u64;

const fn want(bytes: u64, align: u64) -> Want {
    Want { bytes, align, writes: false, touches: true }
}

const fn room(bytes: u64, align: u64) -> Want {
    Want { bytes, align, writes: true, touches: true }
}

/// Memory of the attacker's own that the good arguments lead to; leaked, for it must stay where it is.
struct Own {
    name: u64,
    desc: u64,
    view: u64,
    word: u64,
    bytes: u64,
    buffer: u64,
}

fn keep<T>(value: T) -> u64 {
    Box::leak(Box::new(value)) as *mut T as u64
}

impl Own {
    fn new() -> Own {
        let name = keep([b'n'; 512]);
        Own {
            name,
            desc: keep(desc(name, 4)),
            view: keep(SlotView::default()),
            word: keep(0u32),
            bytes: keep([0u8; 512]),
            buffer: hostcall(SLOT_ALLOC, [64, 8, 0, 0, 0, 0]) as u64,
        }
    }
}

/// The type of bytes, whose name is for messages.
pub(crate) fn bytes() -> TypeDesc {
    desc(c"[u8]".as_ptr() as u64, 4)
}

fn desc(name: u64, name_len: u64) -> TypeDesc {
    TypeDesc { fingerprint: BYTES_FINGERPRINT, name, name_len, element_size: 1 }
}

/// Collects cases.
struct Cases<'a> {
    addresses: &'a Addresses,
    list: Vec<Case>,
}

impl Cases<'_> {
    fn add(&mut self, what: &str, number: u32, args: &[u64], value: i64) {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let name = name_of(number).unwrap_or("a number");
        let what = format!("{name}: {what}");
        self.list.push(Case { what, number: number.into(), args: all, after_a_refusal: false, value });
    }

    fn last_after_a_refusal(&mut self) {
        self.list.last_mut().expect("a case").after_a_refusal = true;
    }

    fn refused(&mut self, what: &str, number: u32, args: &[u64], errno: Errno) {
        self.add(what, number, args, errno.to_value());
    }

    /// One case for every bad address, in the place of [`HERE`].
    fn bad(&mut self, what: &str, number: u32, args: &[u64], wanted: Want) {
        for (label, address) in self.addresses.bad(wanted) {
            let args: Vec<u64> = args.iter().map(|arg| if *arg == HERE { address } else { *arg }).collect();
            self.refused(&format!("{what} {label}"), number, &args, Fault);
        }
    }
}

/// All cases, in an order in which each finds what it needs; those of sockets are for the network that the workflow has.
pub(crate) fn all(addresses: &Addresses, network: Network) -> Vec<Case> {
    let mut cases = Cases { addresses, list: Vec::new() };
    let own = Own::new();
    core(&mut cases, &own);
    memory(&mut cases, &own);
    mapped::all(&mut cases, &own);
    moves::all(&mut cases, &own);
    slots(&mut cases, &own);
    events(&mut cases, &own);
    effects::all(&mut cases, &own);
    continuations::all(&mut cases, &own);
    rewind::all(&mut cases, &own);
    output(&mut cases, &own);
    files::all(&mut cases, &own);
    mappings::all(&mut cases, &own);
    sockets::all(&mut cases, &own, network);
    queues::all(&mut cases, &own, network);
    neighbour::all(&mut cases, &own);
    numbers(&mut cases);
    cases.list
}

/// What the processor answers itself, with zeros for a leaf that there is not. Which one of them answers is not said.
fn cpuid((leaf, subleaf): (u32, u32)) -> [u32; 4] {
    if leaf > __cpuid_count(leaf & 0x8000_0000, 0).eax || leaf == 7 && subleaf > __cpuid_count(7, 0).eax {
        return [0; 4];
    }
    let said = __cpuid_count(leaf, subleaf);
    [said.eax, if leaf == 1 { said.ebx & 0x00ff_ffff } else { said.ebx }, said.ecx, said.edx]
}

fn core(cases: &mut Cases<'_>, own: &Own) {
    let function = InfoString::Function as u64;
    cases.add("does nothing", NULL, &[MAX, MAX, MAX, MAX, MAX, MAX], 0);

    cases.refused("the word differs", FUTEX_WAIT, &[own.word, 1, MAX], Errno::Again);
    cases.refused("no value of a word", FUTEX_WAIT, &[own.word, 1 << 32, MAX], Invalid);
    cases.refused("no time to wait", FUTEX_WAIT, &[own.word, 0, 0], Errno::TimedOut);
    cases.bad("a word", FUTEX_WAIT, &[HERE, 0, MAX], want(4, 4));
    cases.bad("a word", FUTEX_WAKE, &[HERE, MAX], Want { touches: false, ..want(4, 4) });
    cases.add("no thread waits", FUTEX_WAKE, &[own.word, MAX], 0);
    cases.refused("a word in its own slot buffer", FUTEX_WAIT, &[own.buffer, 0, MAX], Fault);
    cases.refused("a word in its own slot buffer", FUTEX_WAKE, &[own.buffer, MAX], Fault);

    cases.add("a name's length", GET_STRING_LEN, &[function], "hostcall-abuse".len() as i64);
    cases.add("a name", GET_STRING, &[function, own.bytes, 512], "hostcall-abuse".len() as i64);
    cases.add("a part of a name", GET_STRING, &[function, own.bytes, 4], 4);
    cases.bad("room", GET_STRING, &[function, HERE, 512], room(14, 1));
    cases.bad("very much room", GET_STRING, &[function, HERE, MAX], room(14, 1));
    let handed_over = InfoString::HandedOver as u64;
    cases.add("nothing was handed over", GET_STRING_LEN, &[handed_over], 0);
    cases.add("nothing was handed over", GET_STRING, &[handed_over, own.bytes, 512], 0);
    for what in [99, MAX, MIN, 1 << 32] {
        cases.refused("no such text", GET_STRING_LEN, &[what], Invalid);
        cases.refused("no such text", GET_STRING, &[what, own.bytes, 512], Invalid);
        cases.refused("no such fact", GET_INFO, &[what], Invalid);
    }
    for (index, answer) in CPUID_LEAVES.into_iter().flat_map(cpuid).enumerate() {
        cases.add("what the processor has", GET_INFO, &[CPUID_FIRST + index as u64], answer.into());
    }
    cases.refused("no such register", GET_INFO, &[CPUID_FIRST + 4 * CPUID_LEAVES.len() as u64], Invalid);
    cases.add("the thread", GET_INFO, &[Info::Thread as u64], 0);
    for what in [Info::Generation, Info::ForkIndex, Info::ForkCount] {
        cases.add("of a workflow that was never suspended", GET_INFO, &[what as u64], 0);
    }
    for what in [Info::TlsAddress, Info::TlsFileSize, Info::TlsMemorySize, Info::TlsAlign] {
        cases.add("thread-local variables of an image without", GET_INFO, &[what as u64], 0);
    }

    cases.add("some bytes", GETRANDOM, &[own.bytes, 512], 512);
    cases.bad("room", GETRANDOM, &[HERE, 512], room(512, 1));
    for len in [64 * 1024 + 1, MIN, MAX] {
        cases.refused("too many bytes", GETRANDOM, &[own.bytes, len], Invalid);
    }

    published(cases, own);
    sending(cases);
    children(cases);
    branches(cases);

    for (label, address) in cases.addresses.bad(room(26, 1)) {
        cases.refused(&format!("room {label}"), LAST_ERROR_MESSAGE, &[address, 256], Fault);
        cases.last_after_a_refusal();
    }

    for thread in [MAX, MIN, 1 << 32] {
        cases.refused("no thread's number", THREAD_JOIN, &[thread], Invalid);
    }
    cases.add("a thread that never was", THREAD_JOIN, &[0x0fff_ffff], 0);
    let code = core as *const () as u64;
    cases.bad("an entry", FAULT_HANDLER, &[HERE, code, 1], want(1, 1));
    cases.bad("code", FAULT_HANDLER, &[code, HERE, 1], want(1, 1));
    cases.bad("code up to the last address", FAULT_HANDLER, &[code, HERE, MAX], want(1, 1));
    cases.refused("code in the heap", FAULT_HANDLER, &[code, own.bytes, 8], Fault);
    cases.refused("an entry in the code that it is for", FAULT_HANDLER, &[code, code, 1], Invalid);
    cases.add("no handler", FAULT_HANDLER, &[MAX, MAX, 0], 0);
    for kind in [4, MIN, MAX] {
        cases.refused("no such kind", ABORT, &[kind, own.bytes, 4], Invalid);
    }
}

fn memory(cases: &mut Cases<'_>, own: &Own) {
    cases.refused("by nothing", HEAP_GROW, &[0], Invalid);
    for bytes in [MAX, MIN, 1 << 40] {
        cases.refused("by very much", HEAP_GROW, &[bytes], OutOfMemory);
    }
    cases.add("all of it", MEMORY_STATS, &[keep(MemoryStats::default())], 0);
    cases.bad("room", MEMORY_STATS, &[HERE], room(STATS, 8));

    for bytes in [MAX, MIN, 1 << 40] {
        cases.refused("very much", SLOT_ALLOC, &[bytes, 8], OutOfMemory);
        cases.refused("to very much", SLOT_RESIZE, &[own.buffer, bytes], OutOfMemory);
    }
    for align in [0, 3, MIN, MAX] {
        cases.refused("no alignment", SLOT_ALLOC, &[64, align], Invalid);
    }
    // Not the memory behind it is wanted here, but a buffer of the caller's that starts there.
    let buffer = Want { bytes: 64, align: 1, writes: false, touches: true };
    for (call, args) in [(SLOT_RESIZE, [HERE, 64]), (SLOT_FREE, [HERE, 0]), (SLOT_MARK_WRITTEN, [HERE, 0])] {
        cases.bad("a buffer", call, &args, buffer);
        let inside = args.map(|arg| if arg == HERE { own.buffer + 8 } else { arg });
        cases.refused("the middle of a buffer", call, &inside, Fault);
    }
    cases.add("its own buffer, which it did not take", SLOT_MARK_WRITTEN, &[own.buffer], 0);
}

fn slots(cases: &mut Cases<'_>, own: &Own) {
    let Own { name, desc: good, view, buffer, .. } = *own;
    let publish = |name, len, address, count, desc| [name, len, address, count, desc];
    cases.bad("a name", SLOT_PUBLISH, &publish(HERE, 16, buffer, 1, good), want(16, 1));
    cases.bad("a type", SLOT_PUBLISH, &publish(name, 4, buffer, 1, HERE), want(DESC, 8));
    cases.bad("a buffer", SLOT_PUBLISH, &publish(name, 4, HERE, 1, good), want(64, 1));
    cases.bad("a name", SLOT_TAKE, &[HERE, 16, good, view, TAKE_NOW], want(16, 1));
    cases.bad("a type", SLOT_TAKE, &[name, 4, HERE, view, TAKE_NOW], want(DESC, 8));
    cases.bad("room", SLOT_TAKE, &[name, 4, good, HERE, TAKE_NOW], room(VIEW, 8));
    for (label, address) in cases.addresses.bad(want(16, 1)) {
        let bad = keep(desc(address, 16));
        cases.refused(&format!("a type's name {label}"), SLOT_PUBLISH, &publish(name, 4, buffer, 1, bad), Fault);
    }
    for len in [0, 256, MIN, MAX] {
        cases.refused("a name of no length", SLOT_PUBLISH, &publish(name, len, buffer, 1, good), Invalid);
        cases.refused("a name of no length", SLOT_TAKE, &[name, len, good, view, TAKE_NOW], Invalid);
        let bad = keep(desc(name, len));
        cases.refused("a type's name of no length", SLOT_PUBLISH, &publish(name, 4, buffer, 1, bad), Invalid);
    }
    let broken = keep([0xffu8; 16]);
    cases.refused("a name that is no text", SLOT_PUBLISH, &publish(broken, 16, buffer, 1, good), Invalid);
    cases.refused("a name that is no text", SLOT_TAKE, &[broken, 16, good, view, TAKE_NOW], Invalid);
    for count in [4097, MIN, MAX] {
        cases.refused("more than the buffer holds", SLOT_PUBLISH, &publish(name, 4, buffer, count, good), Invalid);
    }
    for element_size in [4097, MIN, MAX] {
        let bad = keep(TypeDesc { element_size, ..desc(name, 4) });
        cases.refused("elements of that size", SLOT_PUBLISH, &publish(name, 4, buffer, 2, bad), Invalid);
    }
    cases.add("its buffer", SLOT_PUBLISH, &publish(name, 4, buffer, 1, good), 0);
    cases.refused("a buffer it has no more", SLOT_PUBLISH, &publish(name, 5, buffer, 1, good), Fault);
    cases.refused("a buffer it has no more", SLOT_FREE, &[buffer], Fault);
    let second = hostcall(SLOT_ALLOC, [64, 8, 0, 0, 0, 0]) as u64;
    cases.refused("a slot that is filled", SLOT_PUBLISH, &publish(name, 4, second, 1, good), Exists);
    let other = keep(TypeDesc { fingerprint: 1, ..desc(name, 4) });
    cases.refused("another type", SLOT_TAKE, &[name, 4, other, view, TAKE_NOW], Errno::WrongType);
    // The name of the type matters only now, for the words.
    for (label, address) in cases.addresses.bad(want(16, 1)) {
        let bad = keep(TypeDesc { fingerprint: 1, ..desc(address, 16) });
        let what = format!("another type, its name {label}");
        cases.refused(&what, SLOT_TAKE, &[name, 4, bad, view, TAKE_NOW], Fault);
    }
    cases.add("what it published", SLOT_TAKE, &[name, 4, good, view, TAKE_NOW], 0);
    cases.add("what it took", SLOT_FREE, &[buffer], 0);
    cases.refused("what it has freed", SLOT_FREE, &[buffer], Fault);
    cases.add("the other one", SLOT_FREE, &[second], 0);
}

/// What a workflow publishes is small, and text.
fn published(cases: &mut Cases<'_>, own: &Own) {
    let name = own.name;
    let word = keep(*b"word");
    cases.add("a text", PUBLISH, &[name, 4, word, 4], 0);
    cases.add("no text", PUBLISH, &[name, 4, word, 0], 0);
    cases.bad("a name", PUBLISH, &[HERE, 16, word, 4], want(16, 1));
    cases.bad("a text", PUBLISH, &[name, 4, HERE, 16], want(16, 1));
    for len in [0, MIN, MAX, EVENT_NAME_MAX as u64 + 1] {
        let errno = if len == 0 { Invalid } else { Errno::NoSpace };
        cases.refused("a name of no length", PUBLISH, &[name, len, word, 4], errno);
    }
    for len in [MIN, MAX, PUBLISHED_BYTES as u64 + 1] {
        cases.refused("a text that is too long", PUBLISH, &[name, 4, word, len], Errno::NoSpace);
    }
    for broken in [keep([0xffu8; 16]), keep([b'\n'; 16]), keep([0u8; 16])] {
        cases.refused("a name that is none", PUBLISH, &[broken, 16, word, 4], Invalid);
    }
    cases.refused("a text that is none", PUBLISH, &[name, 4, keep([0xffu8; 16]), 16], Invalid);
    let whole = Box::leak("x".repeat(PUBLISHED_BYTES).into_boxed_str()).as_ptr() as u64;
    cases.refused("more than there is room for", PUBLISH, &[name, 4, whole, PUBLISHED_BYTES as u64], Errno::NoSpace);
    for number in 1..PUBLISHED_NAMES {
        let other = Box::leak(format!("n{number:03}").into_boxed_str()).as_ptr() as u64;
        cases.add("another name", PUBLISH, &[other, 4, word, 0], 0);
    }
    cases.refused("a name too many", PUBLISH, &[word, 4, word, 0], Errno::TooMany);
    cases.add("a name that is there", PUBLISH, &[name, 4, word, 4], 0);
}

/// Where nothing may be sent every call is refused. Elsewhere what is sent has a receiver, a name, and a bounded content.
fn sending(cases: &mut Cases<'_>) {
    let (text, word) = (keep(*b"order-17\npaid"), keep(*b"word"));
    let permitted = hostcall(SEND, [text, 13, word, 4, 0, 0]) != NotPermitted.to_value();
    // Its reason is read, so that no case finds it.
    let _ = crate::explain();
    if !permitted {
        for data in [text, 0, u64::MAX] {
            for len in [0, 4, MIN, MAX] {
                cases.refused("an event without permission", SEND, &[text, 13, data, len, 0], NotPermitted);
                cases.refused("a receiver without permission", SEND, &[data, len, text, 4, MAX], NotPermitted);
            }
        }
        return;
    }
    cases.add("an event for another", SEND, &[text, 13, word, 4, MAX], 0);
    cases.add("an event without content", SEND, &[text, 13, word, 0, 0], 0);
    cases.bad("a receiver", SEND, &[HERE, 16, word, 4, 0], want(16, 1));
    cases.bad("a content", SEND, &[text, 13, HERE, 16, 0], want(16, 1));
    for len in [0, MIN, MAX, 64 + 1 + EVENT_NAME_MAX as u64 + 1] {
        cases.refused("a receiver of no length", SEND, &[text, len, word, 4, 0], Invalid);
    }
    for len in [MIN, MAX, (1 << 20) + 1] {
        cases.refused("a content that is too long", SEND, &[text, 13, word, len, 0], Errno::NoSpace);
    }
    cases.refused("the end of a child", SEND, &[keep(*b"order-17\nchild:a"), 16, word, 4, 0], Invalid);
    for broken in [[0xff; 16], [b'\n'; 16], *b"../order-17\npaid", *b"order-17-is-paid", *b"order-17-and-on\n"] {
        cases.refused("a receiver that is none", SEND, &[keep(broken), 16, word, 4, 0], Invalid);
    }
}

/// Only what the workflow file names is started, and a child has an id and a bounded input.
fn children(cases: &mut Cases<'_>) {
    let (text, word) = (keep(*b"one\nthumbnail"), keep(*b"word"));
    let permitted = hostcall(CHILD_START, [text, 13, word, 4, 0, 0]) != NotPermitted.to_value();
    // Its reason is read, so that no case finds it.
    let _ = crate::explain();
    let room_of_id = Box::leak(Box::new([0u8; 64])).as_mut_ptr() as u64;
    cases.add("the id of an invocation", CHILD_ID, &[text, 3, room_of_id, 64], 20);
    cases.add("a part of an id", CHILD_ID, &[text, 3, room_of_id, 4], 4);
    cases.bad("a child", CHILD_ID, &[HERE, 16, room_of_id, 64], want(16, 1));
    cases.bad("room", CHILD_ID, &[text, 3, HERE, 20], room(20, 1));
    for len in [0, 4, MIN, MAX, 65] {
        cases.refused("a child that is none", CHILD_ID, &[text, len, room_of_id, 64], Invalid);
    }
    if !permitted {
        for data in [text, 0, u64::MAX] {
            for len in [0, 13, MIN, MAX] {
                cases.refused("without permission", CHILD_START, &[data, len, data, len, 0], NotPermitted);
                cases.refused("without permission", CHILD_CANCEL, &[data, len], NotPermitted);
            }
        }
        return;
    }
    cases.add("a child", CHILD_START, &[text, 13, word, 4, 0], 0);
    cases.add("one that is detached", CHILD_START, &[text, 13, word, 0, 1], 0);
    cases.add("one that is cancelled", CHILD_CANCEL, &[text, 3], 0);
    cases.bad("a workflow", CHILD_START, &[HERE, 16, word, 4, 0], want(16, 1));
    cases.bad("an input", CHILD_START, &[text, 13, HERE, 16, 0], want(16, 1));
    cases.bad("a child", CHILD_CANCEL, &[HERE, 16], want(16, 1));
    for flags in [2, 3, MIN, MAX] {
        cases.refused("no such flag", CHILD_START, &[text, 13, word, 4, flags], Invalid);
    }
    for len in [0, 3, 4, MIN, MAX, 130] {
        cases.refused("a child of no workflow", CHILD_START, &[text, len, word, 4, 0], Invalid);
    }
    for len in [MIN, MAX, (1 << 20) + 1] {
        cases.refused("an input that is too long", CHILD_START, &[text, 13, word, len, 0], Errno::NoSpace);
    }
    for broken in [[0xff; 16], [b'\n'; 16], *b"../one\nthumbnail", *b"one-of-thumbnail", *b"one\n../../../etc"] {
        cases.refused("a child that is none", CHILD_START, &[keep(broken), 16, word, 4, 0], Invalid);
    }
    cases.refused("another workflow", CHILD_START, &[keep(*b"one\nalbum"), 9, word, 4, 0], NotPermitted);
    for len in [0, 4, MIN, MAX, 65] {
        cases.refused("a child that is none", CHILD_CANCEL, &[text, len], Invalid);
    }
}

/// Where checkpoints are kept, a label is a text and no number, the number of copies is bounded, and there is room for the name of an event.
fn branches(cases: &mut Cases<'_>) {
    let label = keep(*b"before");
    let to = Box::leak(Box::new([0u8; 128])).as_mut_ptr() as u64;
    let permitted = hostcall(CHECKPOINT, [label, 6, 0, to, 128, 0]) != NotPermitted.to_value();
    // Its reason is read, so that no case finds it.
    let _ = crate::explain();
    if !permitted {
        for at in [label, 0, u64::MAX] {
            for len in [0, 6, MIN, MAX] {
                cases.refused("without permission", CHECKPOINT, &[at, len, 0, at, len], NotPermitted);
                cases.refused("without permission", FORK, &[len, 0, at, len], NotPermitted);
            }
        }
        return;
    }
    cases.add("a save point", CHECKPOINT, &[label, 6, 1, to, 128], 11 + 6 + 1 + 16);
    cases.add("a fork", FORK, &[100, MAX, to, 128], 5 + 16);
    cases.bad("a label", CHECKPOINT, &[HERE, 16, 0, to, 128], want(16, 1));
    cases.bad("room", CHECKPOINT, &[label, 6, 0, HERE, 34], room(34, 1));
    cases.bad("room", FORK, &[1, 0, HERE, 21], room(21, 1));
    for len in [0, MIN, MAX, 65] {
        cases.refused("a label of no length", CHECKPOINT, &[label, len, 0, to, 128], Invalid);
    }
    for broken in [[0xff; 6], *b"be\nore", *b"123456", [0; 6]] {
        cases.refused("a label that is none", CHECKPOINT, &[keep(broken), 6, 0, to, 128], Invalid);
    }
    for copies in [0, 101, 1 << 32, MIN, MAX] {
        cases.refused("so many copies", FORK, &[copies, 0, to, 128], Invalid);
    }
    for len in [0, 20] {
        cases.refused("too little room", CHECKPOINT, &[label, 6, 0, to, len], Errno::NoSpace);
        cases.refused("too little room", FORK, &[1, 0, to, len], Errno::NoSpace);
    }
}

/// The workflow runs to its end in one process, and receives no events.
fn events(cases: &mut Cases<'_>, own: &Own) {
    let Own { name, desc, view, .. } = *own;
    for deadline in [0, 1, MIN, MAX] {
        cases.refused("where none can arrive", EVENT_WAIT, &[name, 4, view, deadline], NotPermitted);
    }
    cases.bad("a name", EVENT_WAIT, &[HERE, 16, view, MAX], want(16, 1));
    cases.bad("room", EVENT_WAIT, &[name, 4, HERE, MAX], room(VIEW, 8));
    for len in [0, EVENT_NAME_MAX as u64 + 1, MIN, MAX] {
        cases.refused("a name of no length", EVENT_WAIT, &[name, len, view, MAX], Invalid);
    }
    for broken in [keep([0xffu8; 16]), keep([b'\n'; 16]), keep([0u8; 16])] {
        cases.refused("a name that is none", EVENT_WAIT, &[broken, 16, view, MAX], Invalid);
    }
    let list = |names: &str| (Box::leak(names.to_string().into_boxed_str()).as_ptr() as u64, names.len() as u64);
    let (most, more) = (["a"; EVENT_LIST_NAMES].join("\n"), ["a"; EVENT_LIST_NAMES + 1].join("\n"));
    for names in ["a\nb", most.as_str()] {
        let (at, len) = list(names);
        cases.refused("several where none can arrive", EVENT_WAIT, &[at, len, view, MAX], NotPermitted);
    }
    for names in ["a\n", "\na", "a\n\nb", "a\n\0", more.as_str(), &"a".repeat(EVENT_LIST_MAX + 1)] {
        let (at, len) = list(names);
        cases.refused("several names, one of which is none", EVENT_WAIT, &[at, len, view, MAX], Invalid);
    }
    // An event lies in a slot of such a name.
    let forged = keep(*b"\0ennnn\x000000000000000000");
    let len = 23;
    let buffer = hostcall(SLOT_ALLOC, [64, 8, 0, 0, 0, 0]) as u64;
    cases.refused("an event of its own making", SLOT_PUBLISH, &[forged, len, buffer, 1, desc], Invalid);
    cases.refused("an event as a slot", SLOT_TAKE, &[forged, len, desc, view, TAKE_NOW], Invalid);
    cases.add("the buffer of the event", SLOT_FREE, &[buffer], 0);
}

fn output(cases: &mut Cases<'_>, own: &Own) {
    cases.bad("a text", STDIO_WRITE, &[1, HERE, 16], want(16, 1));
    cases.bad("a text", STDIO_WRITE, &[2, HERE, 16], want(16, 1));
    for len in [1 << 40, MIN, MAX] {
        cases.refused("a text without end", STDIO_WRITE, &[1, own.bytes, len], Fault);
    }
    for stream in [0, 3, MIN, MAX, 1 << 32 | 1] {
        cases.refused("no such stream", STDIO_WRITE, &[stream, own.bytes, 4], Invalid);
        cases.refused("no such stream", STDIO_FLUSH, &[stream], Invalid);
    }
    for clock in [2, MIN, MAX, 1 << 32] {
        cases.refused("no such clock", CLOCK_GETTIME, &[clock], Invalid);
    }
    cases.add("no time at all", NANOSLEEP, &[0], 0);
}

fn numbers(cases: &mut Cases<'_>) {
    let system = [
        192,
        SLOT_PEEK,
        SLOT_PIN,
        SLOT_UNPIN,
        SLOT_NEXT,
        SLOT_HELD,
        SLOT_GIVE,
        EFFECTS_DROP,
        RAMFS,
        FATFS,
        HOST_FILES,
        FILE_PIN,
        FILE_UNPIN,
        FILE_HELD,
        EVENTS_OPEN,
    ];
    for number in (30..32).chain([46, 63, 66, 79, 82, 191, 255, 256, 1_000_000, u32::MAX]).chain(system) {
        cases.refused(&format!("{number} is not for functions"), number, &[1, 2, 3], NoSuchCall);
    }
    for number in [1 << 32, 1 << 32 | u64::from(EXIT), MIN, MAX] {
        let what = format!("{number:#x} is no number");
        let value = NoSuchCall.to_value();
        cases.list.push(Case { what, number, args: [0; 6], after_a_refusal: false, value });
    }
}
