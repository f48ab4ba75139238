//! Reading a checkpoint.
//!
//! A checkpoint is untrusted input. Everything but the contents of pages is read once, compared with its hash and
//! checked before a [`Checkpoint`] exists; nothing is allocated by a length that the file does not have. A page is
//! compared with its hash when it is read.
//!
//! ```text
//!   begins as one? ─▶ format ─▶ complete? ─▶ digest ─▶ seal ─▶ table ─▶ hash of each section ─▶ records ─▶ what they say
//!   Foreign           Newer…    Truncated    Damaged   Edited   Malformed  Damaged              Malformed   Wrong
//! ```

use crate::check;
use crate::error::{Error, Part};
use crate::hash::Hash;
use crate::header::{HEADER, Header, SEALED_FROM};
use crate::host::Processor;
use crate::key::{Key, KeyId};
use crate::pages::{self, Content, PAGE_BYTES, Packing, PageTable, Run};
use crate::read_at::ReadAt;
use crate::record::Contents;
use crate::section::{ENTRY, Entry, MANDATORY, MODULES_MAX, SECTION_MAX, SectionId};
use monohull_abi::layout::PAGE;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The most numbers, lengths and the like, in bytes, that are decoded of a section: lists take several times the memory that they have bytes.
const ENTRIES_MAX: u64 = 64 << 20;
/// Pages that are read at once to be verified.
const VERIFIED_AT_ONCE: u64 = 64;

/// Which origin of a file is accepted.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'k> {
    /// The owner of this key: the file has to be sealed by it.
    Key(&'k Key),
    /// No key yet: the file has to be without a seal, as a worker has written it.
    NotSealed,
    /// Any origin: the file is only inspected. Its contents may have been edited.
    Unchecked,
}

/// A checkpoint that has been checked, but for the contents of its pages and what only plan, registry and modules know.
#[derive(Debug)]
pub struct Checkpoint<S> {
    source: S,
    header: Header,
    table: Vec<Entry>,
    contents: Contents,
    runs: Vec<Run>,
    pages: PageTable,
}

/// How many bytes a section has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SectionSize {
    /// Its number.
    pub id: u32,
    /// Its version.
    pub version: u16,
    /// Its bytes.
    pub bytes: u64,
}

impl SectionSize {
    /// The section's name in reports; its number if this program does not know it.
    pub fn name(&self) -> String {
        SectionId::of(self.id).map_or_else(|| format!("section {}", self.id), |section| section.name().to_owned())
    }
}

impl<S: ReadAt> Checkpoint<S> {
    /// Reads everything but the pages.
    pub fn read(source: S, trust: Trust<'_>) -> Result<Checkpoint<S>, Error> {
        let (header, table_bytes, there) = read_header(&source)?;
        match trust {
            Trust::Key(key) => header.check_seal(&table_bytes, key)?,
            Trust::NotSealed if header.is_sealed() => return Err(Error::Sealed(header.key)),
            Trust::NotSealed | Trust::Unchecked => {}
        }
        let table: Vec<Entry> = table_bytes.as_chunks::<ENTRY>().0.iter().map(Entry::decode).collect();
        check_table(&header, &table, there)?;
        if matches!(trust, Trust::Unchecked) {
            check_stored(&source, &table)?;
        }
        check_padding(&source, &header, &table)?;

        let entries = if matches!(trust, Trust::Unchecked) { ENTRIES_MAX } else { u64::MAX };
        let mut sections = Sections { entries, ..Sections::default() };
        for entry in &table {
            let part = part_of(entry);
            let mut bytes = vec![0; entry.length as usize];
            fill(&source, &mut bytes, entry.offset, part)?;
            if Hash::of(&bytes) != entry.hash {
                return Err(Error::Damaged { part, at: entry.offset..entry.offset + entry.length });
            }
            sections.take(entry.id, bytes)?;
        }
        let runs: Vec<Run> = sections.record(SectionId::Runs)?;
        let pages = PageTable::decode(&sections.one(SectionId::Pages)?, header.pages_bytes)?;
        let contents = sections.contents()?;
        check_runs(&runs, &pages)?;
        check::check(&contents, &runs)?;
        Ok(Checkpoint { source, header, table, contents, runs, pages })
    }

