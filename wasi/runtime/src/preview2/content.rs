//! The contents of HTTP messages as they are read and written: what streams and bodies have in common.

use crate::errno::WasiError;
use crate::slots::Taken;
use alloc::sync::Arc;
use alloc::vec::Vec;
use monohull_std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A content that comes while it is read.
pub(super) trait Content: Send {
    /// Waits for bytes, and reads as many as there are and fit; none at its end.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, WasiError>;
}

/// A content that is read, from where the last read has ended.
#[derive(Clone)]
pub(super) enum Source {
    /// A message that is there as a whole, from here on.
    Message(Arc<Taken>, usize),
    /// Of an answer that comes over the network.
    Network(Arc<Mutex<dyn Content>>),
    /// Nothing.
    Empty,
}

impl Source {
    /// Reads as much as there is, and fits.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, WasiError> {
        match self {
            Source::Message(message, at) => {
                let left = message.bytes().get(*at..).unwrap_or_default();
                let length = left.len().min(buffer.len());
                buffer[..length].copy_from_slice(&left[..length]);
                *at += length;
                Ok(length)
            }
            Source::Network(content) => content.lock().unwrap_or_else(PoisonError::into_inner).read(buffer),
            Source::Empty => Ok(0),
        }
    }
}

/// A content that is written. It is shared by the message, its body and the body's stream.
#[derive(Clone, Default)]
pub(super) struct Sink(Arc<(Mutex<Written>, Condvar)>);

#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
    state: State,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum State {
    /// More can be written.
    #[default]
    Open,
    /// It is whole.
    Finished,
    /// The program has dropped it before it was.
    Dropped,
}

impl Sink {
    fn lock(&self) -> MutexGuard<'_, Written> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds bytes, unless it is finished.
    pub(super) fn write(&self, bytes: &[u8]) -> bool {
        let mut content = self.lock();
        let is_open = content.state == State::Open;
        if is_open {
            content.bytes.extend_from_slice(bytes);
        }
        is_open
    }

    /// How much was written.
    pub(super) fn len(&self) -> u64 {
        self.lock().bytes.len() as u64
    }

    /// Whether more can be written.
    pub(super) fn is_open(&self) -> bool {
        self.lock().state == State::Open
    }

    /// Nothing is written from here on.
    pub(super) fn finish(&self) {
        self.end(State::Finished);
    }

    /// Its body is gone: what is not finished never will be.
    pub(super) fn drop_unfinished(&self) {
        self.end(State::Dropped);
    }

    fn end(&self, state: State) {
        let mut content = self.lock();
        if content.state == State::Open {
            content.state = state;
        }
        drop(content);
        self.0.1.notify_all();
    }

    /// What was written, if it is finished.
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        let mut content = self.lock();
        (content.state == State::Finished).then(|| core::mem::take(&mut content.bytes))
    }

    /// The same, as soon as it is; nothing if it never will be.
    pub(super) fn wait(&self) -> Option<Vec<u8>> {
        let content = self.0.1.wait_while(self.lock(), |content| content.state == State::Open);
        drop(content.unwrap_or_else(PoisonError::into_inner));
        self.take()
    }
}
