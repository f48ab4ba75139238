//! Pipes, and pairs of sockets, which are two pipes each.

use super::{Form, NON_BLOCKING, found};
use crate::changing::{Changing, Step};
use crate::descriptors::{self, CLOSE_ON_EXEC, Kind};
use crate::errno::{Answer, EAFNOSUPPORT, EFAULT, EINVAL, ENOMEM, EOPNOTSUPP, EPIPE, EPROTONOSUPPORT};
use crate::lookup::{AF_INET, AF_INET6};
use alloc::collections::VecDeque;
use alloc::sync::Arc;

/// Bytes that fit, as on Linux.
const CAPACITY: usize = 64 << 10;
/// `PIPE_BUF`: a write of no more is done whole, with nothing of another thread's between.
pub(crate) const WHOLE: usize = 4096;

/// Bytes on their way.
pub(super) struct Pipe(pub(super) Changing<Value>);

#[derive(Default)]
pub(super) struct Value {
    bytes: VecDeque<u8>,
    /// Nothing is read any more.
    reading_closed: bool,
    /// Nothing is written any more.
    writing_closed: bool,
    /// How often there was more to read, the end included.
    arrivals: u32,
    /// How often there was room after there had been none, or nothing to write for any more.
    departures: u32,
}

impl Value {
    fn room(&self) -> usize {
        CAPACITY - self.bytes.len()
    }
}

/// `pipe(ends)`.
pub(crate) fn pipe([ends, ..]: [u64; 6]) -> Answer {
    pipe2([ends, 0, 0, 0, 0, 0])
}

/// `pipe2(ends, flags)`: no packets (`O_DIRECT`).
pub(crate) fn pipe2([ends, flags, ..]: [u64; 6]) -> Answer {
    let flags = u64::from(flags as u32);
    if flags & !(NON_BLOCKING | CLOSE_ON_EXEC) != 0 {
        return EINVAL;
    }
    let pipe = Pipe::new();
    add_both(ends, Form::ReadEnd(Arc::clone(&pipe)), Form::WriteEnd(pipe), flags)
}

/// `socketpair(family, kind, protocol, ends)`: streams of `AF_UNIX`.
pub(crate) fn pair([family, kind, protocol, ends, ..]: [u64; 6]) -> Answer {
    const AF_UNIX: i32 = 1;
    const STREAM: u64 = 1;
    let kind = u64::from(kind as u32);
    match (family as i32, kind & 0xff, protocol as i32) {
        (AF_UNIX, STREAM, 0 | AF_UNIX) => {
            let (one, other) = (Pipe::new(), Pipe::new());
            let back = Form::Pair(Arc::clone(&other), Arc::clone(&one));
            add_both(ends, Form::Pair(one, other), back, kind)
        }
        (AF_UNIX, ..) => EPROTONOSUPPORT,
        (AF_INET | AF_INET6, ..) => EOPNOTSUPP,
        _ => EAFNOSUPPORT,
    }
}

/// Gives both ends a descriptor, or none.
fn add_both(out: u64, one: Form, other: Form, flags: u64) -> Answer {
    let (one, other) = (Kind::Local(super::add(one, flags)), Kind::Local(super::add(other, flags)));
    if out == 0 {
        descriptors::release(one);
        descriptors::release(other);
        return EFAULT;
    }
    let first = descriptors::add(one, flags);
    if first < 0 {
        descriptors::release(other);
        return first;
    }
    let second = descriptors::add(other, flags);
    if second < 0 {
        descriptors::close([first as u64, 0, 0, 0, 0, 0]);
        return second;
    }
    // SAFETY: the caller's two `int`s.
    unsafe { (out as *mut [i32; 2]).write_unaligned([first as i32, second as i32]) };
    0
}

impl Pipe {
    fn new() -> Arc<Pipe> {
        Arc::new(Pipe(Changing::new(Value::default())))
    }

    pub(super) fn close_reading(&self) {
        self.0.act(false, |value| {
            value.reading_closed = true;
            value.departures = value.departures.wrapping_add(1);
            Step::Changed(0)
        });
    }

