//! Open files.

use super::{Metadata, Permissions};
use crate::io::{self, Error, ErrorKind, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use crate::path::Path;
use crate::string::String;
use crate::sync::Arc;
use crate::sys::files::{self, Descriptor};
use crate::time::SystemTime;
use crate::vec::Vec;
use core::fmt;
use monohull_abi::file::{KEEP_TIME, open};

/// An open file; closed when it is dropped.
pub struct File(Descriptor);

/// How to open a file.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
}

/// Times to be set ([`File::set_times`]); those that are not named stay as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileTimes {
    accessed: Option<SystemTime>,
    modified: Option<SystemTime>,
}

impl FileTimes {
    /// None.
    pub fn new() -> FileTimes {
        FileTimes::default()
    }

    /// When it was last read.
    pub fn set_accessed(mut self, time: SystemTime) -> FileTimes {
        self.accessed = Some(time);
        self
    }

    /// When it was last written.
    pub fn set_modified(mut self, time: SystemTime) -> FileTimes {
        self.modified = Some(time);
        self
    }
}

impl File {
    /// Opens a file that is there, to be read.
    pub fn open<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).open(path)
    }

    /// Makes a file, or cuts the one that is there to nothing, to be written.
    pub fn create<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Makes a file that is not there, to be read and written.
    pub fn create_new<P: AsRef<Path>>(path: P) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// How to open a file.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Makes sure that what was written survives a crash of the host, where the file outlives the workflow.
    pub fn sync_all(&self) -> io::Result<()> {
        self.0.sync()
    }

    /// The same.
    pub fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    /// Sets when the file was read and written, as exactly as its file system keeps that.
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        let ns = |time: Option<SystemTime>| match time.map(SystemTime::since_1970) {
            None => Ok(KEEP_TIME),
            Some(ns) => {
                i64::try_from(ns).ok().filter(|ns| *ns != KEEP_TIME).ok_or(Error::from(ErrorKind::InvalidInput))
            }
        };
        self.0.set_times(ns(times.accessed)?, ns(times.modified)?)
    }

    /// Sets when the file was written.
    pub fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(time))
    }

    /// Cuts the file, or extends it with zeros.
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        self.0.resize(size)
    }

    /// What is known of it.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.0.stat().map(Metadata)
    }

    /// A second descriptor for this open file; they share its position.
    pub fn try_clone(&self) -> io::Result<File> {
        self.0.duplicate().map(File)
    }

    /// Changes whether it can be written: only to what it is already.
    pub fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        self.metadata()?.check_permissions(&permissions)
    }

    /// Reads at an offset; the position stays.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }

    /// Writes at an offset; the position stays.
    pub fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(buf, offset)
    }

    /// What its calls are made with.
    pub(crate) fn descriptor(&self) -> &Descriptor {
        &self.0
    }

    /// What lies between the position and the end, if the size is known.
    fn rest(&self) -> usize {
        let size = self.metadata().map_or(0, |metadata| metadata.len());
        let position = self.0.seek(SeekFrom::Current(0)).unwrap_or(0);
        usize::try_from(size.saturating_sub(position)).unwrap_or(0)
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("fd", &self.0.number()).finish_non_exhaustive()
    }
}

impl Read for &File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.read_vectored(bufs)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        let rest = self.rest();
        buf.try_reserve(rest).map_err(|_| Error::from(ErrorKind::OutOfMemory))?;
        let start = buf.len();
        // One more byte than there should be: the read that finds the end then needs no further call.
        let mut room = rest.saturating_add(1).max(32);
        loop {
            let filled = buf.len();
            buf.try_reserve(room).map_err(|_| Error::from(ErrorKind::OutOfMemory))?;
            buf.resize(filled + room, 0);
            match self.0.read(&mut buf[filled..]) {
                Ok(count) => {
                    buf.truncate(filled + count);
                    if count == 0 {
                        return Ok(filled - start);
                    }
                }
                Err(error) => {
                    buf.truncate(filled);
                    return Err(error);
                }
            }
            room = 32.max(buf.len() - start).min(1 << 20);
        }
    }

    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        io::append_text(buf, |bytes| self.read_to_end(bytes))
    }
}

