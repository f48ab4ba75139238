//! Files, as one instance sees them: hostcalls of the descriptor table with Rust's types.

use crate::Domain;
use monohull_abi::file::{DirEntry, FileKind, FileStat, KEEP_TIME, LOWEST_FREE, WORKING_DIRECTORY, open};
use monohull_abi::{Errno, number};

/// The calls of one instance.
#[derive(Clone, Copy)]
pub struct Files<'d> {
    domain: &'d Domain,
    instance: u32,
}

impl Domain {
    /// The files of an instance.
    pub fn files(&self, instance: u32) -> Files<'_> {
        Files { domain: self, instance }
    }
}

fn arguments(times: [Option<i64>; 2]) -> [u64; 2] {
    times.map(|time| time.unwrap_or(KEEP_TIME) as u64)
}

impl Files<'_> {
    /// Any call: its answer.
    pub fn call<const N: usize>(&self, number: u32, args: [u64; N]) -> Result<u64, Errno> {
        let mut all = [0; 6];
        all[..N].copy_from_slice(&args);
        let answer = Errno::from_value(self.domain.call(self.instance, number, all));
        assert!(answer.is_ok() || !self.domain.explained().is_empty(), "{} is refused without an explanation", number);
        answer
    }

    /// A path's three arguments.
    fn path(&self, path: &str) -> [u64; 3] {
        [WORKING_DIRECTORY, self.domain.place(self.instance, path.as_bytes()), path.len() as u64]
    }

    fn about(&self, number: u32, path: &str) -> Result<(), Errno> {
        self.call(number, self.path(path)).map(drop)
    }

    /// Opens with these flags: a descriptor.
    pub fn open(&self, path: &str, flags: u64) -> Result<u64, Errno> {
        let [dir, path, len] = self.path(path);
        self.call(number::FILE_OPEN, [dir, path, len, flags])
    }

    /// Opens to read and write, making the file if need be.
    pub fn make(&self, path: &str) -> u64 {
        let made = self.open(path, open::READ | open::WRITE | open::CREATE);
        made.unwrap_or_else(|errno| panic!("{path}: {errno}: {}", self.domain.explained()))
    }

    /// Gives a descriptor back.
    pub fn close(&self, descriptor: u64) -> Result<(), Errno> {
        self.call(number::FILE_CLOSE, [descriptor]).map(drop)
    }

    /// A second descriptor.
    pub fn duplicate(&self, descriptor: u64) -> Result<u64, Errno> {
        self.call(number::FILE_DUP, [descriptor, LOWEST_FREE])
    }

    /// Writes at the position.
    pub fn write(&self, descriptor: u64, bytes: &[u8]) -> Result<u64, Errno> {
        self.call(number::FILE_WRITE, [descriptor, self.domain.place(self.instance, bytes), bytes.len() as u64])
    }

    /// Writes at an offset.
    pub fn write_at(&self, descriptor: u64, bytes: &[u8], offset: u64) -> Result<u64, Errno> {
        let address = self.domain.place(self.instance, bytes);
        self.call(number::FILE_PWRITE, [descriptor, address, bytes.len() as u64, offset])
    }

    /// Writes at an offset, by as many calls as it takes; how much came in, or why nothing did.
    pub fn write_whole(&self, descriptor: u64, bytes: &[u8], offset: u64) -> Result<u64, Errno> {
        let mut written = 0;
        while written < bytes.len() as u64 {
            match self.write_at(descriptor, &bytes[written as usize..], offset + written) {
                Ok(more) if more > 0 => written += more,
                Err(errno) if written == 0 => return Err(errno),
                _ => break,
            }
        }
        Ok(written)
    }

    /// Reads at an offset.
    pub fn read_at(&self, descriptor: u64, len: usize, offset: u64) -> Result<Vec<u8>, Errno> {
        let buffer = self.domain.place(self.instance, &vec![0; len]);
        let bytes = self.call(number::FILE_PREAD, [descriptor, buffer, len as u64, offset])?;
        Ok(self.domain.peek(buffer, bytes as usize))
    }

    /// Everything in a file.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, Errno> {
        let size = self.stat(path)?.size as usize;
        let descriptor = self.open(path, open::READ)?;
        let mut bytes = Vec::new();
        let ended = loop {
            // A call moves only so much.
            match self.read_at(descriptor, size + 1 - bytes.len().min(size), bytes.len() as u64) {
                Ok(more) if more.is_empty() => break Ok(()),
                Ok(more) => bytes.extend(more),
                Err(errno) => break Err(errno),
            }
        };
        self.close(descriptor)?;
        ended.map(|()| bytes)
    }

    /// Cuts or extends.
    pub fn resize(&self, descriptor: u64, size: u64) -> Result<(), Errno> {
        self.call(number::FILE_FTRUNCATE, [descriptor, size]).map(drop)
    }

    /// Sets when a file was read and written; `None` stays as it is.
    pub fn set_times(&self, path: &str, times: [Option<i64>; 2]) -> Result<(), Errno> {
        let ([dir, path, len], [read, written]) = (self.path(path), arguments(times));
        self.call(number::FILE_SET_TIMES, [dir, path, len, read, written]).map(drop)
    }

    /// The same of an open file.
    pub fn set_open_times(&self, descriptor: u64, times: [Option<i64>; 2]) -> Result<(), Errno> {
        let [read, written] = arguments(times);
        self.call(number::FILE_SET_TIMES, [descriptor, 0, 0, read, written]).map(drop)
    }

    /// What is known of a path.
    pub fn stat(&self, path: &str) -> Result<FileStat, Errno> {
        let out = self.domain.place(self.instance, &[0; size_of::<FileStat>()]);
        let [dir, path, len] = self.path(path);
        self.call(number::FILE_STAT, [dir, path, len, out])?;
        Ok(self.stat_at(out))
    }

    /// What is known of an open file.
    pub fn stat_open(&self, descriptor: u64) -> Result<FileStat, Errno> {
        let out = self.domain.place(self.instance, &[0; size_of::<FileStat>()]);
        self.call(number::FILE_FSTAT, [descriptor, out])?;
        Ok(self.stat_at(out))
    }

    fn stat_at(&self, out: u64) -> FileStat {
        let bytes = self.domain.peek(out, size_of::<FileStat>());
        let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        FileStat {
            kind: u32_at(0),
            read_only: u32_at(4),
            size: u64_at(8),
            mount: u32_at(16),
            links: u32_at(20),
            node: u64_at(24),
            modified: u64_at(32) as i64,
            accessed: u64_at(40) as i64,
            created: u64_at(48) as i64,
        }
    }

    /// The names in a directory, sorted; those of directories end with `/`.
    pub fn list(&self, path: &str) -> Result<Vec<String>, Errno> {
        const ROOM: u64 = 600;
        let descriptor = self.open(path, open::READ | open::DIRECTORY)?;
        let buffer = self.domain.place(self.instance, &[0; ROOM as usize]);
        let mut names = Vec::new();
        loop {
            let bytes = self.call(number::FILE_GETDENTS, [descriptor, buffer, ROOM])?;
            if bytes == 0 {
                break;
            }
            let records = self.domain.peek(buffer, bytes as usize);
            let mut rest = &records[..];
            while !rest.is_empty() {
                let word = |at: usize| u32::from_ne_bytes(rest[at..at + 4].try_into().expect("four bytes"));
                let (kind, len) = (word(8), word(12) as usize);
                let name = String::from_utf8(rest[16..16 + len].to_vec()).expect("names are UTF-8");
                names.push(if kind == FileKind::Directory as u32 { name + "/" } else { name });
                rest = &rest[DirEntry::record_len(len)..];
            }
        }
        self.close(descriptor)?;
        names.sort();
        Ok(names)
    }

    /// Makes a directory.
    pub fn make_directory(&self, path: &str) -> Result<(), Errno> {
        self.about(number::FILE_MKDIR, path)
    }

    /// Removes an empty directory.
    pub fn remove_directory(&self, path: &str) -> Result<(), Errno> {
        self.about(number::FILE_RMDIR, path)
    }

    /// Removes a file.
    pub fn remove_file(&self, path: &str) -> Result<(), Errno> {
        self.about(number::FILE_UNLINK, path)
    }

    /// Renames.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        let ([a, b, c], [d, e, f]) = (self.path(from), self.path(to));
        self.call(number::FILE_RENAME, [a, b, c, d, e, f]).map(drop)
    }
}