    /// What it says.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Where the contents of pages come from, by ascending address.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// How many bytes the file has.
    pub fn bytes(&self) -> u64 {
        self.header.file_bytes
    }

    /// How many bytes each section has.
    pub fn sections(&self) -> impl Iterator<Item = SectionSize> {
        self.table.iter().map(|entry| SectionSize { id: entry.id, version: entry.version, bytes: entry.length })
    }

    /// The version of the format.
    pub fn format(&self) -> u16 {
        self.header.format
    }

    /// The digest: equal for equal checkpoints, sealed or not.
    pub fn digest(&self) -> Hash {
        self.header.digest
    }

    /// The key that claims to have sealed it. [`Trust::Key`] checks that.
    pub fn sealed_by(&self) -> Option<KeyId> {
        self.header.is_sealed().then_some(self.header.key)
    }

    /// Whether this key has sealed it; for one that was read by [`Trust::Unchecked`].
    pub fn authenticate(&self, key: &Key) -> Result<(), Error> {
        self.header.check_seal(&self.table_bytes(), key)
    }

    fn table_bytes(&self) -> Vec<u8> {
        self.table.iter().flat_map(Entry::encode).collect()
    }

    /// How pages are stored.
    pub fn packing(&self) -> Packing {
        self.pages.packing
    }

    /// How many pages are stored.
    pub fn stored_pages(&self) -> u64 {
        self.pages.count()
    }

    /// How many bytes they occupy.
    pub fn stored_bytes(&self) -> u64 {
        self.header.pages_bytes
    }

    /// How many of the first stored pages the last run touched.
    pub fn active_pages(&self) -> u64 {
        self.pages.active
    }

    /// The hash of a stored page.
    pub fn page_hash(&self, stored: u64) -> Option<Hash> {
        self.pages.hash(stored)
    }

    /// Where a stored page is in the file, if it is stored as it is. The contents read or mapped from there have not been
    /// compared with [`Checkpoint::page_hash`].
    pub fn page_offset(&self, stored: u64) -> Option<u64> {
        match self.pages.packing {
            Packing::Raw => Some(self.header.pages_offset + self.pages.place(stored)?.0),
            Packing::Lz4 => None,
        }
    }

    /// Reads stored pages that follow each other, as many as there is room for.
    pub fn read_pages(&self, first: u64, room: &mut [u8]) -> Result<(), Error> {
        let (pages, []) = room.as_chunks_mut::<PAGE_BYTES>() else {
            return Err(Error::wrong("the buffer", "it has no whole pages"));
        };
        let none = || Error::wrong(format_args!("stored page {first}"), "there are not so many");
        let Some(last) = (pages.len() as u64).checked_sub(1) else { return Ok(()) };
        let (start, _) = self.pages.place(first).ok_or_else(none)?;
        let (last_start, last_bytes) =
            first.checked_add(last).and_then(|last| self.pages.place(last)).ok_or_else(none)?;
        let offset = self.header.pages_offset + start;
        match self.pages.packing {
            Packing::Raw => fill(&self.source, pages.as_flattened_mut(), offset, Part::Pages)?,
            Packing::Lz4 => {
                let mut packed = vec![0; (last_start - start) as usize + last_bytes];
                fill(&self.source, &mut packed, offset, Part::Pages)?;
                for (stored, page) in (first..).zip(pages.iter_mut()) {
                    let (at, bytes) = self.pages.place(stored).ok_or_else(none)?;
                    let at = (at - start) as usize;
                    if !pages::unpack(self.pages.packing, &packed[at..at + bytes], page) {
                        return Err(self.damaged_page(stored));
                    }
                }
            }
        }
        match (first..).zip(pages).find(|(stored, page)| Some(Hash::of(*page)) != self.pages.hash(*stored)) {
            Some((stored, _)) => Err(self.damaged_page(stored)),
            None => Ok(()),
        }
    }

