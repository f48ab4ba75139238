//! A verified image made ready to run: sealed bytes, and their mapping into a cell.
//!
//! ```text
//! sealed memfd   | headers | code      | constants | data |
//!                     └────────┴───────────┘          │ copied, then relocated
//!                   mapped, shared by all instances   ▼
//! cell           | r-x …   | r-- …     | relro r-- | rw- | bss (anonymous) | heap →
//! ```
//!
//! Code and constants are mapped from the memfd, so all instances share one copy in the page cache. Writable segments
//! are a few pages: a private copy costs less than mapping them and breaking the copy-on-write.

use super::apart::verify_sealed;
use super::{Access as SegmentAccess, Image, ImageError, SymbolTable, verify};
use crate::address_space::{Access, AddressSpace, AddressSpaceError};
use crate::keys::Key;
use goblin::elf64::header::ELFMAG;
use monohull_abi::layout::{PAGE, page_down, page_up};
use monohull_host_files::input::{self, InputError};
use monohull_ipc::sealed::{seal, seal_file};
use monohull_report::{Blame, Failure, FailureKind};
use monohull_sys::sealed_bytes::SealedBytes;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// Bytes of writable segments up to this size are kept; larger ones are read from the sealed memory each time, straight to where they are wanted.
const KEPT: u64 = 64 << 10;

/// Bytes that are hashed at a time: they stay in a processor's cache.
const HASHED_AT_ONCE: usize = 256 << 10;

/// An image could not be made ready.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum LoadError {
    #[error("the image file {path} cannot be read: {source}")]
    Read {
        /// The file.
        path: std::path::PathBuf,
        /// The host's answer.
        source: std::io::Error,
    },
    #[error("the image {name} is refused: {source}")]
    Refused {
        /// The function's name.
        name: String,
        /// Why.
        source: ImageError,
    },
    #[error("the host lacks memory for the image {name}: {source}")]
    Seal {
        /// The function's name.
        name: String,
        /// The host's answer.
        source: std::io::Error,
    },
}

impl LoadError {
    /// Whether the host is at fault, and it may be otherwise later. A file that is not there, is no regular one or may not be read stays that.
    pub fn is_hosts(&self) -> bool {
        use std::io::ErrorKind::{InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied};
        match self {
            LoadError::Read { source, .. } => {
                !matches!(source.kind(), NotFound | NotADirectory | IsADirectory | InvalidInput | PermissionDenied)
            }
            LoadError::Refused { .. } => false,
            LoadError::Seal { .. } => true,
        }
    }

    /// The same of a file with another name.
    pub fn of_file(self, path: &std::path::Path) -> LoadError {
        match self {
            LoadError::Read { source, .. } => LoadError::Read { path: path.to_owned(), source },
            other => other,
        }
    }
}

/// An image that cannot be loaded as the workflow's failure.
impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Failure {
        let blame = match &error {
            error if error.is_hosts() => Blame::Host,
            LoadError::Refused { .. } => Blame::Function,
            _ => Blame::Workflow,
        };
        Failure::blamed(FailureKind::Load, blame, error.to_string())
    }
}

/// A checked image in sealed memory.
#[derive(Debug)]
pub struct LoadedImage {
    /// What the parser found.
    pub image: Image,
    sealed: File,
    /// See [`Self::hash`].
    hash: OnceLock<[u8; 32]>,
    /// Names for reports, read when the first one is wanted.
    symbols: OnceLock<SymbolTable>,
    /// Bytes of the writable segments as they are in the file.
    data: Vec<Data>,
}

/// Bytes of a writable segment as they are in the file.
#[derive(Debug)]
struct Data {
    /// Where, relative to the load base, and where in the file.
    address: u64,
    file_offset: u64,
    len: u64,
    /// The bytes, if they are few.
    kept: Option<Box<[u8]>>,
}

/// Whole pages that are put back to their first state when a cell is used again.
#[derive(Debug)]
pub struct Pristine {
    /// The base of the image.
    base: u64,
    range: Range<u64>,
    /// What they held, once it has been asked for.
    bytes: OnceLock<Box<[u8]>>,
}

impl Pristine {
    /// Which pages.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// What they held before the first instruction ran, of this image. It is made when it is first asked for: a process that ends with its
    /// only instance never does.
    pub fn bytes(&self, image: &LoadedImage) -> &[u8] {
        self.bytes.get_or_init(|| image.first_bytes(self.base, &self.range))
    }
}

