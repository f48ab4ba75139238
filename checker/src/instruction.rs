//! What is looked for: byte sequences that the processor would run as one of a few instructions.
//!
//! Nothing is decoded. A sequence is recognised by the bytes that decide what it is (escape, opcode, ModRM), whatever
//! comes before it, because a jump can land right there. Only WRFSBASE and WRGSBASE need a prefix to be what they are,
//! so for these the prefixes in front are read backwards.
//!
//! The two-byte opcodes have a second spelling on processors with APX: a REX2 prefix (`d5`, then a byte with the top
//! bit set) stands for the `0f`. Both are looked for.

use crate::filter::{Candidates, Everything, Refused};
pub use crate::kind::{Kind, Severity};

/// A sequence in a piece of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Index of its first byte.
    pub start: usize,
    /// Number of its bytes.
    pub length: usize,
    /// What it is.
    pub kind: Kind,
}

/// The most bytes before an opcode, or from it on, that decide what it is: no instruction has more.
pub(crate) const LONGEST: usize = 15;

/// Every sequence in `memory`, in the order of the opcodes.
pub fn scan(memory: &[u8]) -> impl Iterator<Item = Found> {
    Candidates::<Everything>::new(memory).filter_map(|index| opcode_at(memory, index))
}

/// Those sequences for which a file is refused. They are rare, and found several times as fast.
pub fn scan_refused(memory: &[u8]) -> Vec<Found> {
    refused(memory).collect()
}

/// The first of them.
pub(crate) fn first_refused(memory: &[u8]) -> Option<Found> {
    refused(memory).next()
}

fn refused(memory: &[u8]) -> impl Iterator<Item = Found> {
    let found = Candidates::<Refused>::new(memory).filter_map(|index| opcode_at(memory, index));
    found.filter(|found| found.kind.severity() == Severity::Refuse)
}

/// The sequence whose escape or opcode byte is at `index`. One offset never has two kinds: the opcode decides.
fn opcode_at(memory: &[u8], index: usize) -> Option<Found> {
    let found = |length, kind| Some(Found { start: index, length, kind });
    match memory[index..] {
        [0x0f, ref rest @ ..] => two_byte_opcode(memory, index, 1, rest),
        [0xd5, payload, ref rest @ ..] if payload & 0x80 != 0 => two_byte_opcode(memory, index, 2, rest),
        [0xcd, _, ..] => found(2, Kind::Int),
        [0xff, modrm, ..] if is_memory(modrm) && matches!(extension(modrm), 3 | 5) => found(2, Kind::FarTransfer),
        [0xca | 0xcb | 0xcf, ..] => found(1, Kind::FarTransfer),
        [0x8e, modrm, ..] if matches!(extension(modrm), 0 | 2..=5) => found(2, Kind::SegmentLoad),
        _ => None,
    }
}

/// The sequence whose opcode begins `rest`, after an escape of `escape` bytes at `index`.
fn two_byte_opcode(memory: &[u8], index: usize, escape: usize, rest: &[u8]) -> Option<Found> {
    let found = |length, kind| Some(Found { start: index, length: escape + length, kind });
    match *rest {
        [0x01, 0xef, ..] => found(2, Kind::Wrpkru),
        [0x05, ..] => found(1, Kind::Syscall),
        [0x34, ..] => found(1, Kind::Sysenter),
        [0xae, modrm, ..] if is_memory(modrm) && extension(modrm) == 5 => found(2, Kind::Xrstor),
        [0xae, modrm, ..] if !is_memory(modrm) && matches!(extension(modrm), 2 | 3) => {
            let start = repeat_prefix(memory, index)?;
            let kind = if extension(modrm) == 2 { Kind::Wrfsbase } else { Kind::Wrgsbase };
            Some(Found { start, length: index - start + escape + 2, kind })
        }
        [0xc7, modrm, ..] if is_memory(modrm) && extension(modrm) == 3 => found(2, Kind::Xrstors),
        [0xa1 | 0xa9, ..] => found(1, Kind::SegmentLoad),
        [0xb2 | 0xb4 | 0xb5, modrm, ..] if is_memory(modrm) => found(2, Kind::SegmentLoad),
        _ => None,
    }
}

/// Whether a ModRM byte names memory, not a register.
const fn is_memory(modrm: u8) -> bool {
    modrm >> 6 != 3
}

/// The middle field of a ModRM byte, which belongs to the opcode.
const fn extension(modrm: u8) -> u8 {
    (modrm >> 3) & 7
}

/// The nearest `f3` among the prefixes that end at `index`. No instruction has more than 15 bytes, so at most 12
/// prefixes can stand before an escape, an opcode and a ModRM byte.
fn repeat_prefix(memory: &[u8], index: usize) -> Option<usize> {
    let nearest = index.saturating_sub(12);
    (nearest..index).rev().take_while(|&at| is_prefix(memory[at])).find(|&at| memory[at] == 0xf3)
}

/// Legacy prefixes and REX.
pub(crate) const fn is_prefix(byte: u8) -> bool {
    matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3)
}
