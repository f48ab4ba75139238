//! Locks of whole files (`flock`). An instance's are its own: no other program knows of them.
//!
//! On Linux a lock belongs to what a program has opened, by however many descriptors: it goes with the last of them. A hostcall's number is
//! that of one descriptor, so here it is known which are of one opening:
//!
//! ```text
//!   open ─▶ File(3) ── dup ─▶ File(5)     an opening: 3, 5      its lock: held by 3, by 5 once 3 is closed
//!   open ─▶ File(4)                       an opening: 4, of which nothing is kept
//! ```

use crate::descriptors::{self, Kind};
use crate::errno::{Answer, EAGAIN, EBADF, EINVAL};
use crate::lock::Lock;
use crate::{futex, host};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use monohull_abi::file::{FileStat, LOWEST_FREE};
use monohull_abi::number;

/// What is known of the program's files.
struct Locks {
    /// The numbers of each opening that has several.
    openings: Vec<Vec<u64>>,
    held: Vec<Held>,
}

/// A lock.
struct Held {
    /// One of the numbers of the opening that has it.
    by: u64,
    exclusive: bool,
}

static LOCKS: Lock<Locks> = Lock::new(Locks { openings: Vec::new(), held: Vec::new() });
/// How often a lock has been released: those that wait for one wait for that.
static RELEASES: AtomicU32 = AtomicU32::new(0);

impl Locks {
    /// Whether two numbers are of one opening.
    fn are_one(&self, file: u64, other: u64) -> bool {
        file == other || self.openings.iter().any(|opening| opening.contains(&file) && opening.contains(&other))
    }

    /// Takes away the lock of an opening: whether it had one.
    fn release(&mut self, file: u64) -> bool {
        let at = self.held.iter().position(|held| self.are_one(held.by, file));
        at.map(|at| self.held.swap_remove(at)).is_some()
    }

    /// Whether another opening has a lock on the same file beside which this one cannot be.
    fn is_locked(&self, file: u64, exclusive: bool) -> bool {
        let mut others = self.held.iter().filter(|held| (exclusive || held.exclusive) && !self.are_one(held.by, file));
        others.any(|held| are_of_one_file(held.by, file))
    }

    /// The number is closed. Its lock goes, or is held by another number of its opening.
    fn close(&mut self, file: u64) -> bool {
        let Some(at) = self.openings.iter().position(|opening| opening.contains(&file)) else {
            return self.release(file);
        };
        let opening = &mut self.openings[at];
        opening.retain(|other| *other != file);
        let heir = opening[0];
        if opening.len() == 1 {
            self.openings.swap_remove(at);
        }
        self.held.iter_mut().filter(|held| held.by == file).for_each(|held| held.by = heir);
        false
    }
}

/// Whether two numbers are of one file. A file system without numbers of files has no answer, and there locks do not meet.
fn are_of_one_file(one: u64, other: u64) -> bool {
    let identity = |file| {
        let mut status = FileStat::default();
        let answer = host::call(number::FILE_FSTAT, [file, (&raw mut status) as u64]);
        (answer >= 0 && status.node != 0).then_some((status.mount, status.node, status.links))
    };
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

/// Those that wait look again.
fn released() {
    RELEASES.fetch_add(1, Ordering::SeqCst);
    futex::wake(&RELEASES, u64::from(u32::MAX));
}

/// Another number of the same opening.
pub(crate) fn duplicate(file: u64) -> Result<u64, Answer> {
    let mut locks = LOCKS.hold();
    let other = match host::call(number::FILE_DUP, [file, LOWEST_FREE]) {
        error @ ..0 => return Err(error),
        other => other as u64,
    };
    match locks.openings.iter_mut().find(|opening| opening.contains(&file)) {
        Some(opening) => opening.push(other),
        None => locks.openings.push(vec![file, other]),
    }
    Ok(other)
}

/// Closes a number.
pub(crate) fn close(file: u64) -> Answer {
    let is_released = LOCKS.hold().close(file);
    if is_released {
        released();
    }
    host::call(number::FILE_CLOSE, [file])
}

/// `flock(descriptor, operation)`. What is no file has nothing that others could lock.
pub(crate) fn flock([descriptor, operation, ..]: [u64; 6]) -> Answer {
    const SHARED: u32 = 1;
    const EXCLUSIVE: u32 = 2;
    const NON_BLOCKING: u32 = 4;
    const UNLOCK: u32 = 8;
    let file = match descriptors::get(descriptor) {
        Ok(Kind::File(file)) => Some(file),
        Ok(_) => None,
        Err(error) => return error,
    };
    let wanted = match operation as u32 & !NON_BLOCKING {
        SHARED => Some(false),
        EXCLUSIVE => Some(true),
        UNLOCK => None,
        _ => return EINVAL,
    };
    let Some(file) = file else { return 0 };
    loop {
        let mut locks = LOCKS.hold();
        // One that another thread closes now takes its lock away after this.
        if descriptors::get(descriptor) != Ok(Kind::File(file)) {
            return EBADF;
        }
        // A lock that is exchanged is released first, as on Linux.
        let is_released = locks.release(file);
        let is_done = match wanted {
            Some(exclusive) if locks.is_locked(file, exclusive) => false,
            Some(exclusive) => {
                locks.held.push(Held { by: file, exclusive });
                true
            }
            None => true,
        };
        let seen = RELEASES.load(Ordering::SeqCst);
        drop(locks);
        if is_released {
            released();
        }
        if is_done {
            return 0;
        }
        if operation as u32 & NON_BLOCKING != 0 {
            return EAGAIN;
        }
        futex::wait(&RELEASES, seen, u64::MAX);
    }
}