impl LoadedImage {
    /// Copies an image file into sealed memory, and verifies what is there. A file that is sealed memory is taken as it is.
    pub fn open(name: &str, path: &std::path::Path) -> Result<LoadedImage, LoadError> {
        let unread = |error: InputError| LoadError::Read { path: path.to_owned(), source: error.into() };
        let unsealed = |source| LoadError::Seal { name: name.into(), source };
        let file = input::open_regular(path, false).map_err(unread)?;
        let sealed = seal_file(&file, input::FILE_MAX).map_err(|error| match error.kind() {
            ErrorKind::StorageFull | ErrorKind::OutOfMemory => unsealed(error),
            _ => unread(error.into()),
        })?;
        let sealed = File::from(sealed.ok_or_else(|| unread(InputError::TooLong(input::FILE_MAX)))?);
        // What is mapped reaches to the end of the last page; this refuses what the checker would not see there.
        let bytes = SealedBytes::map(&sealed).map_err(|error| match error.kind() {
            ErrorKind::InvalidData => unread(error.into()),
            _ => unsealed(error),
        })?;
        let image = verify_sealed(name, &bytes, &sealed);
        let image = image.map_err(|source| LoadError::Refused { name: name.into(), source })?;
        LoadedImage::of_sealed(image, sealed.into()).map_err(unsealed)
    }

    /// Verifies and seals an image. The bytes checked are the bytes mapped.
    pub fn new(name: &str, bytes: &[u8]) -> Result<LoadedImage, LoadError> {
        let image = verify(name, bytes).map_err(|source| LoadError::Refused { name: name.into(), source })?;
        // Mappings reach to the end of the last page.
        let sealed = seal(bytes, page_up(bytes.len() as u64).max(PAGE))
            .map_err(|source| LoadError::Seal { name: name.into(), source })?;
        LoadedImage::of_sealed(image, sealed).map_err(|source| LoadError::Seal { name: name.into(), source })
    }

    /// An image that was checked by [`Self::open`] or [`Self::new`], perhaps in another process: what it found, and [`Self::sealed`]. Nothing
    /// is checked again.
    pub fn of_sealed(image: Image, sealed: OwnedFd) -> std::io::Result<LoadedImage> {
        let sealed = File::from(sealed);
        let mut data = Vec::new();
        for segment in image.segments.iter().filter(|s| s.access == SegmentAccess::ReadWrite) {
            let (address, file_offset, len) = (segment.address, segment.file_offset, segment.file_size);
            let mut kept = (len <= KEPT).then(|| vec![0; len as usize].into_boxed_slice());
            if let Some(bytes) = &mut kept {
                sealed.read_exact_at(bytes, file_offset)?;
            }
            data.push(Data { address, file_offset, len, kept });
        }
        Ok(LoadedImage { image, sealed, hash: OnceLock::new(), symbols: OnceLock::new(), data })
    }

    /// SHA-256 of the file. It takes longer than everything else that is done with an image, and what is not captured does without it, so it is
    /// computed when it is first asked for.
    ///
    /// An error is one of the host, which cannot read its memory.
    pub fn hash(&self) -> std::io::Result<[u8; 32]> {
        if let Some(hash) = self.hash.get() {
            return Ok(*hash);
        }
        let (mut hash, mut piece) = (Sha256::new(), vec![0; HASHED_AT_ONCE]);
        for at in (0..self.image.bytes).step_by(HASHED_AT_ONCE) {
            let piece = &mut piece[..(self.image.bytes - at).min(HASHED_AT_ONCE as u64) as usize];
            let unread = |error| std::io::Error::other(format!("the memory of an image cannot be read: {error}"));
            self.sealed.read_exact_at(piece, at).map_err(unread)?;
            hash.update(piece);
        }
        let hash = hash.finalize().into();
        Ok(*self.hash.get_or_init(|| hash))
    }

