//! The pages of a checkpoint: what a captured domain gives, and what is stored of it.
//!
//! ```text
//!   given                                      section `runs`                      stored pages
//!   here(0x1010_0010_0000, 4 pages, Active) ─▶ 0x…0000 ×2 = stored 0, 1      ┌──▶ 0 │ 1 │ 2 │ …
//!                                              0x…2000 ×1 = zero             │
//!                                              0x…3000 ×1 = stored 0 ────────┘    the same contents are stored once
//!   base(0x1010_0014_0000, 1)               ─▶ 0x…     ×1 = as in the function's image
//! ```
//!
//! A page in no run is not present: it reads as zero when it is touched. Active pages are stored first, so that a restore can
//! read in one piece what the workflow will touch first.

use crate::error::{Error, Part};
use crate::hash::Hash;
use crate::section::{SectionId, part};
use monohull_abi::layout::{FILES_BASE, FILES_END, PAGE, USER_BASE, USER_END};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = PAGE as usize;
static ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// Pages that lie one after the other, and whose contents come from the same place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The address of the first page.
    pub address: u64,
    /// How many.
    pub count: u64,
    /// Where their contents come from.
    pub content: Content,
}

impl Run {
    /// The address behind the last page.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.count.saturating_mul(PAGE))
    }

    /// The run without its first pages.
    pub(crate) fn after(&self, pages: u64) -> Run {
        let content = match self.content {
            Content::Here { stored } => Content::Here { stored: stored + pages },
            other => other,
        };
        Run { address: self.address + pages * PAGE, count: self.count - pages, content }
    }

    /// Whether `next` goes on where this one ends, in every respect.
    fn goes_on_in(&self, next: &Run) -> bool {
        self.end() == next.address
            && match (self.content, next.content) {
                (Content::Here { stored }, Content::Here { stored: next }) => stored + self.count == next,
                (own, next) => own == next,
            }
    }
}

/// Where the contents of pages come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Content {
    /// Zeros.
    Zero,
    /// What the function's image has there, relocated.
    Base,
    /// What the parent has there.
    Parent,
    /// Stored pages of this file.
    Here {
        /// Which is the first page's; the others follow.
        stored: u64,
    },
}

/// Whether the last run touched a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heat {
    /// It did: the page is stored among the first.
    Active,
    /// It did not, or nothing is known.
    Rest,
}

/// How pages are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Packing {
    /// As they are, aligned: they can be read in any number at once, and mapped.
    Raw = 0,
    /// Each compressed by itself (LZ4 block), without gaps.
    Lz4 = 1,
}

/// The pages of a captured domain, borrowed from its memory, which has to stand still meanwhile.
#[derive(Default)]
pub struct Pages<'p> {
    given: Vec<Given<'p>>,
}

#[derive(Clone, Copy)]
struct Given<'p> {
    run: Run,
    bytes: &'p [u8],
    heat: Heat,
}

