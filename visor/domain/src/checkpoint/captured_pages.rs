//! The pages of a continuation as a domain takes them: bytes of its own, or bytes in sealed memory, where they stay.
//!
//! What other processes send comes as sealed memory. Its pages may be hundreds of megabytes: large parts of them are
//! [mapped](super::putting_back) where the domain has them, and the rest is copied once.

use super::record::PageRun;
use monohull_abi::layout::PAGE;
use monohull_sys::sealed_bytes::SealedBytes;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Addresses and contents of pages. Nothing in them is trusted.
#[derive(Debug)]
pub struct CapturedPages(Pages);

#[derive(Debug)]
enum Pages {
    Own(Vec<PageRun>),
    Sealed { file: OwnedFd, bytes: SealedBytes, runs: Vec<(u64, Range<usize>)> },
}

/// A run of pages.
pub(super) struct Run<'p> {
    pub(super) address: u64,
    pub(super) bytes: &'p [u8],
    /// A file that has the contents and can be mapped, and where in it they are.
    pub(super) file: Option<(BorrowedFd<'p>, u64)>,
}

impl Run<'_> {
    /// The addresses of its pages; one that was checked ends in user memory.
    pub(super) fn range(&self) -> Range<u64> {
        self.address..self.address + self.bytes.len() as u64
    }

    /// Whether its pages can be mapped.
    pub(super) fn is_mappable(&self) -> bool {
        self.file.is_some_and(|(_, offset)| offset.is_multiple_of(PAGE))
    }
}

impl CapturedPages {
    /// Pages in these bytes, which are the file's: the address of each run, and where its contents are. What would lie outside has none.
    pub fn in_file(file: OwnedFd, bytes: SealedBytes, runs: Vec<(u64, Range<usize>)>) -> CapturedPages {
        CapturedPages(Pages::Sealed { file, bytes, runs })
    }

    /// The runs of pages.
    pub(super) fn runs(&self) -> Vec<Run<'_>> {
        match &self.0 {
            Pages::Own(runs) => {
                runs.iter().map(|run| Run { address: run.address, bytes: &run.bytes, file: None }).collect()
            }
            Pages::Sealed { file, bytes, runs } => {
                let run = |(address, range): &(u64, Range<usize>)| Run {
                    address: *address,
                    bytes: bytes.get(range.clone()).unwrap_or_default(),
                    file: Some((file.as_fd(), range.start as u64)),
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
