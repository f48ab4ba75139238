//! File systems as the descriptor table calls them: one hostcall number, and this trait behind it.
//!
//! ```text
//!   fdtab ── RAMFS(op and mount, …) ──▶ serve ──▶ FileSystem::open, read, write, …
//! ```

use crate::store::Checked;
use crate::{HostRef, Module};
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use monohull_abi::Errno;
use monohull_abi::file::{DirEntry, Extent, FileKind, FileStat, FsOp, KEEP_TIME, PATH_MAX};
use monohull_abi::module::{Call, SYSTEM_INSTANCE};
use monohull_abi::user::{UserSlice, write_one};

/// A file system. Paths are relative to the mount and clean; see [`FsOp`], also for which calls are concurrent.
pub trait FileSystem: Module {
    /// Opens, and creates or truncates according to the flags: the node, and its metadata.
    fn open(&self, mount: u32, path: &str, flags: u64) -> Result<(u64, FileStat), Errno>;
    /// Closes a node: no descriptor refers to it any more.
    fn close(&self, mount: u32, node: u64) -> Result<(), Errno>;
    /// Reads up to a whole buffer; 0 at the end.
    fn read(&self, mount: u32, node: u64, offset: u64, to: Checked) -> Result<u64, Errno>;
    /// Writes up to a whole buffer at an offset, or at the end for `None`: bytes, and the position behind them.
    fn write(&self, mount: u32, node: u64, offset: Option<u64>, from: Checked) -> Result<(u64, u64), Errno>;
    /// The metadata of a path.
    fn stat(&self, mount: u32, path: &str) -> Result<FileStat, Errno>;
    /// The metadata of an open node.
    fn stat_node(&self, mount: u32, node: u64) -> Result<FileStat, Errno>;
    /// Pushes entries of a directory, the first `start` left out, until the listing is full.
    fn list(&self, mount: u32, path: &str, start: u64, listing: &mut Listing) -> Result<(), Errno>;
    /// Makes a directory.
    fn make_directory(&self, mount: u32, path: &str) -> Result<(), Errno>;
    /// Removes an empty directory.
    fn remove_directory(&self, mount: u32, path: &str) -> Result<(), Errno>;
    /// Removes a file.
    fn remove_file(&self, mount: u32, path: &str) -> Result<(), Errno>;
    /// Renames a file or directory, replacing the target.
    fn rename(&self, mount: u32, from: &str, to: &str) -> Result<(), Errno>;
    /// Truncates a file, or extends it with zeros.
    fn resize(&self, mount: u32, node: u64, size: u64) -> Result<(), Errno>;
    /// Writes a file's data to stable storage.
    fn sync(&self, mount: u32, node: u64) -> Result<(), Errno>;
    /// Writes the names in a directory to stable storage.
    fn sync_directory(&self, mount: u32, path: &str) -> Result<(), Errno>;
    /// Sets when what a path leads to was last read and written, as exactly as the file system keeps that.
    fn set_times(&self, mount: u32, path: &str, times: Times) -> Result<(), Errno>;
    /// The same of an open node.
    fn set_node_times(&self, mount: u32, node: u64, times: Times) -> Result<(), Errno>;
    /// The extents of a range inside the file. The bytes stay at these addresses, and belong to the file, until `unpin` gets the
    /// returned number.
    fn pin(&self, mount: u32, node: u64, offset: u64, len: u64) -> Result<(u64, Vec<Extent>), Errno>;
    /// Ends a pin.
    fn unpin(&self, mount: u32, node: u64, pin: u64) -> Result<(), Errno>;
}

/// Times to be set, in ns since 1970; `None` stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// When it was last read.
    pub read: Option<i64>,
    /// When it was last written.
    pub written: Option<i64>,
}

impl Times {
    /// As two arguments have them.
    fn of([read, written]: [u64; 2]) -> Times {
        let time = |argument: u64| Some(argument as i64).filter(|time| *time != KEEP_TIME);
        Times { read: time(read), written: time(written) }
    }
}