    pub(super) fn close_writing(&self) {
        self.0.act(false, |value| {
            value.writing_closed = true;
            value.arrivals = value.arrivals.wrapping_add(1);
            Step::Changed(0)
        });
    }

    pub(super) fn read(&self, buffer: u64, len: u64, may_wait: bool, peek: bool) -> Answer {
        if len == 0 {
            return 0;
        }
        self.0.act(may_wait, |value| {
            let bytes = value.bytes.len().min(len as usize);
            if bytes == 0 {
                let end = value.writing_closed || value.reading_closed;
                return if end { Step::Same(0) } else { Step::Wait };
            }
            let (one, other) = value.bytes.as_slices();
            let one = &one[..bytes.min(one.len())];
            let other = &other[..bytes - one.len()];
            // SAFETY: the caller's buffer, of at least that many bytes, which are not the pipe's.
            unsafe {
                (buffer as *mut u8).copy_from_nonoverlapping(one.as_ptr(), one.len());
                (buffer as *mut u8).add(one.len()).copy_from_nonoverlapping(other.as_ptr(), other.len());
            }
            if peek {
                return Step::Same(bytes as Answer);
            }
            let was_full = value.room() < WHOLE;
            value.bytes.drain(..bytes);
            if was_full && value.room() >= WHOLE {
                value.departures = value.departures.wrapping_add(1);
            }
            Step::Changed(bytes as Answer)
        })
    }

    pub(super) fn write(&self, bytes: u64, len: u64, may_wait: bool) -> Answer {
        let mut done = 0;
        while done < len as usize {
            let left = len as usize - done;
            let answer = self.0.act(may_wait, |value| {
                if value.reading_closed || value.writing_closed {
                    return Step::Same(EPIPE);
                }
                let part = left.min(value.room());
                if part == 0 || (len as usize <= WHOLE && part < left) {
                    return Step::Wait;
                }
                if value.bytes.try_reserve(part).is_err() {
                    return Step::Same(ENOMEM);
                }
                // SAFETY: the caller's bytes, of which `done` are written.
                let new = unsafe { core::slice::from_raw_parts((bytes as *const u8).add(done), part) };
                value.bytes.extend(new);
                value.arrivals = value.arrivals.wrapping_add(1);
                Step::Changed(part as Answer)
            });
            match answer {
                error @ ..0 if done == 0 => return error,
                ..0 => break,
                part => done += part as usize,
            }
        }
        done as Answer
    }

    pub(super) fn available(&self) -> usize {
        self.0.look(|value| value.bytes.len())
    }

    pub(super) fn arrivals(&self) -> u32 {
        self.0.look(|value| value.arrivals)
    }

    pub(super) fn departures(&self) -> u32 {
        self.0.look(|value| value.departures)
    }

    /// What the reader finds.
    pub(super) fn look_reading(&self) -> u32 {
        self.0.look(|value| {
            let readable = if value.bytes.is_empty() { 0 } else { found::IN };
            readable | if value.writing_closed { found::HANG_UP } else { 0 }
        })
    }

    /// What the writer finds.
    pub(super) fn look_writing(&self) -> u32 {
        self.0.look(|value| {
            let writable = if value.room() >= WHOLE { found::OUT } else { 0 };
            writable | if value.reading_closed { found::ERROR } else { 0 }
        })
    }
}

/// What an end of a pair finds.
pub(super) fn look_both(input: &Pipe, output: &Pipe) -> u32 {
    let (readable, no_input) =
        input.0.look(|value| (!value.bytes.is_empty(), value.writing_closed || value.reading_closed));
    let (writable, no_output) =
        output.0.look(|value| (value.room() >= WHOLE, value.reading_closed || value.writing_closed));
    let mut found = 0;
    if readable || no_input {
        found |= found::IN;
    }
    if no_input {
        found |= found::READ_HANG_UP;
    }
    if writable || no_output {
        found |= found::OUT;
    }
    if no_input && no_output {
        found |= found::HANG_UP;
    }
    found
}