impl<'p> Pages<'p> {
    /// None yet.
    pub fn new() -> Pages<'p> {
        Pages::default()
    }

    /// Pages with these contents. Among them may be zero pages and equal ones.
    pub fn here(&mut self, address: u64, bytes: &'p [u8], heat: Heat) -> Result<(), Error> {
        if !bytes.len().is_multiple_of(PAGE_BYTES) {
            return Err(Error::wrong(format_args!("page {address:#x}"), "its contents are no whole pages"));
        }
        let run = Run { address, count: (bytes.len() / PAGE_BYTES) as u64, content: Content::Here { stored: 0 } };
        self.give(Given { run, bytes, heat })
    }

    /// Pages that read as zero, where the parent or the image may have something else.
    pub fn zero(&mut self, address: u64, count: u64) -> Result<(), Error> {
        self.give(Given { run: Run { address, count, content: Content::Zero }, bytes: &[], heat: Heat::Rest })
    }

    /// Pages that are as the function's image has them, relocated.
    pub fn base(&mut self, address: u64, count: u64) -> Result<(), Error> {
        self.give(Given { run: Run { address, count, content: Content::Base }, bytes: &[], heat: Heat::Rest })
    }

    /// Pages that are as in the parent.
    pub fn parent(&mut self, address: u64, count: u64) -> Result<(), Error> {
        self.give(Given { run: Run { address, count, content: Content::Parent }, bytes: &[], heat: Heat::Rest })
    }

    fn give(&mut self, given: Given<'p>) -> Result<(), Error> {
        check_place(&given.run)?;
        if given.run.count > 0 {
            self.given.push(given);
        }
        Ok(())
    }

    /// Bytes of the contents that were given.
    pub fn bytes(&self) -> u64 {
        self.given.iter().map(|given| given.bytes.len() as u64).sum()
    }

    /// What is to be stored, and where each page is.
    pub(crate) fn store(&self, packing: Packing) -> Result<Stored<'p>, Error> {
        let mut stored = Stored::new(packing);
        let mut places: HashMap<Hash, u64> = HashMap::new();
        let mut runs: Vec<Run> = Vec::new();
        for heat in [Heat::Active, Heat::Rest] {
            for given in self.given.iter().filter(|given| given.heat == heat) {
                if given.bytes.is_empty() {
                    runs.push(given.run);
                    continue;
                }
                for (page, bytes) in given.bytes.chunks_exact(PAGE_BYTES).enumerate() {
                    let content = if bytes == ZEROS {
                        stored.zeros += 1;
                        Content::Zero
                    } else {
                        let hash = Hash::of(bytes);
                        let next = stored.hashes.len() as u64;
                        let index = *places.entry(hash).or_insert(next);
                        if index == next {
                            stored.push(hash, bytes);
                        } else {
                            stored.same += 1;
                        }
                        Content::Here { stored: index }
                    };
                    let page = Run { address: given.run.address + page as u64 * PAGE, count: 1, content };
                    match runs.last_mut() {
                        Some(last) if last.goes_on_in(&page) => last.count += 1,
                        _ => runs.push(page),
                    }
                }
            }
            if heat == Heat::Active {
                stored.active = stored.hashes.len() as u64;
            }
        }
        runs.sort_by_key(|run| run.address);
        stored.runs.reserve(runs.len());
        for run in runs {
            match stored.runs.last_mut() {
                Some(last) if last.end() > run.address => {
                    return Err(Error::wrong(format_args!("page {:#x}", run.address), "it is given twice"));
                }
                Some(last) if last.goes_on_in(&run) => last.count += run.count,
                _ => stored.runs.push(run),
            }
        }
        Ok(stored)
    }
}

/// A run's pages are pages of the user side, or have names of files in memory.
pub(crate) fn check_place(run: &Run) -> Result<(), Error> {
    let subject = format_args!("page {:#x}", run.address);
    if !run.address.is_multiple_of(PAGE) {
        return Err(Error::wrong(subject, "its address is no multiple of a page"));
    }
    let (start, end) = if run.address < FILES_BASE { (USER_BASE, USER_END) } else { (FILES_BASE, FILES_END) };
    let room = end.saturating_sub(run.address) / PAGE;
    if run.address < start || run.count > room {
        return Err(Error::wrong(subject, "it is no user memory"));
    }
    Ok(())
}

/// Pages as they are stored.
pub(crate) struct Stored<'p> {
    packing: Packing,
    pub(crate) runs: Vec<Run>,
    pub(crate) hashes: Vec<Hash>,
    /// Stored bytes of each page, if they are compressed.
    lengths: Vec<u16>,
    /// Pages of the domain's own memory, or all compressed ones.
    pub(crate) pieces: Vec<&'p [u8]>,
    pub(crate) packed: Vec<u8>,
    pub(crate) active: u64,
    pub(crate) zeros: u64,
    pub(crate) same: u64,
}

impl<'p> Stored<'p> {
    fn new(packing: Packing) -> Stored<'p> {
        Stored {
            packing,
            runs: Vec::new(),
            hashes: Vec::new(),
            lengths: Vec::new(),
            pieces: Vec::new(),
            packed: Vec::new(),
            active: 0,
            zeros: 0,
            same: 0,
        }
    }

    fn push(&mut self, hash: Hash, page: &'p [u8]) {
        self.hashes.push(hash);
        match self.packing {
            Packing::Raw => self.pieces.push(page),
            Packing::Lz4 => {
                let mut room = [0; lz4_flex::block::get_maximum_output_size(PAGE_BYTES)];
                let length = lz4_flex::block::compress_into(page, &mut room).unwrap_or(PAGE_BYTES);
                let bytes = if length < PAGE_BYTES { &room[..length] } else { page };
                self.packed.extend_from_slice(bytes);
                self.lengths.push(bytes.len() as u16);
            }
        }
    }

    /// Bytes of all stored pages.
    pub(crate) fn bytes(&self) -> u64 {
        (self.pieces.len() * PAGE_BYTES + self.packed.len()) as u64
    }

    /// The section `pages`.
    pub(crate) fn section(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24 + self.hashes.len() * 34);
        bytes.extend_from_slice(&u64::from(self.packing as u8).to_le_bytes());
        bytes.extend_from_slice(&(self.hashes.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&self.active.to_le_bytes());
        self.hashes.iter().for_each(|hash| bytes.extend_from_slice(&hash.0));
        self.lengths.iter().for_each(|length| bytes.extend_from_slice(&length.to_le_bytes()));
        bytes
    }
}

