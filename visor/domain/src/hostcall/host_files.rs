//! Granted directories of the host: operations of the descriptor table (`fdtab`).
//!
//! Paths go to the broker, which opens files and sends descriptors. Those are read and written here, directly between the
//! function's memory and the kernel. The kernel survives holes in that memory with an error; missing pages of a mapped file
//! are filled before. A read that waits for a disk blocks its carrier.

use crate::files::{Mount, Source};
use crate::shared::Shared;
use monohull_abi::Errno;
use monohull_abi::file::{DirEntry, FileKind, FileStat, FsOp, KEEP_TIME, PATH_MAX};
use monohull_abi::module::{Call, SYSTEM_INSTANCE};
use monohull_abi::user::{UserSlice, write_one};
use monohull_host_files::{Client, Known, known_of};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// `RWF_APPEND` of `linux/fs.h`: this write goes to the end.
pub const RWF_APPEND: i32 = 0x10;

/// Serves `HOST_FILES`; see [`FsOp`].
pub(crate) fn serve(domain: &Shared, call: &mut Call) -> Result<u64, Errno> {
    if call.instance != SYSTEM_INSTANCE {
        return Err(Errno::NotPermitted);
    }
    let [word, a, b, c, d, e] = call.args;
    let (op, mount) = FsOp::from_word(word).ok_or(Errno::Invalid)?;
    let files = &domain.files.host_files;
    let directory = |domain: &'_ Shared| client(&domain.options.mounts, mount).cloned();
    let path = |address, len| read_path(domain, call, address, len);
    match op {
        FsOp::Open => {
            let (known, file) = directory(domain)?.open(&path(a, b)?, c)?;
            let node = file.map_or(0, |file| files.insert(file));
            write_one(domain.host(), call, d, stat_of(&known, mount))?;
            Ok(node)
        }
        FsOp::Close => {
            files.remove(a);
            Ok(0)
        }
        FsOp::Read => read(&*files.get(a)?, b, c, domain.files.pager.populate_for_syscall(c, d)),
        FsOp::Write => {
            let (bytes, position) = write(&*files.get(a)?, b, c, domain.files.pager.populate_for_syscall(c, d))?;
            call.scratch[0] = position;
            Ok(bytes)
        }
        FsOp::Stat => {
            let known = directory(domain)?.stat(&path(a, b)?)?;
            write_one(domain.host(), call, c, stat_of(&known, mount))?;
            Ok(0)
        }
        FsOp::StatNode => {
            write_one(domain.host(), call, b, stat_of(&known_of(&*files.get(a)?)?, mount))?;
            Ok(0)
        }
        FsOp::List => {
            let names = directory(domain)?.list(&path(a, b)?, c)?;
            let (mut bytes, mut next) = (Vec::new(), c);
            for name in names {
                let record = DirEntry::record_len(name.name.len());
                if bytes.len() + record > e as usize {
                    break;
                }
                let kind = if name.directory { FileKind::Directory } else { FileKind::File };
                let end = bytes.len() + record;
                bytes.extend_from_slice(&name.node.to_ne_bytes());
                bytes.extend_from_slice(&(kind as u32).to_ne_bytes());
                bytes.extend_from_slice(&(name.name.len() as u32).to_ne_bytes());
                bytes.extend_from_slice(name.name.as_bytes());
                bytes.resize(end, 0);
                next += 1;
            }
            UserSlice::<u8>::new(d, bytes.len() as u64).check(domain.host(), call)?.write(&bytes)?;
            call.scratch[0] = next;
            Ok(bytes.len() as u64)
        }
        FsOp::MakeDirectory => directory(domain)?.make_directory(&path(a, b)?).map(|()| 0),
        FsOp::RemoveDirectory => directory(domain)?.remove_directory(&path(a, b)?).map(|()| 0),
        FsOp::RemoveFile => directory(domain)?.remove_file(&path(a, b)?).map(|()| 0),
        FsOp::Rename => directory(domain)?.rename(&path(a, b)?, &path(c, d)?).map(|()| 0),
        FsOp::Resize => done(&*files.get(a)?, |file| {
            // SAFETY: a system call on a descriptor that is open.
            unsafe { libc::ftruncate(file, b as i64) as isize }
        }),
        FsOp::Sync => done(&*files.get(a)?, |file| {
            // SAFETY: as above.
            unsafe { libc::fdatasync(file) as isize }
        }),
        FsOp::SetTimes => directory(domain)?.set_times(&path(a, b)?, times([c, d]), None).map(|()| 0),
        // A grant to read gives descriptors too, and the kernel sets times by those. So the broker sets them, which knows the grant.
        FsOp::SetNodeTimes => {
            let node = known_of(&*files.get(a)?)?.node;
            directory(domain)?.set_times(&path(b, c)?, times([d, e]), Some(node)).map(|()| 0)
        }
        FsOp::SyncDirectory => directory(domain)?.sync_directory(&path(a, b)?).map(|()| 0),
        // What there is to know of it is its descriptor, which the visor has.
        FsOp::Pin | FsOp::Unpin => Ok(0),
    }
}

