//! The words of an image that depend on where it is loaded, packed. They are most of what a process is sent that runs the image, which may
//! have tens of thousands, so they take eight bytes each and are decoded when they are written.
//!
//! ```text
//!   offset       | value << 32        an address of the image: the load base plus the value. Images have 1 GiB at most
//!   offset + 1   , value              anything else
//! ```

use super::MAX_SPAN;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};
use std::fmt;

/// A word to write once the segments are mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relocation {
    /// Where: relative to the load base, a multiple of 8, inside the file part of one writable segment.
    pub offset: u64,
    /// What.
    pub value: Value,
}

/// What a relocated word becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// An address of the image: the load base plus this, which is at most the image's span.
    Base(u64),
    /// This value wherever the image is: an undefined weak symbol plus its addend, or half of what `__tls_get_addr` is asked.
    Absolute(u64),
}

impl Value {
    /// The value for an image that is loaded at `base`.
    pub fn at(self, base: u64) -> u64 {
        match self {
            Value::Base(value) => base.wrapping_add(value),
            Value::Absolute(value) => value,
        }
    }
}

/// What says that a whole value follows; offsets are multiples of 8.
const WHOLE: u64 = 1;
/// Where the value of an address is.
const VALUE: u32 = 32;
const _: () = assert!(MAX_SPAN < 1 << VALUE);

/// Words to write, in the order in which they were collected, as the bytes that are sent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Relocations(Vec<u8>);

impl Relocations {
    /// How many bytes they are.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Relocation> + '_ {
        let mut packed = self.0.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        std::iter::from_fn(move || {
            let first = packed.next()?;
            let offset = (first % (1 << VALUE)) & !WHOLE;
            let value = match first & WHOLE {
                0 => Value::Base(first >> VALUE),
                _ => Value::Absolute(packed.next()?),
            };
            Some(Relocation { offset, value })
        })
    }

    /// Those of a list, of which so many are no addresses of the image. All room is taken at once: a list that grows is copied, and has twice the
    /// pages.
    pub(super) fn pack(all: impl ExactSizeIterator<Item = Relocation>, absolute: usize) -> Relocations {
        let room = (all.len() + absolute) * size_of::<u64>();
        let mut packed = Vec::with_capacity(room);
        for Relocation { offset, value } in all {
            match value {
                Value::Base(value) => {
                    assert!(value <= MAX_SPAN, "an image has no such address");
                    packed.extend((offset | value << VALUE).to_le_bytes());
                }
                Value::Absolute(value) => {
                    packed.extend((offset | WHOLE).to_le_bytes());
                    packed.extend(value.to_le_bytes());
                }
            }
        }
        debug_assert!(packed.len() <= room, "more of them are no addresses");
        Relocations(packed)
    }
}

impl Serialize for Relocations {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

impl<'d> Deserialize<'d> for Relocations {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Relocations, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Relocations;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(to, "words of eight bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Relocations, E> {
                match bytes.len() % size_of::<u64>() {
                    0 => Ok(Relocations(bytes.to_vec())),
                    _ => Err(E::invalid_length(bytes.len(), &self)),
                }
            }
        }
        from.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_same_after_they_were_packed_and_sent() {
        let words = [
            (0, Value::Base(0)),
            (8, Value::Base(MAX_SPAN)),
            (16, Value::Absolute(0)),
            (MAX_SPAN - 8, Value::Absolute(u64::MAX)),
            (MAX_SPAN, Value::Base(1)),
        ];
        let words = words.map(|(offset, value)| Relocation { offset, value });
        let packed = Relocations::pack(words.into_iter(), 2);
        assert!(packed.iter().eq(words));
        assert_eq!(packed.0.capacity(), packed.bytes(), "it has not grown");
        let sent = postcard::to_extend(&packed, Vec::new()).expect("packed");
        let again: Relocations = postcard::from_bytes(&sent).expect("the same");
        assert!(again.iter().eq(words) && again == packed);
        postcard::from_bytes::<Relocations>(&[3, 1, 2, 3]).expect_err("no whole word");
    }
}
