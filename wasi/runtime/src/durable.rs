//! Waits for what happens outside, and what a program says of its invocation: what it imports from the module `monohull` for that.
//!
//! A wait is one of the whole instance. If the workflow is suspended meanwhile, the program's memory and this runtime's are parts of the checkpoint, with
//! the frames of both on the stack; so nothing is prepared for it here.
//!
//! ```text
//!   event(names, names_len, timeout, out) ──▶ which of the names        out: handle u32, length u32, as of a slot
//!   send(invocation, …, name, …, bytes, …)       state(name, …, text, …)       handed_over(name, …, out)
//!   start_child(workflow, …, id, …, input, …, detached)       cancel_child(id, …)       child_id(id, …, pointer, room) ──▶ length
//!   join(id, …, timeout, out) ──▶ how it has ended       child_output(told, …, slot, …, out)       out: offset u32, length u32
//!   checkpoint(label, …) ──▶ 1 if it came back       fork(copies, out) ──▶ which copy this is
//!   number(which) ──▶ i64, such as the generation    text(which, pointer, room) ──▶ length, such as that of the invocation's id
//!   last_error(pointer, room) ──▶ length             fail(is_permanent, text, …) does not return
//! ```
//!
//! Each returns what its counterpart in `function/include/monohull.h` does ([`crate::answer`]).

use crate::answer::{name, with};
use crate::errno::WasiError;
use crate::guest::Guest;
use crate::host::{plain, text_of};
use crate::imports::Imports;
use crate::preview1::{State, memory_of};
use crate::refusal::Refusal;
use crate::slots::{MODULE, Slots, Taken};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use monohull::rt::{ask_checkpoint, ask_fork, fail, send_event, take_event};
use monohull_abi::Errno;
use monohull_abi::branch::Forked;
use monohull_abi::child::{CHILD_EVENT, DETACHED, Outcome};
use monohull_abi::event::{EVENT_NAME_MAX, EVENT_SEPARATOR, INVOCATION_ID_MAX};
use monohull_abi::number::{CHILD_CANCEL, CHILD_ID, CHILD_START, GET_INFO, PUBLISH};
use monohull_abi::types::{AbortKind, Info, InfoString};
use monohull_std::durable;
use wasmtime::{Caller, Result};

/// Bytes of a handle and a length.
const PAIR: u32 = 8;
/// Longest text with which a program ends itself, in bytes; what is longer is cut.
const TEXT_MAX: u32 = 64 << 10;
/// Numbers that a program may ask for.
const KNOWN: [Info; 10] = [
    Info::InstanceIndex,
    Info::InstanceCount,
    Info::StackSize,
    Info::Thread,
    Info::MemoryLimit,
    Info::Parallelism,
    Info::Attempt,
    Info::Generation,
    Info::ForkIndex,
    Info::ForkCount,
];

/// Takes the first event of several names: which one, and a handle of its content where the program wants it.
fn event(
    guest: &mut Guest<'_>,
    slots: &mut Slots,
    names: &[&str],
    timeout: u64,
    out: u32,
    read: impl FnOnce(usize, &[u8]) -> Option<u32>,
) -> Result<u32, Refusal> {
    let late = || Refusal::new(Errno::TimedOut, "there was none in time");
    let (which, bytes) = take_event(names, timeout)?.ok_or_else(late)?;
    let number = read(which, &bytes).ok_or_else(unreadable)?;
    held(guest, slots, out, Taken::Told(bytes))?;
    Ok(number)
}

fn unreadable() -> Refusal {
    Refusal::new(Errno::Io, "what was told cannot be read")
}

/// What the system tells by an event.
fn told(event: &[u8]) -> Result<Vec<u8>, Refusal> {
    let event = core::str::from_utf8(event).map_err(|_| unreadable())?;
    Ok(take_event(&[event], u64::MAX)?.ok_or_else(unreadable)?.1)
}

/// Gives the program a handle of what it was told, and the length.
pub(crate) fn held(guest: &mut Guest<'_>, slots: &mut Slots, out: u32, taken: Taken) -> Result<(), Refusal> {
    let too_large = || Refusal::new(Errno::MessageTooLong, "it does not fit into the program's memory");
    let len = u32::try_from(taken.bytes().len()).map_err(|_| too_large())?;
    // Before it has a handle: what cannot be told is freed.
    guest.bytes(out, PAIR)?;
    let handle = slots.insert(taken);
    pair(guest, out, handle, len)
}

/// That there is room for a handle and a length, before anything is taken: it would be lost.
pub(crate) fn room(guest: &Guest<'_>, out: u32) -> Result<(), Refusal> {
    Ok(guest.bytes(out, PAIR).map(drop)?)
}

