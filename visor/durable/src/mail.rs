//! Events that are sent to an invocation, and kept until it takes them.
//!
//! ```text
//!   send ──▶ waiting ── handed to each leg ──▶ taken, with the commit that says so ──▶ its key alone is remembered
//! ```
//!
//! An event is the mailbox's until a commit names it: then it is in the checkpoint of that commit. So an invocation gets each event once,
//! whenever its process is killed.

use monohull_abi::event::{EVENT_BYTES_MAX, EVENT_NAME_MAX, RESERVED_EVENTS, is_event_name, is_reserved_event};

/// The most events that wait for an invocation.
pub const MAIL_MAX: u64 = 1000;
/// The most bytes in them.
pub const MAIL_BYTES_MAX: u64 = 16 << 20;
/// The keys of so many events that an invocation has taken are remembered, also after its end.
pub const KEYS_KEPT: u64 = 10_000;
/// The most bytes of a key.
const KEY_MAX: usize = 255;

/// An event to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewMail<'a> {
    name: &'a str,
    bytes: &'a [u8],
    key: Option<&'a str>,
}

/// Nothing can be sent like that.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidMail {
    /// Its name.
    #[error("the name of an event has 1 to {EVENT_NAME_MAX} bytes of text without control characters")]
    Name,
    /// Its name is the system's.
    #[error("no event can be sent whose name begins with {}: what they tell is the system's", RESERVED_EVENTS.map(|begin| format!("`{begin}`")).join(" or "))]
    Reserved,
    /// Its contents.
    #[error("an event has at most {EVENT_BYTES_MAX} bytes")]
    TooLong,
    /// Its key.
    #[error("the key of an event has 1 to {KEY_MAX} bytes")]
    Key,
}

impl<'a> NewMail<'a> {
    /// An event with a name and contents. With a key it is sent once, however often it is tried.
    pub fn new(name: &'a str, bytes: &'a [u8], key: Option<&'a str>) -> Result<NewMail<'a>, InvalidMail> {
        if !is_event_name(name) {
            return Err(InvalidMail::Name);
        }
        if is_reserved_event(name) {
            return Err(InvalidMail::Reserved);
        }
        if bytes.len() > EVENT_BYTES_MAX {
            return Err(InvalidMail::TooLong);
        }
        if key.is_some_and(|key| !(1..=KEY_MAX).contains(&key.len())) {
            return Err(InvalidMail::Key);
        }
        Ok(NewMail { name, bytes, key })
    }

    /// The event's name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// What it says.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What makes it the same as another one.
    pub fn key(&self) -> Option<&'a str> {
        self.key
    }
}

/// What came of sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// It is kept.
    New,
    /// It was sent before, with the same key.
    Duplicate,
    /// The key is that of another event for this invocation.
    KeyTaken,
    /// As many events wait as may, or as many bytes.
    Full,
    /// The invocation has ended.
    Ended(crate::Status),
    /// There is none of this name.
    Unknown,
}

/// An event that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mail {
    /// Its number: those that were sent later have higher ones.
    pub number: u64,
    /// Its name.
    pub name: String,
    /// What it says.
    pub bytes: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_sent_is_named() {
        assert!(NewMail::new("paid", &[0; EVENT_BYTES_MAX], Some("k")).is_ok());
        let refused = |name, bytes, key| NewMail::new(name, bytes, key).expect_err("it cannot be sent");
        assert_eq!(refused("", b"", None), InvalidMail::Name);
        assert_eq!(refused("child:one", b"", None), InvalidMail::Reserved);
        assert_eq!(refused(monohull_abi::event::CANCEL_EVENT, b"", None), InvalidMail::Reserved);
        assert_eq!(refused("a\nb", b"", None), InvalidMail::Name);
        assert_eq!(refused("a", &[0; EVENT_BYTES_MAX + 1], None), InvalidMail::TooLong);
        assert_eq!(refused("a", b"", Some("")), InvalidMail::Key);
        assert_eq!(refused("a", b"", Some(&"x".repeat(256))), InvalidMail::Key);
    }
}
