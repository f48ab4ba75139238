//! Directories, and what is done by path beneath one.

use super::Call;
use super::file::{filestat, flag, flags_of};
use crate::descriptors::{Descriptor, Entry, Handle, Place, Rights, Target, filetype};
use crate::errno::WasiError;
use crate::host::call;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::offset_of;
use monohull_abi::file::{DirEntry, FileKind, open};
use monohull_abi::number;

/// The descriptor of the directory that a program finds open, and its name.
const ROOT: u32 = 3;
const ROOT_NAME: &[u8] = b"/";

/// Bits of `oflags`.
const CREATE: u32 = 1;
const DIRECTORY: u32 = 2;
const EXCLUSIVE: u32 = 4;
const TRUNCATE: u32 = 8;

const DIRENT_SIZE: usize = 24;
/// Bytes of entries that are fetched together.
const BUFFER: usize = 8 * 1024;

impl Call<'_> {
    pub(super) fn fd_prestat_get(&mut self, fd: u32, out: u32) -> Result<(), WasiError> {
        self.preopened(fd)?;
        let mut bytes = [0; 8];
        bytes[4..].copy_from_slice(&(ROOT_NAME.len() as u32).to_le_bytes());
        self.guest.store(out, &bytes)
    }

    pub(super) fn fd_prestat_dir_name(&mut self, fd: u32, pointer: u32, len: u32) -> Result<(), WasiError> {
        self.preopened(fd)?;
        if (len as usize) < ROOT_NAME.len() {
            return Err(WasiError::NAMETOOLONG);
        }
        self.guest.store(pointer, ROOT_NAME)
    }

    /// Only the root was open at the start.
    fn preopened(&self, fd: u32) -> Result<(), WasiError> {
        match self.state.descriptors.get(fd)?.target {
            Target::Root if fd == ROOT => Ok(()),
            _ => Err(WasiError::BADF),
        }
    }

    /// A path beneath the directory `fd`.
    fn place(&self, fd: u32, path: u32, len: u32) -> Result<Place, WasiError> {
        let path = self.guest.text(path, len)?;
        self.state.descriptors.get(fd)?.at(path)
    }

    /// A call with one path.
    fn by_path(&mut self, number: u32, fd: u32, path: u32, len: u32) -> Result<(), WasiError> {
        call(number, self.place(fd, path, len)?.args())?;
        Ok(())
    }

    pub(super) fn path_create_directory(&mut self, fd: u32, path: u32, len: u32) -> Result<(), WasiError> {
        self.by_path(number::FILE_MKDIR, fd, path, len)
    }

    pub(super) fn path_remove_directory(&mut self, fd: u32, path: u32, len: u32) -> Result<(), WasiError> {
        self.by_path(number::FILE_RMDIR, fd, path, len)
    }

    pub(super) fn path_unlink_file(&mut self, fd: u32, path: u32, len: u32) -> Result<(), WasiError> {
        self.by_path(number::FILE_UNLINK, fd, path, len)
    }

    pub(super) fn path_rename(
        &mut self,
        fd: u32,
        path: u32,
        len: u32,
        to: u32,
        to_path: u32,
        to_len: u32,
    ) -> Result<(), WasiError> {
        let (from, to) = (self.place(fd, path, len)?, self.place(to, to_path, to_len)?);
        let ([a, b, c], [d, e, f]) = (from.args(), to.args());
        call(number::FILE_RENAME, [a, b, c, d, e, f])?;
        Ok(())
    }

    pub(super) fn path_filestat_get(
        &mut self,
        fd: u32,
        _follow: u32,
        path: u32,
        len: u32,
        out: u32,
    ) -> Result<(), WasiError> {
        let stat = self.place(fd, path, len)?.stat()?;
        self.guest.store(out, &filestat(&stat))
    }

    /// File systems keep the times themselves.
    #[allow(clippy::too_many_arguments, reason = "WASI has it so")]
    pub(super) fn path_filestat_set_times(
        &mut self,
        fd: u32,
        _follow: u32,
        path: u32,
        len: u32,
        _accessed: u64,
        _modified: u64,
        _which: u32,
    ) -> Result<(), WasiError> {
        self.place(fd, path, len)?.stat()?;
        Err(WasiError::NOTSUP)
    }

    /// No mount has links.
    #[allow(clippy::too_many_arguments, reason = "WASI has it so")]
    pub(super) fn path_link(
        &mut self,
        fd: u32,
        _follow: u32,
        path: u32,
        len: u32,
        to: u32,
        to_path: u32,
        to_len: u32,
    ) -> Result<(), WasiError> {
        self.place(to, to_path, to_len)?;
        self.place(fd, path, len)?.stat()?;
        Err(WasiError::NOTSUP)
    }

    /// No mount has links.
    pub(super) fn path_symlink(
        &mut self,
        target: u32,
        target_len: u32,
        fd: u32,
        path: u32,
        len: u32,
    ) -> Result<(), WasiError> {
        self.guest.text(target, target_len)?;
        self.place(fd, path, len)?;
        Err(WasiError::NOTSUP)
    }

    /// What is there is no link.
    pub(super) fn path_readlink(
        &mut self,
        fd: u32,
        path: u32,
        len: u32,
        _pointer: u32,
        _most: u32,
        _out: u32,
    ) -> Result<(), WasiError> {
        self.place(fd, path, len)?.stat()?;
        Err(WasiError::INVAL)
    }

    #[allow(clippy::too_many_arguments, reason = "WASI has it so")]
    pub(super) fn path_open(
        &mut self,
        fd: u32,
        _follow: u32,
        path: u32,
        len: u32,
        how: u32,
        base: u64,
        inheriting: u64,
        flags: u32,
        out: u32,
    ) -> Result<(), WasiError> {
        let flags = flags_of(flags)?;
        let place = self.place(fd, path, len)?;
        let parent = self.state.descriptors.get(fd)?.rights.inheriting;
        let rights = Rights { base: base & parent, inheriting: inheriting & parent };
        let is_directory = how & DIRECTORY != 0;
        let opened = match is_directory {
            true if how & (CREATE | TRUNCATE) != 0 => return Err(WasiError::INVAL),
            true => place.open(open::READ | open::DIRECTORY)?,
            false => open_file(&place, how, &rights, flags)?,
        };
        let target = match is_directory || is_a_directory(&opened)? {
            true => Target::Directory(opened),
            false => Target::File(opened),
        };
        let new = self.state.descriptors.insert(Descriptor::new(target, flags, rights))?;
        self.guest.store_u32(out, new).inspect_err(|_| {
            let _ = self.state.descriptors.remove(new);
        })
    }

    pub(super) fn fd_readdir(
        &mut self,
        fd: u32,
        pointer: u32,
        len: u32,
        cookie: u64,
        out: u32,
    ) -> Result<(), WasiError> {
        let descriptor = self.state.descriptors.get_mut(fd)?;
        if cookie == 0 {
            descriptor.listing = list(descriptor)?;
        }
        let start = usize::try_from(cookie).unwrap_or(usize::MAX);
        let buffer = self.guest.bytes_mut(pointer, len)?;
        let mut used = 0;
        for (entry, next) in descriptor.listing.iter().zip(1u64..).skip(start) {
            let mut record = vec![0; DIRENT_SIZE];
            record[..8].copy_from_slice(&next.to_le_bytes());
            record[8..16].copy_from_slice(&entry.node.to_le_bytes());
            record[16..20].copy_from_slice(&(entry.name.len() as u32).to_le_bytes());
            record[20] = entry.kind;
            record.extend_from_slice(entry.name.as_bytes());
            // An entry that does not fit is cut: the program sees that the buffer is full, and asks for it again.
            let part = record.len().min(buffer.len() - used);
            buffer[used..used + part].copy_from_slice(&record[..part]);
            used += part;
            if used == buffer.len() {
                break;
            }
        }
        self.guest.store_u32(out, used as u32)
    }
}