    /// Reads all pages and compares each with its hash.
    pub fn verify_pages(&self) -> Result<(), Error> {
        let mut room = vec![0; VERIFIED_AT_ONCE as usize * PAGE_BYTES];
        let mut next = 0;
        while next < self.pages.count() {
            let count = VERIFIED_AT_ONCE.min(self.pages.count() - next);
            self.read_pages(next, &mut room[..count as usize * PAGE_BYTES])?;
            next += count;
        }
        Ok(())
    }

    /// Whether a processor is enough for it.
    pub fn check_processor(&self, processor: &Processor) -> Result<(), Error> {
        match self.contents.identity.processor.missing_on(processor) {
            missing if missing.is_empty() => Ok(()),
            missing => Err(Error::Processor { missing }),
        }
    }

    /// Whether the pages that it takes from its parent are those of this file.
    pub fn check_parent<P: ReadAt>(&self, parent: &Checkpoint<P>) -> Result<(), Error> {
        match &self.contents.identity.parent {
            Some(expected) if expected.digest != parent.digest() => {
                Err(Error::OtherParent { expected: expected.digest, found: parent.digest() })
            }
            _ => Ok(()),
        }
    }

    fn damaged_page(&self, stored: u64) -> Error {
        let holds = |run: &&Run| matches!(run.content, Content::Here { stored: first } if (first..first + run.count).contains(&stored));
        let address = self.runs.iter().find(holds).map_or(0, |run| match run.content {
            Content::Here { stored: first } => run.address + (stored - first) * PAGE,
            _ => run.address,
        });
        let (start, bytes) = self.pages.place(stored).unwrap_or_default();
        let start = self.header.pages_offset + start;
        Error::DamagedPage { address, at: start..start + bytes as u64 }
    }
}

/// Seals a checkpoint that a worker has written, after everything but its pages has been read and checked. What the worker
/// changes later is found when the file is read, because the seal is of what has been read here. Gives the digest.
pub fn seal(file: &File, key: &Key) -> Result<Hash, Error> {
    Checkpoint::read(file, Trust::NotSealed)?.seal(file, key)
}

/// The same of one in memory.
pub fn seal_bytes(bytes: &mut [u8], key: &Key) -> Result<Hash, Error> {
    let (sealed, digest) = {
        let read = Checkpoint::read(&bytes[..], Trust::NotSealed)?;
        (read.header.sealed(&read.table_bytes(), key), read.header.digest)
    };
    bytes[SEALED_FROM..HEADER].copy_from_slice(&sealed);
    Ok(digest)
}

impl<S: ReadAt> Checkpoint<S> {
    /// Writes a seal of what has been read into the file that it was read from. Gives the digest.
    pub fn seal(&self, file: &File, key: &Key) -> Result<Hash, Error> {
        let sealed = self.header.sealed(&self.table_bytes(), key);
        let written = FileExt::write_all_at(file, &sealed, SEALED_FROM as u64);
        written.map_err(|source| Error::Io { doing: "sealing it", source })?;
        Ok(self.header.digest)
    }
}

/// The header, the table's bytes, and how many bytes the file has.
fn read_header(source: &impl ReadAt) -> Result<(Header, Vec<u8>, u64), Error> {
    let there = source.length().map_err(reading)?;
    let mut first = vec![0; there.min(HEADER as u64) as usize];
    fill(source, &mut first, 0, Part::Header)?;
    let header = Header::decode(&first, there)?;

    let table_end = HEADER as u64 + u64::from(header.sections) * ENTRY as u64;
    if there < table_end {
        return Err(Error::Truncated { part: Part::Table, needed: table_end, there });
    }
    let mut table = vec![0; header.sections as usize * ENTRY];
    fill(source, &mut table, HEADER as u64, Part::Table)?;
    if header.digest_with(&table) != header.digest || header.reserved != [0; 16] {
        return Err(Error::Damaged { part: Part::Table, at: 0..table_end });
    }
    match header.file_bytes {
        needed if needed > there => Err(Error::Truncated { part: Part::Pages, needed, there }.named_by(&table)),
        needed if needed < there => Err(Error::TooLong { needed, there }),
        _ => Ok((header, table, there)),
    }
}

