//! A mapping of a captured domain as plain data.

use monohull_abi::layout::page_up;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A part of a file that an instance has mapped. Which file that is, the descriptor table records.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MappedFileRecord {
    /// The address of its first page.
    pub start: u64,
    /// Bytes that are the file's.
    pub len: u64,
    /// Where in the file they begin.
    pub offset: u64,
    /// The file's path when it was opened, without the first `/`. Only for readers.
    pub path: String,
    /// Whether it may be written to.
    pub writable: bool,
    /// The pages that are there: addresses and bytes, upwards and with gaps between them. One without contents among the continuation's
    /// pages is as the file has it, or of a file of a granted directory zero. The others are made when they are touched.
    pub there: Vec<(u64, u64)>,
}

impl MappedFileRecord {
    /// Its pages.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.start.saturating_add(page_up(self.len))
    }

    /// The pages that are there.
    pub(crate) fn there(&self) -> impl Iterator<Item = Range<u64>> {
        self.there.iter().map(|(start, bytes)| *start..start.saturating_add(*bytes))
    }
}
