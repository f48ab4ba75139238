//! What both versions of WASI do with files and streams: each function here takes descriptors and bytes, and knows nothing of how a
//! version passes them.

use crate::descriptors::{Descriptor, Entry, Handle, Place, Target, WRITE_THROUGH, filetype};
use crate::errno::WasiError;
use crate::host::call;
use crate::path::Ending;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::offset_of;
use monohull_abi::file::{DirEntry, FileKind, FileStat, IoVec, KEEP_FLAGS, open as flag};
use monohull_abi::number;
use monohull_std::io::Read;

/// Bytes of entries that are fetched together.
const BUFFER: usize = 8 * 1024;

/// Reads from the slot that is the standard input; waits for it. 0 is its end.
pub(crate) fn read_input(buffer: &mut [u8]) -> Result<usize, WasiError> {
    monohull_std::io::stdin().lock().read(buffer).map_err(|_| WasiError::IO)
}

/// Writes to standard output or error: how many of the bytes.
pub(crate) fn write_output(stream: u64, bytes: &[u8]) -> Result<u64, WasiError> {
    match bytes {
        [] => Ok(0),
        _ => call(number::STDIO_WRITE, [stream, bytes.as_ptr() as u64, bytes.len() as u64]),
    }
}

/// Reads a part of a file: how many bytes. 0 is its end.
pub(crate) fn read_at(file: u64, buffer: &mut [u8], offset: u64) -> Result<u64, WasiError> {
    let vector = IoVec { address: buffer.as_mut_ptr() as u64, len: buffer.len() as u64 };
    call(number::FILE_READV, [file, &raw const vector as u64, 1, offset])
}

/// Writes a part of a file: how many bytes.
pub(crate) fn write_at(descriptor: &Descriptor, bytes: &[u8], offset: u64) -> Result<u64, WasiError> {
    let vector = IoVec { address: bytes.as_ptr() as u64, len: bytes.len() as u64 };
    let written = call(number::FILE_WRITEV, [descriptor.file()?, &raw const vector as u64, 1, offset])?;
    finish_write(descriptor)?;
    Ok(written)
}

/// To be called behind each write to a file: with a flag for that, what was written has reached the host's storage then.
pub(crate) fn finish_write(descriptor: &Descriptor) -> Result<(), WasiError> {
    if descriptor.flags & WRITE_THROUGH == 0 { Ok(()) } else { sync(descriptor) }
}

/// Whether every write to the open file goes to its end, from now on.
pub(crate) fn set_append(file: u64, append: bool) -> Result<(), WasiError> {
    let now = call(number::FILE_FLAGS, [file, KEEP_FLAGS])?;
    let append = if append { flag::APPEND } else { 0 };
    call(number::FILE_FLAGS, [file, now & !flag::APPEND | append])?;
    Ok(())
}

/// What is known of an open file or directory.
pub(crate) fn stat(handle: u64) -> Result<FileStat, WasiError> {
    let mut stat = FileStat::default();
    call(number::FILE_FSTAT, [handle, &raw mut stat as u64])?;
    Ok(stat)
}

/// What is known of what a descriptor stands for; `None` for a stream, a device or a socket.
pub(crate) fn stat_of(descriptor: &Descriptor) -> Result<Option<FileStat>, WasiError> {
    match &descriptor.target {
        Target::File(handle) | Target::Directory(handle) => stat(handle.0).map(Some),
        Target::Root => descriptor.at(".")?.stat().map(Some),
        Target::Stdin | Target::Output(_) | Target::Device(_) | Target::Socket(_) => Ok(None),
    }
}

/// `filetype` of WASI.
pub(crate) fn kind(stat: &FileStat) -> u8 {
    match FileKind::from_raw(stat.kind) {
        Some(FileKind::Directory) => filetype::DIRECTORY,
        Some(FileKind::File) => filetype::REGULAR,
        None => 0,
    }
}

/// What was written has reached the host's storage, if the mount outlives the workflow.
pub(crate) fn sync(descriptor: &Descriptor) -> Result<(), WasiError> {
    match descriptor.handle()? {
        Some(handle) => call(number::FILE_FSYNC, [handle]).map(drop),
        // The root is made of mounts, and holds nothing of its own.
        None => Ok(()),
    }
}

/// Opens what may be a file, a directory, a device or a stream, with the libos's flags.
pub(crate) fn open(place: &Place, mut flags: u64) -> Result<Target, WasiError> {
    if let Some(target) = place.device() {
        return match flags {
            flags if flags & flag::DIRECTORY != 0 => Err(WasiError::NOTDIR),
            flags if flags & flag::CREATE != 0 && flags & flag::EXCLUSIVE != 0 => Err(WasiError::EXIST),
            _ => Ok(target),
        };
    }
    if flags & flag::DIRECTORY != 0 {
        if flags & (flag::CREATE | flag::EXCLUSIVE | flag::TRUNCATE) != 0 {
            return Err(WasiError::INVAL);
        }
        let directory = place.open(flag::READ | flag::DIRECTORY)?;
        return if flags & flag::WRITE == 0 { Ok(Target::Directory(directory)) } else { Err(WasiError::ISDIR) };
    }
    if flags & flag::CREATE == 0 {
        flags &= !flag::EXCLUSIVE;
    } else if place.ending != Ending::Name {
        return Err(no_file_by(place));
    }
    // WASI knows descriptors that can neither read nor write; the libos does not.
    if flags & (flag::READ | flag::WRITE) == 0 {
        flags |= flag::READ;
    }
    let opened = match flags & flag::WRITE {
        0 => open_to_read(place, flags)?,
        _ => place.open(flags)?,
    };
    match kind(&stat(opened.0)?) {
        filetype::DIRECTORY if flags & flag::CREATE != 0 => Err(WasiError::ISDIR),
        filetype::DIRECTORY => Ok(Target::Directory(opened)),
        _ => Ok(Target::File(opened)),
    }
}

