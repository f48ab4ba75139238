//! A checkpoint that has been read, for the processes of its copies: it is read, decrypted and verified once.
//!
//! ```text
//!   resume --count ── file read, each page checked ─▶ sealed memory ─┬─▶ resume --copy=1/3 --given=…   a descriptor that it has inherited
//!                                                                    └─▶ resume --copy=2/3 --given=…
//! ```
//!
//! What is in such memory is believed as the arguments of the command line are: both come from the process that has started this one, which is of
//! the same user. The rest of the run is checked like any other by the process that goes on with it.

use monohull_ipc::sealed::{read_sealed, seal};
use monohull_saved::{Engine, Saved};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::close;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::str::FromStr;

/// The most bytes of what is not the continuation.
const OTHER_MAX: u64 = 16 << 30;

/// What a checkpoint has besides the continuation.
#[derive(Debug, Serialize, Deserialize)]
struct Other {
    workflow: String,
    generation: u64,
    document: Vec<u8>,
    functions: Vec<(String, [u8; 32], u64)>,
    engine: Engine,
}

/// The descriptors of both parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    continuation: RawFd,
    other: RawFd,
}

impl FromStr for Given {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Given, Self::Err> {
        let numbers = text.split_once(',').and_then(|(one, other)| Some((one.parse().ok()?, other.parse().ok()?)));
        let is_one = |(one, other): &(RawFd, RawFd)| *one > 2 && *other > 2 && one != other;
        let (continuation, other) = numbers.filter(is_one).ok_or("two descriptors are given: `3,4`")?;
        Ok(Given { continuation, other })
    }
}

impl Given {
    /// Takes what this process has inherited. Its own processes do not.
    pub(super) fn take(self) -> io::Result<Saved<OwnedFd>> {
        let take = |number: RawFd| {
            let file = File::open(format!("/proc/self/fd/{number}"))?;
            close(number)?;
            Ok::<_, io::Error>(OwnedFd::from(file))
        };
        let (continuation, other) = (take(self.continuation)?, take(self.other)?);
        let bytes = read_sealed(&other, OTHER_MAX)?;
        let Other { workflow, generation, document, functions, engine } =
            postcard::from_bytes(&bytes).map_err(io::Error::other)?;
        Ok(Saved { workflow, generation, document, functions, engine, continuation })
    }
}

/// A checkpoint that processes started from now on inherit, until it is dropped.
pub(super) struct Giving {
    continuation: OwnedFd,
    other: OwnedFd,
}

impl Giving {
    pub(super) fn new(saved: Saved<OwnedFd>) -> io::Result<Giving> {
        let Saved { workflow, generation, document, functions, engine, continuation } = saved;
        let other = Other { workflow, generation, document, functions, engine };
        let other = seal(&postcard::to_extend(&other, Vec::new()).map_err(io::Error::other)?, 0)?;
        for file in [&continuation, &other] {
            fcntl(file, FcntlArg::F_SETFD(FdFlag::empty()))?;
        }
        Ok(Giving { continuation, other })
    }

    /// The argument for them.
    pub(super) fn argument(&self) -> String {
        format!("--given={},{}", self.continuation.as_raw_fd(), self.other.as_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_descriptors_are_given() {
        "3,4".parse::<Given>().expect("two");
        for bad in ["", "3", "3,", ",4", "3,3", "0,4", "3,1", "-3,4", "a,b", "3,4,5"] {
            assert!(bad.parse::<Given>().is_err(), "{bad:?}");
        }
    }
}
