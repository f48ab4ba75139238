//! The pages of a continuation as a domain takes them: bytes of its own, bytes in sealed memory, where they stay, or pages that are asked for
//! when they are touched.
//!
//! What other processes send comes as sealed memory. Its pages may be hundreds of megabytes: large parts of them are
//! [mapped](super::putting_back) where the domain has them, and the rest is copied once. A checkpoint of which one run goes on need not
//! even be read for that: see [`PageSource`].

use super::record::PageRun;
use crate::pager::PageSource;
use monohull_abi::layout::PAGE;
use monohull_sys::sealed_bytes::SealedBytes;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Addresses and contents of pages. Nothing in them is trusted.
#[derive(Debug)]
pub struct CapturedPages(Pages);

#[derive(Debug)]
enum Pages {
    Own(Vec<PageRun>),
    Sealed { file: OwnedFd, bytes: SealedBytes, runs: Vec<(u64, Range<usize>)>, later: Option<LaterRuns> },
}

/// Runs of pages, by address and bytes, that are not here yet.
#[derive(Debug)]
struct LaterRuns {
    runs: Vec<(u64, u64)>,
    source: Arc<dyn PageSource>,
    may_leave: bool,
}

/// A run of pages.
pub(super) struct Run<'p> {
    pub(super) address: u64,
    pub(super) len: u64,
    pub(super) contents: Contents<'p>,
}

/// Where the contents of a run are.
#[derive(Clone, Copy)]
pub(super) enum Contents<'p> {
    /// Here.
    Bytes(&'p [u8]),
    /// Here, and in a file that can be mapped, at this offset.
    File(&'p [u8], BorrowedFd<'p>, u64),
    /// Elsewhere.
    Later(&'p Arc<dyn PageSource>),
}

impl Run<'_> {
    /// The addresses of its pages; one that was checked ends in user memory.
    pub(super) fn range(&self) -> Range<u64> {
        self.address..self.address + self.len
    }
}

impl CapturedPages {
    /// Pages in these bytes, which are the file's: the address of each run, and where its contents are. What would lie outside has none.
    pub fn in_file(file: OwnedFd, bytes: SealedBytes, runs: Vec<(u64, Range<usize>)>) -> CapturedPages {
        CapturedPages(Pages::Sealed { file, bytes, runs, later: None })
    }

    /// The same and these runs, by address and bytes, whose contents are elsewhere. A capture that `may_leave` them there need not have those that
    /// have not been asked for: they are as in the last one.
    pub fn and_later(self, runs: Vec<(u64, u64)>, source: Arc<dyn PageSource>, may_leave: bool) -> CapturedPages {
        CapturedPages(match self.0 {
            Pages::Sealed { file, bytes, runs: here, .. } => {
                Pages::Sealed { file, bytes, runs: here, later: Some(LaterRuns { runs, source, may_leave }) }
            }
            own @ Pages::Own(_) => own,
        })
    }

    /// The runs of pages, by ascending address if those of each kind are.
    pub(super) fn runs(&self) -> Vec<Run<'_>> {
        match &self.0 {
            Pages::Own(runs) => {
                let of = |run: &'_ PageRun| (run.address, run.bytes.len() as u64);
                let all = runs.iter().map(|run| (of(run), Contents::Bytes(&run.bytes)));
                all.map(|((address, len), contents)| Run { address, len, contents }).collect()
            }
            Pages::Sealed { file, bytes, runs, later } => {
                let run = |(address, range): &(u64, Range<usize>)| {
                    let (bytes, offset) = (bytes.get(range.clone()).unwrap_or_default(), range.start as u64);
                    let contents = match offset.is_multiple_of(PAGE) {
                        true => Contents::File(bytes, file.as_fd(), offset),
                        false => Contents::Bytes(bytes),
                    };
                    Run { address: *address, len: bytes.len() as u64, contents }
                };
                let mut all: Vec<_> = runs.iter().map(run).collect();
                if let Some(LaterRuns { runs, source, .. }) = later {
                    let run = |(address, len): &(u64, u64)| Run {
                        address: *address,
                        len: *len,
                        contents: Contents::Later(source),
                    };
                    all.extend(runs.iter().map(run));
                    all.sort_by_key(|run| run.address);
                }
                all
            }
        }
    }

    /// Whether some of them are elsewhere.
    pub fn are_elsewhere(&self) -> bool {
        self.source().is_some()
    }

    /// Where those are, if some are elsewhere.
    pub(super) fn source(&self) -> Option<&Arc<dyn PageSource>> {
        self.later().map(|later| &later.source)
    }

    /// Whether a capture may leave them there.
    pub(super) fn may_leave(&self) -> bool {
        self.later().is_some_and(|later| later.may_leave)
    }

    fn later(&self) -> Option<&LaterRuns> {
        match &self.0 {
            Pages::Sealed { later, .. } => later.as_ref(),
            Pages::Own(_) => None,
        }
    }
}

impl From<Vec<PageRun>> for CapturedPages {
    fn from(runs: Vec<PageRun>) -> CapturedPages {
        CapturedPages(Pages::Own(runs))
    }
}
