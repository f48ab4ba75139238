//! `select`, by way of `poll`.

use crate::clocks::{self, Timespec};
use crate::errno::{Answer, EBADF, EINVAL};
use crate::poll::{self, INVALID, Wish};
use alloc::vec::Vec;

/// `FD_SETSIZE`.
const MOST: u64 = 1024;
/// What a descriptor in the set of those to read, to write, with something exceptional is asked for, and what of an answer
/// puts it into the set: `POLLIN`, `POLLOUT`, `POLLERR`, `POLLHUP`. Nothing exceptional ever happens.
const SETS: [(i16, i16); 3] = [(1, 1 | 8 | 0x10), (4, 4 | 8), (2, 2)];

/// `select(count, read, write, exceptional, time)`. The time is not changed.
pub(crate) fn select([count, read, write, exceptional, time, _]: [u64; 6]) -> Answer {
    const MICROS: i64 = 1_000_000;
    if time == 0 {
        return wait(count, [read, write, exceptional], u64::MAX);
    }
    // SAFETY: the caller's `struct timeval`.
    let [seconds, micros] = unsafe { (time as *const [i64; 2]).read_unaligned() };
    if seconds < 0 || !(0..MICROS).contains(&micros) {
        return EINVAL;
    }
    let nanoseconds = (seconds as u64).saturating_mul(1_000_000_000).saturating_add(micros as u64 * 1000);
    wait(count, [read, write, exceptional], nanoseconds)
}

/// `pselect6(count, read, write, exceptional, time, mask)`.
pub(crate) fn pselect6([count, read, write, exceptional, time, _]: [u64; 6]) -> Answer {
    match clocks::read(time as *const Timespec) {
        None => wait(count, [read, write, exceptional], u64::MAX),
        Some(Ok(nanoseconds)) => wait(count, [read, write, exceptional], nanoseconds),
        Some(Err(error)) => error,
    }
}

fn wait(count: u64, sets: [u64; 3], nanoseconds: u64) -> Answer {
    let count = match count as i32 {
        ..0 => return EINVAL,
        count => (count as u64).min(MOST) as usize,
    };
    let word = |set: u64, at: usize| (set as *mut u64).wrapping_add(at / 64);
    let mut wishes = Vec::new();
    for at in 0..count {
        let mut events = 0;
        for (set, (asked, _)) in sets.iter().zip(SETS) {
            // SAFETY: the caller's `fd_set`, words of 64 bits, of which there are as many as `count` needs.
            if *set != 0 && unsafe { word(*set, at).read_unaligned() } >> (at % 64) & 1 != 0 {
                events |= asked;
            }
        }
        if events != 0 {
            wishes.push(Wish { descriptor: at as i32, events, found: 0 });
        }
    }
    let answer = poll::wait(&mut wishes, nanoseconds);
    if answer < 0 {
        return answer;
    }
    if wishes.iter().any(|wish| wish.found & INVALID != 0) {
        return EBADF;
    }
    let mut bits = 0;
    for wish in &wishes {
        let at = wish.descriptor as usize;
        for (set, (asked, counts)) in sets.iter().zip(SETS) {
            if wish.events & asked == 0 {
                continue;
            }
            let bit = 1_u64 << (at % 64);
            // SAFETY: see above.
            unsafe {
                let word = word(*set, at);
                let others = word.read_unaligned() & !bit;
                let is_in = wish.found & counts != 0;
                word.write_unaligned(others | if is_in { bit } else { 0 });
                bits += i64::from(is_in);
            }
        }
    }
    bits
}
