//! Rights of descriptors: how a program of preview 1 confines itself.
//!
//! ```text
//!   path_open(directory, …, base, inheriting)   has what was asked for and the directory's `inheriting` allows
//!   fd_fdstat_set_rights(fd, base, inheriting)  everything else is taken away, from it and from what is opened beneath it
//! ```
//!
//! A call whose right was taken away is refused. Of the rights that were never asked for only those to read and to write count: programs ask for
//! these, and then move the position or look at the size all the same. Wasmtime, where rights have no effect, lets them.

use crate::errno::WasiError;

/// Rights of one descriptor.
#[derive(Clone, Copy)]
pub(crate) struct Rights {
    /// Of the descriptor, as they are reported.
    pub(crate) base: u64,
    /// Of what is opened beneath it, as they are reported.
    pub(crate) inheriting: u64,
    /// What was not taken away from it.
    left: u64,
    /// What was not taken away from what is opened beneath it.
    left_beneath: u64,
}

/// All that there are.
const ALL: u64 = (1 << 30) - 1;

impl Rights {
    pub(crate) const FD_DATASYNC: u64 = 1 << 0;
    pub(crate) const FD_READ: u64 = 1 << 1;
    pub(crate) const FD_SEEK: u64 = 1 << 2;
    pub(crate) const FD_FDSTAT_SET_FLAGS: u64 = 1 << 3;
    pub(crate) const FD_SYNC: u64 = 1 << 4;
    pub(crate) const FD_TELL: u64 = 1 << 5;
    pub(crate) const FD_WRITE: u64 = 1 << 6;
    pub(crate) const FD_ADVISE: u64 = 1 << 7;
    pub(crate) const FD_ALLOCATE: u64 = 1 << 8;
    pub(crate) const PATH_CREATE_DIRECTORY: u64 = 1 << 9;
    pub(crate) const PATH_CREATE_FILE: u64 = 1 << 10;
    pub(crate) const PATH_LINK_SOURCE: u64 = 1 << 11;
    pub(crate) const PATH_LINK_TARGET: u64 = 1 << 12;
    pub(crate) const PATH_OPEN: u64 = 1 << 13;
    pub(crate) const FD_READDIR: u64 = 1 << 14;
    pub(crate) const PATH_READLINK: u64 = 1 << 15;
    pub(crate) const PATH_RENAME_SOURCE: u64 = 1 << 16;
    pub(crate) const PATH_RENAME_TARGET: u64 = 1 << 17;
    pub(crate) const PATH_FILESTAT_GET: u64 = 1 << 18;
    pub(crate) const PATH_FILESTAT_SET_SIZE: u64 = 1 << 19;
    pub(crate) const PATH_FILESTAT_SET_TIMES: u64 = 1 << 20;
    pub(crate) const FD_FILESTAT_GET: u64 = 1 << 21;
    pub(crate) const FD_FILESTAT_SET_SIZE: u64 = 1 << 22;
    pub(crate) const FD_FILESTAT_SET_TIMES: u64 = 1 << 23;
    pub(crate) const PATH_SYMLINK: u64 = 1 << 24;
    pub(crate) const PATH_REMOVE_DIRECTORY: u64 = 1 << 25;
    pub(crate) const PATH_UNLINK_FILE: u64 = 1 << 26;
    pub(crate) const POLL_FD_READWRITE: u64 = 1 << 27;
    pub(crate) const SOCK_SHUTDOWN: u64 = 1 << 28;
    pub(crate) const SOCK_ACCEPT: u64 = 1 << 29;

    /// What a connection can do: it has no position.
    pub(crate) const CONNECTION_BASE: u64 = ALL & !(Rights::FD_SEEK | Rights::FD_TELL);

    /// All rights.
    pub(crate) const ALL: Rights = Rights::new(ALL, ALL);
    /// Those of a socket that listens.
    pub(crate) const LISTENER: Rights = Rights::new(Rights::CONNECTION_BASE, Rights::CONNECTION_BASE);
    /// Those of a connection.
    pub(crate) const CONNECTION: Rights = Rights::new(Rights::CONNECTION_BASE, 0);
    /// Those of standard input.
    pub(crate) const INPUT: Rights = Rights::new(Rights::FD_READ, Rights::FD_READ);
    /// Those of standard output and error.
    pub(crate) const OUTPUT: Rights = Rights::new(Rights::FD_WRITE, Rights::FD_WRITE);

    /// These, of which none was taken away.
    const fn new(base: u64, inheriting: u64) -> Rights {
        Rights { base, inheriting, left: ALL, left_beneath: ALL }
    }

    /// Those of what is opened beneath this with the wish for these.
    pub(crate) fn beneath(&self, base: u64, inheriting: u64) -> Rights {
        Rights {
            base: base & self.inheriting,
            inheriting: inheriting & self.inheriting,
            left: self.left_beneath,
            left_beneath: self.left_beneath,
        }
    }

    /// Takes all others away. None can be given back.
    pub(crate) fn reduce(&mut self, base: u64, inheriting: u64) -> Result<(), WasiError> {
        if base & !self.base != 0 || inheriting & !self.inheriting != 0 {
            return Err(WasiError::NOTCAPABLE);
        }
        (self.base, self.inheriting) = (base, inheriting);
        self.left &= base;
        self.left_beneath &= inheriting;
        Ok(())
    }

    /// Refuses what needs all of these if one was taken away.
    pub(crate) fn allow(&self, rights: u64) -> Result<(), WasiError> {
        if self.left & rights == rights { Ok(()) } else { Err(WasiError::NOTCAPABLE) }
    }

    /// The same of what needs one of these.
    pub(crate) fn allow_one(&self, rights: u64) -> Result<(), WasiError> {
        if self.left & rights != 0 { Ok(()) } else { Err(WasiError::NOTCAPABLE) }
    }

    /// Refuses to read or write what was not opened for it. The system opens each file for one of both: what was opened for neither is refused here.
    pub(crate) fn opened_for(&self, right: u64) -> Result<(), WasiError> {
        match self.base & (Rights::FD_READ | Rights::FD_WRITE) {
            0 => Err(WasiError::NOTCAPABLE),
            base if base & right == 0 => Err(WasiError::BADF),
            _ => Ok(()),
        }
    }
}
