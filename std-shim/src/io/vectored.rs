//! Buffers for reading and writing several at once.

use crate::fmt;
use core::mem::take;
use core::ops::{Deref, DerefMut};

/// One of several buffers to write from.
#[derive(Clone, Copy)]
pub struct IoSlice<'a>(&'a [u8]);

/// One of several buffers to read into.
pub struct IoSliceMut<'a>(&'a mut [u8]);

/// How many of `buffers` a step of `count` bytes uses up, and how far it gets into the next.
fn steps(buffers: impl Iterator<Item = usize>, mut count: usize) -> (usize, usize) {
    let mut used = 0;
    for len in buffers {
        if count < len {
            break;
        }
        count -= len;
        used += 1;
    }
    (used, count)
}

impl<'a> IoSlice<'a> {
    /// A buffer.
    pub const fn new(buf: &'a [u8]) -> IoSlice<'a> {
        IoSlice(buf)
    }

    /// Skips the first `count` bytes.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.0.len(), "advancing IoSlice beyond its length");
        self.0 = &self.0[count..];
    }

    /// Skips the first `count` bytes of all buffers together.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn advance_slices(bufs: &mut &mut [IoSlice<'a>], count: usize) {
        let (used, rest) = steps(bufs.iter().map(|buf| buf.len()), count);
        *bufs = &mut take(bufs)[used..];
        match bufs.first_mut() {
            Some(first) => first.advance(rest),
            None => assert!(rest == 0, "advancing io slices beyond their length"),
        }
    }
}

impl<'a> IoSliceMut<'a> {
    /// A buffer.
    pub const fn new(buf: &'a mut [u8]) -> IoSliceMut<'a> {
        IoSliceMut(buf)
    }

    /// Skips the first `count` bytes.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.0.len(), "advancing IoSliceMut beyond its length");
        self.0 = &mut take(&mut self.0)[count..];
    }

    /// Skips the first `count` bytes of all buffers together.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn advance_slices(bufs: &mut &mut [IoSliceMut<'a>], count: usize) {
        let (used, rest) = steps(bufs.iter().map(|buf| buf.len()), count);
        *bufs = &mut take(bufs)[used..];
        match bufs.first_mut() {
            Some(first) => first.advance(rest),
            None => assert!(rest == 0, "advancing io slices beyond their length"),
        }
    }
}

impl Deref for IoSlice<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl Deref for IoSliceMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl DerefMut for IoSliceMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0
    }
}

impl fmt::Debug for IoSlice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for IoSliceMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (*self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_advance_together() {
        let mut list = [IoSlice::new(b"abc"), IoSlice::new(b""), IoSlice::new(b"defg")];
        let mut bufs = &mut list[..];
        IoSlice::advance_slices(&mut bufs, 4);
        assert_eq!((bufs.len(), &*bufs[0]), (1, &b"efg"[..]));
        IoSlice::advance_slices(&mut bufs, 3);
        assert!(bufs.is_empty());
    }
}
