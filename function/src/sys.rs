//! Hostcalls as Rust functions.

#[cfg(target_family = "wasm")]
#[allow(unsafe_code, reason = "imports take pointers, and the addresses of hostcalls are numbers")]
mod wasm;

#[cfg(target_family = "wasm")]
pub(crate) use wasm::call;

#[cfg(feature = "alloc")]
use alloc::{string::String, vec};
use monohull_abi::types::Info;
#[cfg(feature = "alloc")]
use monohull_abi::types::{AbortKind, InfoString};
use monohull_abi::{Errno, number};

/// Makes hostcall `number` with up to six arguments.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn call<const N: usize>(number: u32, args: [u64; N]) -> Result<u64, Errno> {
    const { assert!(N <= 6) }
    let mut all = [0; 6];
    all[..N].copy_from_slice(&args);
    Errno::from_value(monohull_trampoline::user::hostcall(number, all))
}

/// One of the instance's numbers.
pub(crate) fn info(what: Info) -> u64 {
    call(number::GET_INFO, [what as u64]).unwrap_or_else(|errno| refused(errno))
}

/// An answer that only a broken host gives.
#[cold]
#[track_caller]
fn refused(errno: Errno) -> ! {
    panic!("the host refused to read instance information: {errno}")
}

/// Ends the instance as failed.
#[cfg(feature = "alloc")]
pub(crate) fn fail(kind: AbortKind, text: &str) -> ! {
    loop {
        let _ = call(number::ABORT, [kind as u64, text.as_ptr() as u64, text.len() as u64]);
    }
}

/// One of the instance's texts.
#[cfg(feature = "alloc")]
pub(crate) fn info_string(what: InfoString) -> String {
    let len = call(number::GET_STRING_LEN, [what as u64]).unwrap_or_else(|errno| refused(errno));
    let mut bytes = vec![0; len as usize];
    let read = call(number::GET_STRING, [what as u64, bytes.as_mut_ptr() as u64, len]);
    bytes.truncate(read.unwrap_or_else(|errno| refused(errno)) as usize);
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// A text that explains why this thread's last hostcall failed; may be empty.
#[cfg(all(feature = "alloc", not(test)))]
pub(crate) fn last_error_message() -> String {
    let mut text = [0; 512];
    let len = call(number::LAST_ERROR_MESSAGE, [text.as_mut_ptr() as u64, text.len() as u64]).unwrap_or(0) as usize;
    String::from_utf8_lossy(&text[..len.min(512)]).into_owned()
}
