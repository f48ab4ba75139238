//! Pages of memory and a record of them, in one piece of sealed memory. Pages come first, so that they can be mapped from there.
//!
//! ```text
//!   | pages of the first run | of the second | … | record, and where each run belongs | length of that, 8 bytes |
//!   0, and each at a multiple of the page size
//! ```
//!
//! There may be runs that are not in it: the reader [asks for them](crate::later_pages).
//!
//! Nothing of it is trusted by its reader: that a run lies in front of the record is checked here, and where it belongs when it is put
//! there. A reader that is not to have more memory taken than the writer has says [how much](Most) it takes of a record.

use crate::sealed::{seal_memory, sealed_size};
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Bytes of the length at the end.
const LENGTH: usize = 8;

/// Where runs belong: their addresses, and how many bytes they have.
pub type Places = Vec<(u64, u64)>;

/// Runs of pages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placed {
    /// Where runs belong, and where their contents are among the bytes.
    pub here: Vec<(u64, Range<usize>)>,
    /// Addresses and bytes of those whose contents are elsewhere.
    pub elsewhere: Places,
}

/// How much is taken of a record from one that may be anyone's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Most {
    /// Its bytes.
    pub bytes: u64,
    /// Those of them that are no text and no byte string: lists take several times the memory that they have bytes.
    pub entries: u64,
}

impl Most {
    /// All of it.
    pub const ANY: Most = Most { bytes: u64::MAX, entries: u64::MAX };
}

/// Memory that gets pages, and is sealed then.
#[derive(Debug)]
pub struct PagesFile {
    memory: File,
    places: Places,
    elsewhere: Places,
    end: u64,
}

impl PagesFile {
    /// One without pages.
    pub fn new() -> io::Result<PagesFile> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let memory = File::from(memfd_create(c"monohull-pages", flags)?);
        Ok(PagesFile { memory, places: Vec::new(), elsewhere: Vec::new(), end: 0 })
    }

    /// Makes room for pages that belong to this address, behind those before them: where that is. They are zero until they are
    /// [written](PagesFile::write).
    pub fn add(&mut self, address: u64, bytes: u64) -> u64 {
        let at = self.end;
        self.end += bytes;
        add_place(&mut self.places, address, bytes);
        at
    }

    /// Says that pages belong to this address whose contents are elsewhere.
    pub fn leave(&mut self, address: u64, bytes: u64) {
        add_place(&mut self.elsewhere, address, bytes);
    }

    /// Writes contents of pages to a place for which there is room.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.memory.write_all_at(bytes, at)
    }

    /// Adds a record, and seals all of it.
    pub fn seal(self, record: &impl Serialize) -> io::Result<OwnedFd> {
        let mut bytes =
            postcard::to_extend(&(record, &self.places, &self.elsewhere), Vec::new()).map_err(io::Error::other)?;
        let length = bytes.len() as u64;
        bytes.extend(length.to_le_bytes());
        self.write(self.end, &bytes)?;
        seal_memory(self.memory)
    }
}

fn add_place(places: &mut Places, address: u64, bytes: u64) {
    match places.last_mut() {
        Some((start, before)) if *start + *before == address => *before += bytes,
        _ => places.push((address, bytes)),
    }
}

/// The record among the bytes of such memory, and where its pages are; or what is wrong with it.
pub fn read_pages<'b, R: Deserialize<'b>>(bytes: &'b [u8]) -> Result<(R, Placed), String> {
    let (rest, length) = bytes.split_last_chunk::<LENGTH>().ok_or_else(short)?;
    let end = end_of_pages(*length, rest.len())?;
    decode(&rest[end..], end, u64::MAX)
}

