//! Hostcalls as Rust functions. Nothing else in the shim knows a number.
//!
//! Unit tests, this crate's own and those of function crates, run on the host, where there are no hostcalls; `sys/host.rs` stands in for
//! them there.

use crate::rt::last_error;
use crate::string::String;
use crate::time::Duration;
use crate::vec;
use crate::vec::Vec;
use core::sync::atomic::AtomicU32;
use monohull_abi::errno::Errno;
use monohull_abi::number;
use monohull_abi::types::{AbortKind, CPUID_FIRST, Clock, Info, InfoString, RANDOM_SHARED};

pub(crate) mod files;
pub(crate) mod socket;

#[cfg(any(test, panic = "unwind"))]
pub(crate) mod host;
#[cfg(any(test, panic = "unwind"))]
use host as gate;
#[cfg(not(any(test, panic = "unwind")))]
use monohull_trampoline::user as gate;

/// Makes hostcall `number` with up to six arguments.
pub(crate) fn call<const N: usize>(number: u32, args: [u64; N]) -> Result<u64, Errno> {
    const { assert!(N <= 6) }
    let mut all = [0; 6];
    all[..N].copy_from_slice(&args);
    Errno::from_value(gate::hostcall(number, all)).inspect_err(|errno| last_error::set(*errno as i32))
}

/// An answer that only a broken host gives.
#[cold]
#[track_caller]
fn refused(what: &str, errno: Errno) -> ! {
    panic!("the host refused to {what}: {errno}")
}

/// Ends the instance. Status 0 is success.
pub(crate) fn exit(status: i32) -> ! {
    loop {
        let _ = call(number::EXIT, [status as u32 as u64]);
    }
}

/// Ends the instance as failed.
pub(crate) fn fail(kind: AbortKind, text: &str) -> ! {
    loop {
        let _ = call(number::ABORT, [kind as u64, text.as_ptr() as u64, text.len() as u64]);
    }
}

/// Starts a thread at `entry`, which finds `word` in `rax`; returns its number.
#[cfg(not(any(test, panic = "unwind")))]
pub(crate) fn thread_spawn(entry: u64, word: u64) -> Result<u64, Errno> {
    call(number::THREAD_SPAWN, [entry, word])
}

/// Ends the calling thread.
#[cfg(not(any(test, panic = "unwind")))]
pub(crate) fn thread_exit() -> ! {
    loop {
        let _ = call(number::THREAD_EXIT, []);
    }
}

/// Waits until a thread of this instance has ended.
pub(crate) fn thread_join(thread: u64) {
    if let Err(errno) = call(number::THREAD_JOIN, [thread]) {
        refused("join a thread", errno)
    }
}

/// Lets another thread run.
pub(crate) fn yield_now() {
    let _ = call(number::THREAD_YIELD, []);
}

/// Parks while `*word == expected`, at most for `timeout`. False if the time ran out; if true, `word` may have any value.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> bool {
    let ns = timeout.map_or(u64::MAX, nanos);
    match call(number::FUTEX_WAIT, [word.as_ptr() as u64, u64::from(expected), ns]) {
        Ok(_) | Err(Errno::Again) => true,
        Err(Errno::TimedOut) => false,
        Err(errno) => refused("wait", errno),
    }
}

/// Wakes up to `most` threads that wait on `word`, whose memory may have been freed meanwhile.
pub(crate) fn futex_wake(word: *const AtomicU32, most: u32) {
    let _ = call(number::FUTEX_WAKE, [word as u64, u64::from(most)]);
}

/// One of the instance's numbers.
pub(crate) fn info(what: Info) -> u64 {
    call(number::GET_INFO, [what as u64]).unwrap_or_else(|errno| refused("read instance information", errno))
}

/// What CPUID answers in a register for one of [`CPUID_LEAVES`](monohull_abi::types::CPUID_LEAVES).
pub(crate) fn cpuid(place: usize, register: usize) -> u32 {
    let what = CPUID_FIRST + (4 * place + register) as u64;
    call(number::GET_INFO, [what]).unwrap_or_else(|errno| refused("ask what the processor has", errno)) as u32
}

/// One of the instance's texts.
pub(crate) fn info_string(what: InfoString) -> String {
    let len =
        call(number::GET_STRING_LEN, [what as u64]).unwrap_or_else(|errno| refused("read instance information", errno));
    let mut bytes = vec![0; len as usize];
    let read = call(number::GET_STRING, [what as u64, bytes.as_mut_ptr() as u64, len])
        .unwrap_or_else(|errno| refused("read instance information", errno));
    bytes.truncate(read as usize);
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Fills `buffer` with random bytes.
pub(crate) fn random(buffer: &mut [u8]) {
    random_with(buffer, 0);
}

/// Fills `buffer` with random bytes that instances of one template may have in common, such as the seed of a hash map.
pub(crate) fn shared_random(buffer: &mut [u8]) {
    random_with(buffer, RANDOM_SHARED);
}

fn random_with(buffer: &mut [u8], flags: u64) {
    /// What one call fills.
    const AT_ONCE: usize = 64 << 10;
    for part in buffer.chunks_mut(AT_ONCE) {
        if let Err(errno) = call(number::GETRANDOM, [part.as_mut_ptr() as u64, part.len() as u64, flags]) {
            refused("read random bytes", errno)
        }
    }
}

/// Adds at least `bytes` (whole pages) to the heap: the address of the addition.
pub(crate) fn heap_grow(bytes: usize) -> Result<u64, Errno> {
    call(number::HEAP_GROW, [bytes as u64])
}

/// Writes all of `bytes` to stream 1 or 2.
pub(crate) fn write(stream: u64, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let taken = call(number::STDIO_WRITE, [stream, bytes.as_ptr() as u64, bytes.len() as u64])? as usize;
        if taken == 0 {
            return Err(Errno::Io);
        }
        bytes = bytes.get(taken..).unwrap_or_default();
    }
    Ok(())
}

/// Sends an unfinished line of stream 1 or 2.
pub(crate) fn flush(stream: u64) -> Result<(), Errno> {
    call(number::STDIO_FLUSH, [stream]).map(drop)
}

/// Reads a clock, in ns.
pub(crate) fn clock(which: Clock) -> u64 {
    call(number::CLOCK_GETTIME, [which as u64]).unwrap_or_else(|errno| refused("read a clock", errno))
}

/// Parks for at least `time`.
pub(crate) fn sleep(time: Duration) {
    if let Err(errno) = call(number::NANOSLEEP, [nanos(time)]) {
        refused("sleep", errno)
    }
}

/// A text that explains why this thread's last hostcall failed; may be empty.
pub(crate) fn last_error_message() -> String {
    let mut text = [0; 512];
    let len = call(number::LAST_ERROR_MESSAGE, [text.as_mut_ptr() as u64, text.len() as u64]).unwrap_or(0) as usize;
    let text: Vec<u8> = text[..len.min(512)].into();
    String::from_utf8_lossy(&text).into_owned()
}

/// Nanoseconds that fit; centuries are as good as for ever.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX - 1)
}
