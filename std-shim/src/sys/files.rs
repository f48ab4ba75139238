//! Hostcalls about files.

use super::call;
use crate::io::{self, Error, IoSlice, IoSliceMut, SeekFrom};
use crate::string::String;
use crate::vec;
use monohull_abi::errno::Errno;
use monohull_abi::file::{
    AT_POSITION, Advice, FileStat, IoVec, LOWEST_FREE, PATH_MAX, VECTOR_MAX, WORKING_DIRECTORY, Whence,
};
use monohull_abi::number;

/// An open file or directory of this instance; closed when it is dropped.
pub(crate) struct Descriptor(u64);

const DIR: u64 = WORKING_DIRECTORY;

/// Opens a file or directory; the flags are the contract's.
pub(crate) fn open(path: &str, flags: u64) -> io::Result<Descriptor> {
    Ok(Descriptor(call(number::FILE_OPEN, [DIR, path.as_ptr() as u64, path.len() as u64, flags])?))
}

/// A call that takes one path and gives nothing.
fn about(number: u32, path: &str) -> io::Result<()> {
    call(number, [DIR, path.as_ptr() as u64, path.len() as u64])?;
    Ok(())
}

pub(crate) fn make_directory(path: &str) -> io::Result<()> {
    about(number::FILE_MKDIR, path)
}

pub(crate) fn remove_directory(path: &str) -> io::Result<()> {
    about(number::FILE_RMDIR, path)
}

pub(crate) fn remove_file(path: &str) -> io::Result<()> {
    about(number::FILE_UNLINK, path)
}

pub(crate) fn change_directory(path: &str) -> io::Result<()> {
    about(number::FILE_CHDIR, path)
}

pub(crate) fn stat(path: &str) -> io::Result<FileStat> {
    let mut stat = FileStat::default();
    call(number::FILE_STAT, [DIR, path.as_ptr() as u64, path.len() as u64, &raw mut stat as u64])?;
    Ok(stat)
}

pub(crate) fn rename(from: &str, to: &str) -> io::Result<()> {
    let (from, from_len) = (from.as_ptr() as u64, from.len() as u64);
    call(number::FILE_RENAME, [DIR, from, from_len, DIR, to.as_ptr() as u64, to.len() as u64])?;
    Ok(())
}

pub(crate) fn real_path(path: &str) -> io::Result<String> {
    text(|buffer, len| call(number::FILE_REALPATH, [DIR, path.as_ptr() as u64, path.len() as u64, buffer, len]))
}

pub(crate) fn working_directory() -> io::Result<String> {
    text(|buffer, len| call(number::FILE_GETCWD, [buffer, len]))
}

/// A path that a call writes into a buffer.
fn text(ask: impl FnOnce(u64, u64) -> Result<u64, Errno>) -> io::Result<String> {
    let mut bytes = vec![0; PATH_MAX];
    let len = ask(bytes.as_mut_ptr() as u64, bytes.len() as u64)?;
    bytes.truncate(len as usize);
    String::from_utf8(bytes).map_err(|_| Error::from(Errno::InvalidName))
}

/// Maps a part of a file: where it begins.
pub(crate) fn map(file: &Descriptor, offset: u64, len: u64, flags: u64) -> io::Result<u64> {
    call(number::FILE_MMAP, [file.0, offset, len, flags]).map_err(Error::explained)
}

/// Takes a mapping back.
pub(crate) fn unmap(address: u64) {
    let _ = call(number::FILE_MUNMAP, [address]);
}

/// Announces how a part of a mapping will be used.
pub(crate) fn advise_mapping(address: u64, offset: u64, len: u64, advice: Advice) -> io::Result<()> {
    let mut done = 0;
    loop {
        // What is needed now is filled some at a time.
        let filled = call(number::FILE_MADVISE, [address, offset + done, len - done, advice as u64])?;
        done += filled;
        if filled == 0 || done >= len {
            return Ok(());
        }
    }
}

/// Changes whether a mapping may be written to.
pub(crate) fn protect_mapping(address: u64, writable: bool) -> io::Result<()> {
    call(number::FILE_MPROTECT, [address, writable.into()])?;
    Ok(())
}

impl Descriptor {
    /// Its number, for people.
    pub(crate) fn number(&self) -> u64 {
        self.0
    }

    pub(crate) fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(call(number::FILE_READ, [self.0, buf.as_mut_ptr() as u64, buf.len() as u64])? as usize)
    }

    pub(crate) fn write(&self, buf: &[u8]) -> io::Result<usize> {
        Ok(call(number::FILE_WRITE, [self.0, buf.as_ptr() as u64, buf.len() as u64])? as usize)
    }

    pub(crate) fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(call(number::FILE_PREAD, [self.0, buf.as_mut_ptr() as u64, buf.len() as u64, offset])? as usize)
    }

    pub(crate) fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        Ok(call(number::FILE_PWRITE, [self.0, buf.as_ptr() as u64, buf.len() as u64, offset])? as usize)
    }

    pub(crate) fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let vectors = bufs.iter_mut().map(|buf| IoVec { address: buf.as_mut_ptr() as u64, len: buf.len() as u64 });
        self.vector(number::FILE_READV, vectors)
    }

    pub(crate) fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let vectors = bufs.iter().map(|buf| IoVec { address: buf.as_ptr() as u64, len: buf.len() as u64 });
        self.vector(number::FILE_WRITEV, vectors)
    }

    fn vector(&self, number: u32, vectors: impl Iterator<Item = IoVec>) -> io::Result<usize> {
        let vectors: vec::Vec<IoVec> = vectors.take(VECTOR_MAX as usize).collect();
        Ok(call(number, [self.0, vectors.as_ptr() as u64, vectors.len() as u64, AT_POSITION])? as usize)
    }

    pub(crate) fn seek(&self, position: SeekFrom) -> io::Result<u64> {
        let (offset, whence) = match position {
            SeekFrom::Start(offset) => (offset, Whence::Start),
            SeekFrom::Current(offset) => (offset as u64, Whence::Current),
            SeekFrom::End(offset) => (offset as u64, Whence::End),
        };
        Ok(call(number::FILE_SEEK, [self.0, offset, whence as u64])?)
    }

    pub(crate) fn stat(&self) -> io::Result<FileStat> {
        let mut stat = FileStat::default();
        call(number::FILE_FSTAT, [self.0, &raw mut stat as u64])?;
        Ok(stat)
    }

    pub(crate) fn resize(&self, size: u64) -> io::Result<()> {
        call(number::FILE_FTRUNCATE, [self.0, size])?;
        Ok(())
    }

    /// Sets when it was read and written, in ns since 1970, or [`KEEP_TIME`](monohull_abi::file::KEEP_TIME).
    pub(crate) fn set_times(&self, read: i64, written: i64) -> io::Result<()> {
        call(number::FILE_SET_TIMES, [self.0, 0, 0, read as u64, written as u64])?;
        Ok(())
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        call(number::FILE_FSYNC, [self.0])?;
        Ok(())
    }

    pub(crate) fn duplicate(&self) -> io::Result<Descriptor> {
        Ok(Descriptor(call(number::FILE_DUP, [self.0, LOWEST_FREE])?))
    }

    /// Fills the buffer with whole records of a directory: bytes.
    pub(crate) fn list(&self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(call(number::FILE_GETDENTS, [self.0, buf.as_mut_ptr() as u64, buf.len() as u64])? as usize)
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let _ = call(number::FILE_CLOSE, [self.0]);
    }
}
