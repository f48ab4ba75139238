//! The epoll instances of a domain, made in advance.
//!
//! `fs.epoll.max_user_watches` limits all processes of a user together. A compromised worker that could create epoll
//! instances could exhaust it for every other process. So workers get exactly these two, and the watches of each are bounded
//! by the worker's limit of descriptors.

use nix::sys::epoll::{Epoll, EpollCreateFlags};
use std::io;
use std::os::fd::OwnedFd;

/// One domain at a time uses them, and removes what it has added before it is dropped.
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