/// Why no file can be made by a path that only a directory can have.
fn no_file_by(place: &Place) -> WasiError {
    let looked = match place.stat() {
        Err(WasiError::NOENT) if place.ending == Ending::Slash => place.parent().stat(),
        looked => looked,
    };
    looked.err().unwrap_or(WasiError::ISDIR)
}

/// Opens a file to be read that is to be made or emptied as well: for that it is opened to be written to first.
fn open_to_read(place: &Place, flags: u64) -> Result<Handle, WasiError> {
    let (creates, empties) = (flags & flag::CREATE, flags & flag::TRUNCATE);
    let exclusive = creates != 0 && flags & flag::EXCLUSIVE != 0;
    loop {
        // One that is there need not be made, and its mount may be read only.
        if !exclusive && empties == 0 {
            match place.open(flag::READ) {
                Err(WasiError::NOENT) if creates != 0 => {}
                opened => return opened,
            }
        }
        // It was not there. If another makes it meanwhile, it is.
        let alone = if creates != 0 && empties == 0 || exclusive { flag::EXCLUSIVE } else { 0 };
        match place.open(flag::WRITE | creates | empties | alone) {
            Err(WasiError::EXIST) if !exclusive => {}
            made => {
                made?;
                return place.open(flag::READ);
            }
        }
    }
}

/// Why no link can be made by a path: no mount has links, but what is wrong with the path as such goes first.
pub(crate) fn no_link(place: &Place) -> WasiError {
    match place.stat() {
        Ok(_) => WasiError::EXIST,
        Err(WasiError::NOENT) => place.parent().stat().err().unwrap_or(WasiError::NOTSUP),
        Err(error) => error,
    }
}

/// A call with one path.
pub(crate) fn by_path(number: u32, place: &Place) -> Result<(), WasiError> {
    if place.ending == Ending::Dots && [number::FILE_MKDIR, number::FILE_RMDIR].contains(&number) {
        place.stat()?;
        return Err(if number == number::FILE_MKDIR { WasiError::EXIST } else { WasiError::INVAL });
    }
    call(number, place.args()).map(drop)
}

/// Gives a file another name.
pub(crate) fn rename(from: &Place, to: &Place) -> Result<(), WasiError> {
    for place in [from, to] {
        if place.ending == Ending::Dots {
            place.stat()?;
            return Err(WasiError::BUSY);
        }
    }
    let ([a, b, c], [d, e, f]) = (from.args(), to.args());
    call(number::FILE_RENAME, [a, b, c, d, e, f]).map(drop)
}

/// Sets when what is at a path was last read and written, in ns since 1970. [`KEEP_TIME`](monohull_abi::file::KEEP_TIME) changes nothing.
pub(crate) fn set_times(place: &Place, accessed: i64, modified: i64) -> Result<(), WasiError> {
    let [directory, path, len] = place.args();
    call(number::FILE_SET_TIMES, [directory, path, len, accessed as u64, modified as u64]).map(drop)
}

/// The same of what a descriptor stands for.
pub(crate) fn set_times_of(descriptor: &Descriptor, accessed: i64, modified: i64) -> Result<(), WasiError> {
    match descriptor.handle()? {
        Some(handle) => call(number::FILE_SET_TIMES, [handle, 0, 0, accessed as u64, modified as u64]).map(drop),
        None => set_times(&descriptor.at(".")?, accessed, modified),
    }
}

/// The entries of a directory, without those for itself and its parent.
pub(crate) fn list(descriptor: &Descriptor) -> Result<Vec<Entry>, WasiError> {
    let fresh: Handle = match &descriptor.target {
        Target::Root | Target::Directory(_) => descriptor.at(".")?.open(flag::READ | flag::DIRECTORY)?,
        Target::File(_) => return Err(WasiError::NOTDIR),
        _ => return Err(WasiError::BADF),
    };
    let mut entries = Vec::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        let bytes = call(number::FILE_GETDENTS, [fresh.0, buffer.as_mut_ptr() as u64, buffer.len() as u64])?;
        if bytes == 0 {
            return Ok(entries);
        }
        let mut records = buffer.get(..bytes as usize).ok_or(WasiError::IO)?;
        while let Some((entry, rest)) = record(records) {
            entries.push(entry);
            records = rest;
        }
    }
}

/// The first of several records, and the others.
fn record(records: &[u8]) -> Option<(Entry, &[u8])> {
    let node = u64::from_ne_bytes(records.get(offset_of!(DirEntry, node)..)?.get(..8)?.try_into().ok()?);
    let word = |at: usize| Some(u32::from_ne_bytes(records.get(at..at + 4)?.try_into().ok()?));
    let kind = match FileKind::from_raw(word(offset_of!(DirEntry, kind))?)? {
        FileKind::File => filetype::REGULAR,
        FileKind::Directory => filetype::DIRECTORY,
    };
    let len = word(offset_of!(DirEntry, name_len))? as usize;
    let name = records.get(size_of::<DirEntry>()..)?.get(..len)?;
    let entry = Entry { name: String::from_utf8_lossy(name).into_owned(), kind, node };
    Some((entry, records.get(DirEntry::record_len(len)..).unwrap_or_default()))
}
