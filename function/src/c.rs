//! The functions of `include/monohull.h`: slots, the instance and its invocation for programs in C, and for any language that can call C.
//!
//! A buffer is bytes here. What another function has published as bytes or as text can be taken; what is published is bytes, which
//! functions in Rust take as `SlotBuffer<[u8]>`, `SlotVec<u8>` or, if they are UTF-8, as `SlotString`.
//!
//! Nothing here allocates, so that a C library can link these functions without Rust's allocator.
//!
//! Unit tests do not export the names: their program is linked with this library too, which has them already.

mod callback;
mod continuations;
mod invocation;
mod step;

pub use callback::*;
pub use continuations::*;
pub use invocation::*;
pub use step::*;

use crate::alone;
#[cfg(test)]
use crate::slot::host as sys;
#[cfg(not(test))]
use crate::sys;
use core::ffi::{CStr, c_char, c_int};
use monohull_abi::effect::EFFECT_SLOT_LEN;
use monohull_abi::types::{
    BYTES_FINGERPRINT, Captured, Clock, Info, REWIND_FORGET, SlotView, TAKE_NOW, TEXT_FINGERPRINT, TypeDesc,
};
use monohull_abi::{Errno, number};

/// A buffer that the caller owns: `monohull_buffer` of the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Buffer {
    /// Its first byte; null if there is none.
    pub data: *mut u8,
    /// Bytes in use.
    pub len: usize,
    /// Bytes that there is room for.
    pub capacity: usize,
}

const NONE: Buffer = Buffer { data: core::ptr::null_mut(), len: 0, capacity: 0 };
const BYTES: (&str, u64) = ("[u8]", BYTES_FINGERPRINT);
const TEXT: (&str, u64) = ("str", TEXT_FINGERPRINT);

fn describe((name, fingerprint): (&'static str, u64)) -> TypeDesc {
    TypeDesc { fingerprint, name: name.as_ptr() as u64, name_len: name.len() as u64, element_size: 1 }
}

/// 0, or the number of an error, negated.
fn status(done: Result<(), Errno>) -> c_int {
    done.map_or_else(|errno| errno.to_value() as c_int, |()| 0)
}

/// Waits until a slot is filled, and takes its buffer.
///
/// # Safety
/// `slot` is a text that ends with a zero byte, `buffer` can be written to.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_take(slot: *const c_char, buffer: *mut Buffer) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { take_into(slot, buffer, 0) }
}

/// Takes the buffer of a slot if it is filled now; else the error is `NotFound`.
///
/// # Safety
/// As for [`monohull_take`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_try_take(slot: *const c_char, buffer: *mut Buffer) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { take_into(slot, buffer, TAKE_NOW) }
}

/// # Safety
/// As for [`monohull_take`].
unsafe fn take_into(slot: *const c_char, buffer: *mut Buffer, flags: u64) -> c_int {
    // SAFETY: the caller's promise.
    let slot = unsafe { CStr::from_ptr(slot) }.to_bytes();
    let taken = match take(slot, BYTES, flags) {
        Err(Errno::WrongType) => take(slot, TEXT, flags),
        decided => decided,
    };
    // SAFETY: the caller's promise.
    unsafe { buffer.write(taken.unwrap_or(NONE)) };
    status(taken.map(drop))
}

fn take(slot: &[u8], desc: (&'static str, u64), flags: u64) -> Result<Buffer, Errno> {
    let (desc, mut view) = (describe(desc), SlotView::default());
    let (desc, out) = ((&raw const desc) as u64, (&raw mut view) as u64);
    sys::call(number::SLOT_TAKE, [slot.as_ptr() as u64, slot.len() as u64, desc, out, flags])?;
    Ok(Buffer { data: view.address as *mut u8, len: view.count as usize, capacity: view.capacity as usize })
}

/// Takes the next event of a name, which is sent from outside, and waits until there is one: for at most so many nanoseconds, or without
/// end for `UINT64_MAX`. The error is `TimedOut` then.
///
/// # Safety
/// `name` is a text that ends with a zero byte, `buffer` can be written to.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_event(name: *const c_char, timeout: u64, buffer: *mut Buffer) -> c_int {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let taken = take_event(name, timeout).map(|(_, buffer)| buffer);
    // SAFETY: the caller's promise.
    unsafe { buffer.write(taken.unwrap_or(NONE)) };
    status(taken.map(drop))
}

