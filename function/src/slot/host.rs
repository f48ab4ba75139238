//! The slot hostcalls on the host, for this module's tests: the test thread's own little arena.

#![allow(unsafe_code, reason = "addresses come as numbers, as in hostcalls")]

use alloc::string::{String, ToString};
use core::cell::RefCell;
use monohull_abi::effect::{EFFECT_SLOT_LEN, EffectPart, EffectSlot, FAILURE_FINGERPRINT, PerformId};
use monohull_abi::types::{AbortKind, BYTES_FINGERPRINT, Info, InfoString, SlotView, TAKE_NOW, TypeDesc};
use monohull_abi::{Errno, number};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::vec::Vec;

#[derive(Default)]
struct Arena {
    /// Bytes of every buffer that has not been freed.
    buffers: HashMap<u64, u64>,
    slots: HashMap<String, Slot>,
    touches: usize,
    explanation: String,
    /// The addresses of continuations, with the slots of what they are used with.
    continuations: HashMap<u64, String>,
    /// Address and length of events that have not been taken, with their names.
    events: Vec<(String, u64, u64)>,
    /// What both clocks show (ns).
    time: u64,
    /// What was published.
    published: HashMap<String, String>,
    outgoing: Vec<(String, Vec<u8>, u64)>,
    /// How often random bytes were asked for.
    randoms: u8,
}

struct Slot {
    address: u64,
    count: u64,
    fingerprint: u64,
    type_name: String,
}

std::thread_local! {
    static ARENA: RefCell<Arena> = RefCell::default();
}

/// Buffers that exist, and how often one was touched.
pub(crate) fn census() -> (usize, usize) {
    ARENA.with_borrow(|arena| (arena.buffers.len(), arena.touches))
}

/// Sends an event.
pub(crate) fn send(name: &str, bytes: &[u8]) {
    ARENA.with_borrow_mut(|arena| {
        let address = arena.alloc(bytes.len().max(1) as u64);
        // SAFETY: the buffer has room for so many bytes.
        unsafe { (address as *mut u8).copy_from(bytes.as_ptr(), bytes.len()) };
        arena.events.push((name.to_string(), address, bytes.len() as u64));
    });
}

/// What was published under a name.
pub(crate) fn published(name: &str) -> Option<String> {
    ARENA.with_borrow(|arena| arena.published.get(name).cloned())
}

/// What was sent to other invocations: to which and its name, its content, its number.
pub(crate) fn outgoing() -> Vec<(String, Vec<u8>, u64)> {
    ARENA.with_borrow(|arena| arena.outgoing.clone())
}

/// Lets time pass.
pub(crate) fn pass(ns: u64) {
    ARENA.with_borrow_mut(|arena| arena.time += ns);
}

pub(crate) fn last_error_message() -> String {
    ARENA.with_borrow(|arena| arena.explanation.clone())
}

pub(crate) fn fail(_: AbortKind, text: &str) -> ! {
    panic!("{text}")
}

/// Its id, and the name of its step.
const INVOCATION: &str = "the-invocation";
const STEP: &str = "the-step";
/// What addresses by which clients reach the server begin with.
const PUBLIC_URL: &str = "https://ships.example";
/// What was handed over to it.
const HANDED_OVER: &str = "sum\n1\n0\ncount\n2\n17\n";

pub(crate) fn info(_: Info) -> u64 {
    1
}

pub(crate) fn info_string(what: InfoString) -> String {
    match what {
        InfoString::Invocation => INVOCATION.to_string(),
        InfoString::Step => STEP.to_string(),
        InfoString::HandedOver => HANDED_OVER.to_string(),
        InfoString::PublicUrl => PUBLIC_URL.to_string(),
        _ => String::new(),
    }
}

/// What both clocks show.
pub(crate) fn now() -> u64 {
    ARENA.with_borrow(|arena| arena.time)
}

pub(crate) fn call<const N: usize>(number: u32, args: [u64; N]) -> Result<u64, Errno> {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&args);
    ARENA.with_borrow_mut(|arena| {
        arena.explanation.clear();
        arena.serve(number, all)
    })
}

/// Writes the name of an event or another text, for which there is room; its length.
fn told(to: u64, event: &str) -> u64 {
    // SAFETY: the shim passes the address of as many bytes as such a text may have.
    unsafe { core::slice::from_raw_parts_mut(to as *mut u8, event.len()) }.copy_from_slice(event.as_bytes());
    event.len() as u64
}

