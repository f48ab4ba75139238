//! Descriptors whose two ends are the program's own: `eventfd`, pipes, pairs of sockets. They lead from thread to thread.
//!
//! ```text
//!   eventfd       one counter: `write` adds to it, `read` takes from it
//!   pipe2         write end ──▶ Pipe ──▶ read end
//!   socketpair    one end ⇄ two pipes ⇄ other end
//! ```

mod counter;
mod pipe;

pub(crate) use counter::{eventfd, eventfd2};
pub(crate) use pipe::{WHOLE, pair, pipe, pipe2};

use crate::errno::{Answer, EBADF, EINVAL, ENOTSOCK};
use crate::shared::Shared;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use counter::Counter;
use pipe::Pipe;

/// `O_NONBLOCK`, and what `eventfd` and `socketpair` call it.
const NON_BLOCKING: u64 = 0o4000;
const S_IFIFO: u32 = 0o010_000;
const S_IFSOCK: u32 = 0o140_000;

/// What can be found of a descriptor, with the numbers of `poll` and `epoll`.
pub(crate) mod found {
    /// There is something to read, or the end.
    pub(crate) const IN: u32 = 1;
    /// There is room to write.
    pub(crate) const OUT: u32 = 4;
    /// Writing fails.
    pub(crate) const ERROR: u32 = 8;
    /// The other end is closed.
    pub(crate) const HANG_UP: u32 = 0x10;
    /// The other end does not write any more.
    pub(crate) const READ_HANG_UP: u32 = 0x2000;
}

/// What one or more descriptors stand for.
pub(crate) struct Local {
    non_blocking: AtomicBool,
    form: Form,
}

enum Form {
    Counter(Counter),
    ReadEnd(Arc<Pipe>),
    WriteEnd(Arc<Pipe>),
    /// What is read, and what is written.
    Pair(Arc<Pipe>, Arc<Pipe>),
}

static LOCALS: Shared<Local> = Shared::new();

/// What is open at a place.
pub(crate) fn get(at: usize) -> Result<Arc<Local>, Answer> {
    LOCALS.get(at)
}

/// Another descriptor stands for it.
pub(crate) fn retain(at: usize) -> Result<(), Answer> {
    LOCALS.retain(at)
}

/// One descriptor less. What had no other is returned: it is closed as soon as no call uses it any more.
pub(crate) fn release(at: usize) -> Option<Arc<Local>> {
    LOCALS.release(at)
}

/// Closed: the other end finds that. A thread that waits in a call keeps it open meanwhile, as on Linux.
impl Drop for Local {
    fn drop(&mut self) {
        self.input().inspect(|pipe| pipe.close_reading());
        self.output().inspect(|pipe| pipe.close_writing());
    }
}

fn add(form: Form, flags: u64) -> usize {
    LOCALS.add(Local { non_blocking: AtomicBool::new(flags & NON_BLOCKING != 0), form })
}

impl Local {
    fn input(&self) -> Option<&Pipe> {
        match &self.form {
            Form::ReadEnd(pipe) | Form::Pair(pipe, _) => Some(pipe),
            Form::Counter(_) | Form::WriteEnd(_) => None,
        }
    }

    fn output(&self) -> Option<&Pipe> {
        match &self.form {
            Form::WriteEnd(pipe) | Form::Pair(_, pipe) => Some(pipe),
            Form::Counter(_) | Form::ReadEnd(_) => None,
        }
    }

    /// Reads what there is, and waits for it if `may_wait` and the descriptor both say so. `peek` leaves it there.
    pub(crate) fn read(&self, buffer: u64, len: u64, may_wait: bool, peek: bool) -> Answer {
        let may_wait = may_wait && !self.is_non_blocking();
        match (&self.form, self.input()) {
            (Form::Counter(counter), _) => counter.read(buffer, len, may_wait),
            (_, Some(pipe)) => pipe.read(buffer, len, may_wait, peek),
            (_, None) => EBADF,
        }
    }

