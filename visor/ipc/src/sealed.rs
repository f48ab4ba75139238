//! Bytes that cannot change any more: sealed memfds, in which images and large messages pass between processes.
//!
//! A process that maps or reads memory from one that it does not trust relies on two properties: the size stays the same, and so
//! does the content after it was checked. The kernel guarantees both for a file with these seals (memfd_create(2)).

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::fstat;
use nix::sys::uio::pread;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

const SEALS: SealFlag =
    SealFlag::F_SEAL_SHRINK.union(SealFlag::F_SEAL_GROW).union(SealFlag::F_SEAL_WRITE).union(SealFlag::F_SEAL_SEAL);

/// A sealed copy of these bytes, followed by zeros up to `size`.
pub fn seal(bytes: &[u8], size: u64) -> io::Result<OwnedFd> {
    seal_written(|memory| {
        memory.write_all_at(bytes, 0)?;
        if size > bytes.len() as u64 { memory.set_len(size) } else { Ok(()) }
    })
}

/// Sealed memory with what is written into it before.
pub fn seal_written<E: From<io::Error>>(write: impl FnOnce(&File) -> Result<(), E>) -> Result<OwnedFd, E> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let memory = File::from(memfd_create(c"monohull-sealed", flags).map_err(io::Error::from)?);
    write(&memory)?;
    Ok(seal_memory(memory)?)
}

/// Seals memory as it is now.
pub(crate) fn seal_memory(memory: File) -> io::Result<OwnedFd> {
    fcntl(&memory, FcntlArg::F_ADD_SEALS(SEALS))?;
    Ok(memory.into())
}

/// The bytes of a file in sealed memory: a copy, or the file itself if it is sealed memory already. `None` if it has more than `limit`
/// bytes. What another process writes to the file meanwhile may be in the copy in part, and cannot change it afterwards.
pub fn seal_file(file: &File, limit: u64) -> io::Result<Option<OwnedFd>> {
    if let Ok(size) = sealed_size(file) {
        return if size > limit { Ok(None) } else { file.try_clone().map(|file| Some(file.into())) };
    }
    let mut copied = 0;
    let memory = seal_written(|mut memory| {
        // Within the kernel, where it can.
        copied = io::copy(&mut file.take(limit.saturating_add(1)), &mut memory)?;
        Ok::<_, io::Error>(())
    })?;
    Ok((copied <= limit).then_some(memory))
}

/// The size of a file that is sealed; an error if it is not.
pub fn sealed_size(file: impl AsFd) -> io::Result<u64> {
    // For anything but a memfd this is an error.
    let seals = SealFlag::from_bits_truncate(fcntl(file.as_fd(), FcntlArg::F_GET_SEALS)?);
    if !seals.contains(SEALS) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the memory that was sent is not sealed"));
    }
    Ok(fstat(file.as_fd())?.st_size.try_into().unwrap_or(0))
}

/// The bytes of a sealed file, if there are at most `limit`.
pub fn read_sealed(file: impl AsFd, limit: u64) -> io::Result<Vec<u8>> {
    let size = sealed_size(file.as_fd())?;
    if size > limit {
        let text = format!("{size} bytes were sent where at most {limit} are taken");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let mut bytes = vec![0; size as usize];
    let mut read = 0;
    while read < bytes.len() {
        match pread(file.as_fd(), &mut bytes[read..], read as i64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => read += more,
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    #[test]
    fn a_file_is_copied_once_and_taken_as_it_is_when_it_is_sealed() {
        let path = std::env::temp_dir().join(format!("monohull-sealed-{}", std::process::id()));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).expect("a file");
        std::fs::remove_file(&path).expect("it has no name any more");
        file.write_all(&[7; 10_000]).expect("written");
        file.rewind().expect("at its beginning");
        let sealed = seal_file(&file, 10_000).expect("there is memory").expect("it is not too long");
        file.write_all_at(b"changed", 0).expect("written");
        assert_eq!(read_sealed(&sealed, 10_000).expect("it is sealed"), [7; 10_000]);
        File::from(sealed.try_clone().expect("a descriptor")).write_all_at(b"x", 0).expect_err("it is sealed");
        let sealed = File::from(sealed);
        let node = |file: &File| std::os::unix::fs::MetadataExt::ino(&file.metadata().expect("known"));
        let again = File::from(seal_file(&sealed, 10_000).expect("nothing is copied").expect("it is not too long"));
        assert_eq!(node(&sealed), node(&again));
        assert!(seal_file(&sealed, 9_999).expect("nothing is copied").is_none());
        file.rewind().expect("at its beginning");
        assert!(seal_file(&file, 9_999).expect("there is memory").is_none(), "longer than the limit");
    }
}