/// When it was read and written; `None` stays as it is.
fn times(arguments: [u64; 2]) -> (Option<i64>, Option<i64>) {
    let [read, written] = arguments.map(|time| Some(time as i64).filter(|time| *time != KEEP_TIME));
    (read, written)
}

fn client(mounts: &[Mount], mount: u32) -> Result<&Arc<Client>, Errno> {
    match mounts.get(mount as usize).map(|mount| &mount.source) {
        Some(Source::Directory { client, .. }) => Ok(client),
        _ => Err(Errno::Invalid),
    }
}

/// A path of the descriptor table's.
fn read_path(domain: &Shared, call: &Call, address: u64, len: u64) -> Result<String, Errno> {
    let mut bytes = [const { MaybeUninit::uninit() }; PATH_MAX];
    let room = bytes.get_mut(..len as usize).ok_or(Errno::NameTooLong)?;
    let path = UserSlice::<u8>::new(address, len).check(domain.host(), call)?.read_at(0, room)?;
    std::str::from_utf8(path).map(str::to_owned).map_err(|_| Errno::InvalidName)
}

fn stat_of(known: &Known, mount: u32) -> FileStat {
    FileStat {
        kind: if known.directory { FileKind::Directory } else { FileKind::File } as u32,
        read_only: known.read_only.into(),
        size: known.size,
        mount,
        links: known.links,
        node: known.node,
        modified: known.modified,
        accessed: known.accessed,
        created: known.changed,
    }
}

/// Reads into a function's buffer, which the descriptor table has checked.
fn read(file: &OwnedFd, offset: u64, address: u64, len: u64) -> Result<u64, Errno> {
    let read = |file| {
        // SAFETY: the buffer has been checked to be the function's; the kernel survives holes in it.
        unsafe { libc::pread64(file, address as *mut libc::c_void, len as usize, offset as i64) }
    };
    done(file, read)
}

/// Writes from a function's buffer: bytes, and the position behind them.
fn write(file: &OwnedFd, offset: u64, address: u64, len: u64) -> Result<(u64, u64), Errno> {
    if offset != FsOp::APPEND {
        let write = |file| {
            // SAFETY: as in `read`.
            unsafe { libc::pwrite64(file, address as *const libc::c_void, len as usize, offset as i64) }
        };
        let bytes = done(file, write)?;
        return Ok((bytes, offset + bytes));
    }
    let buffer = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: len as usize };
    let append = |file| {
        // SAFETY: as in `read`.
        unsafe { libc::pwritev2(file, &raw const buffer, 1, 0, RWF_APPEND) }
    };
    let bytes = done(file, append)?;
    Ok((bytes, known_of(file)?.size))
}

/// A system call on a file, made again if a signal came between.
fn done(file: &OwnedFd, mut call: impl FnMut(i32) -> isize) -> Result<u64, Errno> {
    loop {
        let result = call(file.as_raw_fd());
        if result >= 0 {
            return Ok(result as u64);
        }
        match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EDQUOT) => return Err(Errno::NoSpace),
            Some(number) => return Err(Errno::from_value(-i64::from(number)).err().unwrap_or(Errno::Io)),
            None => return Err(Errno::Io),
        }
    }
}
