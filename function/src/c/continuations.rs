//! Waiting for another function, which gets this one's continuation as a value: see [`crate::continuation`].

use super::{BYTES, Buffer, NONE, describe, status, take};
#[cfg(test)]
use crate::slot::host as sys;
#[cfg(not(test))]
use crate::sys;
use core::ffi::{CStr, c_char, c_int};
use monohull_abi::continuation::{CONTINUATION_FINGERPRINT, CONTINUATION_NAME};
use monohull_abi::effect::EFFECT_SLOT_LEN;
use monohull_abi::types::TAKE_NOW;
use monohull_abi::{Errno, number};

const CONTINUATION: (&str, u64) = (CONTINUATION_NAME, CONTINUATION_FINGERPRINT);

/// A continuation that the caller owns: `monohull_continuation` of the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Held {
    /// The address of its buffer; 0 if there is none.
    pub token: u64,
}

/// Publishes the continuation of this call in a slot, and waits until another function uses it: 0, and the buffer has what with. `NeverFilled` if it was dropped.
///
/// # Safety
/// `slot` is a text that ends with a zero byte, `value` can be written to.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_call_cc(slot: *const c_char, value: *mut Buffer) -> c_int {
    // SAFETY: the caller's promise.
    let came = call_cc(unsafe { CStr::from_ptr(slot) }.to_bytes());
    // SAFETY: the caller's promise.
    unsafe { value.write(came.unwrap_or(NONE)) };
    status(came.map(drop))
}

/// Takes a continuation from a slot, waiting until there is one, and uses it with `len` bytes, which are copied. `NotFound` if the instance that waited has
/// ended.
///
/// # Safety
/// `slot` is a text that ends with a zero byte, `value` has `len` bytes.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_resume(slot: *const c_char, value: *const u8, len: usize) -> c_int {
    // SAFETY: the caller's promise.
    let (slot, value) = unsafe { (CStr::from_ptr(slot).to_bytes(), bytes(value, len)) };
    let used = take(slot, CONTINUATION, 0).and_then(|taken| {
        let token = taken.data as u64;
        resume(token, value).inspect_err(|_| free(token))
    });
    status(used)
}

/// Takes a continuation from a slot, waiting until there is one.
///
/// # Safety
/// `slot` is a text that ends with a zero byte, `continuation` can be written to.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_take_continuation(slot: *const c_char, continuation: *mut Held) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { take_into(slot, continuation, 0) }
}

/// Takes the continuation that is in a slot now; else the error is `NotFound`.
///
/// # Safety
/// As for [`monohull_take_continuation`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_try_take_continuation(slot: *const c_char, continuation: *mut Held) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { take_into(slot, continuation, TAKE_NOW) }
}

/// Hands a continuation on in a slot; after an error it is still the caller's.
///
/// # Safety
/// As for [`monohull_take_continuation`]; `continuation` can be read, too.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_publish_continuation(slot: *const c_char, continuation: *mut Held) -> c_int {
    // SAFETY: the caller's promise.
    let (slot, held) = unsafe { (CStr::from_ptr(slot).to_bytes(), &mut *continuation) };
    status(publish(slot, held.token).inspect(|()| held.token = 0))
}

/// Uses a continuation with `len` bytes, which are copied; after an error it is still the caller's.
///
/// # Safety
/// `continuation` can be read and written to, `value` has `len` bytes.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_resume_continuation(continuation: *mut Held, value: *const u8, len: usize) -> c_int {
    // SAFETY: the caller's promise.
    let (held, value) = unsafe { (&mut *continuation, bytes(value, len)) };
    status(resume(held.token, value).inspect(|()| held.token = 0))
}

/// Frees a continuation; one that was taken from a slot when this instance has ended well, or at once.
///
/// # Safety
/// `continuation` can be read and written to.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn monohull_drop_continuation(continuation: *mut Held, at_once: c_int) {
    // SAFETY: the caller's promise.
    let token = core::mem::take(unsafe { &mut (*continuation).token });
    if token == 0 {
        return;
    }
    if at_once != 0 {
        let _ = sys::call(number::SLOT_MARK_WRITTEN, [token]);
    }
    free(token);
}

/// Bytes of the caller.
///
/// # Safety
/// There are as many, and they do not change meanwhile. Of no bytes the address may be null.
unsafe fn bytes<'a>(value: *const u8, len: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    if len == 0 { &[] } else { unsafe { core::slice::from_raw_parts(value, len) } }
}

