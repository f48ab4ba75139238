//! Children: invocations that a function starts, and how their ends are told to it.
//!
//! The end of a child is an event in the mailbox of its parent. Its name begins with [`CHILD_EVENT`], and only the system may send one of such a
//! name. Its content is an [`Outcome`]:
//!
//! ```text
//!   1 byte: Ending │ u32: length of the message │ message │ for each output:  u32, name │ u32, bytes
//! ```
//!
//! Numbers are little-endian.

pub use crate::event::CHILD_EVENT;
use crate::event::is_invocation_id;

/// Flag of [`CHILD_START`](crate::number::CHILD_START): the child goes on when its parent has ended.
pub const DETACHED: u64 = 1;
/// Most children of an invocation whose end it has not taken.
pub const CHILDREN_MAX: usize = 256;
/// Most invocations above one another: the child of a child, and so on.
pub const CHILD_DEPTH_MAX: u32 = 8;

/// Whether a child may have this id: as that of an invocation.
pub fn is_child_id(id: &str) -> bool {
    is_invocation_id(id)
}

/// How a child has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Ending {
    /// Well; its outputs follow.
    Completed = 0,
    /// It failed; the message says why.
    Failed = 1,
    /// It was cancelled.
    Cancelled = 2,
    /// It was not started; the message says why.
    Refused = 3,
    /// Well, but its outputs are larger than what can be told. The message says how large.
    TooLarge = 4,
}

impl Ending {
    /// All of them.
    pub const ALL: [Ending; 5] =
        [Ending::Completed, Ending::Failed, Ending::Cancelled, Ending::Refused, Ending::TooLarge];
}

/// What the end of a child says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome<'b> {
    /// How it has ended.
    pub ending: Ending,
    /// Why, if not well.
    pub message: &'b str,
    outputs: &'b [u8],
}

impl<'b> Outcome<'b> {
    /// Reads what an event says; `None` if it is no end of a child.
    pub fn parse(bytes: &'b [u8]) -> Option<Outcome<'b>> {
        let (ending, rest) = bytes.split_first()?;
        let ending = Ending::ALL.into_iter().find(|known| *known as u8 == *ending)?;
        let (message, outputs) = part(rest)?;
        let outcome = Outcome { ending, message: core::str::from_utf8(message).ok()?, outputs };
        let mut rest = outputs;
        while !rest.is_empty() {
            (_, _, rest) = output(rest)?;
        }
        Some(outcome)
    }

    /// The outputs, with the names of their slots.
    pub fn outputs(self) -> impl Iterator<Item = (&'b str, &'b [u8])> {
        let mut rest = self.outputs;
        core::iter::from_fn(move || {
            let (name, bytes, behind) = output(rest)?;
            rest = behind;
            Some((name, bytes))
        })
    }
}

fn output(from: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let (name, rest) = part(from)?;
    let (bytes, rest) = part(rest)?;
    Some((core::str::from_utf8(name).ok()?, bytes, rest))
}

/// Bytes with their length before them, and what follows.
fn part(from: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = from.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    #[test]
    fn an_outcome_is_read_whole_or_not_at_all() {
        let mut bytes = std::vec![0];
        for text in ["", "a", "17", "empty", ""] {
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        let outcome = Outcome::parse(&bytes).expect("it is one");
        assert_eq!((outcome.ending, outcome.message), (Ending::Completed, ""));
        assert_eq!(outcome.outputs().collect::<Vec<_>>(), [("a", &b"17"[..]), ("empty", b"")]);
        let whole: Vec<_> = (0..=bytes.len()).filter(|len| Outcome::parse(&bytes[..*len]).is_some()).collect();
        // Also without the second output, or without any.
        assert_eq!(whole, [5, 5 + 5 + 6, bytes.len()]);
        bytes[0] = 5;
        assert_eq!(Outcome::parse(&bytes), None);
        for no in [&[0, 255, 255, 255, 255][..], &[1, 1, 0, 0, 0, 0xff], &[0, 0, 0, 0, 0, 1, 0, 0, 0, 0xff, 0, 0, 0, 0]]
        {
            assert_eq!(Outcome::parse(no), None);
        }
    }
}
