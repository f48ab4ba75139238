//! `eventfd`: a counter that is waited for.

use super::{Form, NON_BLOCKING, found};
use crate::changing::{Changing, Step};
use crate::descriptors::{self, CLOSE_ON_EXEC, Kind};
use crate::errno::{Answer, EINVAL};

/// `EFD_SEMAPHORE`: a read takes 1 of it, not all.
const SEMAPHORE: u64 = 1;
/// The largest value; one more stands for an error.
const MOST: u64 = u64::MAX - 1;
/// Bytes that are read and written.
const BYTES: u64 = size_of::<u64>() as u64;

/// The counter.
pub(super) struct Counter(pub(super) Changing<Value>);

pub(super) struct Value {
    count: u64,
    semaphore: bool,
    /// How often it has been written, and read.
    edges: (u32, u32),
}

/// `eventfd(count)`.
pub(crate) fn eventfd([count, ..]: [u64; 6]) -> Answer {
    eventfd2([count, 0, 0, 0, 0, 0])
}

/// `eventfd2(count, flags)`.
pub(crate) fn eventfd2([count, flags, ..]: [u64; 6]) -> Answer {
    let flags = u64::from(flags as u32);
    if flags & !(SEMAPHORE | NON_BLOCKING | CLOSE_ON_EXEC) != 0 {
        return EINVAL;
    }
    let value = Value { count: u64::from(count as u32), semaphore: flags & SEMAPHORE != 0, edges: (0, 0) };
    descriptors::add(Kind::Local(super::add(Form::Counter(Counter(Changing::new(value))), flags)), flags)
}

impl Counter {
    pub(super) fn read(&self, buffer: u64, len: u64, may_wait: bool) -> Answer {
        if len < BYTES {
            return EINVAL;
        }
        self.0.act(may_wait, |value| {
            if value.count == 0 {
                return Step::Wait;
            }
            let taken = if value.semaphore { 1 } else { value.count };
            value.count -= taken;
            value.edges.1 = value.edges.1.wrapping_add(1);
            // SAFETY: the caller's buffer of at least eight bytes.
            unsafe { (buffer as *mut u64).write_unaligned(taken) };
            Step::Changed(BYTES as Answer)
        })
    }

    pub(super) fn write(&self, bytes: u64, len: u64, may_wait: bool) -> Answer {
        if len < BYTES {
            return EINVAL;
        }
        // SAFETY: the caller's buffer of at least eight bytes.
        let added = unsafe { (bytes as *const u64).read_unaligned() };
        if added > MOST {
            return EINVAL;
        }
        self.0.act(may_wait, |value| {
            if MOST - value.count < added {
                return Step::Wait;
            }
            value.count += added;
            value.edges.0 = value.edges.0.wrapping_add(1);
            Step::Changed(BYTES as Answer)
        })
    }

    pub(super) fn edges(&self) -> (u32, u32) {
        self.0.look(|value| value.edges)
    }

    pub(super) fn look(&self) -> u32 {
        self.0.look(|value| {
            let readable = if value.count > 0 { found::IN } else { 0 };
            readable | if value.count < MOST { found::OUT } else { 0 }
        })
    }
}