impl Arena {
    fn serve(&mut self, number: u32, [a, b, c, d, e, _]: [u64; 6]) -> Result<u64, Errno> {
        match number {
            number::SLOT_ALLOC if a > 1 << 30 => {
                self.explanation = "memory limit reached".to_string();
                Err(Errno::OutOfMemory)
            }
            number::SLOT_ALLOC => Ok(self.alloc(a)),
            number::SLOT_RESIZE => {
                let old = self.buffers[&a];
                let new = self.alloc(b);
                // SAFETY: both buffers exist, and the new one is larger.
                unsafe { (new as *mut u8).copy_from_nonoverlapping(a as *const u8, old as usize) };
                self.free(a);
                Ok(new)
            }
            number::SLOT_FREE => {
                self.continuations.remove(&a);
                self.free(a);
                Ok(0)
            }
            number::SLOT_MARK_WRITTEN => {
                self.touches += 1;
                Ok(0)
            }
            number::SLOT_PUBLISH => {
                let name = text(a, b);
                if self.slots.contains_key(&name) {
                    self.explanation = alloc::format!("slot `{name}` is already filled");
                    return Err(Errno::Exists);
                }
                // SAFETY: the shim passes the address of a `TypeDesc`.
                let desc = unsafe { *(e as *const TypeDesc) };
                let type_name = text(desc.name, desc.name_len);
                self.slots.insert(name, Slot { address: c, count: d, fingerprint: desc.fingerprint, type_name });
                Ok(0)
            }
            number::SLOT_TAKE => {
                let name = text(a, b);
                // SAFETY: as above.
                let desc = unsafe { *(c as *const TypeDesc) };
                let Some(slot) = self.slots.get(&name) else {
                    return Err(if e & TAKE_NOW != 0 { Errno::NotFound } else { Errno::NeverFilled });
                };
                let is_failure = slot.fingerprint == FAILURE_FINGERPRINT;
                if slot.fingerprint != desc.fingerprint && !is_failure {
                    let asked = text(desc.name, desc.name_len);
                    self.explanation =
                        alloc::format!("slot `{name}` holds `{}`, `{asked}` was asked for", slot.type_name);
                    return Err(Errno::WrongType);
                }
                let view = SlotView { address: slot.address, count: slot.count, capacity: self.buffers[&slot.address] };
                // SAFETY: the shim passes the address of a `SlotView`.
                unsafe { (d as *mut SlotView).write(view) };
                self.slots.remove(&name);
                Ok(is_failure.into())
            }
            number::GET_STRING_LEN if a == InfoString::HandedOver as u64 => Ok(HANDED_OVER.len() as u64),
            number::GET_STRING if a == InfoString::HandedOver as u64 => Ok(told(b, HANDED_OVER)),
            number::GET_STRING if a == InfoString::Invocation as u64 => Ok(told(b, INVOCATION)),
            number::GET_STRING if a == InfoString::Step as u64 => Ok(told(b, STEP)),
            number::GET_STRING if a == InfoString::PublicUrl as u64 => Ok(told(b, PUBLIC_URL)),
            number::CONTINUATION => {
                let address = self.alloc(1);
                let id = PerformId { asker: 1, number: self.continuations.len() as u32 + 1 };
                let slot = EffectSlot { part: EffectPart::Resume, id };
                // SAFETY: the shim passes the address of so many bytes.
                unsafe { (a as *mut u8).copy_from(slot.to_bytes().as_ptr(), EFFECT_SLOT_LEN) };
                self.continuations.insert(address, slot.to_string());
                Ok(address)
            }
            number::RESUME => {
                let Some(slot) = self.continuations.remove(&a) else { return Err(Errno::Fault) };
                self.free(a);
                let type_name = String::new();
                self.slots.insert(slot, Slot { address: b, count: c, fingerprint: BYTES_FINGERPRINT, type_name });
                Ok(0)
            }
            number::PERFORM => self.perform(&text(a, b), c, d, e),
            number::EVENT_WAIT => self.event(&text(a, b), c, d),
            number::PUBLISH if b == 0 => {
                self.explanation = "the name is empty".to_string();
                Err(Errno::Invalid)
            }
            number::PUBLISH => {
                self.published.insert(text(a, b), text(c, d));
                Ok(0)
            }
            number::SEND if text(a, b).ends_with('\n') => {
                self.explanation = "the event's name is empty".to_string();
                Err(Errno::Invalid)
            }
            number::CHILD_START if text(a, b).starts_with('\n') => {
                self.explanation = "the child's id is empty".to_string();
                Err(Errno::Invalid)
            }
            number::CHILD_CANCEL => Ok(0),
            number::CHILD_ID => {
                let id = text(a, b) + "-invocation";
                // SAFETY: the shim passes the address of so many bytes.
                let to = unsafe { core::slice::from_raw_parts_mut(c as *mut u8, d as usize) };
                to[..id.len()].copy_from_slice(id.as_bytes());
                Ok(id.len() as u64)
            }
            number::CHECKPOINT => Ok(told(d, &alloc::format!("checkpoint:{}", text(a, b)))),
            number::FORK if a == 0 => Err(Errno::Invalid),
            number::FORK => Ok(told(c, "fork:")),
            number::SEND | number::CHILD_START => {
                // SAFETY: the shim passes the address of so many bytes.
                let bytes = unsafe { core::slice::from_raw_parts(c as *const u8, d as usize) }.to_vec();
                self.outgoing.push((text(a, b), bytes, e));
                Ok(0)
            }
            number::GETRANDOM => {
                self.randoms += 1;
                // SAFETY: the shim passes the address of so many bytes.
                unsafe { core::slice::from_raw_parts_mut(a as *mut u8, b as usize) }.fill(self.randoms);
                Ok(b)
            }
            number::CLOCK_GETTIME => Ok(self.time),
            number::NANOSLEEP => {
                // A clock that is set meanwhile makes a sleep end early.
                self.time += a.min(2_000);
                Ok(0)
            }
            other => panic!("unexpected hostcall {other}"),
        }
    }