fn pair(guest: &mut Guest<'_>, out: u32, first: u32, second: u32) -> Result<(), Refusal> {
    let mut bytes = [0; PAIR as usize];
    bytes[..4].copy_from_slice(&first.to_le_bytes());
    bytes[4..].copy_from_slice(&second.to_le_bytes());
    Ok(guest.store(out, &bytes)?)
}

/// Where the content of an output slot of a child lies in what was told of its end: from there on, and how long. Without a name, the message.
fn output_of(told: &[u8], slot: &str) -> Option<(u32, u32)> {
    let outcome = Outcome::parse(told)?;
    let found = match slot {
        "" => outcome.message.as_bytes(),
        _ => outcome.outputs().find(|(name, _)| *name == slot)?.1,
    };
    Some(((found.as_ptr().addr() - told.as_ptr().addr()) as u32, found.len() as u32))
}

/// Copies as much of a text as there is room for. All of its length is the answer.
fn copied(guest: &mut Guest<'_>, text: &str, pointer: u32, room: u32) -> Result<u32, WasiError> {
    let len = text.len().min(room as usize);
    guest.bytes_mut(pointer, room)?[..len].copy_from_slice(&text.as_bytes()[..len]);
    Ok(text.len() as u32)
}

/// Gives the functions their names.
pub(crate) fn link(imports: &mut Imports<'_, State>) -> Result<()> {
    events(imports)?;
    children(imports)?;
    invocation(imports)
}

fn events(imports: &mut Imports<'_, State>) -> Result<()> {
    imports.provide(MODULE, "event", |mut caller: Caller<'_, State>, at: u32, len: u32, timeout: u64, out: u32| {
        with(&mut caller, |guest, slots| {
            room(guest, out)?;
            let names = String::from(name(guest, at, len)?);
            let names: Vec<&str> = names.split(EVENT_SEPARATOR).collect();
            event(guest, slots, &names, timeout, out, |which, _| Some(which as u32))
        })
    })?;
    imports.provide(
        MODULE,
        "send",
        |mut caller: Caller<'_, State>, id: u32, id_len: u32, at: u32, len: u32, bytes: u32, bytes_len: u32| {
            with(&mut caller, |guest, _| {
                let (id, name) = (name(guest, id, id_len)?, name(guest, at, len)?);
                let bytes = guest.bytes(bytes, bytes_len)?;
                send_event(id.as_bytes(), name.as_bytes(), bytes).map_err(Refusal::of_system)?;
                Ok(0)
            })
        },
    )?;
    imports.provide(
        MODULE,
        "state",
        |mut caller: Caller<'_, State>, at: u32, len: u32, text: u32, text_len: u32| {
            with(&mut caller, |guest, _| {
                let (name, text) = (name(guest, at, len)?, guest.text(text, text_len)?);
                let args = [name.as_ptr() as u64, name.len() as u64, text.as_ptr() as u64, text.len() as u64];
                plain(PUBLISH, args).map_err(Refusal::of_system)?;
                Ok(0)
            })
        },
    )?;
    imports.provide(MODULE, "handed_over", |mut caller: Caller<'_, State>, at: u32, len: u32, out: u32| {
        with(&mut caller, |guest, slots| {
            room(guest, out)?;
            let missing = || Refusal::new(Errno::NotFound, "nothing was handed over under this name");
            let text = durable::handed_over(name(guest, at, len)?).ok_or_else(missing)?;
            held(guest, slots, out, Taken::Told(text.into_bytes()))?;
            Ok(0)
        })
    })?;
    Ok(())
}

