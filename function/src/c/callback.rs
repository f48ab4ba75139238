//! Callbacks for functions in C: waiting for an answer of a client that knows a token. And what an instance says of itself: its id, its end.

use super::{Buffer, NONE, deadline_of, status, take_event_until};
#[cfg(test)]
use crate::slot::host as sys;
#[cfg(not(test))]
use crate::sys;
use core::ffi::{CStr, c_char, c_int};
use core::fmt::{self, Write};
use monohull_abi::callback::{CALLBACK_EVENT_MAX, Told, is_token, write_token};
use monohull_abi::types::{AbortKind, Clock, Info, InfoString};
use monohull_abi::{Errno, number};

/// Bytes of a token with the zero byte at its end: `MONOHULL_TOKEN_ROOM` of the header.
const TOKEN_ROOM: usize = 42;
/// What is told of a callback, in the order of the header's numbers. Without a heartbeat the last is not waited for.
const TOLD: [Told; 3] = [Told::Completed, Told::Rejected, Told::Heartbeat];
/// Room for the names of all of these, each with a byte behind it.
const NAMES: usize = TOLD.len() * (CALLBACK_EVENT_MAX + 1);
/// Longest id of an invocation and longest name of a step.
const NAME_MAX: usize = 256;
/// Longest address of a callback.
const URL_MAX: usize = 1024;
/// Ends of a wait that no client has told: `MONOHULL_ANSWER_TIMED_OUT`, `MONOHULL_ANSWER_SILENT`.
const TIMED_OUT: c_int = 2;
const SILENT: c_int = 3;

/// Bytes that are written one behind another, as far as there is room.
struct Text<'t> {
    bytes: &'t mut [u8],
    len: usize,
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Makes a token: see `durable::callback`. 0, or a negative error.
///
/// # Safety
/// `MONOHULL_TOKEN_ROOM` bytes can be written to `token`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_callback(token: *mut c_char) -> c_int {
    // SAFETY: the caller's promise.
    let bytes = unsafe { core::slice::from_raw_parts_mut(token.cast::<u8>(), TOKEN_ROOM) };
    bytes.fill(0);
    status(make_token(bytes))
}

fn make_token(bytes: &mut [u8]) -> Result<(), Errno> {
    let mut secret = [0u8; 16];
    let (at, len) = (secret.as_mut_ptr() as u64, secret.len() as u64);
    if sys::call(number::GETRANDOM, [at, len])? != len {
        return Err(Errno::Io);
    }
    write_token(&mut Text { bytes, len: 0 }, u128::from_ne_bytes(secret)).map_err(|_| Errno::Io)
}

/// Waits for the answer of a client that knows a token: see `durable::Callback::answer`. How it has answered, 0 to 3 as in the header, or a negative
/// error. The buffer has what a client has sent. Times are nanoseconds; `UINT64_MAX` is no end.
///
/// # Safety
/// `token` is a text that ends with a zero byte, `content` can be written to.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_answer(
    token: *const c_char,
    timeout: u64,
    heartbeat: u64,
    content: *mut Buffer,
) -> c_int {
    // SAFETY: the caller's promise.
    let token = unsafe { CStr::from_ptr(token) };
    let answered = token.to_str().map_err(|_| Errno::Invalid).and_then(|token| answer(token, timeout, heartbeat));
    // SAFETY: the caller's promise.
    unsafe { content.write(answered.map_or(NONE, |(_, content)| content)) };
    answered.map_or_else(|errno| status(Err(errno)), |(ending, _)| ending)
}

fn answer(token: &str, timeout: u64, heartbeat: u64) -> Result<(c_int, Buffer), Errno> {
    if !is_token(token) {
        return Err(Errno::Invalid);
    }
    let mut bytes = [0; NAMES];
    let mut names = Text { bytes: &mut bytes, len: 0 };
    // Without a heartbeat none is waited for, and a client that sends one is told so.
    let count = if heartbeat == u64::MAX { 2 } else { 3 };
    for told in &TOLD[..count] {
        writeln!(names, "{token}{}", told.ending()).map_err(|_| Errno::Invalid)?;
    }
    let names = &names.bytes[..names.len - 1];
    let end = deadline_of(timeout)?;
    loop {
        match take_event_until(names, end.min(deadline_of(heartbeat)?)) {
            Ok((which @ 0..=1, content)) => return Ok((which as c_int, content)),
            Ok((_, heartbeat)) => {
                // Refused only if there is nothing to free.
                let _ = sys::call(number::SLOT_FREE, [heartbeat.data as u64]);
            }
            Err(Errno::TimedOut) => {
                let is_over = end != u64::MAX && sys::call(number::CLOCK_GETTIME, [Clock::Monotonic as u64])? >= end;
                return Ok((if is_over { TIMED_OUT } else { SILENT }, NONE));
            }
            Err(errno) => return Err(errno),
        }
    }
}