/// The same of a file that is not mapped. What is not written in it takes no memory.
///
/// The record has no holes: they cost its writer nothing, and its reader as much as all else.
pub fn read_pages_from<R: DeserializeOwned>(file: &File, most: Most) -> Result<(R, Placed), String> {
    /// What blocks are counted in.
    const BLOCK: u64 = 512;
    let failed = |error: io::Error| error.to_string();
    let size = usize::try_from(sealed_size(file).map_err(failed)?).map_err(|_| short())?;
    let length_at = size.checked_sub(LENGTH).ok_or_else(short)?;
    let mut length = [0; LENGTH];
    file.read_exact_at(&mut length, length_at as u64).map_err(failed)?;
    let end = end_of_pages(length, length_at)?;
    let bytes = length_at - end;
    if bytes as u64 > most.bytes {
        return Err(format!("its record has {bytes} bytes, where at most {} are taken", most.bytes));
    }
    if bytes as u64 > file.metadata().map_err(failed)?.blocks().saturating_mul(BLOCK) {
        return Err("its record has holes".to_owned());
    }
    let mut record = vec![0; bytes];
    file.read_exact_at(&mut record, end as u64).map_err(failed)?;
    decode(&record, end, most.entries)
}

fn short() -> String {
    "it is too short".to_owned()
}

fn end_of_pages(length: [u8; LENGTH], length_at: usize) -> Result<usize, String> {
    let length = usize::try_from(u64::from_le_bytes(length)).ok();
    length.and_then(|length| length_at.checked_sub(length)).ok_or_else(short)
}

fn decode<'b, R: Deserialize<'b>>(record: &'b [u8], end: usize, entries: u64) -> Result<(R, Placed), String> {
    let decoded = monohull_bounded::take::<(R, Places, Places)>(record, entries);
    let ((record, places, elsewhere), []) = decoded.map_err(|error| format!("it cannot be read: {error}"))? else {
        return Err("its record has more bytes than it should".to_owned());
    };
    let here = lie_in(places, end).ok_or("it has other pages than its record says")?;
    Ok((record, Placed { here, elsewhere }))
}

