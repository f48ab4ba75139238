//! The report on a file.

use crate::context::{Context, hex};
use crate::instruction::{Kind, Severity};
use serde::Serialize;

/// How many findings of one kind a report lists; further ones are only counted.
pub const LISTED_PER_KIND: u64 = 64;

/// One forbidden or noteworthy sequence of bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// Where its first byte is in the file.
    pub offset: u64,
    /// Where its first byte is in memory, relative to the load base.
    pub address: u64,
    /// The bytes, from the first prefix that matters to the last byte that decides.
    #[serde(serialize_with = "hex")]
    pub bytes: Vec<u8>,
    /// The symbol it lies in, with the offset from the symbol's start, where the file has symbols.
    pub symbol: Option<String>,
    /// What the processor would take it for.
    pub kind: Kind,
    /// Whether the file is refused for it.
    pub severity: Severity,
    /// Why it matters.
    pub why: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
    /// What it is in the program, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at file offset {:#x} (address {:#x}", self.kind, self.offset, self.address)?;
        if let Some(symbol) = &self.symbol {
            write!(f, ", in {symbol}")?;
        }
        f.write_str("), bytes")?;
        self.bytes.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
    }
}

/// How often a kind was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Count {
    /// The kind.
    pub kind: Kind,
    /// Occurrences, listed or not.
    pub count: u64,
}

/// What was judged: it decides what a verdict is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// An executable or a shared object: the pages of its executable segments. Addresses count from the load base.
    #[default]
    Linked,
    /// An object that a linker still works on: its executable sections. They have no addresses yet, so addresses are
    /// file offsets, and bytes that relocations fill in are not known.
    Relocatable,
    /// WASM compiled ahead of time by Wasmtime: the pages of its executable sections. Addresses are file offsets.
    Wasm,
}

/// The report on one file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Report {
    /// The findings in the order of their addresses, at most [`LISTED_PER_KIND`] of each kind.
    pub findings: Vec<Finding>,
    /// How often each kind occurs, the refused kinds first; kinds that do not are absent.
    pub counts: Vec<Count>,
    /// Bytes of executable pages looked at.
    pub scanned_bytes: u64,
    /// What was judged.
    pub form: Form,
    /// Relocations that will still change executable bytes; the verdict is only about what stands there now.
    pub filled_in_later: u64,
    /// Monohull's own gates, which are no findings; 0 for everything but the visor.
    pub own_gates: u64,
}

impl Report {
    /// The listed findings for which the file must not be loaded.
    pub fn refusals(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Refuse)
    }

    /// The first finding for which the file must not be loaded.
    pub fn refusal(&self) -> Option<&Finding> {
        self.refusals().next()
    }

    /// Whether the file must not be loaded.
    pub fn is_refused(&self) -> bool {
        self.refusal().is_some()
    }

    /// How often `kind` occurs, listed or not.
    pub fn count(&self, kind: Kind) -> u64 {
        self.counts.iter().find(|count| count.kind == kind).map_or(0, |count| count.count)
    }

    /// Counts one more of `kind` and returns whether it should be listed.
    pub(crate) fn add(&mut self, kind: Kind) -> bool {
        let position = self.counts.iter().position(|count| count.kind == kind).unwrap_or_else(|| {
            self.counts.push(Count { kind, count: 0 });
            self.counts.len() - 1
        });
        let count = &mut self.counts[position].count;
        *count += 1;
        *count <= LISTED_PER_KIND
    }
}
