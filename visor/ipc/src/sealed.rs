//! Bytes that cannot change any more: sealed memfds, in which images and large messages pass between processes.
//!
//! A process that maps or reads memory from one that it does not trust relies on two properties: the size stays the same, and so
//! does the content after it was checked. The kernel guarantees both for a file with these seals (memfd_create(2)).

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

const SEALS: SealFlag =
    SealFlag::F_SEAL_SHRINK.union(SealFlag::F_SEAL_GROW).union(SealFlag::F_SEAL_WRITE).union(SealFlag::F_SEAL_SEAL);

/// A sealed copy of these bytes, followed by zeros up to `size`.
pub fn seal(bytes: &[u8], size: u64) -> io::Result<OwnedFd> {
    let file = memfd_create(c"monohull-sealed", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
    let file = File::from(file);
    file.write_all_at(bytes, 0)?;
    if size > bytes.len() as u64 {
        file.set_len(size)?;
    }
    fcntl(&file, FcntlArg::F_ADD_SEALS(SEALS))?;
    Ok(file.into())
}

/// The size of a file that is sealed; an error if it is not.
pub fn sealed_size(file: impl AsFd) -> io::Result<u64> {
    // For anything but a memfd this is an error.
    let seals = SealFlag::from_bits_truncate(fcntl(file.as_fd(), FcntlArg::F_GET_SEALS)?);
    if !seals.contains(SEALS) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the memory that was sent is not sealed"));
    }
    Ok(File::from(file.as_fd().try_clone_to_owned()?).metadata()?.len())
}

/// The bytes of a sealed file, if there are at most `limit`.
pub fn read_sealed(file: impl AsFd, limit: u64) -> io::Result<Vec<u8>> {
    let size = sealed_size(file.as_fd())?;
    if size > limit {
        let text = format!("{size} bytes were sent where at most {limit} are taken");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let mut bytes = vec![0; size as usize];
    File::from(file.as_fd().try_clone_to_owned()?).read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
