//! How a program ends that asks for it.

use core::fmt;

/// The status that the program has asked to end with. It travels as an error of the call, through the program's frames.
#[derive(Debug)]
pub(crate) struct Exit(pub(crate) u32);

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the program exited with status {}", self.0)
    }
}

impl core::error::Error for Exit {}