    /// The file's bytes, which cannot change any more.
    pub fn sealed(&self) -> BorrowedFd<'_> {
        self.sealed.as_fd()
    }

    /// Names for reports.
    pub fn symbols(&self) -> &SymbolTable {
        self.symbols.get_or_init(|| {
            let len = self.sealed.metadata().map_or(0, |metadata| metadata.len());
            let mut bytes = vec![0; len as usize];
            // A report without names is better than none.
            match self.sealed.read_exact_at(&mut bytes, 0) {
                Ok(()) => self.read_symbols(&bytes),
                Err(_) => SymbolTable::default(),
            }
        })
    }

    /// Names in the file with these bytes. A compiled WebAssembly program lies in its image as a file of its own, which begins with a segment.
    fn read_symbols(&self, bytes: &[u8]) -> SymbolTable {
        let mut symbols = SymbolTable::read(bytes);
        for segment in self.image.segments.iter().filter(|segment| segment.file_offset > 0) {
            if let Some(part) = bytes.get(segment.file_offset as usize..)
                && part.starts_with(ELFMAG)
            {
                symbols.add_part(part, segment.address);
            }
        }
        symbols
    }

    /// The bytes of a writable segment, beginning with the one at `skip`.
    fn read_data(&self, data: &Data, skip: u64, into: &mut [u8]) -> std::io::Result<()> {
        match &data.kept {
            Some(bytes) => {
                into.copy_from_slice(&bytes[skip as usize..][..into.len()]);
                Ok(())
            }
            None => self.sealed.read_exact_at(into, data.file_offset + skip),
        }
    }

    /// What pages of writable segments hold before the first instruction runs, of an image that is loaded at `base`.
    fn first_bytes(&self, base: u64, range: &Range<u64>) -> Box<[u8]> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        for data in &self.data {
            let start = (base + data.address).max(range.start);
            let end = (base + data.address + data.len).min(range.end);
            if start < end {
                let into = &mut bytes[(start - range.start) as usize..(end - range.start) as usize];
                let read = self.read_data(data, start - base - data.address, into);
                read.expect("sealed memory is as long as the file was");
            }
        }
        for relocation in self.image.relocations.iter() {
            let at = (base + relocation.offset).wrapping_sub(range.start) as usize;
            // Words are aligned, so each lies in one page.
            if let Some(word) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
                *word = relocation.value.at(base).to_le_bytes();
            }
        }
        bytes.into()
    }

    /// Maps and relocates the image at `base`, inside a clean cell of this key. Returns which writable pages have a first state that is not zero.
    pub fn map(&self, space: &AddressSpace, base: u64, key: Key) -> Result<Vec<Pristine>, AddressSpaceError> {
        for segment in &self.image.segments {
            let pages = page_down(base + segment.address)..page_up(base + segment.address + segment.memory_size);
            let access = match segment.access {
                SegmentAccess::Read => Access::Read,
                SegmentAccess::ReadExecute => Access::ReadExecute,
                SegmentAccess::ReadWrite => {
                    space.protect(pages, Access::ReadWrite, key)?;
                    continue;
                }
            };
            space.map_file(pages, self.sealed.as_fd(), page_down(segment.file_offset), access, key)?;
        }
        for data in &self.data {
            let address = base + data.address;
            // SAFETY: these pages have just been made writable, and are as long as the segment, which is at least as
            // long as its bytes in the file; no thread of this cell exists yet, and nothing else refers to them.
            let into = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, data.len as usize) };
            let refused = |source| AddressSpaceError::Refused { what: "read", address, bytes: data.len, source };
            self.read_data(data, 0, into).map_err(refused)?;
        }
        for relocation in self.image.relocations.iter() {
            let word = (base + relocation.offset) as *mut u64;
            // SAFETY: the parser has checked that the word lies, aligned, in a writable segment.
            unsafe { word.write(relocation.value.at(base)) };
        }
        let mut relro = 0..0;
        if let Some(range) = &self.image.relro {
            relro = page_down(base + range.start)..page_down(base + range.end);
            if !relro.is_empty() {
                space.protect(relro.clone(), Access::Read, key)?;
            }
        }
        Ok(self.data.iter().filter_map(|data| pristine(base, data, &relro)).collect())
    }

    /// The whole pages of bss when the image is at `base`: what is zero before the first instruction runs.
    pub fn zeros(&self, base: u64) -> Vec<Range<u64>> {
        let writable = self.image.segments.iter().filter(|s| s.access == SegmentAccess::ReadWrite);
        let pages = writable.map(|s| {
            let start = base + s.address;
            page_up(start + s.file_size)..page_up(start + s.memory_size)
        });
        pages.filter(|pages| !pages.is_empty()).collect()
    }

    /// End of the image when it is at `base`.
    pub fn end(&self, base: u64) -> u64 {
        page_up(base + self.image.span)
    }
}

/// The whole pages that the bytes of a segment lie in, without those that are final (`relro`).
fn pristine(base: u64, data: &Data, relro: &Range<u64>) -> Option<Pristine> {
    let first = page_down(base + data.address);
    let start = first.max(if relro.contains(&first) { relro.end } else { 0 });
    let range = start..page_up(base + data.address + data.len);
    (!range.is_empty()).then(|| Pristine { base, range, bytes: OnceLock::new() })
}
