//! Names of invocations.

use monohull_abi::event::{INVOCATION_ID_MAX, is_invocation_id};
use std::fmt;
use std::str::FromStr;

/// The most bytes of a name.
const LONGEST: usize = INVOCATION_ID_MAX;

/// The name of an invocation: 1 to 64 letters, digits, `-` and `_`. It is part of file names, and of lines on terminals.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InvocationId(String);

/// A text is no name of an invocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the id of an invocation has 1 to {LONGEST} letters, digits, `-` and `_`")]
pub struct InvalidId;

impl InvocationId {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for InvocationId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<InvocationId, InvalidId> {
        if is_invocation_id(text) { Ok(InvocationId(text.to_owned())) } else { Err(InvalidId) }
    }
}

impl fmt::Display for InvocationId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_fit_for_files() {
        for good in ["a", "order-17_b", &"x".repeat(64)] {
            assert_eq!(good.parse::<InvocationId>().map(|id| id.to_string()).as_deref(), Ok(good));
        }
        for bad in ["", ".", "a/b", "a b", "\u{e4}", "a\n", &"x".repeat(65)] {
            assert_eq!(bad.parse::<InvocationId>(), Err(InvalidId), "{bad:?}");
        }
    }
}
