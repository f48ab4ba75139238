//! What a function in C says of its invocation, and does to it and to others: states, events, children, save points, copies.

use super::{Buffer, NONE, status, take_event};
use crate::branch::{ask_checkpoint, ask_fork};
#[cfg(test)]
use crate::slot::host as sys;
#[cfg(not(test))]
use crate::sys;
use core::ffi::{CStr, c_char, c_int};
use monohull_abi::branch::Forked;
use monohull_abi::child::{CHILD_EVENT, DETACHED, Outcome};
use monohull_abi::event::{EVENT_NAME_MAX, INVOCATION_ID_MAX};
use monohull_abi::types::InfoString;
use monohull_abi::{Errno, handed, number};

/// The id of a child and the name of a workflow with a line break between them, and one byte more.
const CHILD_TEXT: usize = 2 * INVOCATION_ID_MAX + 2;

/// Publishes a text, in place of the one before: it is read from outside while the workflow waits, and after its end.
///
/// # Safety
/// Both are texts that end with a zero byte.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_state(name: *const c_char, text: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let (name, text) = unsafe { (CStr::from_ptr(name).to_bytes(), CStr::from_ptr(text).to_bytes()) };
    let args = [name.as_ptr() as u64, name.len() as u64, text.as_ptr() as u64, text.len() as u64];
    status(sys::call(number::PUBLISH, args).map(drop))
}

/// Fills a buffer with what the version before this one had published under a name, if the invocation was migrated: see `durable::handed_over`.
/// 0, or `MONOHULL_NOT_FOUND`.
///
/// # Safety
/// `name` is a text that ends with a zero byte; `text` can be written to.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_handed_over(name: *const c_char, text: *mut Buffer) -> c_int {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let made = handed_over(name);
    // SAFETY: the caller's promise.
    unsafe { text.write(made.unwrap_or(NONE)) };
    status(made.map(drop))
}

/// A buffer that has all that was handed over first, and then only the text of this name.
fn handed_over(name: &[u8]) -> Result<Buffer, Errno> {
    let what = InfoString::HandedOver as u64;
    let capacity = sys::call(number::GET_STRING_LEN, [what])?;
    let address = sys::call(number::SLOT_ALLOC, [capacity.max(1), 1])?;
    // SAFETY: a new buffer with room for so many bytes, which is this thread's alone.
    let all = unsafe { core::slice::from_raw_parts_mut(address as *mut u8, capacity as usize) };
    let found = sys::call(number::GET_STRING, [what, address, capacity]).and_then(|len| {
        let texts = all.get(..len as usize).and_then(|bytes| core::str::from_utf8(bytes).ok());
        let text = texts.zip(core::str::from_utf8(name).ok()).and_then(|(texts, name)| handed::find(texts, name));
        let text = text.ok_or(Errno::NotFound)?;
        Ok((text.as_ptr() as usize - address as usize, text.len()))
    });
    match found {
        Ok((begin, len)) => {
            all.copy_within(begin..begin + len, 0);
            Ok(Buffer { data: address as *mut u8, len, capacity: capacity as usize })
        }
        Err(errno) => {
            // Refused only if there is nothing to free.
            let _ = sys::call(number::SLOT_FREE, [address]);
            Err(errno)
        }
    }
}

/// Sends an event to another invocation, with the next checkpoint of this one or its end: see `durable::send`.
///
/// # Safety
/// `invocation` and `name` are texts that end with a zero byte; `data` has `len` bytes.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_send(
    invocation: *const c_char,
    name: *const c_char,
    data: *const u8,
    len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let (invocation, name) = unsafe { (CStr::from_ptr(invocation).to_bytes(), CStr::from_ptr(name).to_bytes()) };
    // SAFETY: the caller's promise; of no bytes the address may be null.
    let bytes = if len == 0 { &[][..] } else { unsafe { core::slice::from_raw_parts(data, len) } };
    status(crate::send::send_event(invocation, name, bytes))
}

/// Starts a child, with the next checkpoint of this invocation or its end: see `durable::start`. With `detached` 1 it goes on when this invocation has
/// ended, and its end is not told; else 0.
///
/// # Safety
/// `workflow` and `id` are texts that end with a zero byte; `input` has `len` bytes.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_start_child(
    workflow: *const c_char,
    id: *const c_char,
    input: *const u8,
    len: usize,
    detached: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let (workflow, id) = unsafe { (CStr::from_ptr(workflow).to_bytes(), CStr::from_ptr(id).to_bytes()) };
    // SAFETY: the caller's promise; of no bytes the address may be null.
    let input = if len == 0 { &[][..] } else { unsafe { core::slice::from_raw_parts(input, len) } };
    let (text, text_len) = joined([id, b"\n", workflow]);
    let flags = if detached == 0 { 0 } else { DETACHED };
    let args = [text.as_ptr() as u64, text_len as u64, input.as_ptr() as u64, len as u64, flags];
    status(sys::call(number::CHILD_START, args).map(drop))
}

