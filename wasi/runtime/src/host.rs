//! Hostcalls, with their errors as WASI numbers.

use crate::errno::WasiError;
use monohull_abi::Errno;
use monohull_trampoline::user::hostcall;

/// Makes hostcall `number` with up to six arguments.
pub(crate) fn call<const N: usize>(number: u32, args: [u64; N]) -> Result<u64, WasiError> {
    const { assert!(N <= 6) }
    let mut all = [0; 6];
    all[..N].copy_from_slice(&args);
    Errno::from_value(hostcall(number, all)).map_err(WasiError::from)
}