impl Write for &File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.0.seek(position)
    }
}

/// The same for other ways to hold a file.
macro_rules! forward {
    ($($type:ty: $file:ident => $borrowed:expr;)*) => {$(
        impl Read for $type {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                { let $file = self; $borrowed }.read(buf)
            }

            fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                { let $file = self; $borrowed }.read_vectored(bufs)
            }

            fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
                { let $file = self; $borrowed }.read_to_end(buf)
            }

            fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
                { let $file = self; $borrowed }.read_to_string(buf)
            }
        }

        impl Write for $type {
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                { let $file = self; $borrowed }.write(buf)
            }

            fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                { let $file = self; $borrowed }.write_vectored(bufs)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        impl Seek for $type {
            fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
                { let $file = self; $borrowed }.seek(position)
            }
        }
    )*};
}

forward! {
    File: file => &*file;
    Arc<File>: file => &**file;
}

impl OpenOptions {
    /// None of them.
    #[allow(clippy::new_without_default, reason = "std has it so")]
    pub fn new() -> OpenOptions {
        OpenOptions { read: false, write: false, append: false, truncate: false, create: false, create_new: false }
    }

    /// It can be read.
    pub fn read(&mut self, read: bool) -> &mut OpenOptions {
        self.read = read;
        self
    }

    /// It can be written.
    pub fn write(&mut self, write: bool) -> &mut OpenOptions {
        self.write = write;
        self
    }

    /// Everything written goes to the end.
    pub fn append(&mut self, append: bool) -> &mut OpenOptions {
        self.append = append;
        self
    }

    /// Its old contents are lost.
    pub fn truncate(&mut self, truncate: bool) -> &mut OpenOptions {
        self.truncate = truncate;
        self
    }

    /// It is made if it is not there.
    pub fn create(&mut self, create: bool) -> &mut OpenOptions {
        self.create = create;
        self
    }

    /// It is made, and must not be there.
    pub fn create_new(&mut self, create_new: bool) -> &mut OpenOptions {
        self.create_new = create_new;
        self
    }

    /// Opens a file like that.
    pub fn open<P: AsRef<Path>>(&self, path: P) -> io::Result<File> {
        let flags = self.flags().ok_or_else(|| Error::from(ErrorKind::InvalidInput))?;
        files::open(path.as_ref().as_str(), flags).map(File)
    }

    /// The flags of the hostcall; `None` for options that contradict each other.
    fn flags(&self) -> Option<u64> {
        let writes = self.write || self.append;
        let makes = self.create || self.create_new;
        let needs_writing = makes || self.truncate || !self.read;
        let wrong = needs_writing && !writes || self.truncate && self.append && !self.create_new;
        let flag = |set: bool, flag: u64| if set { flag } else { 0 };
        (!wrong).then_some(
            flag(self.read, open::READ)
                | flag(writes, open::WRITE)
                | flag(self.append, open::APPEND)
                | flag(self.truncate && !self.create_new, open::TRUNCATE)
                | flag(makes, open::CREATE)
                | flag(self.create_new, open::EXCLUSIVE),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_the_hosts() {
        let folder = host_std::env::temp_dir().join(crate::format!("monohull-options-{}", host_std::process::id()));
        host_std::fs::create_dir_all(&folder).unwrap();
        for bits in 0..64u32 {
            let bit = |n: u32| bits & 1 << n != 0;
            let mut ours = OpenOptions::new();
            ours.read(bit(0)).write(bit(1)).append(bit(2)).truncate(bit(3)).create(bit(4)).create_new(bit(5));
            let mut theirs = host_std::fs::OpenOptions::new();
            theirs.read(bit(0)).write(bit(1)).append(bit(2)).truncate(bit(3)).create(bit(4)).create_new(bit(5));
            let file = folder.join("file");
            let _ = host_std::fs::remove_file(&file);
            if !bit(5) {
                host_std::fs::write(&file, "x").unwrap();
            }
            assert_eq!(ours.flags().is_some(), theirs.open(&file).is_ok(), "{ours:?}");
        }
        host_std::fs::remove_dir_all(&folder).unwrap();
    }
}