/// Where the contents of each run are; `None` if they are not what is in front of `end`.
fn lie_in(places: Places, end: usize) -> Option<Vec<(u64, Range<usize>)>> {
    let mut at = 0_usize;
    let run = |(address, length): (u64, u64)| {
        let start = at;
        at = at.checked_add(usize::try_from(length).ok()?).filter(|at| *at <= end)?;
        Some((address, start..at))
    };
    let runs = places.into_iter().map(run).collect::<Option<Vec<_>>>()?;
    (at == end).then_some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed::{read_sealed, seal};

    const PAGE: u64 = 4096;

    /// Runs at these addresses of so many pages, each of which has its number.
    fn sealed(runs: &[(u64, u64)]) -> OwnedFd {
        let mut pages = PagesFile::new().expect("memory");
        let mut number = 0;
        for (address, count) in runs {
            let at = pages.add(*address, count * PAGE);
            for page in 0..*count {
                number += 1;
                pages.write(at + page * PAGE, &[number; PAGE as usize]).expect("written");
            }
        }
        pages.seal(&"a record").expect("sealed")
    }

    #[test]
    fn pages_lie_at_multiples_of_their_size_and_are_found_again() {
        for runs in [&[][..], &[(0x1000, 1)], &[(0x1000, 3), (0x8000, 1), (0x10_0000, 20)]] {
            let file = sealed(runs);
            let bytes = read_sealed(&file, u64::MAX).expect("its bytes");
            let (record, found): (&str, Placed) = read_pages(&bytes).expect("it is as it should be");
            assert_eq!(record, "a record");
            let again = read_pages_from::<String>(&File::from(file), Most::ANY).expect("it is as it should be");
            assert_eq!(again, (record.to_owned(), found.clone()));
            let found = found.here;
            let places = found.iter().map(|(address, range)| (*address, range.len() as u64 / PAGE));
            assert_eq!(places.collect::<Vec<_>>(), runs);
            assert!(found.iter().all(|(_, range)| (range.start as u64).is_multiple_of(PAGE)));
            let pages = found.iter().flat_map(|(_, range)| bytes[range.clone()].chunks(PAGE as usize));
            assert!((1..).zip(pages).all(|(number, page)| page.iter().all(|byte| *byte == number)));
        }
    }

    #[test]
    fn runs_side_by_side_are_one_and_what_is_not_written_is_zero() {
        let mut pages = PagesFile::new().expect("memory");
        let first = pages.add(0x1000, PAGE);
        let second = pages.add(0x2000, 2 * PAGE);
        pages.write(first, &[1; PAGE as usize]).expect("written");
        pages.write(second + PAGE, &[3; PAGE as usize]).expect("written");
        let bytes = read_sealed(pages.seal(&()).expect("sealed"), u64::MAX).expect("its bytes");
        let ((), found) = read_pages(&bytes).expect("it is as it should be");
        assert_eq!(found.here, [(0x1000, 0..3 * PAGE as usize)]);
        let firsts: Vec<_> = bytes[..3 * PAGE as usize].chunks(PAGE as usize).map(|page| page[0]).collect();
        assert_eq!(firsts, [1, 0, 3]);
    }

    #[test]
    fn pages_that_are_elsewhere_are_named() {
        let mut pages = PagesFile::new().expect("memory");
        pages.leave(0x1000, PAGE);
        pages.add(0x2000, PAGE);
        pages.leave(0x3000, PAGE);
        pages.leave(0x4000, 2 * PAGE);
        let bytes = read_sealed(pages.seal(&()).expect("sealed"), u64::MAX).expect("its bytes");
        let ((), found) = read_pages(&bytes).expect("it is as it should be");
        assert_eq!(found.here, [(0x2000, 0..PAGE as usize)]);
        assert_eq!(found.elsewhere, [(0x1000, PAGE), (0x3000, 3 * PAGE)]);
    }

    #[test]
    fn what_is_none_is_refused() {
        let good = read_sealed(sealed(&[(0x1000, 2)]), u64::MAX).expect("its bytes");
        let refused = |bytes: &[u8]| {
            let of_file = read_pages_from::<String>(&File::from(seal(bytes, 0).expect("memory")), Most::ANY);
            let why = read_pages::<String>(bytes).err();
            assert_eq!(of_file.err(), why);
            why
        };
        assert_eq!(refused(&good), None);
        for cut in [0, 7, 8, 100, 4096, 8192, good.len() - 1] {
            assert!(refused(&good[..cut]).is_some(), "the first {cut} bytes");
        }
        for cut in [1, 4096, 8192] {
            assert_eq!(refused(&good[cut..]).as_deref(), Some("it has other pages than its record says"));
        }
        assert!(refused(&[&[0; 4096], &good[..]].concat()).is_some(), "a page too many");
        let mut long = good.clone();
        let at = long.len() - LENGTH;
        long[at..].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(refused(&long).as_deref(), Some("it is too short"));
        let changes = memfd_create(c"test", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).expect("a file");
        let changes = File::from(changes);
        changes.write_all_at(&good, 0).expect("written");
        read_pages_from::<String>(&changes, Most::ANY).expect_err("it is not sealed");
    }
    /// What costs its writer nothing: a record of zeros that no one has written, which says that it is many empty lists.
    #[test]
    fn a_record_takes_no_memory_that_its_writer_does_not_have() {
        type Lists = Vec<Vec<u32>>;
        let sparse = |bytes: u64| {
            let memory =
                File::from(memfd_create(c"test", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).expect("memory"));
            // So many lists, each of which is empty, and no pages.
            let mut count = Vec::new();
            let mut rest = bytes - 12;
            while rest >= 0x80 {
                count.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            count.push(rest as u8);
            memory.write_all_at(&count, 0).expect("written");
            memory.write_all_at(&bytes.to_le_bytes(), bytes).expect("written");
            File::from(seal_memory(memory).expect("sealed"))
        };
        // More than there is memory for, ten times over.
        let huge = sparse(1 << 40);
        let refused = |file: &File, most| read_pages_from::<Lists>(file, most).expect_err("it is too much");
        assert_eq!(refused(&huge, Most::ANY), "its record has holes");
        let most = Most { bytes: 1 << 30, entries: 1 << 20 };
        assert_eq!(
            refused(&huge, most),
            format!("its record has {} bytes, where at most {} are taken", 1_u64 << 40, 1 << 30)
        );
        // Bytes that are there: they take no more memory than entries are taken.
        let lists: Lists = vec![Vec::new(); 4 << 20];
        let file = File::from(PagesFile::new().expect("memory").seal(&lists).expect("sealed"));
        assert!(refused(&file, most).contains("more than 1048576 bytes besides texts and byte strings"));
        let (read, _) = read_pages_from::<Lists>(&file, Most::ANY).expect("it is as it was written");
        assert_eq!(read.len(), lists.len());
    }
}