/// Texts one behind another. A longer one is cut, and refused as too long.
fn joined(texts: [&[u8]; 3]) -> ([u8; CHILD_TEXT], usize) {
    let mut text = [0; CHILD_TEXT];
    let mut len = 0;
    for (place, &byte) in text.iter_mut().zip(texts.into_iter().flatten()) {
        *place = byte;
        len += 1;
    }
    (text, len)
}

/// Waits until a child has ended, or for so many nanoseconds: see `durable::Child::join`. How it has ended, or a negative error. The buffer has what is
/// told of its end, for `monohull_child_output`.
///
/// # Safety
/// `id` is a text that ends with a zero byte; `end` can be written to.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_join(id: *const c_char, timeout: u64, end: *mut Buffer) -> c_int {
    // SAFETY: the caller's promise.
    let id = unsafe { CStr::from_ptr(id) }.to_bytes();
    let (name, len) = joined([CHILD_EVENT.as_bytes(), b"", id]);
    let taken = take_event(&name[..len], timeout).map(|(_, buffer)| buffer);
    // SAFETY: the caller's promise.
    unsafe { end.write(taken.unwrap_or(NONE)) };
    taken.map_or_else(
        |errno| status(Err(errno)),
        |buffer| {
            // SAFETY: the system has given this instance the buffer, with so many bytes in use.
            match Outcome::parse(unsafe { core::slice::from_raw_parts(buffer.data, buffer.len) }) {
                Some(outcome) => outcome.ending as c_int,
                None => status(Err(Errno::Io)),
            }
        },
    )
}

/// The content of an output slot of a child that has ended: 0, or `MONOHULL_NOT_FOUND`. It lies in the buffer. A null slot stands for the message.
///
/// # Safety
/// `end` is a buffer that `monohull_join` has filled and the caller owns; `slot` is null or a text that ends with a zero byte; `data` and `len` can be
/// written to.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_child_output(
    end: *const Buffer,
    slot: *const c_char,
    data: *mut *const u8,
    len: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let Buffer { data: bytes, len: bytes_len, .. } = unsafe { end.read() };
    // SAFETY: the caller's promise.
    let told = if bytes.is_null() { &[] } else { unsafe { core::slice::from_raw_parts(bytes, bytes_len) } };
    let found = Outcome::parse(told).and_then(|told| {
        if slot.is_null() {
            return Some(told.message.as_bytes());
        }
        // SAFETY: the caller's promise.
        let slot = unsafe { CStr::from_ptr(slot) }.to_bytes();
        told.outputs().find(|(name, _)| name.as_bytes() == slot).map(|(_, bytes)| bytes)
    });
    let (at, size) = found.map_or((core::ptr::null(), 0), |found| (found.as_ptr(), found.len()));
    // SAFETY: the caller's promise.
    unsafe {
        data.write(at);
        len.write(size);
    }
    status(found.map(drop).ok_or(Errno::NotFound))
}

/// Cancels a child, with the next checkpoint of this invocation: see `durable::Child::cancel`.
///
/// # Safety
/// `id` is a text that ends with a zero byte.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_cancel_child(id: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let id = unsafe { CStr::from_ptr(id) }.to_bytes();
    status(sys::call(number::CHILD_CANCEL, [id.as_ptr() as u64, id.len() as u64]).map(drop))
}

/// Makes a save point with a label: see `durable::checkpoint`. 0 if it has gone on, 1 if it has come back, or a negative error.
///
/// # Safety
/// `label` is a text that ends with a zero byte.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_checkpoint(label: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let label = unsafe { CStr::from_ptr(label) }.to_bytes();
    let mut event = [0; EVENT_NAME_MAX];
    let told = ask_checkpoint(label, &mut event).and_then(|event| {
        told(event, |bytes| bytes.first().copied().filter(|came| *came <= 1).map(c_int::from).ok_or(Errno::Io))
    });
    told.unwrap_or_else(|errno| status(Err(errno)))
}

/// Makes copies of this invocation: see `durable::fork`. 0 in the one that has asked, in a copy its number, from 1, or a negative error.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn monohull_fork(copies: u32) -> c_int {
    let mut event = [0; EVENT_NAME_MAX];
    let told = ask_fork(copies.into(), &mut event).and_then(|event| {
        told(event, |bytes| match Forked::parse(bytes) {
            Some(Forked::Original(_)) => Ok(0),
            Some(Forked::Copy(number)) => Ok(number as c_int),
            Some(Forked::Refused(_)) => Err(Errno::TooMany),
            None => Err(Errno::Io),
        })
    });
    told.unwrap_or_else(|errno| status(Err(errno)))
}

/// Waits for an event, and reads what it says.
fn told<T>(event: &[u8], read: impl FnOnce(&[u8]) -> Result<T, Errno>) -> Result<T, Errno> {
    let (_, buffer) = take_event(event, u64::MAX)?;
    // SAFETY: the system has given this instance the buffer, with so many bytes in use, and nothing else knows of it.
    let came = read(unsafe { core::slice::from_raw_parts(buffer.data, buffer.len) });
    // Refused only if there is nothing to free.
    let _ = sys::call(number::SLOT_FREE, [buffer.data as u64]);
    came
}
