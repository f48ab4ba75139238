//! Names and fingerprints of types, put together at compile time.

use monohull_abi::types::{TYPE_NAME_MAX, fingerprint, fingerprint_extend};

/// The name of a type, for messages. What does not fit in [`TYPE_NAME_MAX`] bytes is cut off; the fingerprint still
/// distinguishes long names.
#[derive(Clone, Copy)]
pub struct TypeName {
    bytes: [u8; TYPE_NAME_MAX],
    len: usize,
    full: bool,
}

impl TypeName {
    /// A name that is one word.
    pub const fn new(text: &str) -> TypeName {
        TypeName { bytes: [0; TYPE_NAME_MAX], len: 0, full: false }.text(text)
    }

    /// Adds text.
    pub const fn text(mut self, text: &str) -> TypeName {
        let text = text.as_bytes();
        let mut fits = text.len();
        if self.full {
            fits = 0;
        } else if fits > TYPE_NAME_MAX - self.len {
            self.full = true;
            fits = TYPE_NAME_MAX - self.len;
            // Not in the middle of a character.
            while text[fits] & 0xc0 == 0x80 {
                fits -= 1;
            }
        }
        let mut i = 0;
        while i < fits {
            self.bytes[self.len + i] = text[i];
            i += 1;
        }
        self.len += fits;
        self
    }

    /// Adds the name of another type.
    pub const fn name(self, name: &TypeName) -> TypeName {
        self.text(name.as_str())
    }

    /// Adds a number.
    pub const fn number(self, number: usize) -> TypeName {
        const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
        let name = if number >= 10 { self.number(number / 10) } else { self };
        name.text(DIGITS[number % 10])
    }

    /// The name.
    pub const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(name) => name,
            Err(_) => panic!("cut in the middle of a character"),
        }
    }
}

/// Hashes name and layout of a type.
#[derive(Clone, Copy)]
pub struct Layout(u64);

impl Layout {
    /// A type of one word, which has one layout everywhere.
    pub const fn primitive(name: &TypeName) -> u64 {
        fingerprint(name.as_str().as_bytes())
    }

    /// A type with parts: starts with its name, size and alignment.
    pub const fn of<T>(name: &TypeName) -> Layout {
        Layout(fingerprint(name.as_str().as_bytes())).number(size_of::<T>() as u64).number(align_of::<T>() as u64)
    }

    /// Adds a part.
    pub const fn part(self, name: &str, offset: usize, fingerprint: u64) -> Layout {
        Layout(fingerprint_extend(self.0, name.as_bytes())).number(offset as u64).number(fingerprint)
    }

    /// Adds a variant of an enum.
    pub const fn variant(self, name: &str, value: i128) -> Layout {
        Layout(fingerprint_extend(fingerprint_extend(self.0, name.as_bytes()), &value.to_le_bytes()))
    }

    /// The fingerprint.
    pub const fn finish(self) -> u64 {
        self.0
    }

    const fn number(self, number: u64) -> Layout {
        Layout(fingerprint_extend(self.0, &number.to_le_bytes()))
    }
}
