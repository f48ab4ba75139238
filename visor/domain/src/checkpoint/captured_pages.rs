//! The pages of a continuation as a domain takes them: bytes of its own, or bytes in sealed memory, where they stay.
//!
//! What other processes send comes as sealed memory. Its pages may be hundreds of megabytes; they are copied once, from there to where the
//! domain has them. Those of a template are mapped where that is less work.

use super::pages;
use super::record::PageRun;
use crate::address_space::{AddressSpace, PageUse};
use monohull_abi::layout::PAGE;
use monohull_sys::sealed_bytes::SealedBytes;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Runs of so many bytes or more get their pages by one system call, and not by a fault for each.
const POPULATED: u64 = 8 * PAGE;

/// Addresses and contents of pages. Nothing in them is trusted.
#[derive(Debug)]
pub struct CapturedPages(Pages);

#[derive(Debug)]
enum Pages {
    Own(Vec<PageRun>),
    Sealed { bytes: SealedBytes, runs: Vec<(u64, Range<usize>)>, file: Option<OwnedFd> },
}

/// A run of pages.
pub(super) struct Run<'p> {
    pub(super) address: u64,
    pub(super) bytes: &'p [u8],
    /// A file that has the contents and can be mapped, and where in it they are.
    pub(super) file: Option<(BorrowedFd<'p>, u64)>,
}

impl CapturedPages {
    /// Pages in these bytes: the address of each run, and where its contents are. What would lie outside has none.
    pub fn in_place(bytes: SealedBytes, runs: Vec<(u64, Range<usize>)>) -> CapturedPages {
        CapturedPages(Pages::Sealed { bytes, runs, file: None })
    }

    /// The same; the bytes are those of this file.
    pub fn in_file(file: OwnedFd, bytes: SealedBytes, runs: Vec<(u64, Range<usize>)>) -> CapturedPages {
        CapturedPages(Pages::Sealed { bytes, runs, file: Some(file) })
    }

    /// The runs of pages.
    pub(super) fn runs(&self) -> Vec<Run<'_>> {
        match &self.0 {
            Pages::Own(runs) => {
                runs.iter().map(|run| Run { address: run.address, bytes: &run.bytes, file: None }).collect()
            }
            Pages::Sealed { bytes, runs, file } => {
                let run = |(address, range): &(u64, Range<usize>)| Run {
                    address: *address,
                    bytes: bytes.get(range.clone()).unwrap_or_default(),
                    file: file.as_ref().map(|file| (file.as_fd(), range.start as u64)),
                };
                runs.iter().map(run).collect()
            }
        }
    }
}

impl From<Vec<PageRun>> for CapturedPages {
    fn from(runs: Vec<PageRun>) -> CapturedPages {
        CapturedPages(Pages::Own(runs))
    }
}

/// Writes pages back to where they were.
///
/// # Safety
/// They lie in writable memory of functions, and no function that has access to it runs.
pub(super) unsafe fn put_back(space: &AddressSpace, address: u64, bytes: &[u8]) {
    if bytes.len() as u64 >= POPULATED {
        // Older kernels refuse: the pages come one by one then.
        let _ = space.populate(address..address + bytes.len() as u64, PageUse::Write);
    }
    // SAFETY: the caller's promise.
    unsafe { pages::put_back(address, bytes) };
}