/// The same for the first event of several names, which have a line break between two: which of them was sent first, from 0, or a
/// negative error.
///
/// # Safety
/// As for [`monohull_event`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_first_of(names: *const c_char, timeout: u64, buffer: *mut Buffer) -> c_int {
    // SAFETY: the caller's promise.
    let names = unsafe { CStr::from_ptr(names) }.to_bytes();
    let taken = take_event(names, timeout);
    // SAFETY: the caller's promise.
    unsafe { buffer.write(taken.map_or(NONE, |(_, buffer)| buffer)) };
    taken.map_or_else(|errno| status(Err(errno)), |(which, _)| which as c_int)
}

/// Which of these names the event has, and its content.
fn take_event(names: &[u8], timeout: u64) -> Result<(u64, Buffer), Errno> {
    take_event_until(names, deadline_of(timeout)?)
}

/// When so many nanoseconds are over. 0, which is over, and `u64::MAX`, which never is, stand for themselves.
fn deadline_of(timeout: u64) -> Result<u64, Errno> {
    match timeout {
        0 | u64::MAX => Ok(timeout),
        _ => {
            let now = sys::call(number::CLOCK_GETTIME, [Clock::Monotonic as u64])?;
            Ok(now.saturating_add(timeout).min(u64::MAX - 1))
        }
    }
}

/// As [`take_event`], up to a time of the monotonic clock.
fn take_event_until(names: &[u8], deadline: u64) -> Result<(u64, Buffer), Errno> {
    let mut view = SlotView::default();
    let out = (&raw mut view) as u64;
    let which = sys::call(number::EVENT_WAIT, [names.as_ptr() as u64, names.len() as u64, out, deadline])?;
    Ok((which, Buffer { data: view.address as *mut u8, len: view.count as usize, capacity: view.capacity as usize }))
}

/// Asks for an effect with `len` bytes, which are copied, and waits for the reply: 0, and the buffer has it. 1 if the handler has failed: the buffer has the
/// report. Else a negative error: `NotFound` if no step handles the effect.
///
/// # Safety
/// `effect` is a text that ends with a zero byte; `request` has `len` bytes; `reply` can be written to.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_perform(
    effect: *const c_char,
    request: *const u8,
    len: usize,
    reply: *mut Buffer,
) -> c_int {
    // SAFETY: the caller's promise.
    let effect = unsafe { CStr::from_ptr(effect) }.to_bytes();
    // SAFETY: the caller's promise; of no bytes the address may be null.
    let request = if len == 0 { &[][..] } else { unsafe { core::slice::from_raw_parts(request, len) } };
    let performed = perform(effect, request);
    // SAFETY: the caller's promise.
    unsafe { reply.write(performed.map_or(NONE, |(_, reply)| reply)) };
    performed.map_or_else(|errno| status(Err(errno)), |(is_failure, _)| c_int::from(is_failure))
}

/// Whether the reply is the report of a failure, and the reply.
fn perform(effect: &[u8], request: &[u8]) -> Result<(bool, Buffer), Errno> {
    let address = sys::call(number::SLOT_ALLOC, [request.len().max(1) as u64, 1])?;
    // SAFETY: a new buffer with room for as many bytes, which is this thread's alone.
    unsafe { (address as *mut u8).copy_from_nonoverlapping(request.as_ptr(), request.len()) };
    let mut name = [0; EFFECT_SLOT_LEN];
    let count = request.len() as u64;
    let args = [effect.as_ptr() as u64, effect.len() as u64, address, count, name.as_mut_ptr() as u64];
    if let Err(errno) = sys::call(number::PERFORM, args) {
        // It is the caller's still. The explanation of a refusal stays until it is read, or another call is refused.
        let _ = sys::call(number::SLOT_FREE, [address]);
        return Err(errno);
    }
    let (desc, mut view) = (describe(BYTES), SlotView::default());
    let (desc, out) = ((&raw const desc) as u64, (&raw mut view) as u64);
    let answer = sys::call(number::SLOT_TAKE, [name.as_ptr() as u64, name.len() as u64, desc, out])?;
    let (len, capacity) = (view.count as usize, view.capacity as usize);
    Ok((answer == 1, Buffer { data: view.address as *mut u8, len, capacity }))
}

