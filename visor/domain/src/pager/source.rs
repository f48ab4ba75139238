//! Where the bytes of a mapping come from: memory of the trusted side, in one or more pieces.
//!
//! Files of the libos are in memory already, and stay there by the contract of file systems. A file of a granted directory is
//! mapped for this. Reading takes no lock and calls no module.

use monohull_abi::Errno;
use monohull_abi::file::Extent;
use monohull_trampoline::system::copy;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The bytes of a mapping.
#[derive(Debug)]
pub(crate) struct Source {
    pieces: Vec<Piece>,
    /// The mapping of a host's file that the only piece points into.
    _view: Option<View>,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Its end in the mapping.
    end: u64,
    /// The address of its bytes; 0 for zeros.
    address: u64,
    len: u64,
}

/// Contiguous bytes from some offset of a mapping on.
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    /// Their address; `None` for zeros.
    pub(crate) address: Option<u64>,
    /// How many.
    pub(crate) len: u64,
}

impl Source {
    /// Memory of a module, which stays where it is until the mapping ends.
    pub(crate) fn of_extents(extents: &[Extent]) -> Source {
        let mut end = 0;
        let pieces = extents.iter().filter(|extent| extent.len > 0).map(|extent| {
            end += extent.len;
            Piece { end, address: extent.address, len: extent.len }
        });
        Source { pieces: pieces.collect(), _view: None }
    }

    /// A part of a file of the host. It is read from the kernel's page cache; a file that has become shorter by then has fewer
    /// bytes.
    pub(crate) fn of_file(file: &OwnedFd, offset: u64, len: u64) -> io::Result<Source> {
        let (view, address) = View::new(file, offset, len)?;
        Ok(Source { pieces: vec![Piece { end: len, address, len }], _view: Some(view) })
    }

    /// The contiguous bytes from an offset of the mapping on.
    pub(crate) fn at(&self, offset: u64) -> Segment {
        let index = self.pieces.partition_point(|piece| piece.end <= offset);
        let Some(piece) = self.pieces.get(index) else { return Segment { address: None, len: 0 } };
        let into = piece.len - (piece.end - offset);
        Segment { address: (piece.address != 0).then(|| piece.address + into), len: piece.end - offset }
    }

    /// Copies the bytes from an offset on, over zeros: what is beyond the end stays zero.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes, and the calling thread is a carrier.
    pub(crate) unsafe fn read(&self, offset: u64, to: u64, len: u64) -> Result<(), Errno> {
        let mut done = 0;
        while done < len {
            let segment = self.at(offset + done);
            let step = segment.len.min(len - done);
            if step == 0 {
                break;
            }
            if let Some(from) = segment.address {
                // SAFETY: the source is pinned or a view of our own; the target is writable; carriers survive faults.
                let copied = unsafe { copy((to + done) as *mut u8, from as *const u8, step as usize) };
                if !copied {
                    return Err(Errno::Io);
                }
            }
            done += step;
        }
        Ok(())
    }
}

/// A file, mapped for the trusted side alone.
#[derive(Debug)]
struct View {
    address: u64,
    len: u64,
}

impl View {
    /// The view, and where in it the bytes from `offset` on are.
    fn new(file: &OwnedFd, offset: u64, len: u64) -> io::Result<(View, u64)> {
        let start = monohull_abi::layout::page_down(offset);
        let len = offset - start + len;
        let size = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let place = i64::try_from(start).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: a new mapping where the kernel likes; it replaces nothing.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), place)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let view = View { address: address as u64, len };
        let first = view.address + (offset - start);
        Ok((view, first))
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: a mapping of ours, which is not read any more.
        unsafe { libc::munmap(self.address as *mut libc::c_void, self.len as usize) };
    }
}
