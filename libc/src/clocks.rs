//! Clocks and sleeping.

use crate::errno::{Answer, EFAULT, EINVAL};
use crate::host;
use monohull_abi::number;
use monohull_abi::types::Clock;

/// `CLOCK_REALTIME`.
pub(crate) const REALTIME: u64 = 0;
/// `CLOCK_MONOTONIC`.
pub(crate) const MONOTONIC: u64 = 1;
const SECOND: u64 = 1_000_000_000;
/// `TIMER_ABSTIME`.
const ABSOLUTE: u64 = 1;

/// `struct timespec`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Timespec {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: i64,
}

impl Timespec {
    pub(crate) fn new(nanoseconds: u64) -> Timespec {
        Timespec { seconds: (nanoseconds / SECOND) as i64, nanoseconds: (nanoseconds % SECOND) as i64 }
    }
}

/// Nanoseconds of what is at an address: `None` at null, an error if it is no time.
pub(crate) fn read(at: *const Timespec) -> Option<Result<u64, Answer>> {
    if at.is_null() {
        return None;
    }
    // SAFETY: the caller's pointer to a `struct timespec`, as the system calls that come here document it.
    let time = unsafe { at.read_unaligned() };
    let valid = (0..SECOND as i64).contains(&time.nanoseconds);
    Some(match u64::try_from(time.seconds) {
        Ok(seconds) if valid => Ok(seconds.saturating_mul(SECOND).saturating_add(time.nanoseconds as u64)),
        // Before 1970, or before now: passed.
        Err(_) if valid => Ok(0),
        _ => Err(EINVAL),
    })
}

/// Nanoseconds on a clock.
pub(crate) fn now(clock: u64) -> u64 {
    let which = if matches!(clock, 0 | 5 | 11) { Clock::Realtime } else { Clock::Monotonic };
    host::call(number::CLOCK_GETTIME, [which as u64]).max(0) as u64
}

/// When a wait of so many nanoseconds that begins now is over: 0 for one that looks and does not wait, `u64::MAX` for one without end.
pub(crate) fn deadline(nanoseconds: u64) -> u64 {
    match nanoseconds {
        0 | u64::MAX => nanoseconds,
        _ => now(MONOTONIC).saturating_add(nanoseconds),
    }
}

/// Whether a deadline has come.
pub(crate) fn has_passed(deadline: u64) -> bool {
    match deadline {
        0 => true,
        u64::MAX => false,
        _ => deadline <= now(MONOTONIC),
    }
}

/// Whether a clock's number is one of Linux's: those of processor time (2, 3) read as the monotonic one.
fn known(clock: u64) -> bool {
    clock <= 11 && clock != 10
}

/// `clock_gettime(clock, out)`.
pub(crate) fn gettime([clock, out, ..]: [u64; 6]) -> Answer {
    if !known(clock) {
        return EINVAL;
    }
    write(out, Timespec::new(now(clock)))
}

/// `clock_getres(clock, out)`: one nanosecond.
pub(crate) fn getres([clock, out, ..]: [u64; 6]) -> Answer {
    match (known(clock), out) {
        (false, _) => EINVAL,
        (true, 0) => 0,
        _ => write(out, Timespec::new(1)),
    }
}

/// `gettimeofday(out, zone)`.
pub(crate) fn gettimeofday([out, ..]: [u64; 6]) -> Answer {
    let now = Timespec::new(now(REALTIME));
    write(out, Timespec { seconds: now.seconds, nanoseconds: now.nanoseconds / 1000 })
}

/// `time(out)`.
pub(crate) fn time([out, ..]: [u64; 6]) -> Answer {
    let seconds = (now(REALTIME) / SECOND) as i64;
    if out != 0 {
        // SAFETY: the caller's pointer to a `time_t`.
        unsafe { (out as *mut i64).write_unaligned(seconds) };
    }
    seconds
}

/// `nanosleep(time, rest)`. Nothing interrupts it.
pub(crate) fn nanosleep([time, ..]: [u64; 6]) -> Answer {
    match read(time as *const Timespec) {
        None => EFAULT,
        Some(Err(error)) => error,
        Some(Ok(time)) => host::call(number::NANOSLEEP, [time]),
    }
}

/// `clock_nanosleep(clock, flags, time, rest)`.
pub(crate) fn clock_nanosleep([clock, flags, time, ..]: [u64; 6]) -> Answer {
    match read(time as *const Timespec) {
        _ if !known(clock) => EINVAL,
        None => EFAULT,
        Some(Err(error)) => error,
        Some(Ok(time)) if flags & ABSOLUTE != 0 => host::call(number::NANOSLEEP, [time.saturating_sub(now(clock))]),
        Some(Ok(time)) => host::call(number::NANOSLEEP, [time]),
    }
}

fn write(out: u64, time: Timespec) -> Answer {
    if out == 0 {
        return EFAULT;
    }
    // SAFETY: the caller's pointer to a structure of two words.
    unsafe { (out as *mut Timespec).write_unaligned(time) };
    0
}
