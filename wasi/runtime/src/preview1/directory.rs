//! Directories, and what is done by path beneath one.

use super::Call;
use super::file::{filestat, flag, flags_of, stream, times};
use crate::descriptors::{Descriptor, Entry, Place, Target, filetype};
use crate::errno::WasiError;
use crate::files;
use crate::rights::Rights;
use alloc::vec;
use monohull_abi::file::open;
use monohull_abi::number;

/// The name of the directory that a program finds open.
const ROOT_NAME: &[u8] = b"/";

/// Bits of `oflags`.
const CREATE: u32 = 1;
const DIRECTORY: u32 = 2;
const EXCLUSIVE: u32 = 4;
const TRUNCATE: u32 = 8;

const OPENING: u32 = CREATE | DIRECTORY | EXCLUSIVE | TRUNCATE;
/// The bit of `lookupflags`: a link is followed. No mount has links.
const FOLLOW: u32 = 1;

const DIRENT_SIZE: usize = 24;

/// Refuses bits other than these.
fn known(flags: u32, all: u32) -> Result<(), WasiError> {
    if flags & !all == 0 { Ok(()) } else { Err(WasiError::INVAL) }
}

impl Call<'_> {
    pub(super) fn fd_prestat_get(&mut self, fd: u32, out: u32) -> Result<(), WasiError> {
        self.preopened(fd)?;
        let mut bytes = [0; 8];
        bytes[4..].copy_from_slice(&(ROOT_NAME.len() as u32).to_le_bytes());
        self.guest.store(out, &bytes)
    }

    pub(super) fn fd_prestat_dir_name(&mut self, fd: u32, pointer: u32, len: u32) -> Result<(), WasiError> {
        // Another descriptor that is open is another error here than of `fd_prestat_get`, as in Wasmtime.
        self.state.descriptors.get(fd)?;
        self.preopened(fd).map_err(|_| WasiError::NOTDIR)?;
        if (len as usize) < ROOT_NAME.len() {
            return Err(WasiError::NAMETOOLONG);
        }
        self.guest.store(pointer, ROOT_NAME)
    }

    /// Only the root was open at the start, whatever number it has now.
    fn preopened(&self, fd: u32) -> Result<(), WasiError> {
        if matches!(self.state.descriptors.get(fd)?.target, Target::Root) { Ok(()) } else { Err(WasiError::BADF) }
    }

    /// A path beneath the directory `fd`, for what needs these rights.
    fn place(&self, fd: u32, path: u32, len: u32, rights: u64) -> Result<Place, WasiError> {
        let path = self.guest.text(path, len)?;
        self.state.descriptors.allowed(fd, rights)?.at(path)
    }

    pub(super) fn path_create_directory(&mut self, fd: u32, path: u32, len: u32) -> Result<(), WasiError> {
        files::by_path(number::FILE_MKDIR, &self.place(fd, path, len, Rights::PATH_CREATE_DIRECTORY)?)
    }

    pub(super) fn path_remove_directory(&mut self, fd: u32, path: u32, len: u32) -> Result<(), WasiError> {
        files::by_path(number::FILE_RMDIR, &self.place(fd, path, len, Rights::PATH_REMOVE_DIRECTORY)?)
    }

    pub(super) fn path_unlink_file(&mut self, fd: u32, path: u32, len: u32) -> Result<(), WasiError> {
        files::by_path(number::FILE_UNLINK, &self.place(fd, path, len, Rights::PATH_UNLINK_FILE)?)
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
        let from = self.place(fd, path, len, Rights::PATH_RENAME_SOURCE)?;
        files::rename(&from, &self.place(to, to_path, to_len, Rights::PATH_RENAME_TARGET)?)
    }

    pub(super) fn path_filestat_get(
        &mut self,
        fd: u32,
        lookup: u32,
        path: u32,
        len: u32,
        out: u32,
    ) -> Result<(), WasiError> {
        known(lookup, FOLLOW)?;
        let place = self.place(fd, path, len, Rights::PATH_FILESTAT_GET)?;
        let bytes = match place.device() {
            Some(target) => stream(&Descriptor::new(target, 0, Rights::ALL)),
            None => filestat(&place.stat()?),
        };
        self.guest.store(out, &bytes)
    }

    #[allow(clippy::too_many_arguments, reason = "WASI has it so")]
    pub(super) fn path_filestat_set_times(
        &mut self,
        fd: u32,
        lookup: u32,
        path: u32,
        len: u32,
        accessed: u64,
        modified: u64,
        which: u32,
    ) -> Result<(), WasiError> {
        known(lookup, FOLLOW)?;
        let (accessed, modified) = times(accessed, modified, which)?;
        files::set_times(&self.place(fd, path, len, Rights::PATH_FILESTAT_SET_TIMES)?, accessed, modified)
    }

    /// No mount has links.
    #[allow(clippy::too_many_arguments, reason = "WASI has it so")]
    pub(super) fn path_link(
        &mut self,
        fd: u32,
        lookup: u32,
        path: u32,
        len: u32,
        to: u32,
        to_path: u32,
        to_len: u32,
    ) -> Result<(), WasiError> {
        known(lookup, FOLLOW)?;
        let new = self.place(to, to_path, to_len, Rights::PATH_LINK_TARGET)?;
        let old = self.place(fd, path, len, Rights::PATH_LINK_SOURCE)?;
        if files::kind(&old.stat()?) == filetype::DIRECTORY {
            return Err(WasiError::PERM);
        }
        Err(files::no_link(&new))
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
        Err(files::no_link(&self.place(fd, path, len, Rights::PATH_SYMLINK)?))
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
        self.place(fd, path, len, Rights::PATH_READLINK)?.stat()?;
        Err(WasiError::INVAL)
    }

    #[allow(clippy::too_many_arguments, reason = "WASI has it so")]
    pub(super) fn path_open(
        &mut self,
        fd: u32,
        lookup: u32,
        path: u32,
        len: u32,
        how: u32,
        base: u64,
        inheriting: u64,
        flags: u32,
        out: u32,
    ) -> Result<(), WasiError> {
        known(lookup, FOLLOW)?;
        known(how, OPENING)?;
        let flags = flags_of(flags)?;
        let needed = [(CREATE, Rights::PATH_CREATE_FILE), (TRUNCATE, Rights::PATH_FILESTAT_SET_SIZE)];
        let needed =
            needed.iter().filter(|(bit, _)| how & bit != 0).fold(Rights::PATH_OPEN, |all, (_, right)| all | right);
        let place = self.place(fd, path, len, needed)?;
        // Nothing is made or emptied that the program gets no descriptor of.
        self.guest.bytes(out, 4)?;
        if !self.state.descriptors.has_room() {
            return Err(WasiError::MFILE);
        }
        let mut rights = self.state.descriptors.get(fd)?.rights.beneath(base, inheriting);
        let bits = [
            (rights.base & Rights::FD_READ != 0, open::READ),
            (rights.base & Rights::FD_WRITE != 0, open::WRITE),
            (flags & flag::APPEND != 0 && rights.base & Rights::FD_WRITE != 0, open::APPEND),
            (how & CREATE != 0, open::CREATE),
            (how & EXCLUSIVE != 0, open::EXCLUSIVE),
            (how & TRUNCATE != 0, open::TRUNCATE),
            (how & DIRECTORY != 0, open::DIRECTORY),
        ];
        let wanted = bits.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, bit)| all | bit);
        let target = files::open(&place, wanted)?;
        match target {
            Target::Stdin => rights.base &= Rights::INPUT.base,
            Target::Output(_) => rights.base &= Rights::OUTPUT.base,
            _ => {}
        }
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
        descriptor.rights.allow(Rights::FD_READDIR)?;
        if cookie == 0 || descriptor.listing.is_none() {
            let own = |name: &str| Entry { name: name.into(), kind: filetype::DIRECTORY, node: 0 };
            let mut entries = vec![own("."), own("..")];
            entries.extend(files::list(descriptor)?);
            descriptor.listing = Some(entries);
        }
        let start = usize::try_from(cookie).unwrap_or(usize::MAX);
        let buffer = self.guest.bytes_mut(pointer, len)?;
        let mut used = 0;
        for (entry, next) in descriptor.listing.iter().flatten().zip(1u64..).skip(start) {
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
