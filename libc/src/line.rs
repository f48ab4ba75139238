//! A line of text that needs no heap: what is said when there is none left, and of panics.

use core::fmt::{self, Write};

/// Bytes of the longest; the rest is left out.
const MOST: usize = 256;

/// The line so far.
pub(crate) struct Line {
    bytes: [u8; MOST],
    len: usize,
}

impl Line {
    /// A line of this.
    pub(crate) fn of(text: fmt::Arguments<'_>) -> Line {
        let mut line = Line { bytes: [0; MOST], len: 0 };
        // What does not fit is left out, which is no error.
        let _ = line.write_fmt(text);
        line
    }

    pub(crate) fn text(&self) -> &str {
        // Only whole characters are ever added.
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = text.floor_char_boundary(MOST - self.len);
        self.bytes[self.len..][..fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.len += fits;
        Ok(())
    }
}
