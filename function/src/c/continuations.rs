//! Waiting for another function, which gets this one's continuation as a value: see [`crate::continuation`].

use super::{BYTES, Buffer, NONE, describe, status};
#[cfg(test)]
use crate::slot::host as sys;
#[cfg(not(test))]
use crate::sys;
use core::ffi::{CStr, c_char, c_int};
use monohull_abi::continuation::{CONTINUATION_FINGERPRINT, CONTINUATION_NAME};
use monohull_abi::effect::EFFECT_SLOT_LEN;
use monohull_abi::types::SlotView;
use monohull_abi::{Errno, number};

const CONTINUATION: (&str, u64) = (CONTINUATION_NAME, CONTINUATION_FINGERPRINT);

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
    let slot = unsafe { CStr::from_ptr(slot) }.to_bytes();
    // SAFETY: the caller's promise; of no bytes the address may be null.
    let value = if len == 0 { &[][..] } else { unsafe { core::slice::from_raw_parts(value, len) } };
    status(resume(slot, value))
}

fn call_cc(slot: &[u8]) -> Result<Buffer, Errno> {
    let mut name = [0; EFFECT_SLOT_LEN];
    let token = sys::call(number::CONTINUATION, [name.as_mut_ptr() as u64])?;
    let desc = describe(CONTINUATION);
    let args = [slot.as_ptr() as u64, slot.len() as u64, token, 1, (&raw const desc) as u64];
    sys::call(number::SLOT_PUBLISH, args).inspect_err(|_| free(token))?;
    take(&name, BYTES)
}

fn resume(slot: &[u8], value: &[u8]) -> Result<(), Errno> {
    let token = take(slot, CONTINUATION)?.data as u64;
    let address = sys::call(number::SLOT_ALLOC, [value.len().max(1) as u64, 1]).inspect_err(|_| free(token))?;
    // SAFETY: a new buffer with room for as many bytes, which is this thread's alone.
    unsafe { (address as *mut u8).copy_from_nonoverlapping(value.as_ptr(), value.len()) };
    let used = sys::call(number::RESUME, [token, address, value.len() as u64]);
    used.map(drop).inspect_err(|_| {
        free(address);
        free(token);
    })
}

fn take(slot: &[u8], as_what: (&'static str, u64)) -> Result<Buffer, Errno> {
    let (desc, mut view) = (describe(as_what), SlotView::default());
    let (desc, out) = ((&raw const desc) as u64, (&raw mut view) as u64);
    sys::call(number::SLOT_TAKE, [slot.as_ptr() as u64, slot.len() as u64, desc, out])?;
    Ok(Buffer { data: view.address as *mut u8, len: view.count as usize, capacity: view.capacity as usize })
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
}
