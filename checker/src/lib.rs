//! The instruction checker: finds what user code must not contain.
//!
//! User code runs with rights that a single instruction can change (`wrpkru`), and it can jump to any byte of its
//! code, also into the middle of an instruction. So the verdict does not rest on decoding: every *byte offset* of
//! every page that will be executable is looked at. Decoding ([`context`]) only explains a finding to people.
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
//! | WRPKRU, XRSTOR | refuse | they set the key rights; nothing stands behind this check |
//! | WRFSBASE, WRGSBASE | refuse | they move the bases that trusted code may still rely on |
//! | SYSCALL, SYSENTER, INT n | warn | syscall user dispatch turns each into a fault at run time |
//! | XRSTORS | warn | a general-protection fault outside ring 0, whatever its operands |
//! | far transfers, IRET, segment loads | warn | see below |
//!
//! Far transfers and segment loads have encodings of one or two bytes. At every byte offset of ordinary code such
//! bytes are unavoidable (a displacement, an immediate), so refusing them would refuse every program. They can reach
//! no other privilege than the user's own, the segments a 64-bit Linux process may load are flat, and the gates rely
//! on neither `fs` nor `gs`. They are counted, and the first few are listed.
//!
//! The verdict is about bytes. That the bytes stay what they were (no segment both writable and executable, no
//! relocation into code) is the loader's part; an executable segment that is writable is an error here, too.
//! Relocatable objects are judged by their sections ([`Form`]); what a linker still fills in is counted, not guessed.
//!
//! ```
//! // This program was not built for Monohull, but can be scanned like an image.
//! let program = std::fs::read("/proc/self/exe").expect("the file of this program");
//! let report = monohull_checker::check(&program)?;
//! assert!(report.scanned_bytes > 0);
//! for finding in &report.findings {
//!     println!("{finding:?}");
//! }
//! # Ok::<(), monohull_checker::CheckError>(())
//! ```
#![deny(unsafe_code)]

pub mod context;
mod elf;
mod executable;
mod filter;
mod gates;
pub mod instruction;
mod kind;
mod object;
mod report;
pub mod symbols;

pub use context::{Class, Context};
pub use executable::CheckError;
pub use instruction::{Kind, Severity};
pub use report::{Count, Finding, Form, LISTED_PER_KIND, Report};

use context::Code;
use executable::Run;
use std::{borrow::Cow, ops::Range};
use symbols::SymbolTable;

/// What a file is judged by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// System calls of user code end in a fault (syscall user dispatch), so their bytes are only warned of.
    pub dispatch_armed: bool,
    /// The file is the visor itself: Monohull's own gates are recognised, and counted apart. Never for user code.
    pub own_gates: bool,
    /// Every listed finding is decoded, with its neighbours, which takes longer.
    pub explain: bool,
}

impl Rules {
    /// The rules for function images: dispatch is always armed while they run.
    pub const IMAGE: Rules = Rules { dispatch_armed: true, own_gates: false, explain: false };

    fn severity(self, kind: Kind) -> Severity {
        match kind.severity() {
            Severity::Warn if kind.is_system_call() && !self.dispatch_armed => Severity::Refuse,
            severity => severity,
        }
    }
}

/// Checks every byte offset of every executable page of an ELF file, by the rules for function images.
///
/// An error means that the file could not be judged; it must not be loaded either.
pub fn check(bytes: &[u8]) -> Result<Report, CheckError> {
    check_by(Rules::IMAGE, bytes)
}

/// The first finding for which a function image is refused, if there is any: the verdict of [`check`], in a fraction of its time for a file
/// that is not refused.
pub fn refusal(bytes: &[u8]) -> Result<Option<Finding>, CheckError> {
    let code = elf::executable(bytes)?;
    let Some((run, found)) = code.runs.iter().find_map(|run| Some((run, instruction::first_refused(&run.memory)?)))
    else {
        return Ok(None);
    };
    Ok(Some(finding(Rules::IMAGE, run, found, &SymbolTable::read(bytes))))
}

/// Parts of a file, in its order, that can be looked at apart from each other, by several threads for one: [`is_refused`] says of each whether
/// there is anything in it for which an image is refused, and [`refusal`] finds something in the file exactly if there is something in
/// one of the parts. Each has at most `most` bytes, and those around it that belong to sequences which begin or end there.
///
/// `None` if executable pages follow each other in memory that do not in the file, as no linker makes them: such a file is for [`refusal`].
pub fn parts(bytes: &[u8], most: usize) -> Result<Option<Vec<Range<usize>>>, CheckError> {
    let code = elf::executable(bytes)?;
    let mut parts = Vec::new();
    for run in &code.runs {
        let ([piece], Cow::Borrowed(memory)) = (&run.pieces[..], &run.memory) else { return Ok(None) };
        let (start, end) = (piece.offset as usize, piece.offset as usize + memory.len());
        let around = |at: usize| {
            let after = at.saturating_add(most.max(1)).min(end);
            at.saturating_sub(instruction::LONGEST).max(start)..after.saturating_add(instruction::LONGEST).min(end)
        };
        parts.extend((start..end).step_by(most.max(1)).map(around));
    }
    Ok(Some(parts))
}

/// Whether an image is refused that has these bytes in its code.
pub fn is_refused(code: &[u8]) -> bool {
    instruction::first_refused(code).is_some()
}

/// The same as [`check`] by other rules.
pub fn check_by(rules: Rules, bytes: &[u8]) -> Result<Report, CheckError> {
    let code = elf::executable(bytes)?;
    let symbols = SymbolTable::read(bytes);
    let mut report = Report { form: code.form, filled_in_later: code.filled_in_later, ..Report::default() };
    for run in &code.runs {
        report.scanned_bytes += run.memory.len() as u64;
        for found in instruction::scan(&run.memory) {
            let own = rules.own_gates && found.kind == Kind::Wrpkru;
            if own && gates::is_own(&run.memory, run.address, found.start, &symbols) {
                report.own_gates += 1;
            } else if report.add(found.kind) {
                report.findings.push(finding(rules, run, found, &symbols));
            }
        }
    }
    report.counts.sort_by_key(|count| count.kind);
    Ok(report)
}

fn finding(rules: Rules, run: &Run, found: instruction::Found, symbols: &SymbolTable) -> Finding {
    let address = run.address + found.start as u64;
    let symbol = symbols.find(address);
    let context = rules.explain.then(|| {
        let start = symbol.and_then(|symbol| usize::try_from((address - symbol.offset).checked_sub(run.address)?).ok());
        Code { memory: &run.memory, address: run.address }.context(found.start, start)
    });
    let class = context.as_ref().map_or(Class::Unclear, |context| context.class);
    Finding {
        offset: run.file_offset(address),
        address,
        bytes: run.memory[found.start..found.start + found.length].to_vec(),
        symbol: symbol.map(|symbol| symbol.to_string()),
        kind: found.kind,
        severity: rules.severity(found.kind),
        why: found.kind.why(),
        remedy: found.kind.remedy_for(class),
        context,
    }
}
