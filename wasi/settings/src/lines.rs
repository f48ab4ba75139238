//! Where in its source a program's instructions come from, as it stands in an image: the compiler writes it, and the runtime reads it when the
//! program has trapped.
//!
//! ```text
//!   count of places | count of files | places, by offset | where each file's name ends | names of files
//! ```
//!
//! Numbers are little-endian. A place counts up to the next one. Nothing is decoded before it is asked for, and whatever the bytes are, there is an
//! answer or none.

/// Bytes of a place.
pub const PLACE_SIZE: usize = 12;
/// Bytes of each number in the table but those of a place.
const NUMBER: usize = 4;
/// The number of no file.
const NO_FILE: u16 = u16::MAX;

/// From an instruction on, all that come from one place in a source file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Where the instruction is in the program's file.
    pub offset: u32,
    /// The number of the source file; none if from here on nothing is known.
    pub file: Option<u16>,
    /// 0 if it is not known.
    pub line: u32,
    /// Likewise.
    pub column: u16,
}

impl Place {
    /// As it stands in the table.
    pub fn to_bytes(self) -> [u8; PLACE_SIZE] {
        let mut bytes = [0; PLACE_SIZE];
        bytes[..4].copy_from_slice(&self.offset.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.line.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.file.unwrap_or(NO_FILE).to_le_bytes());
        bytes[10..].copy_from_slice(&self.column.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; PLACE_SIZE]) -> Place {
        let [a, b, c, d, line @ .., e, f, g, h] = *bytes;
        let file = Some(u16::from_le_bytes([e, f])).filter(|file| *file != NO_FILE);
        let column = u16::from_le_bytes([g, h]);
        Place { offset: u32::from_le_bytes([a, b, c, d]), file, line: u32::from_le_bytes(line), column }
    }
}

/// A table in an image.
#[derive(Clone, Copy, Debug)]
pub struct Lines<'t> {
    places: &'t [[u8; PLACE_SIZE]],
    /// Where each file's name ends.
    ends: &'t [[u8; NUMBER]],
    names: &'t [u8],
}

impl<'t> Lines<'t> {
    /// The table of these bytes.
    pub fn new(bytes: &'t [u8]) -> Option<Lines<'t>> {
        let ([places, files], rest) = bytes.split_first_chunk::<{ 2 * NUMBER }>().map(|(counts, rest)| {
            let [a, b, c, d, e, f, g, h] = *counts;
            ([[a, b, c, d], [e, f, g, h]].map(|count| u32::from_le_bytes(count) as usize), rest)
        })?;
        let (places, rest) = rest.split_at_checked(places.checked_mul(PLACE_SIZE)?)?;
        let (ends, names) = rest.split_at_checked(files.checked_mul(NUMBER)?)?;
        Some(Lines { places: places.as_chunks().0, ends: ends.as_chunks().0, names })
    }

    /// Where the instruction at this offset in the program's file comes from: the name of the file, and the place in it.
    pub fn at(&self, offset: usize) -> Option<(&'t str, Place)> {
        let offset = u32::try_from(offset).ok()?;
        let next = self.places.partition_point(|place| Place::from_bytes(place).offset <= offset);
        let place = Place::from_bytes(self.places.get(next.checked_sub(1)?)?);
        let file = usize::from(place.file?);
        let end = |file: usize| self.ends.get(file).map(|end| u32::from_le_bytes(*end) as usize);
        let start = file.checked_sub(1).map_or(Some(0), end)?;
        Some((str::from_utf8(self.names.get(start..end(file)?)?).ok()?, place))
    }
}
