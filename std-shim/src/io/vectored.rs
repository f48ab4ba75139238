//! Buffers of reads and writes that have several.

use core::ops::{Deref, DerefMut};

/// A buffer to write from.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct IoSlice<'a>(&'a [u8]);

/// A buffer to read into.
#[derive(Debug)]
#[repr(transparent)]
pub struct IoSliceMut<'a>(&'a mut [u8]);

impl<'a> IoSlice<'a> {
    /// These bytes.
    pub fn new(bytes: &'a [u8]) -> IoSlice<'a> {
        IoSlice(bytes)
    }

    /// Leaves out the first `count` bytes.
    pub fn advance(&mut self, count: usize) {
        self.0 = self.0.get(count..).expect("advancing IoSlice beyond its length");
    }

    /// Leaves out the first `count` bytes of all buffers together.
    pub fn advance_slices(bufs: &mut &mut [IoSlice<'a>], count: usize) {
        let mut left = count;
        let done = bufs.iter().take_while(|buf| {
            let whole = buf.len() <= left;
            left -= if whole { buf.len() } else { 0 };
            whole
        });
        let done = done.count();
        *bufs = &mut core::mem::take(bufs)[done..];
        match bufs.first_mut() {
            Some(first) => first.advance(left),
            None => assert!(left == 0, "advancing io slices beyond their length"),
        }
    }
}

impl<'a> IoSliceMut<'a> {
    /// These bytes.
    pub fn new(bytes: &'a mut [u8]) -> IoSliceMut<'a> {
        IoSliceMut(bytes)
    }

    /// Leaves out the first `count` bytes.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.len(), "advancing IoSliceMut beyond its length");
        self.0 = &mut core::mem::take(&mut self.0)[count..];
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
