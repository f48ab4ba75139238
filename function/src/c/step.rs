//! Effects on the outside for functions in C: a key, and attempts.

use super::status;
use crate::backoff::{self, shortened};
#[cfg(test)]
use crate::slot::host as sys;
#[cfg(not(test))]
use crate::sys;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use monohull_abi::types::{Info, InfoString, fingerprint};
use monohull_abi::{Errno, number};

/// Bytes of a key with the zero byte at its end: `MONOHULL_STEP_KEY_ROOM` of the header.
const KEY_ROOM: usize = 512;
/// The longest name of a step.
const NAME_MAX: usize = 128;
/// The most names that an instance uses.
const NAMES_MAX: usize = 256;

/// How often a step is tried: `monohull_retry` of the header.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub struct Retry {
    /// So many times; 0 is once.
    pub attempts: u32,
    /// The pause after the first failure in nanoseconds; 0 is a second.
    pub first: u64,
    /// The longest pause; 0 is an hour.
    pub longest: u64,
}

/// What has an effect: 0 if it is done. The context is the caller's.
pub type Act = unsafe extern "C" fn(key: *const c_char, context: *mut c_void) -> c_int;

/// How often a name has been used. The name is known by its fingerprint, since nothing is allocated here.
struct Uses {
    /// 0 if this entry is free.
    name: AtomicU64,
    count: AtomicU64,
}

static USES: [Uses; NAMES_MAX] = [const { Uses { name: AtomicU64::new(0), count: AtomicU64::new(0) } }; NAMES_MAX];

fn uses(name: &[u8]) -> Option<&'static AtomicU64> {
    let print = fingerprint(name).max(1);
    let is_its = |entry: &&Uses| match entry.name.compare_exchange(0, print, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => true,
        Err(other) => other == print,
    };
    USES.iter().find(is_its).map(|entry| &entry.count)
}

/// Bytes of a key, written one behind another.
struct Key {
    bytes: [u8; KEY_ROOM],
    len: usize,
}

impl Write for Key {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        // The last byte stays zero.
        let room = self.bytes.get_mut(self.len..end).filter(|_| end < KEY_ROOM);
        room.ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl Key {
    /// The key of the next step of this name, as `durable::step` makes it.
    fn next(name: &CStr) -> Result<Key, Errno> {
        let text = name.to_str().ok().filter(|text| (1..=NAME_MAX).contains(&text.len())).ok_or(Errno::Invalid)?;
        let number = uses(text.as_bytes()).ok_or(Errno::TooMany)?.fetch_add(1, Ordering::Relaxed);
        let mut key = Key { bytes: [0; KEY_ROOM], len: 0 };
        key.add(InfoString::Invocation)?;
        key.write_str("/").map_err(|_| Errno::Invalid)?;
        key.add(InfoString::Step)?;
        write!(key, "/{}/{text}/{number}", sys::info(Info::InstanceIndex)).map_err(|_| Errno::Invalid)?;
        Ok(key)
    }

    fn add(&mut self, what: InfoString) -> Result<(), Errno> {
        let room = &mut self.bytes[self.len..KEY_ROOM - 1];
        self.len += sys::call(number::GET_STRING, [what as u64, room.as_mut_ptr() as u64, room.len() as u64])? as usize;
        Ok(())
    }
}

/// Begins a step: its key, which is the same when it is done again. 0, or a negative error.
///
/// # Safety
/// `name` is a text that ends with a zero byte, `MONOHULL_STEP_KEY_ROOM` bytes can be written to `key`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_step_key(name: *const c_char, key: *mut c_char) -> c_int {
    // SAFETY: the caller's promise.
    let (name, room) = unsafe { (CStr::from_ptr(name), core::slice::from_raw_parts_mut(key.cast::<u8>(), KEY_ROOM)) };
    room[0] = 0;
    status(Key::next(name).map(|key| room.copy_from_slice(&key.bytes)))
}