/// Copies the address that answers a callback, cut to `room` with the zero byte at its end: the length of all of it. See `durable::Callback::url`.
///
/// # Safety
/// `token` is a text that ends with a zero byte; `room` bytes can be written to `url`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_callback_url(token: *const c_char, url: *mut c_char, room: usize) -> usize {
    // SAFETY: the caller's promise.
    let token = unsafe { CStr::from_ptr(token) }.to_bytes();
    let mut whole = [0u8; URL_MAX];
    let mut text = Text { bytes: &mut whole, len: 0 };
    let mut add = |what: InfoString, then: &str| {
        let room = &mut text.bytes[text.len..];
        let args = [what as u64, room.as_mut_ptr() as u64, room.len() as u64];
        text.len += (sys::call(number::GET_STRING, args).unwrap_or(0) as usize).min(room.len());
        text.write_str(then)
    };
    let _ = add(InfoString::PublicUrl, "/callbacks/").and_then(|()| add(InfoString::Invocation, "/"));
    let _ = token.utf8_chunks().try_for_each(|chunk| text.write_str(chunk.valid()));
    let len = text.len;
    // SAFETY: the caller's promise.
    unsafe { cut(&whole[..len], url, room) };
    len
}

/// Copies the id of the invocation, cut to `room` with the zero byte at its end: the length of all of it.
///
/// # Safety
/// `room` bytes can be written to `text`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_invocation_id(text: *mut c_char, room: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { copy(InfoString::Invocation, text, room) }
}

/// The same of the name of this instance's step.
///
/// # Safety
/// As for [`monohull_invocation_id`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_step_name(text: *mut c_char, room: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { copy(InfoString::Step, text, room) }
}

/// # Safety
/// As for [`monohull_invocation_id`].
unsafe fn copy(what: InfoString, text: *mut c_char, room: usize) -> usize {
    let mut whole = [0u8; NAME_MAX];
    let args = [what as u64, whole.as_mut_ptr() as u64, whole.len() as u64];
    let len = (sys::call(number::GET_STRING, args).unwrap_or(0) as usize).min(whole.len());
    // SAFETY: the caller's promise.
    unsafe { cut(&whole[..len], text, room) };
    len
}

/// # Safety
/// As for [`monohull_invocation_id`].
unsafe fn cut(whole: &[u8], text: *mut c_char, room: usize) {
    if let Some(most) = room.checked_sub(1) {
        // SAFETY: the caller's promise.
        let text = unsafe { core::slice::from_raw_parts_mut(text.cast::<u8>(), room) };
        let copied = whole.len().min(most);
        text[..copied].copy_from_slice(&whole[..copied]);
        text[copied] = 0;
    }
}

/// How often the invocation has gone on from a checkpoint.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn monohull_generation() -> u64 {
    sys::info(Info::Generation)
}

