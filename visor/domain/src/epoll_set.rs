//! What a domain hears through: `epoll`.
//!
//! The kernel counts what `epoll` watches for all processes of a user together, and whoever may make one after the other can take
//! all there is, so that nobody else connects. So a workflow's process makes none: it is given those that it needs, and what one can watch is
//! bounded by the descriptors that its process may have.

use nix::sys::epoll::{Epoll, EpollCreateFlags};
use std::io;
use std::os::fd::OwnedFd;

/// They are used by one domain at a time: each has forgotten what it watched when it is gone.
#[derive(Debug)]
pub struct EpollSet {
    /// For sockets and devices.
    pub(super) sockets: OwnedFd,
    /// For pages of mapped files.
    pub(super) userfaults: OwnedFd,
}

impl EpollSet {
    /// How many files they are.
    pub const COUNT: usize = 2;

    /// Made in a process that may.
    pub fn create() -> io::Result<EpollSet> {
        let create = || Ok::<_, io::Error>(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?.0);
        Ok(EpollSet { sockets: create()?, userfaults: create()? })
    }

    /// As files, to be sent.
    pub fn into_files(self) -> [OwnedFd; EpollSet::COUNT] {
        [self.sockets, self.userfaults]
    }

    /// The same again.
    pub fn from_files([sockets, userfaults]: [OwnedFd; EpollSet::COUNT]) -> EpollSet {
        EpollSet { sockets, userfaults }
    }
}
