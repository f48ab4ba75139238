//! The memory of a template as instances take it: the record of the one that made it, and its pages where they lie.
//!
//! The pages of a program with an interpreter are some megabytes. They are in sealed memory, from which each instance copies them to where it
//! has them, and nowhere else.

use super::record::{Continuation, InstanceRecord, PageRun};
use monohull_sys::sealed_bytes::SealedBytes;
use std::ops::Range;

/// A template for instances of later domains. Nothing in it is trusted.
#[derive(Debug)]
pub struct TemplateMemory {
    pub(super) instances: Vec<InstanceRecord>,
    pages: Pages,
}

#[derive(Debug)]
enum Pages {
    Own(Vec<PageRun>),
    Mapped { bytes: SealedBytes, runs: Vec<(u64, Range<usize>)> },
}

impl TemplateMemory {
    /// One whose pages lie in these bytes: their addresses, and where the contents of each run are.
    pub fn in_place(
        instances: Vec<InstanceRecord>,
        bytes: SealedBytes,
        runs: Vec<(u64, Range<usize>)>,
    ) -> TemplateMemory {
        TemplateMemory { instances, pages: Pages::Mapped { bytes, runs } }
    }

    /// The runs of pages: addresses and contents. What would lie outside has none.
    pub(super) fn pages(&self) -> Vec<(u64, &[u8])> {
        match &self.pages {
            Pages::Own(runs) => runs.iter().map(|run| (run.address, &*run.bytes)).collect(),
            Pages::Mapped { bytes, runs } => {
                let contents = |range: &Range<usize>| bytes.get(range.clone()).unwrap_or_default();
                runs.iter().map(|(address, range)| (*address, contents(range))).collect()
            }
        }
    }
}

impl From<Continuation> for TemplateMemory {
    fn from(made: Continuation) -> TemplateMemory {
        TemplateMemory { instances: made.instances, pages: Pages::Own(made.pages) }
    }
}