impl Error {
    /// Names the first section that is cut off, if one is.
    fn named_by(self, table: &[u8]) -> Error {
        let Error::Truncated { there, needed, .. } = self else { return self };
        let entries = table.as_chunks::<ENTRY>().0.iter().map(Entry::decode);
        let cut = entries.into_iter().find(|entry| entry.offset.saturating_add(entry.length) > there);
        Error::Truncated { part: cut.map_or(Part::Pages, |entry| part_of(&entry)), needed, there }
    }
}

fn part_of(entry: &Entry) -> Part {
    SectionId::of(entry.id).map_or(Part::Unknown(entry.id), Part::Section)
}

/// The sections lie in the file one after the other, and this program knows those that it must know.
fn check_table(header: &Header, table: &[Entry], there: u64) -> Result<(), Error> {
    let malformed = |part: Part, reason: &str| Err(Error::malformed(part, reason));
    let mut end = (HEADER + table.len() * ENTRY) as u64;
    let mut last = 0;
    for entry in table {
        let part = part_of(entry);
        match SectionId::of(entry.id) {
            None if entry.flags & MANDATORY != 0 => return Err(Error::UnknownSection { id: entry.id }),
            Some(section) if entry.version > section.version() => {
                let (found, known) = (entry.version, section.version());
                return Err(Error::NewerSection { section, found, known });
            }
            Some(_) if entry.version == 0 || entry.flags != MANDATORY => {
                return malformed(part, "its version or its flags are not as this format has them");
            }
            Some(_) | None => {}
        }
        if entry.id < last || entry.id == last && entry.id != SectionId::Module as u32 || entry.reserved != 0 {
            return malformed(part, "it is there twice, or not in its place in the table");
        }
        if entry.offset != end || entry.length > there.saturating_sub(end) {
            return malformed(part, "it does not lie behind the section before it");
        }
        if entry.length > SectionId::of(entry.id).map_or(SECTION_MAX, SectionId::most) {
            return malformed(part, "it is larger than this section may be");
        }
        last = entry.id;
        end = end.saturating_add(entry.length.next_multiple_of(8));
    }
    if table.iter().filter(|entry| entry.id == SectionId::Module as u32).count() > MODULES_MAX {
        return malformed(Part::Table, "it has more modules than there are");
    }
    let pages_end = header.pages_offset.checked_add(header.pages_bytes);
    if header.pages_offset < end || header.pages_offset - end >= PAGE || pages_end != Some(header.file_bytes) {
        return malformed(Part::Header, "the stored pages do not lie behind the sections");
    }
    Ok(())
}

/// A stranger's file has sections of no more bytes than take room in it, or of few: they are read into memory.
fn check_stored(source: &impl ReadAt, table: &[Entry]) -> Result<(), Error> {
    let sections = table.iter().fold(0_u64, |sum, entry| sum.saturating_add(entry.length));
    match sections <= SECTION_MAX || sections <= source.stored().map_err(reading)? {
        true => Ok(()),
        false => Err(Error::malformed(Part::Table, "its sections have holes")),
    }
}

/// The bytes between the parts, which no hash covers, are zero.
fn check_padding(source: &impl ReadAt, header: &Header, table: &[Entry]) -> Result<(), Error> {
    let ends = table.iter().map(|entry| entry.offset + entry.length);
    let nexts = table.iter().skip(1).map(|entry| entry.offset).chain([header.pages_offset]);
    for (end, next) in ends.zip(nexts) {
        let mut room = [0; PAGE_BYTES + 8];
        let room = &mut room[..(next - end) as usize];
        fill(source, room, end, Part::Padding)?;
        if room.iter().any(|byte| *byte != 0) {
            return Err(Error::Damaged { part: Part::Padding, at: end..next });
        }
    }
    Ok(())
}