/// # Safety
/// As for [`monohull_take_continuation`].
unsafe fn take_into(slot: *const c_char, continuation: *mut Held, flags: u64) -> c_int {
    // SAFETY: the caller's promise.
    let taken = take(unsafe { CStr::from_ptr(slot) }.to_bytes(), CONTINUATION, flags);
    // SAFETY: the caller's promise.
    unsafe { continuation.write(Held { token: taken.map_or(0, |taken| taken.data as u64) }) };
    status(taken.map(drop))
}

fn call_cc(slot: &[u8]) -> Result<Buffer, Errno> {
    let mut name = [0; EFFECT_SLOT_LEN];
    let token = sys::call(number::CONTINUATION, [name.as_mut_ptr() as u64])?;
    publish(slot, token).inspect_err(|_| free(token))?;
    take(&name, BYTES, 0)
}

fn publish(slot: &[u8], token: u64) -> Result<(), Errno> {
    let desc = describe(CONTINUATION);
    let args = [slot.as_ptr() as u64, slot.len() as u64, token, 1, (&raw const desc) as u64];
    sys::call(number::SLOT_PUBLISH, args).map(drop)
}

fn resume(token: u64, value: &[u8]) -> Result<(), Errno> {
    let address = sys::call(number::SLOT_ALLOC, [value.len().max(1) as u64, 1])?;
    // SAFETY: a new buffer with room for as many bytes, which is this thread's alone.
    unsafe { (address as *mut u8).copy_from_nonoverlapping(value.as_ptr(), value.len()) };
    let used = sys::call(number::RESUME, [token, address, value.len() as u64]);
    used.map(drop).inspect_err(|_| free(address))
}

/// The explanation of a refusal stays until it is read, or another call is refused.
fn free(address: u64) {
    let _ = sys::call(number::SLOT_FREE, [address]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::continuation::{Continuation, ContinuationError, call_cc as call_cc_in_rust};
    use crate::slot::host;

    #[test]
    fn a_value_goes_to_where_the_continuation_is_from() {
        let before = host::census().0;
        let came = call_cc_in_rust(|continuation| {
            continuation.publish("next")?;
            // SAFETY: the text ends with a zero byte, and there are as many bytes.
            assert_eq!(unsafe { monohull_resume(c"next".as_ptr(), b"value".as_ptr(), 5) }, 0);
            Ok::<(), ContinuationError>(())
        });
        assert_eq!(&*came.unwrap(), b"value");
        let mut value = NONE;
        // SAFETY: the text ends with a zero byte, and the buffer can be written to.
        assert_eq!(unsafe { monohull_call_cc(c"next".as_ptr(), &mut value) }, Errno::NeverFilled.to_value() as c_int);
        assert!(value.data.is_null());
        Continuation::take("next").unwrap().discard();
        assert_eq!(host::census().0, before);
    }

    #[test]
    fn a_continuation_is_handed_on_and_used_once() {
        let before = host::census().0;
        let mut held = Held { token: 7 };
        let came = call_cc_in_rust(|continuation| {
            // SAFETY: the texts end with a zero byte, `held` can be written to, and there are as many bytes.
            unsafe {
                assert_eq!(monohull_try_take_continuation(c"next".as_ptr(), &mut held), -2);
                assert_eq!(held, Held { token: 0 });
                continuation.publish("next")?;
                assert_eq!(monohull_take_continuation(c"next".as_ptr(), &mut held), 0);
                let taken = held;
                assert_eq!(monohull_publish_continuation(c"further".as_ptr(), &mut held), 0);
                assert_eq!(held, Held { token: 0 });
                assert_eq!(monohull_try_take_continuation(c"further".as_ptr(), &mut held), 0);
                assert_eq!(held, taken);
                assert_eq!(monohull_resume_continuation(&mut held, b"value".as_ptr(), 5), 0);
                assert_eq!(held, Held { token: 0 });
                held = taken;
                assert_eq!(monohull_resume_continuation(&mut held, core::ptr::null(), 0), -14);
                assert_eq!(held, taken, "after an error it is the caller's still");
            }
            Ok::<(), ContinuationError>(())
        });
        assert_eq!(&*came.unwrap(), b"value");
        let mut value = NONE;
        // SAFETY: as above.
        unsafe {
            for at_once in [0, 1] {
                assert_eq!(monohull_call_cc(c"next".as_ptr(), &mut value), Errno::NeverFilled.to_value() as c_int);
                assert_eq!(monohull_take_continuation(c"next".as_ptr(), &mut held), 0);
                monohull_drop_continuation(&mut held, at_once);
                monohull_drop_continuation(&mut held, at_once);
            }
        }
        assert_eq!((held, host::census().0), (Held { token: 0 }, before));
    }
}
