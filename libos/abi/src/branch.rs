//! Save points and forks of an invocation that its functions ask for, and how they are told of them.
//!
//! What is asked for happens with the next checkpoint, and is told by an event that the function waits for. Its name is made by the system, and only
//! the system may send one of such a name:
//!
//! ```text
//!   "checkpoint:" LABEL ":" PLACE    1 byte: 0 it went on, 1 it came back
//!   "fork:" PLACE                    lines: "original" and the ids of the copies, or "copy" and which, from 1, or "refused" and why
//! ```

use crate::event::is_event_name;
pub use crate::event::{CHECKPOINT_EVENT, FORK_EVENT};

/// Most bytes of the label of a save point.
pub const LABEL_MAX: usize = 64;
/// Most copies that are made at once.
pub const COPIES_MAX: u64 = 100;

/// Whether a save point may have this label: 1 to 64 bytes without control characters, and not a number, which would be that of a checkpoint.
pub fn is_label(label: &str) -> bool {
    label.len() <= LABEL_MAX && is_event_name(label) && !label.bytes().all(|byte| byte.is_ascii_digit())
}

/// What has become of a fork.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forked<'b> {
    /// This is the original. The copies have these ids.
    Original(&'b str),
    /// This is the copy of that number, from 1.
    Copy(u32),
    /// No copy was made, for this reason.
    Refused(&'b str),
}

impl<'b> Forked<'b> {
    /// Reads what an event says; `None` if it is not of a fork.
    pub fn parse(bytes: &'b [u8]) -> Option<Forked<'b>> {
        let text = core::str::from_utf8(bytes).ok()?;
        let (kind, rest) = text.split_once('\n').unwrap_or((text, ""));
        match kind {
            "original" => Some(Forked::Original(rest)),
            "copy" => rest.parse().ok().map(Forked::Copy),
            "refused" => Some(Forked::Refused(rest)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_fit_for_terminals_and_are_no_numbers() {
        for good in ["a", "before the payment", "2a", "ä", "-1"] {
            assert!(is_label(good), "{good}");
        }
        for bad in ["", "17", "a\n", "\u{1b}", "01234567890123456789012345678901234567890123456789012345678901234x"] {
            assert!(!is_label(bad), "{bad:?}");
        }
    }

    #[test]
    fn what_is_told_is_read() {
        assert_eq!(Forked::parse(b"original\na\nb"), Some(Forked::Original("a\nb")));
        assert_eq!(Forked::parse(b"original\n"), Some(Forked::Original("")));
        assert_eq!(Forked::parse(b"copy\n3"), Some(Forked::Copy(3)));
        assert_eq!(Forked::parse(b"refused\nno room"), Some(Forked::Refused("no room")));
        for bad in [&b""[..], b"copy", b"copy\nx", b"else\n", b"\xff"] {
            assert_eq!(Forked::parse(bad), None, "{bad:?}");
        }
    }
}
