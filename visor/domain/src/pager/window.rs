//! A file whose pages are trusted memory.

use std::os::fd::BorrowedFd;

/// The file behind an address of trusted memory: what is stored at the address is in the file, and nothing else is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<'f> {
    /// The file.
    pub(crate) file: BorrowedFd<'f>,
    /// Where in it the byte at the address is.
    pub(crate) offset: u64,
    /// How many bytes from there on lie at the addresses that follow.
    pub(crate) len: u64,
}
