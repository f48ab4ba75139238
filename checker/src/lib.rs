//! The instruction checker: finds what user code must not contain.
//!
//! User code runs with rights that a single instruction can change (`wrpkru`), and it can jump to any byte of its
//! code, also into the middle of an instruction. So the checker does not decode: it looks at *every byte offset* of
//! every page that will be executable.
//!
//! ```text
//!   file    | headers | .text ............ | .data |
//!                     ↓ p_offset           ↓ p_offset + p_filesz
//!   memory  |    page    |    page    |    page    |   ← whole pages are mapped, so what lies in the file just
//!           ^^^^^^^                    ^^^^^^^^^^^^       before and after the segment is executable as well
//! ```
//!
//! What is scanned is therefore the pages, and segments that touch in memory are scanned as one piece, because a
//! forbidden sequence may begin in one and end in the other.
//!
//! A finding is refused or only reported, depending on whether anything else stands behind it:
//!
//! | what | severity | why |
//! | --- | --- | --- |
//! | WRPKRU, XRSTOR, XRSTORS | refuse | they set the key rights; nothing stands behind this check |
//! | WRFSBASE, WRGSBASE | refuse | they move the bases that trusted code may still rely on |
//! | SYSCALL, SYSENTER, INT n | warn | syscall user dispatch turns each into a fault at run time |
//! | far transfers, IRET, segment loads | warn | see below |
//!
//! Far transfers and segment loads have encodings of one or two bytes. At every byte offset of ordinary code such
//! bytes are unavoidable (a displacement, an immediate), so refusing them would refuse every program. They can reach
//! no other privilege than the user's own, the segments a 64-bit Linux process may load are flat, and the gates rely
//! on neither `fs` nor `gs`. They are counted, and the first few are listed.
//!
//! The verdict is about bytes. That the bytes stay what they were (no segment both writable and executable, no
//! relocation into code) is the loader's part; an executable segment that is writable is an error here, too.
#![deny(unsafe_code)]

mod elf;
pub mod instruction;
pub mod symbols;

pub use elf::CheckError;
pub use instruction::{Kind, Severity};

use serde::Serialize;
use symbols::SymbolTable;

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

/// What the checker has to say about one file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Report {
    /// The findings in the order of their addresses, at most [`LISTED_PER_KIND`] of each kind.
    pub findings: Vec<Finding>,
    /// How often each kind occurs; kinds that do not are absent.
    pub counts: Vec<Count>,
    /// Bytes of executable pages looked at.
    pub scanned_bytes: u64,
}

impl Report {
    /// The first finding for which the file must not be loaded.
    pub fn refusal(&self) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.severity == Severity::Refuse)
    }

    /// Whether the file must not be loaded.
    pub fn is_refused(&self) -> bool {
        self.refusal().is_some()
    }

    /// How often `kind` occurs, listed or not.
    pub fn count(&self, kind: Kind) -> u64 {
        self.counts.iter().find(|count| count.kind == kind).map_or(0, |count| count.count)
    }

    /// Counts one more of `kind` and says whether it should be listed.
    fn add(&mut self, kind: Kind) -> bool {
        let position = self.counts.iter().position(|count| count.kind == kind).unwrap_or_else(|| {
            self.counts.push(Count { kind, count: 0 });
            self.counts.len() - 1
        });
        let count = &mut self.counts[position].count;
        *count += 1;
        *count <= LISTED_PER_KIND
    }
}

/// Looks at every byte offset of every executable page of an ELF file.
///
/// An error means that the file could not be judged; it must not be loaded either.
pub fn check(bytes: &[u8]) -> Result<Report, CheckError> {
    let runs = elf::executable_runs(bytes)?;
    let symbols = SymbolTable::read(bytes);
    let mut report = Report::default();
    for run in &runs {
        report.scanned_bytes += run.memory.len() as u64;
        for found in instruction::scan(&run.memory) {
            if !report.add(found.kind) {
                continue;
            }
            let address = run.address + found.start as u64;
            report.findings.push(Finding {
                offset: run.file_offset(address),
                address,
                bytes: run.memory[found.start..found.start + found.length].to_vec(),
                symbol: symbols.find(address).map(|symbol| symbol.to_string()),
                kind: found.kind,
                severity: found.kind.severity(),
                why: found.kind.why(),
                remedy: found.kind.remedy(),
            });
        }
    }
    Ok(report)
}
