//! The standard input: the bytes of the slot that the workflow file names as the step's `stdin`.
//!
//! The slot is taken over at the first read, which parks until it has been filled; from then on reading is looking at
//! the slot's bytes where they lie. A step without `stdin` reads nothing.

use super::{BufRead, Lines, Read, Result};
use crate::slot::SlotBuffer;
use crate::string::String;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::vec::Vec;
use crate::{fmt, sys};
use monohull_abi::types::InfoString;

/// What is read, and how far.
struct Input {
    source: Source,
    position: usize,
}

enum Source {
    /// Not read yet.
    Unopened,
    /// There is no slot.
    Nothing,
    Slot(SlotBuffer<[u8]>),
}

static INPUT: Mutex<Input> = Mutex::new(Input { source: Source::Unopened, position: 0 });

impl Input {
    /// What is left. A slot that cannot be taken over is asked for again by the next read.
    fn rest(&mut self) -> Result<&[u8]> {
        if let Source::Unopened = self.source {
            let slot = sys::info_string(InfoString::Stdin);
            self.source = if slot.is_empty() { Source::Nothing } else { Source::Slot(SlotBuffer::from_slot(&slot)?) };
        }
        match &self.source {
            Source::Slot(bytes) => Ok(bytes.get(self.position..).unwrap_or_default()),
            Source::Unopened | Source::Nothing => Ok(&[]),
        }
    }
}

/// The standard input.
pub struct Stdin(());

/// The standard input, locked.
pub struct StdinLock<'a>(MutexGuard<'a, Input>);

/// The standard input: the bytes of the step's `stdin`.
pub fn stdin() -> Stdin {
    Stdin(())
}

impl Stdin {
    /// Keeps other threads away from the input until the lock is dropped.
    pub fn lock(&self) -> StdinLock<'static> {
        StdinLock(INPUT.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Appends a line with its newline; 0 is the end.
    pub fn read_line(&self, buf: &mut String) -> Result<usize> {
        self.lock().read_line(buf)
    }

    /// An iterator over the lines, without their newlines.
    pub fn lines(self) -> Lines<StdinLock<'static>> {
        self.lock().lines()
    }
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdin").finish_non_exhaustive()
    }
}

impl fmt::Debug for StdinLock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdinLock").finish_non_exhaustive()
    }
}

impl Read for StdinLock<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let count = self.0.rest()?.read(buf)?;
        self.0.position += count;
        Ok(count)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> Result<usize> {
        let count = self.0.rest()?.read_to_end(buf)?;
        self.0.position += count;
        Ok(count)
    }
}

impl BufRead for StdinLock<'_> {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        self.0.rest()
    }

    fn consume(&mut self, amount: usize) {
        self.0.position += amount;
    }
}

macro_rules! by_lock {
    ($($type:ty),*) => { $(
        impl Read for $type {
            fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
                self.lock().read(buf)
            }
            fn read_to_end(&mut self, buf: &mut Vec<u8>) -> Result<usize> {
                self.lock().read_to_end(buf)
            }
            fn read_to_string(&mut self, buf: &mut String) -> Result<usize> {
                self.lock().read_to_string(buf)
            }
            fn read_exact(&mut self, buf: &mut [u8]) -> Result<()> {
                self.lock().read_exact(buf)
            }
        }
    )* };
}

by_lock!(Stdin, &Stdin);
