//! `poll`, for what can be told by looking: files and streams are ready always, a socket when it has something to read.
//!
//! Waiting is looking again, with pauses that grow from 50 µs to 1 ms. A socket that listens, and one that is written to,
//! count as ready: the call that follows waits, or says `EAGAIN` where the socket is non-blocking. A connection that is made
//! without waiting is ready when it is made or has failed; of a failed one `POLLERR` and `POLLHUP` are reported as well.

use crate::clocks::{self, Timespec};
use crate::descriptors::{self, Kind};
use crate::errno::{Answer, EINVAL};
use crate::host;
use crate::sockets::{self, Connection};
use monohull_abi::number;

const IN: i16 = 1;
const OUT: i16 = 4;
const ERROR: i16 = 8;
const HANG_UP: i16 = 0x10;
const INVALID: i16 = 0x20;
/// The first and the longest pause, in nanoseconds.
const PAUSE: (u64, u64) = (50_000, 1_000_000);

/// `struct pollfd`.
#[repr(C)]
struct Wish {
    descriptor: i32,
    events: i16,
    found: i16,
}

fn look(wish: &Wish) -> i16 {
    match descriptors::get(wish.descriptor as u64) {
        Err(_) => INVALID,
        Ok(Kind::Socket(socket)) => match sockets::connection(socket) {
            Connection::Started => 0,
            Connection::Failed(error) => wish.events & (IN | OUT) | HANG_UP | if error < 0 { ERROR } else { 0 },
            Connection::Settled | Connection::Made => {
                let readable = wish.events & IN != 0 && sockets::readable(socket).unwrap_or(true);
                wish.events & OUT | if readable { IN } else { 0 }
            }
        },
        Ok(_) => wish.events & (IN | OUT),
    }
}

fn wait(list: u64, count: u64, nanoseconds: u64) -> Answer {
    if count > descriptors::MOST as u64 {
        return EINVAL;
    }
    let start = clocks::now(clocks::MONOTONIC);
    let mut pause = PAUSE.0;
    loop {
        let mut ready = 0;
        for at in 0..count as usize {
            // SAFETY: the caller's list of that many wishes.
            let wish = unsafe { &mut *(list as *mut Wish).add(at) };
            wish.found = if wish.descriptor < 0 { 0 } else { look(wish) };
            ready += i64::from(wish.found != 0);
        }
        let passed = clocks::now(clocks::MONOTONIC).saturating_sub(start);
        if ready > 0 || passed >= nanoseconds {
            return ready;
        }
        host::call(number::NANOSLEEP, [pause.min(nanoseconds - passed)]);
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// `poll(list, count, milliseconds)`.
pub(crate) fn poll([list, count, timeout, ..]: [u64; 6]) -> Answer {
    let nanoseconds = u64::try_from(timeout as i32).map_or(u64::MAX, |milliseconds| milliseconds * 1_000_000);
    wait(list, count, nanoseconds)
}

/// `ppoll(list, count, time, mask)`.
pub(crate) fn ppoll([list, count, time, ..]: [u64; 6]) -> Answer {
    match clocks::read(time as *const Timespec) {
        None => wait(list, count, u64::MAX),
        Some(Ok(nanoseconds)) => wait(list, count, nanoseconds),
        Some(Err(error)) => error,
    }
}