/// Makes a buffer of zeros with room for `capacity` bytes, of which none is in use.
///
/// # Safety
/// `buffer` can be written to.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_make(capacity: usize, buffer: *mut Buffer) -> c_int {
    let made = sys::call(number::SLOT_ALLOC, [capacity.max(1) as u64, 1]);
    let made = made.map(|address| Buffer { data: address as *mut u8, len: 0, capacity });
    // SAFETY: the caller's promise.
    unsafe { buffer.write(made.unwrap_or(NONE)) };
    status(made.map(drop))
}

/// To be called before the first write to a buffer that was taken: from then on a failed instance is not repeated alone.
///
/// # Safety
/// `buffer` is one that the caller owns.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_will_write(buffer: *const Buffer) -> c_int {
    // SAFETY: the caller's promise.
    let Buffer { data, .. } = unsafe { buffer.read() };
    status(sys::call(number::SLOT_MARK_WRITTEN, [data as u64]).map(drop))
}

/// Publishes the bytes in use under the name of a slot. The buffer is not the caller's any more, unless there is an error.
///
/// # Safety
/// `slot` is a text that ends with a zero byte, `buffer` one that the caller owns.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_publish(slot: *const c_char, buffer: *mut Buffer) -> c_int {
    // SAFETY: the caller's promise.
    let (slot, Buffer { data, len, .. }) = unsafe { (CStr::from_ptr(slot).to_bytes(), buffer.read()) };
    let desc = describe(BYTES);
    let args = [slot.as_ptr() as u64, slot.len() as u64, data as u64, len as u64, (&raw const desc) as u64];
    let published = sys::call(number::SLOT_PUBLISH, args).map(drop);
    if published.is_ok() {
        // SAFETY: the caller's promise.
        unsafe { buffer.write(NONE) };
    }
    status(published)
}

/// Frees a buffer; does nothing to one that is there no more.
///
/// # Safety
/// `buffer` is one that the caller owns, or has owned.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_discard(buffer: *mut Buffer) {
    // SAFETY: the caller's promise.
    let Buffer { data, .. } = unsafe { buffer.replace(NONE) };
    if !data.is_null() {
        // Refused only if there is nothing to free.
        let _ = sys::call(number::SLOT_FREE, [data as u64]);
    }
}

/// Copies the explanation of this thread's last error, cut to `room` with the zero byte at its end: its length.
///
/// # Safety
/// `room` bytes can be written to `text`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_last_error(text: *mut c_char, room: usize) -> usize {
    let Some(most) = room.checked_sub(1) else { return 0 };
    let len = sys::call(number::LAST_ERROR_MESSAGE, [text as u64, most as u64]).unwrap_or(0) as usize;
    let len = len.min(most);
    // SAFETY: the caller's promise.
    unsafe { text.add(len).write(0) };
    len
}

/// Which of its step's instances this is, from 0.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn monohull_instance_index() -> u64 {
    sys::info(Info::InstanceIndex)
}

/// How many instances the step has.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn monohull_instance_count() -> u64 {
    sys::info(Info::InstanceCount)
}

/// Says that the function is ready for its inputs; 1 if the instance has started here, else 0.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn monohull_ready() -> c_int {
    c_int::from(sys::call(number::READY, []) == Ok(1))
}

/// 1 when it is started first, 2 when it is started again after a failure, and so on.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn monohull_attempt() -> u64 {
    sys::info(Info::Attempt)
}

