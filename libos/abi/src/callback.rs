//! Callbacks: waits that a client outside ends which knows a token.
//!
//! A token is the name of the event that answers. Two more events have names that are made of it: one says that there will be no answer, the other
//! that the client is still at it.

use core::fmt::Write;

/// What a token begins with. 32 hexadecimal digits follow.
const BEGINS: &str = "callback-";
const DIGITS: usize = 32;
/// What follows a token in the name of the event that rejects.
const REJECTED: &str = ":rejected";
/// The same of a heartbeat.
const HEARTBEAT: &str = ":heartbeat";

/// Longest name of an event of a callback in bytes.
pub const CALLBACK_EVENT_MAX: usize = BEGINS.len() + DIGITS + HEARTBEAT.len();

/// What a client tells an invocation that waits for its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// The answer.
    Completed,
    /// There will be none, and why.
    Rejected,
    /// It is still at it.
    Heartbeat,
}

impl Told {
    /// What follows the token in the name of its event.
    pub const fn ending(self) -> &'static str {
        match self {
            Told::Completed => "",
            Told::Rejected => REJECTED,
            Told::Heartbeat => HEARTBEAT,
        }
    }
}

/// Whether a function may have made this token.
pub fn is_token(text: &str) -> bool {
    let digits = text.strip_prefix(BEGINS).unwrap_or_default();
    digits.len() == DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Writes the token that stands for this number.
pub fn write_token(to: &mut impl Write, number: u128) -> core::fmt::Result {
    write!(to, "{BEGINS}{number:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{is_event_name, is_reserved_event};
    extern crate std;
    use std::string::String;

    #[test]
    fn tokens_and_what_is_told_are_names_of_events() {
        let mut token = String::new();
        write_token(&mut token, 7).expect("a string takes all");
        assert!(is_token(&token), "{token}");
        for told in [Told::Completed, Told::Rejected, Told::Heartbeat] {
            let event = std::format!("{token}{}", told.ending());
            assert!(is_event_name(&event) && !is_reserved_event(&event) && event.len() <= CALLBACK_EVENT_MAX);
            assert_eq!(is_token(&event), told == Told::Completed, "only the answer is called by the token alone");
        }
        for no in ["", "callback-", &token[1..], &token.to_uppercase(), &std::format!("{token}0")] {
            assert!(!is_token(no), "{no}");
        }
    }
}
