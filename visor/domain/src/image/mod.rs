//! The ELF loader of function images: what it accepts, and what it extracts.
//!
//! A function image never goes through `dlopen`, which would run its constructors with full rights and give all
//! instances one copy of its data. This is the first half of a loader of our own: it parses an untrusted file, checks
//! everything, and returns either an [`Image`] that can be mapped without further checks, or an error with the name of what
//! it does not accept. It maps nothing and has no unsafe code. The second half ([`map`]) maps the file's pages and writes the
//! relocated words:
//!
//! ```text
//!   file     | headers, tables  r-- | code  r-x | relro, data  rw- |
//!               ↓ p_offset ≡ p_vaddr (mod page)       ↓                ↓ zeros
//!   cell     base + | r-- |  gap  | r-x |  gap  | rw- (relro: r--) | rw- bss |
//!                                                 ↑ words: base + value
//! ```
//!
//! What is accepted is what `rustc` and a C linker make of a shared object without start files: one ET_DYN
//! file for x86-64 that imports nothing, and whose relocations are RELATIVE, GLOB_DAT, JUMP_SLOT or 64 against its own
//! symbols, or DTPMOD64 and DTPOFF64 for its own thread-local variables. Undefined weak symbols read as zero. `.init_array`
//! and `.fini_array` are for the function to run.
#![deny(unsafe_code)]

mod apart;
mod dynamic;
mod error;
mod file;
#[allow(unsafe_code, reason = "the loader's other half writes into cells")]
pub mod map;
mod relocation;
mod segment;
mod symbol;
mod tls;
mod words;

pub use error::ImageError;
pub use monohull_checker::symbols::{Symbol, SymbolTable};
pub use segment::{Access, Segment};
pub use tls::TlsTemplate;
pub use words::{Relocation, Relocations, Value};

use crate::fault_injection::{self, Mitigation};
use monohull_abi::{
    ABI_VERSION,
    module::MAGIC,
    types::{IMAGE_SYMBOL, START_SYMBOL},
};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The largest image: bytes from address 0 to the end of the last page.
pub const MAX_SPAN: u64 = 1 << 30;

/// A function image whose file has been checked. All addresses are relative to the load base.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Image {
    /// The name it was registered under.
    pub name: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// What to map, in ascending order; no two touch the same page.
    pub segments: Vec<Segment>,
    /// Whole pages inside one writable segment that become read-only once the relocations are written.
    pub relro: Option<Range<u64>>,
    /// Words to write after mapping, in ascending order, each in the file part of a writable segment and none twice.
    pub relocations: Relocations,
    /// Where the main thread starts; inside an executable segment.
    pub start: u64,
    /// The function pointers to call before anything else: address and number.
    pub init_array: Option<(u64, u64)>,
    /// The first contents of thread-local variables.
    pub tls: Option<TlsTemplate>,
    /// End of the last page.
    pub span: u64,
}

impl Image {
    /// Reads an image file. What it returns has been checked against everything the loader relies on, except for the
    /// instructions: see [`verify`].
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Image, ImageError> {
        let headers = file::program_headers(bytes)?;
        let segments = segment::Segments::read(bytes, &headers)?;
        let dynamic = dynamic::Dynamic::read(&segments, &headers)?;
        let tls = TlsTemplate::read(&segments, &headers)?;
        let exports = symbol::DynamicSymbols::read(&segments, &dynamic, tls.as_ref())?;
        let relocations = relocation::read(&segments, &dynamic, &exports, tls.as_ref())?;
        let start = exports.find(START_SYMBOL)?;
        if segments.access_of(start, 1) != Some(Access::ReadExecute) {
            return Err(ImageError::StartNotCode { address: start });
        }
        check_header(&segments, exports.find(IMAGE_SYMBOL)?)?;
        Ok(Image {
            name: name.to_owned(),
            bytes: bytes.len() as u64,
            relro: segments.relro(&headers)?,
            relocations,
            start,
            init_array: dynamic.init_array,
            tls,
            span: segments.span(),
            segments: segments.list,
        })
    }

    /// Bytes that an instance may write to, bss included.
    pub fn data_bytes(&self) -> u64 {
        let writable = self.segments.iter().filter(|segment| segment.access == Access::ReadWrite);
        writable.map(|segment| segment.pages()).map(|pages| pages.end - pages.start).sum()
    }
}

/// Reads an image file and runs the instruction checker on it: what a file must pass to be registered.
pub fn verify(name: &str, bytes: &[u8]) -> Result<Image, ImageError> {
    let image = Image::parse(name, bytes)?;
    match monohull_checker::refusal(bytes)? {
        Some(_) if fault_injection::disabled(Mitigation::Checker) => Ok(image),
        Some(finding) => Err(ImageError::Forbidden { finding: Box::new(finding) }),
        None => Ok(image),
    }
}

/// Compares the image's own header (`monohull_abi::types::ImageHeader`) with this visor's versions.
fn check_header(segments: &segment::Segments, address: u64) -> Result<(), ImageError> {
    let header = segments.file_part("image header", address, 16)?;
    let word = |range: Range<usize>| header[range].try_into().map(u64::from_le_bytes).unwrap_or_default();
    let (magic, version) = (word(0..8), word(8..16));
    if magic != MAGIC {
        return Err(ImageError::WrongMagic { magic });
    }
    if version != u64::from(ABI_VERSION) {
        return Err(ImageError::WrongVersion { version });
    }
    Ok(())
}