/// Opens what may be a file or a directory.
fn open_file(place: &Place, how: u32, rights: &Rights, flags: u16) -> Result<Handle, WasiError> {
    let bits = [
        (rights.base & Rights::FD_READ != 0, open::READ),
        (rights.base & Rights::FD_WRITE != 0, open::WRITE),
        (flags & flag::APPEND != 0, open::APPEND),
        (how & CREATE != 0, open::CREATE),
        (how & EXCLUSIVE != 0, open::EXCLUSIVE),
        (how & TRUNCATE != 0, open::TRUNCATE),
    ];
    let mut wanted = bits.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, bit)| all | bit);
    // WASI knows descriptors that can neither read nor write; the libos does not.
    if wanted & (open::READ | open::WRITE) == 0 {
        wanted |= open::READ;
    }
    match place.open(wanted) {
        // Programs ask for all rights that a directory can have, writing among them.
        Err(WasiError::ISDIR) if how & (CREATE | TRUNCATE) == 0 => place.open(open::READ | open::DIRECTORY),
        result => result,
    }
}

fn is_a_directory(handle: &Handle) -> Result<bool, WasiError> {
    let mut stat = monohull_abi::file::FileStat::default();
    call(number::FILE_FSTAT, [handle.0, &raw mut stat as u64])?;
    Ok(stat.kind == FileKind::Directory as u32)
}

/// The entries of a directory, with the two that stand for itself and its parent.
fn list(descriptor: &Descriptor) -> Result<Vec<Entry>, WasiError> {
    let fresh = match &descriptor.target {
        Target::Root | Target::Directory(_) => descriptor.at(".")?.open(open::READ | open::DIRECTORY)?,
        _ => return Err(WasiError::NOTDIR),
    };
    let own = |name: &str| Entry { name: name.into(), kind: filetype::DIRECTORY, node: 0 };
    let mut entries = vec![own("."), own("..")];
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