/// Ends this instance as failed, with this text. With `is_permanent` 1 another attempt cannot change that, and there is none; else 0.
///
/// # Safety
/// `why` is a text that ends with a zero byte.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_fail(is_permanent: c_int, why: *const c_char) -> ! {
    // SAFETY: the caller's promise.
    let why = unsafe { CStr::from_ptr(why) }.to_bytes();
    // What is no text any more is left out.
    let text = why.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let kind = if is_permanent == 0 { AbortKind::Error } else { AbortKind::Permanent };
    loop {
        // It does not return.
        let _ = sys::call(number::ABORT, [kind as u64, text.as_ptr() as u64, text.len() as u64]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;
    use std::vec::Vec;

    const NO_END: u64 = u64::MAX;
    const DAY: u64 = 24 * 60 * 60 * 1_000_000_000;

    fn token() -> Vec<u8> {
        let mut token = [1u8; TOKEN_ROOM];
        // SAFETY: there is room for a token.
        assert_eq!(unsafe { monohull_callback(token.as_mut_ptr().cast()) }, 0);
        token.to_vec()
    }

    /// How it was answered, and what with.
    fn answer(token: &[u8], timeout: u64, heartbeat: u64) -> (c_int, Vec<u8>) {
        let mut content = Buffer { data: core::ptr::dangling_mut(), len: 1, capacity: 1 };
        // SAFETY: the arguments are valid; a buffer that there is has so many bytes.
        unsafe {
            let ending = monohull_answer(token.as_ptr().cast(), timeout, heartbeat, &mut content);
            let bytes = if content.data.is_null() {
                Vec::new()
            } else {
                core::slice::from_raw_parts(content.data, content.len).to_vec()
            };
            super::super::monohull_discard(&mut content);
            (ending, bytes)
        }
    }

    fn name(token: &[u8], ending: &str) -> String {
        std::format!("{}{ending}", CStr::from_bytes_with_nul(token).unwrap().to_str().unwrap())
    }

    #[test]
    fn callbacks_are_answered_in_c() {
        let (one, other) = (token(), token());
        assert_ne!(one, other);
        assert!(is_token(&name(&one, "")));
        let buffers = sys::census().0;
        sys::send(&name(&one, ":heartbeat"), b"");
        sys::send(&name(&one, ""), b"17");
        assert_eq!(answer(&one, NO_END, DAY), (0, b"17".to_vec()));
        sys::send(&name(&one, ":rejected"), b"too late");
        assert_eq!(answer(&one, DAY, NO_END), (1, b"too late".to_vec()));
        assert_eq!(answer(&one, 0, NO_END), (2, Vec::new()));
        assert_eq!(answer(&one, 5, NO_END), (2, Vec::new()));
        assert_eq!(answer(&one, DAY, 5), (3, Vec::new()));
        assert_eq!(answer(&one, DAY, DAY), (2, Vec::new()));
        assert_eq!(sys::census().0, buffers, "nothing is left");
        // Of another token, and a heartbeat that is not waited for.
        sys::send(&name(&other, ""), b"other");
        sys::send(&name(&one, ":heartbeat"), b"");
        assert_eq!(answer(&one, 5, NO_END), (2, Vec::new()));
        for no in [&b"paid\0"[..], b"\0", &[&one[..41], b"0\0"].concat(), b"callback-\xff\0"] {
            assert_eq!(answer(no, 0, 0), (Errno::Invalid.to_value() as c_int, Vec::new()));
        }
    }

    #[test]
    fn the_address_of_a_callback_is_cut_to_the_room() {
        let (token, mut url) = (token(), [1u8; 128]);
        let whole = name(&token, "");
        let whole = std::format!("https://ships.example/callbacks/the-invocation/{whole}");
        for room in [128, 30] {
            // SAFETY: there is as much room as is said.
            let len = unsafe { monohull_callback_url(token.as_ptr().cast(), url.as_mut_ptr().cast(), room) };
            assert_eq!(len, whole.len());
            let text = CStr::from_bytes_until_nul(&url[..room]).expect("an end").to_bytes();
            assert_eq!(text, &whole.as_bytes()[..len.min(room - 1)]);
        }
    }

    #[test]
    fn the_id_of_an_invocation_is_cut_to_the_room() {
        let mut text = [1u8; 32];
        // SAFETY: there is as much room as is said.
        unsafe {
            assert_eq!(monohull_invocation_id(text.as_mut_ptr().cast(), 32), 14);
            assert_eq!(&text[..16], b"the-invocation\0\x01");
            assert_eq!(monohull_invocation_id(text.as_mut_ptr().cast(), 4), 14);
            assert_eq!(&text[..5], b"the\0i");
            assert_eq!(monohull_invocation_id(core::ptr::null_mut(), 0), 14);
            assert_eq!(monohull_step_name(text.as_mut_ptr().cast(), 32), 8);
            assert_eq!(&text[..9], b"the-step\0");
        }
        assert_eq!(monohull_generation(), 1);
    }

    #[test]
    fn the_header_has_room_for_a_token_and_the_numbers() {
        let header = include_str!("../../include/monohull.h");
        let numbers = [
            ("TOKEN_ROOM", TOKEN_ROOM as c_int),
            ("ANSWER_COMPLETED", 0),
            ("ANSWER_REJECTED", 1),
            ("ANSWER_TIMED_OUT", TIMED_OUT),
            ("ANSWER_SILENT", SILENT),
        ];
        for (name, number) in numbers {
            let line = std::format!("#define MONOHULL_{name} {number}");
            assert!(header.lines().any(|text| text == line), "{line}");
        }
    }
}
