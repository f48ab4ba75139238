//! Hostcalls, with their errors as WASI numbers.

use crate::errno::WasiError;
use monohull_abi::types::Clock;
use monohull_abi::{Errno, number};
use monohull_trampoline::user::hostcall;

/// Makes hostcall `number` with up to six arguments.
pub(crate) fn call<const N: usize>(number: u32, args: [u64; N]) -> Result<u64, WasiError> {
    const { assert!(N <= 6) }
    let mut all = [0; 6];
    all[..N].copy_from_slice(&args);
    Errno::from_value(hostcall(number, all)).map_err(WasiError::from)
}

/// What a clock shows, in ns.
pub(crate) fn now(clock: Clock) -> Result<u64, WasiError> {
    call(number::CLOCK_GETTIME, [clock as u64])
}

/// Waits so many ns, without holding a thread of the system.
pub(crate) fn sleep(ns: u64) -> Result<(), WasiError> {
    call(number::NANOSLEEP, [ns]).map(drop)
}
