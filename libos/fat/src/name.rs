//! Names in directories: short ones of eight and three letters, and long ones in pieces before them.

use crate::directory::LONG;
use alloc::string::String;
use alloc::vec::Vec;

/// Characters of a long name in one slot.
pub(crate) const PIECE: usize = 13;
/// Most slots of a long name.
const PIECES_MAX: usize = 20;

/// Most units of a long name.
const UNITS_MAX: usize = 255;
/// Offsets of a piece's characters in its slot.
const PLACES: [usize; PIECE] = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30];

/// The pieces of a long name, gathered until the short one comes.
#[derive(Default)]
pub(crate) struct LongName {
    units: Vec<u16>,
    /// The piece that comes next, counted down; 0 if none is expected.
    next: u8,
    sum: u8,
}

impl LongName {
    /// Of the piece that comes first, which is the last of the name.
    pub(crate) const FIRST: u8 = 0x40;

    /// Takes a slot with a piece.
    pub(crate) fn piece(&mut self, slot: &[u8; 32]) {
        let order = slot[0] & 0x3f;
        let first = slot[0] & LongName::FIRST != 0;
        if first && (1..=PIECES_MAX as u8).contains(&order) {
            self.units.clear();
            self.units.resize(usize::from(order) * PIECE, 0xffff);
            (self.next, self.sum) = (order, slot[13]);
        }
        if order == 0 || order != self.next || slot[13] != self.sum {
            *self = LongName::default();
            return;
        }
        let start = (usize::from(order) - 1) * PIECE;
        for (unit, at) in self.units[start..].iter_mut().zip(PLACES) {
            *unit = u16::from_le_bytes([slot[at], slot[at + 1]]);
        }
        self.next -= 1;
    }

    /// Whether the pieces are whole, and those of the slot with the short name.
    pub(crate) fn is_in_order(&self, slot: &[u8; 32]) -> bool {
        !self.units().is_empty() && self.next == 0 && self.sum == checksum(slot)
    }

    /// The name, if it is in order.
    pub(crate) fn chars(&self) -> impl Iterator<Item = char> {
        let chars = char::decode_utf16(self.units().iter().copied());
        chars.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn units(&self) -> &[u16] {
        let end = self.units.iter().position(|unit| *unit == 0 || *unit == 0xffff).unwrap_or(self.units.len());
        &self.units[..end]
    }

    /// The name that belongs to the slot with the short one, if the pieces are whole and its own.
    pub(crate) fn take(&mut self, slot: &[u8; 32]) -> Option<String> {
        let long = core::mem::take(self);
        long.is_in_order(slot).then(|| long.chars().collect())
    }
}

/// The slots of a long name before the one with the short name: its last piece comes first.
pub(crate) fn pieces(units: &[u16], short: &[u8; 32]) -> impl Iterator<Item = [u8; 32]> {
    let sum = checksum(short);
    let last = units.len().div_ceil(PIECE);
    units.chunks(PIECE).enumerate().rev().map(move |(index, piece)| {
        let mut slot = [0; 32];
        let first = if index + 1 == last { LongName::FIRST } else { 0 };
        (slot[0], slot[11], slot[13]) = ((index as u8 + 1) | first, LONG, sum);
        let padded = piece.iter().copied().chain([0]).chain(core::iter::repeat(0xffff));
        for (at, unit) in PLACES.into_iter().zip(padded) {
            slot[at..at + 2].copy_from_slice(&u16::to_le_bytes(unit));
        }
        slot
    })
}

/// Whether FAT can hold a name. Other systems take full stops and spaces from its end, and would find another one.
pub(crate) fn is_possible(name: &str) -> bool {
    let possible = |c: char| !c.is_ascii_control() && !"\"*/:<>?\\|".contains(c);
    !name.is_empty()
        && !name.ends_with(['.', ' '])
        && name.chars().all(possible)
        && name.encode_utf16().count() <= UNITS_MAX
}

/// What binds the pieces of a long name to the short one.
fn checksum(slot: &[u8; 32]) -> u8 {
    slot[..11].iter().fold(0u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte))
}

/// The short name in a slot; bytes that are not ASCII are replaced.
pub(crate) fn short(slot: &[u8; 32]) -> String {
    short_chars(slot).collect()
}

fn short_chars(slot: &[u8; 32]) -> impl Iterator<Item = char> {
    let part = |bytes: core::ops::Range<usize>, lower: bool| {
        let len = slot[bytes.clone()].iter().rposition(|byte| *byte != b' ').map_or(0, |at| at + 1);
        slot[bytes].iter().take(len).map(move |byte| match *byte {
            byte if !byte.is_ascii() => char::REPLACEMENT_CHARACTER,
            byte if lower => char::from(byte.to_ascii_lowercase()),
            byte => char::from(byte),
        })
    };
    // A first letter 0xe5, which is not ASCII, is written as 5.
    let first = (slot[0] == 0x05).then_some(char::REPLACEMENT_CHARACTER);
    // Windows marks names that are all small letters instead of writing a long name.
    let base = first.into_iter().chain(part(0..8, slot[12] & 0x08 != 0).skip(usize::from(first.is_some())));
    let dot = (slot[8..11] != *b"   ").then_some('.');
    base.chain(dot).chain(part(8..11, slot[12] & 0x10 != 0))
}

/// A character as FAT compares it: one becomes one, so that `ß` is not `SS`.
fn fold(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_uppercase();
    }
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) => upper,
        _ => c,
    }
}

/// A name as FAT compares it.
pub(crate) fn folded(name: &str) -> String {
    name.chars().map(fold).collect()
}

/// Whether two names are equal to FAT, which ignores case.
pub(crate) fn same(a: impl Iterator<Item = char>, b: impl Iterator<Item = char>) -> bool {
    a.map(fold).eq(b.map(fold))
}

/// Whether the short name in a slot is this one.
pub(crate) fn same_short(slot: &[u8; 32], name: &str) -> bool {
    same(short_chars(slot), name.chars())
}