/// Serves the number of a file system.
pub fn serve<F: FileSystem>(fs: &F, host: HostRef, call: &mut Call) -> Result<u64, Errno> {
    if call.instance != SYSTEM_INSTANCE {
        return Err(Errno::NotPermitted);
    }
    let [word, a, b, c, d, e] = call.args;
    let (op, mount) = FsOp::from_word(word).ok_or(Errno::Invalid)?;
    let (mut first, mut second) = (PathBuffer::new(), PathBuffer::new());
    match op {
        FsOp::Open => {
            let (node, stat) = fs.open(mount, first.read(host, call, a, b)?, c)?;
            write_one(host.raw(), call, d, stat)?;
            Ok(node)
        }
        FsOp::Close => fs.close(mount, a).map(|()| 0),
        FsOp::Read => fs.read(mount, a, b, Checked::new(c, d)),
        FsOp::Write => {
            let offset = (b != FsOp::APPEND).then_some(b);
            let (bytes, position) = fs.write(mount, a, offset, Checked::new(c, d))?;
            call.scratch[0] = position;
            Ok(bytes)
        }
        FsOp::Stat => {
            let stat = fs.stat(mount, first.read(host, call, a, b)?)?;
            write_one(host.raw(), call, c, stat)?;
            Ok(0)
        }
        FsOp::StatNode => {
            let stat = fs.stat_node(mount, a)?;
            write_one(host.raw(), call, b, stat)?;
            Ok(0)
        }
        FsOp::List => {
            let path = first.read(host, call, a, b)?;
            let mut listing = Listing { host, buffer: Checked::new(d, e), used: 0, next: c };
            fs.list(mount, path, c, &mut listing)?;
            call.scratch[0] = listing.next;
            Ok(listing.used)
        }
        FsOp::MakeDirectory => fs.make_directory(mount, first.read(host, call, a, b)?).map(|()| 0),
        FsOp::RemoveDirectory => fs.remove_directory(mount, first.read(host, call, a, b)?).map(|()| 0),
        FsOp::RemoveFile => fs.remove_file(mount, first.read(host, call, a, b)?).map(|()| 0),
        FsOp::Rename => {
            let (from, to) = (first.read(host, call, a, b)?, second.read(host, call, c, d)?);
            fs.rename(mount, from, to).map(|()| 0)
        }
        FsOp::Resize => fs.resize(mount, a, b).map(|()| 0),
        FsOp::Sync => fs.sync(mount, a).map(|()| 0),
        FsOp::SetTimes => fs.set_times(mount, first.read(host, call, a, b)?, Times::of([c, d])).map(|()| 0),
        FsOp::SetNodeTimes => fs.set_node_times(mount, a, Times::of([d, e])).map(|()| 0),
        FsOp::SyncDirectory => fs.sync_directory(mount, first.read(host, call, a, b)?).map(|()| 0),
        FsOp::Pin => {
            let (pin, extents) = fs.pin(mount, a, b, c)?;
            let count = extents.len() as u64;
            let written = match count <= e {
                true => UserSlice::<Extent>::new(d, count).check(host.raw(), call)?.write(&extents),
                false => Ok(()),
            };
            if count > e || written.is_err() {
                fs.unpin(mount, a, pin)?;
            }
            written?;
            call.scratch[0] = pin;
            Ok(count)
        }
        FsOp::Unpin => fs.unpin(mount, a, b).map(|()| 0),
    }
}

/// Room for a path.
struct PathBuffer([MaybeUninit<u8>; PATH_MAX]);

impl PathBuffer {
    const fn new() -> PathBuffer {
        PathBuffer([const { MaybeUninit::uninit() }; PATH_MAX])
    }

    /// Copies a path of the descriptor table.
    fn read(&mut self, host: HostRef, call: &Call, address: u64, len: u64) -> Result<&str, Errno> {
        let room = self.0.get_mut(..len as usize).ok_or(Errno::NameTooLong)?;
        let path = UserSlice::<u8>::new(address, len).check(host.raw(), call)?.read_at(0, room)?;
        core::str::from_utf8(path).map_err(|_| Errno::InvalidName)
    }
}

/// Entries of a directory, written one after the other into the descriptor table's buffer.
pub struct Listing {
    host: HostRef,
    buffer: Checked,
    used: u64,
    next: u64,
}

impl Listing {
    /// Adds an entry; false if it does not fit any more, and none after it is to be added.
    pub fn push(&mut self, name: &str, kind: FileKind, node: u64) -> bool {
        let len = DirEntry::record_len(name.len()) as u64;
        if len > self.buffer.len() - self.used {
            return false;
        }
        let call = Call::system(0, [0; 6]);
        let address = self.buffer.address() + self.used;
        let header = DirEntry { node, kind: kind as u32, name_len: name.len() as u32 };
        let name_at = UserSlice::<u8>::new(address + size_of::<DirEntry>() as u64, name.len() as u64);
        let written = write_one(self.host.raw(), &call, address, header)
            .and_then(|()| name_at.check(self.host.raw(), &call)?.write(name.as_bytes()));
        self.used += len;
        self.next += 1;
        written.is_ok()
    }
}

/// Most bytes that are copied under a file's lock at a time: a long read or write unlocks the file in between.
const PIECE: u64 = 1 << 20;

/// Calls `each` for pieces of a buffer until one is short. A failure counts only if nothing was done before it.
pub fn in_pieces(buffer: Checked, mut each: impl FnMut(u64, Checked) -> Result<u64, Errno>) -> Result<u64, Errno> {
    let mut done = 0;
    loop {
        let piece = buffer.part(done, PIECE);
        match each(done, piece) {
            Ok(bytes) => {
                done += bytes;
                if bytes < piece.len() || done == buffer.len() {
                    return Ok(done);
                }
            }
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => return Ok(done),
        }
    }
}