/// Runs are in order, and every stored page is in one.
fn check_runs(runs: &[Run], table: &PageTable) -> Result<(), Error> {
    let malformed = |reason: &str| Error::malformed(Part::Section(SectionId::Runs), reason);
    let mut end = 0;
    let mut used: Vec<Range<u64>> = Vec::new();
    for run in runs {
        pages::check_place(run)?;
        if run.count == 0 || run.address < end {
            return Err(malformed("a run is empty, or not behind the one before it"));
        }
        end = run.end();
        if let Content::Here { stored } = run.content {
            match stored.checked_add(run.count).filter(|end| *end <= table.count()) {
                Some(end) => used.push(stored..end),
                None => return Err(malformed("a run refers to a page that is not stored")),
            }
        }
    }
    used.sort_by_key(|range| range.start);
    let mut known = 0;
    for range in used {
        if range.start > known {
            break;
        }
        known = known.max(range.end);
    }
    match known == table.count() {
        true => Ok(()),
        false => Err(malformed("a stored page is in no run")),
    }
}

/// Sections by what they are.
#[derive(Default)]
struct Sections {
    /// See [`ENTRIES_MAX`].
    entries: u64,
    single: [Option<Vec<u8>>; SectionId::ALL.len()],
    modules: Vec<Vec<u8>>,
}

impl Sections {
    /// Keeps a section whose number is known.
    fn take(&mut self, id: u32, bytes: Vec<u8>) -> Result<(), Error> {
        match SectionId::of(id) {
            Some(SectionId::Module) => self.modules.push(bytes),
            Some(section) => self.single[section as usize - 1] = Some(bytes),
            None => {}
        }
        Ok(())
    }

    fn one(&mut self, section: SectionId) -> Result<Vec<u8>, Error> {
        self.single[section as usize - 1].take().ok_or(Error::MissingSection(section))
    }

    fn record<T: DeserializeOwned>(&mut self, section: SectionId) -> Result<T, Error> {
        decode(section, &self.one(section)?, self.entries)
    }

    /// Records that may be absent if there are none.
    fn list<T: DeserializeOwned>(&mut self, section: SectionId) -> Result<Vec<T>, Error> {
        let bytes = self.single[section as usize - 1].take();
        bytes.map_or_else(|| Ok(Vec::new()), |bytes| decode(section, &bytes, self.entries))
    }

    /// A record that may be absent.
    fn optional<T: DeserializeOwned>(&mut self, section: SectionId) -> Result<Option<T>, Error> {
        let bytes = self.single[section as usize - 1].take();
        bytes.map(|bytes| decode(section, &bytes, self.entries)).transpose()
    }

    fn contents(mut self) -> Result<Contents, Error> {
        let entries = self.entries;
        // One after the other is freed.
        let module = |bytes: Vec<u8>| decode(SectionId::Module, &bytes, entries);
        Ok(Contents {
            identity: self.record(SectionId::Identity)?,
            functions: self.record(SectionId::Functions)?,
            instances: self.record(SectionId::Instances)?,
            threads: self.record(SectionId::Threads)?,
            scheduler: self.record(SectionId::Scheduler)?,
            plan: self.one(SectionId::Plan)?,
            engine: self.record(SectionId::Engine)?,
            handlers: self.list(SectionId::Handlers)?,
            registers: self.list(SectionId::Registers)?,
            files: self.list(SectionId::Files)?,
            requests: self.optional(SectionId::Requests)?,
            chain: self.optional(SectionId::Chain)?,
            modules: std::mem::take(&mut self.modules).into_iter().map(module).collect::<Result<_, _>>()?,
        })
    }
}

/// A record that is all of a section. What it holds of lists grows as the bytes for it are read.
fn decode<T: DeserializeOwned>(section: SectionId, bytes: &[u8], entries: u64) -> Result<T, Error> {
    match monohull_bounded::take(bytes, entries) {
        Ok((record, [])) => Ok(record),
        Ok((_, rest)) => {
            let reason = format_args!("its last {} bytes belong to nothing", rest.len());
            Err(Error::malformed(Part::Section(section), reason))
        }
        Err(error) => Err(Error::malformed(Part::Section(section), error)),
    }
}

fn fill(source: &impl ReadAt, room: &mut [u8], offset: u64, part: Part) -> Result<(), Error> {
    match source.read_exact_at(room, offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            let needed = offset + room.len() as u64;
            Err(Error::Truncated { part, needed, there: source.length().map_err(reading)? })
        }
        read => read.map_err(reading),
    }
}

fn reading(source: io::Error) -> Error {
    Error::Io { doing: "reading it", source }
}
