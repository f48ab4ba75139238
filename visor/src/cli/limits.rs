//! Limits of the host (`ulimit`) that would end the program without a word.
//!
//! A stack that is too small ends it with a signal somewhere, and so does a file that becomes larger than files may be. The
//! first is refused before anything else happens; the second becomes an error of what wrote the file.

use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;

/// The least stack with which every command has room, in bytes.
const STACK: u64 = 1 << 20;
/// What hosts usually give. So much is taken if it may be.
const USUAL_STACK: u64 = 8 << 20;

/// A limit is too low, or cannot be found out.
#[derive(Debug, thiserror::Error)]
pub(super) enum LimitError {
    /// The main thread would run over its stack.
    #[error("the stack may have {} KiB (`ulimit -Hs`), and monohull needs {} KiB: raise the limit with `ulimit -s {}`", .0 >> 10, STACK >> 10, USUAL_STACK >> 10)]
    Stack(u64),
    /// The host does not answer.
    #[error("the limits of this process cannot be arranged: {0}")]
    Host(#[from] io::Error),
}

/// Raises what is too low and may be raised. To be called first, with little on the stack.
pub(super) fn arrange() -> Result<(), LimitError> {
    let (stack, most) = getrlimit(Resource::RLIMIT_STACK).map_err(io::Error::from)?;
    if stack < STACK {
        if most < STACK {
            return Err(LimitError::Stack(most));
        }
        setrlimit(Resource::RLIMIT_STACK, USUAL_STACK.min(most), most).map_err(io::Error::from)?;
    }
    // A write that goes over the limit is an error then.
    Ok(monohull_sys::signals::ignore(Signal::SIGXFSZ)?)
}
