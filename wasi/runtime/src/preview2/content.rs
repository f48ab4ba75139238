//! The contents of HTTP messages as they are read and written: what streams and bodies have in common.

use crate::slots::Taken;
use alloc::sync::Arc;
use alloc::vec::Vec;
use monohull_std::sync::{Mutex, MutexGuard, PoisonError};

/// A content that is read, from where the last read has ended.
#[derive(Clone)]
pub(super) struct Source {
    message: Arc<Taken>,
    at: usize,
}

impl Source {
    /// What a message has from here on.
    pub(super) fn new(message: Arc<Taken>, at: usize) -> Source {
        Source { message, at }
    }

    /// Reads as much as there is, and fits.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> usize {
        let left = self.message.bytes().get(self.at..).unwrap_or_default();
        let length = left.len().min(buffer.len());
        buffer[..length].copy_from_slice(&left[..length]);
        self.at += length;
        length
    }
}

/// A content that is written. It is shared by the message, its body and the body's stream.
#[derive(Clone, Default)]
pub(super) struct Sink(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    is_finished: bool,
}

impl Sink {
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds bytes, unless it is finished.
    pub(super) fn write(&self, bytes: &[u8]) -> bool {
        let mut content = self.lock();
        if !content.is_finished {
            content.bytes.extend_from_slice(bytes);
        }
        !content.is_finished
    }

    /// How much was written.
    pub(super) fn len(&self) -> u64 {
        self.lock().bytes.len() as u64
    }

    /// Nothing is written from here on.
    pub(super) fn finish(&self) {
        self.lock().is_finished = true;
    }

    /// What was written, if it is finished.
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        let mut content = self.lock();
        content.is_finished.then(|| core::mem::take(&mut content.bytes))
    }
}
