//! Thread-local storage: the template from which the function makes a copy for each of its threads.
//!
//! ```text
//!   image     | …  | .tdata | …                    PT_TLS: address, bytes in the file, bytes in memory, alignment
//!                     │ copied, then zeros, by the function itself
//!   a thread  | .tdata | .tbss |                   __tls_get_addr(module, offset)
//!                 ↑ offset: R_X86_64_DTPOFF64      module: R_X86_64_DTPMOD64, always 1
//! ```
//!
//! The system makes no copies and reads none. It only checks that the template is where the image says, and passes the function
//! (`GET_INFO`). Accesses go through the function's own `__tls_get_addr` (the general dynamic model). The other models
//! expect a thread pointer in `fs`, which is the system's; an image that needs them is refused.

use super::segment::Segments;
use super::{ImageError, MAX_SPAN, file::single};
use goblin::elf64::program_header::{PT_TLS, ProgramHeader};
use monohull_abi::layout::PAGE;
use serde::{Deserialize, Serialize};

/// The module number of an image's thread-local variables: an instance has one image.
pub(super) const MODULE: u64 = 1;

/// The first contents of thread-local variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TlsTemplate {
    /// Where the initial bytes are, relative to the load base; inside the file part of one segment.
    pub address: u64,
    /// Bytes there.
    pub file_size: u64,
    /// Bytes that each thread needs, at least `file_size`; the others are zero.
    pub memory_size: u64,
    /// The alignment of a copy: a power of two, at most a page.
    pub align: u64,
}

impl TlsTemplate {
    /// Checks the image's PT_TLS, if it has one.
    pub(super) fn read(segments: &Segments, headers: &[ProgramHeader]) -> Result<Option<TlsTemplate>, ImageError> {
        let Some(header) = single(headers, PT_TLS, "PT_TLS")? else { return Ok(None) };
        let (address, file_size, memory_size) = (header.p_vaddr, header.p_filesz, header.p_memsz);
        let align = header.p_align.max(1);
        if file_size > memory_size || memory_size > MAX_SPAN {
            return Err(ImageError::ThreadLocalSize { file_size, memory_size });
        }
        if align > PAGE || !align.is_power_of_two() {
            return Err(ImageError::ThreadLocalAlignment { align });
        }
        // A template of zeros has no bytes, and an address that only has the right remainder by the alignment.
        match file_size {
            0 if address <= segments.span() => {}
            0 => return Err(ImageError::OutsideSegments { what: "thread-local segment", address, size: 0 }),
            _ => drop(segments.file_part("thread-local segment", address, file_size)?),
        }
        Ok(Some(TlsTemplate { address, file_size, memory_size, align }))
    }
}
