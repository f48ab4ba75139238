//! The memory of a template as instances take it: the record of the one that made it, and its pages where they lie.
//!
//! The pages of a program with an interpreter are some megabytes. They are in sealed memory, which instances map privately: a page that is only
//! read is shared with all others, and one that is written to becomes a copy.

use super::record::{Continuation, InstanceRecord, PageRun};
use monohull_sys::sealed_bytes::SealedBytes;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A template for instances of later domains. Nothing in it is trusted.
#[derive(Debug)]
pub struct TemplateMemory {
    pub(super) instances: Vec<InstanceRecord>,
    pages: Pages,
}

#[derive(Debug)]
enum Pages {
    Own(Vec<PageRun>),
    Sealed(TemplatePages),
}

/// Pages in sealed memory.
#[derive(Debug)]
pub struct TemplatePages {
    /// The memory.
    pub file: OwnedFd,
    /// The same, mapped.
    pub bytes: SealedBytes,
    /// The runs of pages: their addresses, and where their contents are. What would lie outside has none.
    pub runs: Vec<(u64, Range<usize>)>,
}

/// A run of pages.
pub(super) struct Run<'t> {
    pub(super) address: u64,
    pub(super) bytes: &'t [u8],
    /// A file that has the contents, and where in it they are.
    pub(super) file: Option<(BorrowedFd<'t>, u64)>,
}

impl TemplateMemory {
    /// One whose pages are these.
    pub fn in_place(instances: Vec<InstanceRecord>, pages: TemplatePages) -> TemplateMemory {
        TemplateMemory { instances, pages: Pages::Sealed(pages) }
    }

    /// The runs of pages.
    pub(super) fn runs(&self) -> Vec<Run<'_>> {
        match &self.pages {
            Pages::Own(runs) => {
                runs.iter().map(|run| Run { address: run.address, bytes: &run.bytes, file: None }).collect()
            }
            Pages::Sealed(TemplatePages { file, bytes, runs }) => {
                let contents = |range: &Range<usize>| bytes.get(range.clone()).unwrap_or_default();
                let file = |range: &Range<usize>| Some((file.as_fd(), range.start as u64));
                let run = |(address, range): &(u64, Range<usize>)| Run {
                    address: *address,
                    bytes: contents(range),
                    file: file(range),
                };
                runs.iter().map(run).collect()
            }
        }
    }
}

impl From<Continuation> for TemplateMemory {
    fn from(made: Continuation) -> TemplateMemory {
        TemplateMemory { instances: made.instances, pages: Pages::Own(made.pages) }
    }
}
