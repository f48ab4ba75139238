//! A worker's end of a granted directory's broker.

use super::wire::{Files, Known, Name, Reply, Request};
use monohull_abi::Errno;
use monohull_ipc::Requester;
use std::os::fd::OwnedFd;

/// Where files of a granted directory come from. Asking takes two messages between processes.
#[derive(Debug)]
pub struct Client(Requester<Files>);

impl Client {
    /// Asks the broker at the other end of this socket.
    pub fn new(socket: OwnedFd) -> Client {
        Client(Requester::new(socket))
    }

    /// Opens a file; of a directory only what is known.
    pub fn open(&self, path: &str, flags: u64) -> Result<(Known, Option<OwnedFd>), Errno> {
        match self.ask(&Request::Open(path, flags))? {
            (Reply::Done(known), None) if !known.directory => Err(Errno::TooManyOpen),
            (Reply::Done(known), file) => Ok((known, file)),
            _ => Err(Errno::Io),
        }
    }

    /// What is known of a path.
    pub fn stat(&self, path: &str) -> Result<Known, Errno> {
        match self.ask(&Request::Stat(path))? {
            (Reply::Done(known), _) => Ok(known),
            _ => Err(Errno::Io),
        }
    }

    /// Some entries of a directory, from this one on; none at the end.
    pub fn list(&self, path: &str, start: u64) -> Result<Vec<Name>, Errno> {
        match self.ask(&Request::List(path, start))? {
            (Reply::Entries(names), _) => Ok(names),
            _ => Err(Errno::Io),
        }
    }

    /// Makes a directory.
    pub fn make_directory(&self, path: &str) -> Result<(), Errno> {
        self.ask(&Request::MakeDirectory(path)).map(drop)
    }

    /// Removes an empty directory.
    pub fn remove_directory(&self, path: &str) -> Result<(), Errno> {
        self.ask(&Request::RemoveDirectory(path)).map(drop)
    }

    /// Removes a file.
    pub fn remove_file(&self, path: &str) -> Result<(), Errno> {
        self.ask(&Request::RemoveFile(path)).map(drop)
    }

    /// Gives a file or directory another name.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        self.ask(&Request::Rename(from, to)).map(drop)
    }

    /// Sets when what is at a path was last read and written, in ns since 1970. With a `node`, only if it is that one of the host's
    /// file system: [`Errno::NotFound`] if another has its path.
    pub fn set_times(
        &self,
        path: &str,
        (read, written): (Option<i64>, Option<i64>),
        node: Option<u64>,
    ) -> Result<(), Errno> {
        self.ask(&Request::SetTimes { path, read, written, node }).map(drop)
    }

    /// Makes sure that the names in a directory stay.
    pub fn sync_directory(&self, path: &str) -> Result<(), Errno> {
        self.ask(&Request::SyncDirectory(path)).map(drop)
    }

    fn ask(&self, request: &Request<'_>) -> Result<(Reply, Option<OwnedFd>), Errno> {
        match self.0.ask(request) {
            Ok((Reply::Refused(number), _)) => Err(Errno::from_value(-i64::from(number)).err().unwrap_or(Errno::Io)),
            answer => answer.map_err(|_| Errno::Io),
        }
    }
}