/// Captures the memory of this instance, which has one thread: 0, and its number in `checkpoint`. Returns once more for each
/// [`monohull_rewind`] there: 1, the number, and the value that came with it in `value`, of `len` bytes. `value` has room for `*len` bytes, and both lie in memory
/// of the program itself, not in a slot buffer. Buffers of standard output are the program's to flush before.
///
/// # Safety
/// `checkpoint` and `len` can be written to, `value` for `*len` bytes, until the checkpoint has been freed.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_capture(checkpoint: *mut u64, value: *mut u8, len: *mut usize) -> c_int {
    let mut here = Captured::default();
    // SAFETY: the caller's promise.
    let room = unsafe { *len };
    let answer = alone::call(number::CAPTURE, [(&raw mut here) as u64, value as u64, room as u64]);
    // SAFETY: the caller's promise.
    unsafe {
        *checkpoint = here.checkpoint;
        *len = here.len as usize;
    }
    answer.map_or_else(|errno| errno.to_value() as c_int, |resumed| resumed as c_int)
}

/// Makes memory what it was at a checkpoint, where [`monohull_capture`] returns again. Returns only if it is refused; nothing has changed
/// then.
///
/// # Safety
/// `value` can be read for `len` bytes.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_rewind(checkpoint: u64, value: *const u8, len: usize) -> c_int {
    status(alone::call(number::REWIND, [checkpoint, value as u64, len as u64, 0]).map(drop))
}