/// The section `pages` as it is read.
///
/// ```text
///   0   8   packing: 0 raw, 1 LZ4         24           32 × count   SHA-256 of each page
///   8   8   count                         24+32×count   2 × count   stored bytes of each page, if packed
///  16   8   how many of the first are active
/// ```
#[derive(Debug)]
pub(crate) struct PageTable {
    pub(crate) packing: Packing,
    pub(crate) active: u64,
    hashes: Vec<Hash>,
    /// Where each page begins among the stored ones, and where the last one ends; for packed pages alone.
    starts: Vec<u64>,
}

impl PageTable {
    /// Reads the section; the stored pages have so many bytes.
    pub(crate) fn decode(bytes: &[u8], pages_bytes: u64) -> Result<PageTable, Error> {
        let malformed = |reason: &str| Error::malformed(Part::Section(SectionId::Pages), reason);
        let Some((head, rest)) = bytes.split_first_chunk::<24>() else { return Err(malformed("it is too short")) };
        let (packing, count) = (u64::from_le_bytes(part(head, 0)), u64::from_le_bytes(part(head, 8)));
        let active = u64::from_le_bytes(part(head, 16));
        let (packing, bytes_each) = match packing {
            0 => (Packing::Raw, 32),
            1 => (Packing::Lz4, 34),
            _ => return Err(malformed("pages are stored in a way that this version does not know")),
        };
        if count.checked_mul(bytes_each) != Some(rest.len() as u64) {
            return Err(malformed("its length does not fit the number of pages"));
        }
        if active > count {
            return Err(malformed("more pages are active than there are"));
        }
        let (hashes, lengths) = rest.split_at(count as usize * 32);
        let hashes: Vec<Hash> = hashes.as_chunks().0.iter().map(|hash| Hash(*hash)).collect();
        let mut starts = Vec::new();
        let total = match packing {
            Packing::Raw => count * PAGE,
            Packing::Lz4 => {
                let mut end = 0;
                starts.push(0);
                for length in lengths.chunks_exact(2) {
                    let length = u64::from(u16::from_le_bytes(part(length, 0)));
                    if length == 0 || length > PAGE {
                        return Err(malformed("a stored page is empty or too long"));
                    }
                    end += length;
                    starts.push(end);
                }
                end
            }
        };
        if total != pages_bytes {
            return Err(malformed("the stored pages have another length than the header says"));
        }
        Ok(PageTable { packing, active, hashes, starts })
    }

    /// How many pages are stored.
    pub(crate) fn count(&self) -> u64 {
        self.hashes.len() as u64
    }

    /// The hash of a stored page.
    pub(crate) fn hash(&self, stored: u64) -> Option<Hash> {
        self.hashes.get(usize::try_from(stored).ok()?).copied()
    }

    /// Where a stored page is among the stored pages, and its bytes there.
    pub(crate) fn place(&self, stored: u64) -> Option<(u64, usize)> {
        self.hash(stored)?;
        Some(match self.packing {
            Packing::Raw => (stored * PAGE, PAGE_BYTES),
            Packing::Lz4 => {
                let (start, end) = (self.starts[stored as usize], self.starts[stored as usize + 1]);
                (start, (end - start) as usize)
            }
        })
    }
}

/// Restores a page from its stored bytes; whether they are those of some page.
pub(crate) fn unpack(packing: Packing, bytes: &[u8], page: &mut [u8; PAGE_BYTES]) -> bool {
    match packing {
        _ if bytes.len() == PAGE_BYTES => {
            page.copy_from_slice(bytes);
            true
        }
        Packing::Raw => false,
        Packing::Lz4 => lz4_flex::block::decompress_into(bytes, page).is_ok_and(|length| length == PAGE_BYTES),
    }
}