    /// The handler of `echo` replies with the request, and that of `fails` fails with it.
    fn perform(&mut self, effect: &str, address: u64, count: u64, out: u64) -> Result<u64, Errno> {
        if effect.is_empty() {
            self.explanation = "the name is empty".to_string();
            return Err(Errno::Invalid);
        }
        let fingerprint = match effect {
            "echo" => BYTES_FINGERPRINT,
            "fails" => FAILURE_FINGERPRINT,
            _ => return Err(Errno::NotFound),
        };
        let id = PerformId { asker: 1, number: 1 };
        let slot = EffectSlot { part: EffectPart::Reply, id };
        // SAFETY: the shim passes the address of so many bytes.
        unsafe { (out as *mut u8).copy_from(slot.to_bytes().as_ptr(), EFFECT_SLOT_LEN) };
        self.slots.insert(slot.to_string(), Slot { address, count, fingerprint, type_name: String::new() });
        Ok(0)
    }

    fn event(&mut self, name: &str, out: u64, deadline: u64) -> Result<u64, Errno> {
        if name.is_empty() {
            self.explanation = "the event's name is empty".to_string();
            return Err(Errno::Invalid);
        }
        if name == "refused" {
            return Err(Errno::NotPermitted);
        }
        let which = |of: &str| name.split('\n').position(|name| name == of);
        let Some(first) = self.events.iter().position(|(of, ..)| which(of).is_some()) else {
            self.time = self.time.max(deadline);
            return Err(Errno::TimedOut);
        };
        let (of, address, count) = self.events.remove(first);
        let view = SlotView { address, count, capacity: self.buffers[&address] };
        // SAFETY: the shim passes the address of a `SlotView`.
        unsafe { (out as *mut SlotView).write(view) };
        Ok(which(&of).unwrap_or_default() as u64)
    }

    fn alloc(&mut self, bytes: u64) -> u64 {
        let bytes = monohull_abi::layout::page_up(bytes);
        // SAFETY: the layout is not empty.
        let address = unsafe { alloc_zeroed(layout(bytes)) } as u64;
        self.buffers.insert(address, bytes);
        address
    }

    fn free(&mut self, address: u64) {
        let bytes = self.buffers.remove(&address).expect("freed twice, or never allocated");
        // SAFETY: the buffer was allocated with this layout.
        unsafe { dealloc(address as *mut u8, layout(bytes)) };
    }
}

fn layout(bytes: u64) -> Layout {
    Layout::from_size_align(bytes as usize, 4096).unwrap()
}

fn text(address: u64, len: u64) -> String {
    // SAFETY: the shim passes the address of a text.
    let bytes = unsafe { core::slice::from_raw_parts(address as *const u8, len as usize) };
    String::from_utf8(bytes.to_vec()).unwrap()
}
