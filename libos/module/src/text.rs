//! Short texts without a heap: explanations and panic messages.

use core::fmt;

/// Up to `N` bytes of text; what does not fit is cut off at a character's boundary.
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
    full: bool,
}

impl<const N: usize> Text<N> {
    /// No text yet.
    pub const fn new() -> Text<N> {
        Text { bytes: [0; N], len: 0, full: false }
    }

    /// The text so far, as UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> fmt::Write for Text<N> {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.full {
            return Ok(());
        }
        let mut fits = more.len().min(N - self.len);
        while !more.is_char_boundary(fits) {
            fits -= 1;
        }
        self.bytes[self.len..self.len + fits].copy_from_slice(&more.as_bytes()[..fits]);
        self.len += fits;
        self.full = fits < more.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Text;
    use core::fmt::Write;

    #[test]
    fn what_does_not_fit_is_cut_between_characters() {
        let mut text = Text::<4>::new();
        text.write_str("ab").unwrap();
        text.write_str("cä").unwrap();
        text.write_str("d").unwrap();
        assert_eq!(text.as_bytes(), b"abc");
    }
}