/// Does what has an effect on the outside, with a key, and tries again if that fails: see `durable::step`. 0 if it is done; what the last attempt has
/// returned; or a negative error, if it could not begin.
///
/// # Safety
/// `name` is a text that ends with a zero byte; `retry` is null or points to a `monohull_retry`; `act` can be called with `context`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_step(
    name: *const c_char,
    retry: *const Retry,
    act: Act,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    let (name, retry) = unsafe { (CStr::from_ptr(name), retry.as_ref().copied().unwrap_or_default()) };
    let key = match Key::next(name) {
        Ok(key) => key,
        Err(errno) => return status(Err(errno)),
    };
    let time = |ns, usual| if ns == 0 { usual } else { Duration::from_nanos(ns) };
    let (first, longest) = (time(retry.first, backoff::FIRST), time(retry.longest, backoff::LONGEST));
    let mut failures = 0;
    loop {
        // SAFETY: the caller's promise; the key ends with a zero byte.
        let came = unsafe { act(key.bytes.as_ptr().cast(), context) };
        failures += 1;
        if came == 0 || failures >= retry.attempts {
            return came;
        }
        let number = fingerprint(&key.bytes[..key.len]) ^ u64::from(failures);
        let pause = shortened(backoff::after(failures, first, longest), number);
        let ns = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX - 1);
        // Refused only for a sleep without end in which nothing else can happen.
        let _ = sys::call(number::NANOSLEEP, [ns]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;
    use std::vec::Vec;

    struct Attempts {
        keys: Vec<String>,
        times: Vec<u64>,
        fails: c_int,
    }

    unsafe extern "C" fn record(key: *const c_char, context: *mut c_void) -> c_int {
        // SAFETY: `attempts` passes this.
        let (key, attempts) = unsafe { (CStr::from_ptr(key), &mut *context.cast::<Attempts>()) };
        attempts.keys.push(key.to_str().expect("text").into());
        attempts.times.push(sys::now());
        attempts.fails -= 1;
        attempts.fails.max(0)
    }

    fn attempts(name: &CStr, retry: Option<Retry>, fails: c_int) -> (c_int, Attempts) {
        let mut attempts = Attempts { keys: Vec::new(), times: Vec::new(), fails: fails + 1 };
        let retry = retry.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
        // SAFETY: the arguments are what they have to be.
        let came = unsafe { monohull_step(name.as_ptr(), retry, record, (&raw mut attempts).cast()) };
        (came, attempts)
    }

    #[test]
    fn a_step_in_c_has_a_key_and_attempts() {
        let retry = Retry { attempts: 3, first: 1000, longest: 1500 };
        let (came, tried) = attempts(c"in c", Some(retry), 2);
        assert_eq!((came, tried.keys.len()), (0, 3));
        assert!(tried.keys.iter().all(|key| key == "the-invocation/the-step/1/in c/0"), "{:?}", tried.keys);
        let pauses: Vec<u64> = tried.times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!((500..=1000).contains(&pauses[0]) && (750..=1500).contains(&pauses[1]), "{pauses:?}");
        let (came, tried) = attempts(c"in c", Some(retry), 9);
        assert_eq!((came, tried.keys.len(), &*tried.keys[0]), (7, 3, "the-invocation/the-step/1/in c/1"), "the last");
        let (came, tried) = attempts(c"other in c", None, 5);
        assert_eq!((came, tried.keys), (5, std::vec!["the-invocation/the-step/1/other in c/0".into()]));
        assert_eq!(attempts(c"", None, 0).0, Errno::Invalid.to_value() as c_int);
    }

    #[test]
    fn a_key_alone_counts_as_a_step() {
        let mut key = [1u8; KEY_ROOM];
        for number in 0..2 {
            // SAFETY: there is room for a key.
            assert_eq!(unsafe { monohull_step_key(c"key alone".as_ptr(), key.as_mut_ptr().cast()) }, 0);
            let text = CStr::from_bytes_until_nul(&key).expect("a text").to_str().expect("text");
            assert_eq!(text, std::format!("the-invocation/the-step/1/key alone/{number}"));
        }
        let long = [b'x'; NAME_MAX + 1].map(|byte| byte as c_char);
        let long: Vec<c_char> = long.into_iter().chain([0]).collect();
        // SAFETY: there is room for a key.
        let refused = unsafe { monohull_step_key(long.as_ptr(), key.as_mut_ptr().cast()) };
        assert_eq!((refused, key[0]), (Errno::Invalid.to_value() as c_int, 0));
        let header = include_str!("../../include/monohull.h");
        assert!(header.contains(&*std::format!("#define MONOHULL_STEP_KEY_ROOM {KEY_ROOM}\n")));
    }
}