fn children(imports: &mut Imports<'_, State>) -> Result<()> {
    imports.provide(
        MODULE,
        "start_child",
        |mut caller: Caller<'_, State>,
         workflow: u32,
         workflow_len: u32,
         id: u32,
         id_len: u32,
         input: u32,
         input_len: u32,
         detached: u32| {
            with(&mut caller, |guest, _| {
                let text = format!("{}\n{}", name(guest, id, id_len)?, name(guest, workflow, workflow_len)?);
                let input = guest.bytes(input, input_len)?;
                let flags = if detached == 0 { 0 } else { DETACHED };
                let args = [text.as_ptr() as u64, text.len() as u64, input.as_ptr() as u64, input.len() as u64, flags];
                plain(CHILD_START, args).map_err(Refusal::of_system)?;
                Ok(0)
            })
        },
    )?;
    imports.provide(
        MODULE,
        "join",
        |mut caller: Caller<'_, State>, id: u32, id_len: u32, timeout: u64, out: u32| {
            with(&mut caller, |guest, slots| {
                room(guest, out)?;
                let name = format!("{CHILD_EVENT}{}", name(guest, id, id_len)?);
                let read = |_, told: &[u8]| Outcome::parse(told).map(|outcome| outcome.ending as u32);
                event(guest, slots, &[&name], timeout, out, read)
            })
        },
    )?;
    imports.provide(
        MODULE,
        "child_output",
        |mut caller: Caller<'_, State>, told: u32, told_len: u32, slot: u32, slot_len: u32, out: u32| {
            with(&mut caller, |guest, _| {
                let missing = || Refusal::new(Errno::NotFound, "the child has no such output");
                let found = output_of(guest.bytes(told, told_len)?, name(guest, slot, slot_len)?);
                let (offset, len) = found.ok_or_else(missing)?;
                pair(guest, out, offset, len)?;
                Ok(0)
            })
        },
    )?;
    imports.provide(
        MODULE,
        "child_id",
        |mut caller: Caller<'_, State>, id: u32, id_len: u32, pointer: u32, room: u32| {
            with(&mut caller, |guest, _| {
                let (id, mut invocation) = (name(guest, id, id_len)?, [0; INVOCATION_ID_MAX]);
                let args =
                    [id.as_ptr() as u64, id.len() as u64, invocation.as_mut_ptr() as u64, invocation.len() as u64];
                let len = plain(CHILD_ID, args).map_err(Refusal::of_system)? as usize;
                let invocation = core::str::from_utf8(invocation.get(..len).unwrap_or_default()).unwrap_or_default();
                Ok(copied(guest, invocation, pointer, room)?)
            })
        },
    )?;
    imports.provide(MODULE, "cancel_child", |mut caller: Caller<'_, State>, id: u32, id_len: u32| {
        with(&mut caller, |guest, _| {
            let id = name(guest, id, id_len)?;
            plain(CHILD_CANCEL, [id.as_ptr() as u64, id.len() as u64]).map_err(Refusal::of_system)?;
            Ok(0)
        })
    })?;
    Ok(())
}

fn invocation(imports: &mut Imports<'_, State>) -> Result<()> {
    imports.provide(MODULE, "checkpoint", |mut caller: Caller<'_, State>, label: u32, len: u32| {
        with(&mut caller, |guest, _| {
            let mut event = [0; EVENT_NAME_MAX];
            let event = ask_checkpoint(name(guest, label, len)?.as_bytes(), &mut event).map_err(Refusal::of_system)?;
            told(event)?.first().filter(|came| **came <= 1).map(|came| (*came).into()).ok_or_else(unreadable)
        })
    })?;
    imports.provide(MODULE, "fork", |mut caller: Caller<'_, State>, copies: u32, out: u32| {
        with(&mut caller, |guest, slots| {
            room(guest, out)?;
            let mut event = [0; EVENT_NAME_MAX];
            let event = ask_fork(copies.into(), &mut event).map_err(Refusal::of_system)?;
            let (number, ids) = match Forked::parse(&told(event)?).ok_or_else(unreadable)? {
                Forked::Original(ids) => (0, ids.as_bytes().to_vec()),
                Forked::Copy(number) => (number, Vec::new()),
                Forked::Refused(why) => return Err(Refusal::new(Errno::TooMany, why)),
            };
            held(guest, slots, out, Taken::Told(ids))?;
            Ok(number)
        })
    })?;
    imports.provide(MODULE, "number", |what: u32| -> i64 {
        match Info::from_raw(what.into()) {
            // What else there is are addresses in the runtime, and what the processor has.
            Some(what) if KNOWN.contains(&what) => {
                plain(GET_INFO, [what as u64]).map_or_else(Errno::to_value, |is| is as i64)
            }
            _ => Errno::Invalid.to_value(),
        }
    })?;
    imports.provide(MODULE, "text", |mut caller: Caller<'_, State>, what: u32, pointer: u32, room: u32| {
        with(&mut caller, |guest, _| {
            let unknown = || Refusal::new(Errno::Invalid, "there is no text of this number");
            let what = InfoString::from_raw(what.into()).ok_or_else(unknown)?;
            Ok(copied(guest, &text_of(what), pointer, room)?)
        })
    })?;
    imports.provide(
        MODULE,
        "fail",
        |mut caller: Caller<'_, State>, is_permanent: u32, text: u32, len: u32| -> Result<()> {
            let (memory, _) = memory_of(&mut caller)?;
            let guest = Guest(memory);
            let text = String::from_utf8_lossy(guest.bytes(text, len.min(TEXT_MAX)).unwrap_or_default());
            let kind = if is_permanent == 0 { AbortKind::Error } else { AbortKind::Permanent };
            fail(kind, format_args!("{text}"))
        },
    )?;
    imports.provide(MODULE, "last_error", |mut caller: Caller<'_, State>, pointer: u32, room: u32| -> Result<i32> {
        let (memory, state) = memory_of(&mut caller)?;
        // An answer that is not there has no explanation of its own.
        Ok(copied(&mut Guest(memory), &state.explanation, pointer, room).unwrap_or(0) as i32)
    })?;
    Ok(())
}
