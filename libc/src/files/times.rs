//! Setting when files were read and written.

use super::{HERE, Path, WORKING, status};
use crate::clocks::{self, Timespec};
use crate::descriptors::{self, Kind};
use crate::errno::{Answer, EFAULT, EINVAL};
use crate::host;
use monohull_abi::file::KEEP_TIME;
use monohull_abi::number;

/// `UTIME_NOW` and `UTIME_OMIT`.
const NOW: i64 = (1 << 30) - 1;
const OMIT: i64 = (1 << 30) - 2;
/// `AT_SYMLINK_NOFOLLOW`: there are no links.
const NO_LINKS: u64 = 0x100;
const SECOND: i64 = 1_000_000_000;

/// `utimensat(directory, path, times, flags)`: without a path of the descriptor itself, without times both are now.
pub(crate) fn utimensat([directory, path, times, flags, ..]: [u64; 6]) -> Answer {
    let flags = u64::from(flags as u32);
    if flags & !(NO_LINKS | status::AT_EMPTY_PATH) != 0 {
        return EINVAL;
    }
    let now = || clocks::now(clocks::REALTIME) as i64;
    let times = if times == 0 {
        let now = now();
        Ok([now; 2])
    } else {
        // SAFETY: the caller's two times.
        read(unsafe { (times as *const [Timespec; 2]).read_unaligned() }, now)
    };
    let times = match times {
        Ok([KEEP_TIME, KEEP_TIME]) => return 0,
        Ok(times) => times.map(|time| time as u64),
        Err(error) => return error,
    };
    // SAFETY: the caller's string, or null.
    let is_empty = path == 0 || flags & status::AT_EMPTY_PATH != 0 && unsafe { (path as *const u8).read() } == 0;
    match is_empty {
        true if directory as i32 == WORKING && path == 0 => EFAULT,
        true if directory as i32 == WORKING => set(HERE, c".".as_ptr() as u64, times),
        true => match descriptors::get(directory) {
            Ok(Kind::File(file)) => host::call(number::FILE_SET_TIMES, [file, 0, 0, times[0], times[1]]),
            // What is no file has no times that anyone sees.
            Ok(_) => 0,
            Err(error) => error,
        },
        false => set(directory, path, times),
    }
}

fn set(directory: u64, path: u64, [read, written]: [u64; 2]) -> Answer {
    match Path::read(directory, path) {
        Ok(path) if path.device().is_some() => 0,
        Ok(Path { from, bytes }) => {
            host::call(number::FILE_SET_TIMES, [from, bytes.as_ptr() as u64, bytes.len() as u64, read, written])
        }
        Err(error) => error,
    }
}

/// Times as the hostcall takes them.
fn read(times: [Timespec; 2], now: impl Fn() -> i64) -> Result<[i64; 2], Answer> {
    let time = |time: &Timespec| match time.nanoseconds {
        NOW => Ok(now()),
        OMIT => Ok(KEEP_TIME),
        0..SECOND => {
            let ns = time.seconds.saturating_mul(SECOND).saturating_add(time.nanoseconds);
            Ok(ns.max(KEEP_TIME + 1))
        }
        _ => Err(EINVAL),
    };
    Ok([time(&times[0])?, time(&times[1])?])
}
