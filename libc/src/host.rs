//! Hostcalls, as the rest of the personality makes them.

use crate::errno::{Answer, of_host};
use alloc::string::String;
use alloc::vec;
use monohull_abi::number;
use monohull_abi::types::{AbortKind, Info, InfoString, MemoryStats};
use monohull_trampoline::user::hostcall;

/// Makes a hostcall; the answer has Linux's error numbers.
pub(crate) fn call<const N: usize>(number: u32, args: [u64; N]) -> Answer {
    const { assert!(N <= 6) }
    let mut all = [0; 6];
    all[..N].copy_from_slice(&args);
    of_host(hostcall(number, all))
}

/// One of the instance's numbers.
pub(crate) fn info(what: Info) -> u64 {
    call(number::GET_INFO, [what as u64]) as u64
}

/// One of the instance's texts.
pub(crate) fn text(what: InfoString) -> String {
    let len = call(number::GET_STRING_LEN, [what as u64]).max(0) as usize;
    let mut bytes = vec![0; len];
    let copied = call(number::GET_STRING, [what as u64, bytes.as_mut_ptr() as u64, len as u64]).max(0) as usize;
    bytes.truncate(copied);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What the instance has of memory.
pub(crate) fn memory_stats() -> MemoryStats {
    let mut stats = MemoryStats::default();
    call(number::MEMORY_STATS, [(&raw mut stats) as u64]);
    stats
}

/// Writes to stream 1 or 2: bytes taken.
pub(crate) fn write(stream: u64, bytes: &[u8]) -> Answer {
    call(number::STDIO_WRITE, [stream, bytes.as_ptr() as u64, bytes.len() as u64])
}

/// Ends the instance; 0 is success.
pub(crate) fn exit(status: i32) -> ! {
    for stream in [1, 2] {
        call(number::STDIO_FLUSH, [stream]);
    }
    loop {
        call(number::EXIT, [u64::from(status as u32)]);
    }
}

/// Ends the instance as panicked, with a text for the report, which has the place and its callers.
pub(crate) fn abort(text: &str) -> ! {
    loop {
        call(number::ABORT, [AbortKind::Panic as u64, text.as_ptr() as u64, text.len() as u64]);
    }
}
