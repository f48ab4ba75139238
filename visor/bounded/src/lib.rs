//! Decoding of records that anyone may have written, in bounded memory.
//!
//! A record may take much more memory than it has bytes: a list of empty lists has one byte for each of them, and memory for three words.
//! So there is a bound on what a record has besides texts and byte strings, which take as much memory as they have bytes.
//!
//! ```text
//!   a number, the length of a list or a text, which variant, …   counted, byte by byte: all that lists consist of
//!   the bytes of a text or a byte string                         not counted
//! ```

#![forbid(unsafe_code)]

use postcard::Deserializer;
use postcard::de_flavors::Flavor;
use serde::Deserialize;
use serde::de::{Error as _, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// A record cannot be decoded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// It has more entries than it may have.
    #[error("it has more than {most} bytes besides texts and byte strings, which are the most")]
    Entries {
        /// What it may have.
        most: u64,
    },
    /// It is no such record.
    #[error(transparent)]
    Damaged(#[from] postcard::Error),
}

/// A record at the beginning of these bytes, and those behind it. Besides texts and byte strings it has at most so many bytes.
pub fn take<'b, R: Deserialize<'b>>(bytes: &'b [u8], most: u64) -> Result<(R, &'b [u8]), Error> {
    let mut decoder = Deserializer::from_flavor(Counted { rest: bytes, left: most, is_over: false });
    let decoded = R::deserialize(&mut decoder);
    let (rest, is_over) = decoder.finalize()?;
    match decoded {
        Ok(record) => Ok((record, rest)),
        Err(_) if is_over => Err(Error::Entries { most }),
        Err(error) => Err(error.into()),
    }
}

/// Bytes that are decoded.
struct Counted<'b> {
    rest: &'b [u8],
    left: u64,
    is_over: bool,
}

impl<'b> Flavor<'b> for Counted<'b> {
    /// What is left, and whether there were too many.
    type Remainder = (&'b [u8], bool);
    type Source = &'b [u8];

    fn pop(&mut self) -> postcard::Result<u8> {
        let (first, rest) = self.rest.split_first().ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        let Some(left) = self.left.checked_sub(1) else {
            self.is_over = true;
            return Err(postcard::Error::DeserializeUnexpectedEnd);
        };
        (self.rest, self.left) = (rest, left);
        Ok(*first)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }

    fn try_take_n(&mut self, count: usize) -> postcard::Result<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        self.rest = rest;
        Ok(taken)
    }

    fn finalize(self) -> postcard::Result<Self::Remainder> {
        Ok((self.rest, self.is_over))
    }
}

/// A list of no more than so many, for fields whose entries take many times the memory that they have bytes.
pub fn at_most<'de, const MOST: usize, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct List<const MOST: usize, T>(PhantomData<T>);

    impl<'de, const MOST: usize, T: Deserialize<'de>> Visitor<'de> for List<MOST, T> {
        type Value = Vec<T>;

        fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(to, "a list of at most {MOST}")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(entry) = entries.next_element()? {
                if list.len() == MOST {
                    return Err(A::Error::invalid_length(MOST + 1, &self));
                }
                list.push(entry);
            }
            Ok(list)
        }
    }

    from.deserialize_seq(List::<MOST, T>(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;

    fn bytes_of(record: &impl Serialize) -> Vec<u8> {
        postcard::to_extend(record, Vec::new()).expect("plain data")
    }

    #[test]
    fn texts_and_what_is_behind_a_record_do_not_count() {
        let record = ("a long text".repeat(100), vec![1_u32, 300]);
        let mut bytes = bytes_of(&record);
        bytes.extend([7; 9]);
        // The lengths, and a number of one byte and one of two.
        for most in [6, u64::MAX] {
            assert_eq!(take(&bytes, most), Ok((record.clone(), &[7; 9][..])));
        }
        for most in 0..6 {
            assert_eq!(take::<(String, Vec<u32>)>(&bytes, most), Err(Error::Entries { most }));
        }
    }

    #[test]
    fn a_list_of_empty_lists_is_refused_before_there_is_memory_for_it() {
        let mut bytes = vec![0; 1 << 20];
        bytes[..4].copy_from_slice(&[0xff, 0xff, 0xff, 0x07]);
        assert_eq!(take::<Vec<Vec<u32>>>(&bytes, 1000), Err(Error::Entries { most: 1000 }));
        assert_eq!(
            take::<Vec<Vec<u32>>>(&bytes[..1000], 1 << 20),
            Err(Error::Damaged(postcard::Error::DeserializeUnexpectedEnd)),
        );
    }

    #[test]
    fn a_field_has_a_bound_of_its_own() {
        #[derive(Deserialize, Serialize, PartialEq, Debug)]
        struct Lists(#[serde(deserialize_with = "at_most::<3, _, _>")] Vec<Vec<u32>>);
        let decode =
            |count: usize| take::<Lists>(&bytes_of(&vec![Vec::<u32>::new(); count]), 100).map(|(lists, _)| lists);
        for count in 0..=3 {
            assert_eq!(decode(count), Ok(Lists(vec![Vec::new(); count])));
        }
        decode(4).expect_err("one too many");
    }
}
