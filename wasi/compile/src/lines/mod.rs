//! Where in its source a program's instructions come from: of its debug information the line programs (DWARF's `.debug_line`), as a table that the
//! runtime looks into when the program has trapped.
//!
//! ```text
//!   .debug_line   address in the code section ──▶ file, line, column
//!   table         offset in the program's file ──▶ the same, sorted, each name once     (`monohull_wasi_settings::lines`)
//! ```
//!
//! No other debug information is looked at, and each part is read once, from its start to its end: nothing in it can refer to more than there is. What
//! cannot be read has no lines, and nothing is refused for it.

use std::collections::BTreeMap;
use std::mem::take;
use std::ops::Range;

use gimli::{
    AttributeValue, ColumnType, DebugLine, DebugLineOffset, EndianSlice, FileEntry, IncompleteLineProgram,
    LineProgramHeader, LineRow, LittleEndian, Reader,
};
use monohull_wasi_settings::lines::Place;
use wasmparser::{Parser, Payload};

/// Most bytes of the line program of one unit, and of its header. Its files take twenty times the memory that their descriptions do.
const UNIT_MAX: usize = 16 << 20;
const HEADER_MAX: usize = 1 << 20;
/// Most places of a program.
const PLACES_MAX: usize = 2 << 20;
/// Most files, less than there are numbers for them.
const FILES_MAX: usize = 50_000;
/// Most bytes of a file's name, and of all names.
const NAME_MAX: usize = 1024;
const NAMES_MAX: usize = 4 << 20;
/// Most bytes of names that are read in all. Ten bytes of debug information can refer to one of the longest, and others to the same.
const WORK_MAX: usize = 128 << 20;
/// What a name costs besides its bytes.
const LOOKUP: usize = 32;
/// Bytes of an address in WebAssembly's debug information.
const ADDRESS: u8 = 4;

type Slice<'p> = EndianSlice<'p, LittleEndian>;

/// The table for a module or a component; empty if it has no debug information.
pub(crate) fn of_program(program: &[u8]) -> Vec<u8> {
    read(program).into_bytes()
}

/// What is found in a module or a component.
fn read(program: &[u8]) -> Table {
    let mut table = Table::default();
    let mut module = Module::default();
    for payload in Parser::new(0).parse_all(program).map_while(Result::ok) {
        match payload {
            Payload::CodeSectionStart { range, .. } => module.code = range,
            Payload::CustomSection(section) => match section.name() {
                ".debug_line" => module.lines = section.data(),
                ".debug_line_str" => module.line_strings = section.data(),
                ".debug_str" => module.strings = section.data(),
                _ => {}
            },
            // The end of a component has no code before it that was not a module's.
            Payload::End(_) => table.add(&take(&mut module)),
            _ => {}
        }
    }
    table
}

/// What is read of a module.
#[derive(Default)]
struct Module<'p> {
    /// Where its code section is in the program. Addresses count from its start.
    code: Range<usize>,
    /// Line programs, a unit behind the other.
    lines: &'p [u8],
    /// Texts of their headers that are not in these themselves.
    line_strings: &'p [u8],
    strings: &'p [u8],
}

impl<'p> Module<'p> {
    /// A text of a header. `work` gets the bytes that were looked at.
    fn text(&self, value: &AttributeValue<Slice<'p>>, work: &mut usize) -> Option<&'p [u8]> {
        let bytes = match value {
            AttributeValue::String(text) => return Some(text.slice()),
            AttributeValue::DebugLineStrRef(offset) => self.line_strings.get(offset.0..)?,
            AttributeValue::DebugStrRef(offset) => self.strings.get(offset.0..)?,
            _ => return None,
        };
        // A text may be referred to from many places, so it is not searched for its end any further than it is used.
        let bytes = &bytes[..bytes.len().min(NAME_MAX + 1)];
        let end = bytes.iter().position(|byte| *byte == 0);
        *work += end.unwrap_or(bytes.len());
        end.map(|end| &bytes[..end])
    }

    /// The name of a file. The folder that the compiler was started in is no part of it.
    fn name(
        &self,
        header: &LineProgramHeader<Slice<'p>>,
        file: &FileEntry<Slice<'p>>,
        work: &mut usize,
    ) -> Option<String> {
        let name = self.text(&file.path_name(), work)?;
        let folder = match file.directory_index() {
            0 => None,
            _ if name.starts_with(b"/") => None,
            _ => Some(self.text(&file.directory(header)?, work)?),
        };
        let length = name.len() + folder.map_or(0, |folder| folder.len() + 1);
        if length > NAME_MAX {
            return None;
        }
        *work += length;
        let name = folder.map_or_else(|| name.to_vec(), |folder| [folder, b"/", name].concat());
        // It is shown in a terminal.
        Some(String::from_utf8_lossy(&name).replace(char::is_control, "\u{fffd}"))
    }
}

/// The table as it grows.
#[derive(Default)]
struct Table {
    places: Vec<Place>,
    /// Numbers of files by their names.
    files: BTreeMap<String, u16>,
    names: Vec<u8>,
    /// Where in `names` each file's name ends.
    ends: Vec<u32>,
    /// What reading of names has cost.
    work: usize,
}

impl Table {
    /// Adds what there is of this module.
    fn add(&mut self, module: &Module<'_>) {
        let mut rest = EndianSlice::new(module.lines, LittleEndian);
        while !rest.is_empty() {
            let Ok((length, format)) = rest.clone().read_initial_length() else { return };
            let Ok(unit) = rest.split(length.saturating_add(format.initial_length_size().into())) else { return };
            if let Some(program) = line_program(unit) {
                self.add_unit(module, program);
            }
        }
    }

