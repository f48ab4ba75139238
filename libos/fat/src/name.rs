//! Names in directories: short ones of eight and three letters, and long ones in pieces before them.

use alloc::string::String;
use alloc::vec::Vec;

/// Characters of a long name in one slot.
const PIECE: usize = 13;
/// Most slots of a long name.
const PIECES_MAX: usize = 20;

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
        let places = (1..11).step_by(2).chain((14..26).step_by(2)).chain((28..32).step_by(2));
        for (unit, at) in self.units[start..].iter_mut().zip(places) {
            *unit = u16::from_le_bytes([slot[at], slot[at + 1]]);
        }
        self.next -= 1;
    }

    /// The name that belongs to the slot with the short one, if the pieces are whole and its own.
    pub(crate) fn take(&mut self, slot: &[u8; 32]) -> Option<String> {
        let LongName { units, next, sum } = core::mem::take(self);
        let end = units.iter().position(|unit| *unit == 0 || *unit == 0xffff).unwrap_or(units.len());
        let whole = !units.is_empty() && end > 0 && next == 0 && sum == checksum(slot);
        whole.then(|| String::from_utf16_lossy(&units[..end]))
    }
}

/// What binds the pieces of a long name to the short one.
fn checksum(slot: &[u8; 32]) -> u8 {
    slot[..11].iter().fold(0u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte))
}

/// The short name in a slot; bytes that are not ASCII are replaced.
pub(crate) fn short(slot: &[u8; 32]) -> String {
    let part = |bytes: &[u8], lower: bool| {
        let end = bytes.iter().rposition(|byte| *byte != b' ').map_or(0, |at| at + 1);
        let letter = |byte: &u8| match *byte {
            byte if lower => char::from(byte.to_ascii_lowercase()),
            byte => char::from(byte),
        };
        bytes[..end]
            .iter()
            .map(letter)
            .map(|c| if c.is_ascii() { c } else { char::REPLACEMENT_CHARACTER })
            .collect::<String>()
    };
    let mut base = [0; 8];
    base.copy_from_slice(&slot[..8]);
    if base[0] == 0x05 {
        base[0] = 0xe5;
    }
    // Windows marks names that are all small letters instead of writing a long name.
    let (mut name, extension) = (part(&base, slot[12] & 0x08 != 0), part(&slot[8..11], slot[12] & 0x10 != 0));
    if !extension.is_empty() {
        name.push('.');
        name.push_str(&extension);
    }
    name
}

/// A name as FAT compares it.
pub(crate) fn folded(name: &str) -> String {
    name.chars().flat_map(char::to_uppercase).collect()
}

/// Whether two names are equal to FAT, which ignores case.
pub(crate) fn same(a: &str, b: &str) -> bool {
    a.chars().flat_map(char::to_uppercase).eq(b.chars().flat_map(char::to_uppercase))
}