    /// Writes all of it, or as much as there is room for if it may not wait.
    pub(crate) fn write(&self, bytes: u64, len: u64, may_wait: bool) -> Answer {
        let may_wait = may_wait && !self.is_non_blocking();
        match (&self.form, self.output()) {
            (Form::Counter(counter), _) => counter.write(bytes, len, may_wait),
            (_, Some(pipe)) => pipe.write(bytes, len, may_wait),
            (_, None) => EBADF,
        }
    }

    /// What `poll` and `epoll` find now.
    pub(crate) fn look(&self) -> u32 {
        match &self.form {
            Form::Counter(counter) => counter.look(),
            Form::ReadEnd(pipe) => pipe.look_reading(),
            Form::WriteEnd(pipe) => pipe.look_writing(),
            Form::Pair(input, output) => pipe::look_both(input, output),
        }
    }

    /// Bytes that can be read now.
    pub(crate) fn available(&self) -> usize {
        match &self.form {
            Form::Counter(counter) => {
                if counter.look() & found::IN != 0 {
                    8
                } else {
                    0
                }
            }
            _ => self.input().map_or(0, Pipe::available),
        }
    }

    /// A number that no other file of the instance has: both ends of a pipe have it.
    pub(crate) fn node(&self) -> u64 {
        match &self.form {
            Form::ReadEnd(pipe) | Form::WriteEnd(pipe) => Arc::as_ptr(pipe) as u64,
            Form::Counter(_) | Form::Pair(..) => core::ptr::from_ref(self) as u64,
        }
    }

    /// How often there has been more to read, and how often there has been room again.
    pub(crate) fn edges(&self) -> (u32, u32) {
        match &self.form {
            Form::Counter(counter) => counter.edges(),
            _ => (self.input().map_or(0, Pipe::arrivals), self.output().map_or(0, Pipe::departures)),
        }
    }

    /// Each change is posted to a queue from now on.
    pub(crate) fn watch(&self, queue: u64) {
        match &self.form {
            Form::Counter(counter) => counter.0.watch(queue),
            _ => [self.input(), self.output()].into_iter().flatten().for_each(|pipe| pipe.0.watch(queue)),
        }
    }

    /// Takes one such request back.
    pub(crate) fn unwatch(&self, queue: u64) {
        match &self.form {
            Form::Counter(counter) => counter.0.unwatch(queue),
            _ => [self.input(), self.output()].into_iter().flatten().for_each(|pipe| pipe.0.unwatch(queue)),
        }
    }

    pub(crate) fn is_non_blocking(&self) -> bool {
        self.non_blocking.load(Ordering::Relaxed)
    }

    pub(crate) fn set_non_blocking(&self, on: bool) -> Answer {
        self.non_blocking.store(on, Ordering::Relaxed);
        0
    }

    /// How it was opened, as `F_GETFL` has it: 0 to read, 1 to write, 2 both.
    pub(crate) fn access(&self) -> Answer {
        match self.form {
            Form::ReadEnd(_) => 0,
            Form::WriteEnd(_) => 1,
            Form::Counter(_) | Form::Pair(..) => 2,
        }
    }

    /// What `stat` has as its mode.
    pub(crate) fn mode(&self) -> u32 {
        match self.form {
            Form::ReadEnd(_) | Form::WriteEnd(_) => S_IFIFO | 0o600,
            Form::Pair(..) => S_IFSOCK | 0o777,
            Form::Counter(_) => 0o600,
        }
    }

    /// Whether it is an end of a pair of sockets.
    pub(crate) fn is_socket(&self) -> bool {
        matches!(self.form, Form::Pair(..))
    }

    /// `shutdown`: 0 ends reading, 1 writing, 2 both.
    pub(crate) fn shutdown(&self, how: u64) -> Answer {
        let Form::Pair(input, output) = &self.form else { return ENOTSOCK };
        match how {
            0 => input.close_reading(),
            1 => output.close_writing(),
            2 => {
                input.close_reading();
                output.close_writing();
            }
            _ => return EINVAL,
        }
        0
    }
}