/// Frees a checkpoint.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn monohull_forget(checkpoint: u64) -> c_int {
    status(sys::call(number::REWIND, [checkpoint, 0, 0, REWIND_FORGET]).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::{SlotBuffer, SlotString};
    use monohull_abi::child::DETACHED;
    use std::string::String;
    use std::vec::Vec;

    const HEADER: &str = include_str!("../include/monohull.h");

    #[test]
    fn what_has_become_of_a_save_point_or_a_fork_is_a_number() {
        use crate::slot::host::send;
        send("checkpoint:c", &[1]);
        send("fork:", b"original\nc-1");
        send("fork:", b"copy\n1");
        send("fork:", b"refused\nthere is no room");
        // SAFETY: the argument is valid.
        assert_eq!(unsafe { monohull_checkpoint(c"c".as_ptr()) }, 1);
        assert_eq!([1, 1, 1, 0].map(|copies| monohull_fork(copies)), [0, 1, -105, -22]);
    }

    #[test]
    fn bytes_go_from_c_to_rust_and_back() {
        let mut buffer = NONE;
        // SAFETY: the arguments are valid, and the buffer has room for three bytes.
        unsafe {
            assert_eq!(monohull_make(100, &mut buffer), 0);
            assert_eq!((buffer.len, buffer.capacity), (0, 100));
            buffer.data.copy_from(b"abc".as_ptr(), 3);
            buffer.len = 3;
            assert_eq!(monohull_publish(c"from-c".as_ptr(), &mut buffer), 0);
            assert!(buffer.data.is_null());
        }
        assert_eq!(&*SlotBuffer::<[u8]>::from_slot("from-c").unwrap(), b"abc");
        let mut text = SlotString::with_slot("to-c");
        text.push_str("grüß");
        drop(text);
        // SAFETY: the arguments are valid.
        unsafe {
            assert_eq!(monohull_take(c"to-c".as_ptr(), &mut buffer), 0);
            assert_eq!(core::slice::from_raw_parts(buffer.data, buffer.len), "grüß".as_bytes());
            assert_eq!(monohull_will_write(&buffer), 0);
            monohull_discard(&mut buffer);
            monohull_discard(&mut buffer);
        }
    }

    #[test]
    fn events_are_taken_in_c() {
        sys::send("paid", b"17");
        let mut buffer = NONE;
        // SAFETY: the arguments are valid.
        unsafe {
            assert_eq!(monohull_event(c"paid".as_ptr(), u64::MAX, &mut buffer), 0);
            assert_eq!(core::slice::from_raw_parts(buffer.data, buffer.len), b"17");
            monohull_discard(&mut buffer);
            for timeout in [0, 5] {
                let late = monohull_event(c"paid".as_ptr(), timeout, &mut buffer);
                assert_eq!((late, buffer.data.is_null()), (Errno::TimedOut.to_value() as c_int, true));
            }
            sys::send("cancelled", b"too dear");
            sys::send("paid", b"18");
            for (which, said) in [(1, &b"too dear"[..]), (0, b"18")] {
                assert_eq!(monohull_first_of(c"paid\ncancelled".as_ptr(), u64::MAX, &mut buffer), which);
                assert_eq!(core::slice::from_raw_parts(buffer.data, buffer.len), said);
                monohull_discard(&mut buffer);
            }
            let late = monohull_first_of(c"paid\ncancelled".as_ptr(), 0, &mut buffer);
            assert_eq!((late, buffer.data.is_null()), (Errno::TimedOut.to_value() as c_int, true));
        }
    }

    #[test]
    fn a_text_is_published_in_c() {
        // SAFETY: the arguments are valid.
        unsafe {
            assert_eq!(monohull_state(c"count".as_ptr(), c"3".as_ptr()), 0);
            assert_eq!(monohull_state(c"".as_ptr(), c"3".as_ptr()), Errno::Invalid.to_value() as c_int);
        }
        assert_eq!(sys::published("count").as_deref(), Some("3"));
    }

    #[test]
    fn events_are_sent_in_c() {
        // SAFETY: the arguments are valid.
        unsafe {
            assert_eq!(monohull_send(c"order-17".as_ptr(), c"paid".as_ptr(), b"17".as_ptr(), 2), 0);
            assert_eq!(monohull_send(c"order-17".as_ptr(), c"paid".as_ptr(), core::ptr::null(), 0), 0);
            let refused = monohull_send(c"order-17".as_ptr(), c"".as_ptr(), core::ptr::null(), 0);
            assert_eq!(refused, Errno::Invalid.to_value() as c_int);
        }
        let sent = sys::outgoing();
        let texts: Vec<_> = sent.iter().map(|(text, bytes, _)| (text.as_str(), bytes.as_slice())).collect();
        assert_eq!(texts, [("order-17\npaid", &b"17"[..]), ("order-17\npaid", b"")]);
    }

    #[test]
    fn what_was_handed_over_is_taken_in_c() {
        let mut text = NONE;
        // SAFETY: the arguments are valid.
        unsafe {
            assert_eq!(monohull_handed_over(c"count".as_ptr(), &mut text), 0);
            assert_eq!(core::slice::from_raw_parts(text.data, text.len), b"17");
            monohull_discard(&mut text);
            let buffers = sys::census().0;
            let unknown = monohull_handed_over(c"cou".as_ptr(), &mut text);
            assert_eq!((unknown, text.data.is_null()), (Errno::NotFound.to_value() as c_int, true));
            assert_eq!(sys::census().0, buffers);
        }
    }

    #[test]
    fn children_are_started_and_joined_in_c() {
        let mut end = NONE;
        // SAFETY: the arguments are valid.
        unsafe {
            assert_eq!(monohull_start_child(c"thumbnail".as_ptr(), c"one".as_ptr(), b"17".as_ptr(), 2, 0), 0);
            assert_eq!(monohull_start_child(c"log".as_ptr(), c"two".as_ptr(), core::ptr::null(), 0, 1), 0);
            let late = monohull_join(c"one".as_ptr(), 5, &mut end);
            assert_eq!((late, end.data.is_null()), (Errno::TimedOut.to_value() as c_int, true));
            let output = |end: &Buffer, slot: *const c_char| {
                let (mut data, mut len) = (core::ptr::null(), 9);
                let came = monohull_child_output(end, slot, &mut data, &mut len);
                (came, if data.is_null() { Vec::new() } else { core::slice::from_raw_parts(data, len).to_vec() })
            };
            sys::send("child:one", b"\0\0\0\0\0\x01\0\0\0s\x02\0\0\x0017");
            assert_eq!(monohull_join(c"one".as_ptr(), u64::MAX, &mut end), 0);
            assert_eq!(output(&end, c"s".as_ptr()), (0, b"17".to_vec()));
            assert_eq!(output(&end, c"t".as_ptr()).0, Errno::NotFound.to_value() as c_int);
            monohull_discard(&mut end);
            assert_eq!(output(&end, c"s".as_ptr()).0, Errno::NotFound.to_value() as c_int);
            sys::send("child:one", b"\x01\x03\0\0\0bad");
            assert_eq!(monohull_join(c"one".as_ptr(), 0, &mut end), 1);
            assert_eq!(output(&end, core::ptr::null()), (0, b"bad".to_vec()));
            monohull_discard(&mut end);
            sys::send("child:one", b"?");
            assert_eq!(monohull_join(c"one".as_ptr(), 0, &mut end), Errno::Io.to_value() as c_int);
            monohull_discard(&mut end);
            assert_eq!(monohull_cancel_child(c"one".as_ptr()), 0);
        }
        let sent = sys::outgoing();
        assert_eq!(sent[0], (String::from("one\nthumbnail"), b"17".to_vec(), 0));
        assert_eq!(sent[1], (String::from("two\nlog"), Vec::new(), DETACHED));
    }

    #[test]
    fn errors_are_negative_numbers_and_leave_no_buffer() {
        let mut buffer = Buffer { data: core::ptr::dangling_mut(), len: 1, capacity: 1 };
        // SAFETY: the arguments are valid.
        unsafe {
            assert_eq!(monohull_try_take(c"nothing".as_ptr(), &mut buffer), Errno::NotFound.to_value() as c_int);
            assert!(buffer.data.is_null() && buffer.len == 0);
            drop(SlotBuffer::<[u32]>::with_slot_len("words", 3));
            assert_eq!(monohull_take(c"words".as_ptr(), &mut buffer), Errno::WrongType.to_value() as c_int);
        }
        SlotBuffer::<[u32]>::from_slot("words").unwrap().discard();
    }

    #[test]
    fn the_header_declares_each_function_and_each_error() {
        let files = [
            include_str!("c.rs"),
            include_str!("c/callback.rs"),
            include_str!("c/continuations.rs"),
            include_str!("c/invocation.rs"),
        ];
        let lines = files.into_iter().flat_map(str::lines);
        let defined = lines.filter_map(|line| line.split_once("extern \"C\" fn "));
        let defined: Vec<&str> = defined.filter_map(|(_, rest)| rest.split_once('(')).map(|(name, _)| name).collect();
        assert!(defined.len() >= 10);
        for name in defined.iter().filter(|name| name.starts_with("monohull_")) {
            let declared = |line: &&str| {
                !line.starts_with(" *") && line.ends_with(");") && line.contains(&std::format!(" {name}("))
            };
            assert_eq!(HEADER.lines().filter(declared).count(), 1, "{name}");
        }
        let numbers = [
            ("NOT_FOUND", Errno::NotFound),
            ("EXISTS", Errno::Exists),
            ("OUT_OF_MEMORY", Errno::OutOfMemory),
            ("WRONG_TYPE", Errno::WrongType),
            ("NEVER_FILLED", Errno::NeverFilled),
            ("NOT_PERMITTED", Errno::NotPermitted),
            ("INVALID", Errno::Invalid),
            ("TIMED_OUT", Errno::TimedOut),
            ("BUSY", Errno::Busy),
            ("TOO_MANY", Errno::TooMany),
            ("MESSAGE_TOO_LONG", Errno::MessageTooLong),
            ("GIVEN_AWAY", Errno::GivenAway),
        ];
        for (name, errno) in numbers {
            let line: String = std::format!("#define MONOHULL_{name} ({})", errno.to_value());
            assert!(HEADER.lines().any(|text| text == line), "{line}");
        }
    }
}