    /// Adds the places of a unit, as far as it can be read.
    fn add_unit<'p>(&mut self, module: &Module<'p>, program: IncompleteLineProgram<Slice<'p>>) {
        // Numbers of the unit's files, each of which is asked for once.
        let mut known = BTreeMap::new();
        // Since the last sequence of addresses has ended.
        let (mut start, mut is_outside) = (self.places.len(), false);
        let mut rows = program.rows();
        while self.places.len() < PLACES_MAX
            && let Ok(Some((header, row))) = rows.next_row()
        {
            let index = row.file_index();
            let file = header.file(index).filter(|_| !row.end_sequence());
            let file = file.and_then(|file| *known.entry(index).or_insert_with(|| self.number(module, header, file)));
            match offset(&module.code, row.address()) {
                Some(offset) => self.put(start, place(offset, file, row)),
                None => is_outside = true,
            }
            if row.end_sequence() {
                // A function that the linker has left out begins at 0, where the section has the number of functions.
                let is_nowhere = self.places.get(start).is_some_and(|first| first.offset as usize == module.code.start);
                if is_outside || is_nowhere {
                    self.places.truncate(start);
                }
                (start, is_outside) = (self.places.len(), false);
            }
        }
        // What has no end would go on up to the next sequence.
        self.places.truncate(start);
    }

    /// Adds a place behind those of its sequence, if it differs from the last one.
    fn put(&mut self, start: usize, place: Place) {
        match self.places[start..].last_mut() {
            Some(last) if last.offset == place.offset && place.file.is_some() => *last = place,
            None if place.file.is_none() => {}
            Some(last) if (last.file, last.line, last.column) == (place.file, place.line, place.column) => {}
            _ => self.places.push(place),
        }
    }

    /// The number of a file of a unit.
    fn number<'p>(
        &mut self,
        module: &Module<'p>,
        header: &LineProgramHeader<Slice<'p>>,
        file: &FileEntry<Slice<'p>>,
    ) -> Option<u16> {
        if self.work >= WORK_MAX {
            return None;
        }
        self.work += LOOKUP;
        let name = module.name(header, file, &mut self.work)?;
        if let Some(number) = self.files.get(&name) {
            return Some(*number);
        }
        if self.ends.len() == FILES_MAX || self.names.len() + name.len() > NAMES_MAX {
            return None;
        }
        let number = self.ends.len() as u16;
        self.names.extend_from_slice(name.as_bytes());
        self.ends.push(self.names.len() as u32);
        self.files.insert(name, number);
        Some(number)
    }

    /// As it stands in an image.
    fn into_bytes(mut self) -> Vec<u8> {
        if self.places.is_empty() {
            return Vec::new();
        }
        // Where one sequence ends and another one begins, the beginning counts.
        self.places.sort_by_key(|place| (place.offset, place.file.is_some()));
        let counts = [self.places.len() as u32, self.ends.len() as u32];
        let mut bytes: Vec<u8> = counts.into_iter().flat_map(u32::to_le_bytes).collect();
        bytes.extend(self.places.iter().flat_map(|place| place.to_bytes()));
        bytes.extend(self.ends.iter().flat_map(|end| end.to_le_bytes()));
        bytes.extend_from_slice(&self.names);
        bytes
    }
}

/// The line program of a unit, if it can be read and is not too large.
fn line_program(unit: Slice<'_>) -> Option<IncompleteLineProgram<Slice<'_>>> {
    let mut header = unit;
    let (length, format) = header.read_initial_length().ok()?;
    if header.read_u16().ok()? >= 5 {
        // Sizes of an address and of a selector.
        header.skip(2).ok()?;
    }
    let is_small = length <= UNIT_MAX && header.read_length(format).ok()? <= HEADER_MAX;
    let program = || DebugLine::from(unit).program(DebugLineOffset(0), ADDRESS, None, None).ok();
    is_small.then(program).flatten()
}

/// Where an address of the debug information is in the program's file. The end of the code is one too.
fn offset(code: &Range<usize>, address: u64) -> Option<u32> {
    let offset = code.start.checked_add(usize::try_from(address).ok()?)?;
    u32::try_from(offset).ok().filter(|_| offset <= code.end)
}

/// What the table says of a row. Without a file it has no line either.
fn place(offset: u32, file: Option<u16>, row: &LineRow) -> Place {
    let line = row.line().and_then(|line| u32::try_from(line.get()).ok());
    let column = match row.column() {
        ColumnType::Column(column) => u16::try_from(column.get()).ok(),
        ColumnType::LeftEdge => None,
    };
    let known = |number: u32| file.map_or(0, |_| number);
    Place { offset, file, line: known(line.unwrap_or(0)), column: known(column.unwrap_or(0).into()) as u16 }
}

#[cfg(test)]
mod tests;
