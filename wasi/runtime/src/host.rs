//! Hostcalls, with their errors as WASI numbers or as they are.

use crate::errno::WasiError;
use alloc::string::String;
use alloc::vec;
use monohull_abi::types::{Clock, InfoString};
use monohull_abi::{Errno, number};
use monohull_trampoline::user::hostcall;

/// Bytes of an explanation that are asked for.
const EXPLANATION: usize = 512;

/// Makes hostcall `number` with up to six arguments.
pub(crate) fn plain<const N: usize>(number: u32, args: [u64; N]) -> Result<u64, Errno> {
    const { assert!(N <= 6) }
    let mut all = [0; 6];
    all[..N].copy_from_slice(&args);
    Errno::from_value(hostcall(number, all))
}

/// The same with errors of WASI.
pub(crate) fn call<const N: usize>(number: u32, args: [u64; N]) -> Result<u64, WasiError> {
    plain(number, args).map_err(WasiError::from)
}

/// What there is to say about the error of the last hostcall; may be nothing.
pub(crate) fn explanation() -> String {
    let mut text = [0; EXPLANATION];
    let len = plain(number::LAST_ERROR_MESSAGE, [text.as_mut_ptr() as u64, text.len() as u64]).unwrap_or(0);
    String::from_utf8_lossy(&text[..(len as usize).min(EXPLANATION)]).into_owned()
}

/// One of the instance's texts.
pub(crate) fn text_of(what: InfoString) -> String {
    let len = plain(number::GET_STRING_LEN, [what as u64]).unwrap_or(0);
    let mut bytes = vec![0; len as usize];
    let read = plain(number::GET_STRING, [what as u64, bytes.as_mut_ptr() as u64, len]).unwrap_or(0);
    bytes.truncate(read as usize);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a clock shows, in ns.
pub(crate) fn now(clock: Clock) -> Result<u64, WasiError> {
    call(number::CLOCK_GETTIME, [clock as u64])
}

/// Waits so many ns, without holding a thread of the system.
pub(crate) fn sleep(ns: u64) -> Result<(), WasiError> {
    call(number::NANOSLEEP, [ns]).map(drop)
}
