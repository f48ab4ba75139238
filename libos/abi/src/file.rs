//! What hostcalls about files pass: flags, structures, limits, and the calls between the descriptor table and the file
//! systems behind it.
//!
//! ```text
//!   function ── FILE_READ(descriptor, buffer, len) ──▶ fdtab ── RAMFS(READ, node, offset, buffer, len) ──▶ ramfs
//!                                                       └ descriptors, mounts, paths
//! ```

/// Most bytes that one call reads or writes. A longer request gets a short count.
pub const TRANSFER_MAX: u64 = 8 << 20;

/// The `dir` of a path that is relative to the caller's working directory.
pub const WORKING_DIRECTORY: u64 = u64::MAX;
/// The `offset` of `FILE_READV` and `FILE_WRITEV` that stands for the descriptor's own position.
pub const AT_POSITION: u64 = u64::MAX;
/// The `target` of `FILE_DUP` that stands for the lowest free descriptor.
pub const LOWEST_FREE: u64 = u64::MAX;
/// The `flags` of `FILE_FLAGS` that change nothing.
pub const KEEP_FLAGS: u64 = u64::MAX;
/// The time of `FILE_SET_TIMES` that stays as it is; others are nanoseconds since 1970.
pub const KEEP_TIME: i64 = i64::MIN;
/// Longest path in bytes.
pub const PATH_MAX: usize = 4096;
/// Longest name of a file in bytes.
pub const NAME_MAX: usize = 255;
/// Most buffers of one `FILE_READV` or `FILE_WRITEV`.
pub const VECTOR_MAX: u64 = 1024;
/// Most descriptors of one instance; the first three numbers are its standard streams and never given out.
pub const DESCRIPTORS_MAX: usize = 1024;
/// The first descriptor number that is given out.
pub const FIRST_DESCRIPTOR: u64 = 3;
/// Most mounts of one workflow.
pub const MOUNTS_MAX: usize = 64;
/// The largest size and position of a file.
pub const FILE_SIZE_MAX: u64 = i64::MAX as u64;

/// Bits of `FILE_OPEN`'s flags.
pub mod open {
    /// Reading is allowed.
    pub const READ: u64 = 1;
    /// Writing is allowed.
    pub const WRITE: u64 = 1 << 1;
    /// Every write goes to the end.
    pub const APPEND: u64 = 1 << 2;
    /// Make the file if it is not there.
    pub const CREATE: u64 = 1 << 3;
    /// With `CREATE`: fail if it is there.
    pub const EXCLUSIVE: u64 = 1 << 4;
    /// Cut it to nothing.
    pub const TRUNCATE: u64 = 1 << 5;
    /// Fail if it is no directory.
    pub const DIRECTORY: u64 = 1 << 6;
    /// All of them.
    pub const ALL: u64 = (1 << 7) - 1;
}

/// Bits of `FILE_MMAP`'s flags.
pub mod map {
    /// The mapping may be written to: what is written is its own, the file stays as it is.
    pub const WRITE: u64 = 1;
    /// Fill the first [`FILLED_AT_ONCE`](super::FILLED_AT_ONCE) bytes now, not when they are touched.
    pub const POPULATE: u64 = 1 << 1;
    /// All of them.
    pub const ALL: u64 = (1 << 2) - 1;
}

/// The `len` of `FILE_MMAP` that stands for all that comes after the offset.
pub const TO_THE_END: u64 = u64::MAX;
/// Most bytes of a mapping that one call fills, so that other threads of the carrier get their turn in between.
pub const FILLED_AT_ONCE: u64 = 1 << 20;
/// Most mappings of one instance.
pub const MAPPINGS_MAX: usize = 1024;

/// What will be done with a mapping (`FILE_MADVISE`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Advice {
    /// Nothing is known. Advice of this kind and the next two is for the whole mapping.
    Normal = 0,
    /// Places without an order: fill no more than what is touched.
    Random = 1,
    /// From start to end: fill far ahead.
    Sequential = 2,
    /// This part will be needed soon: fill it now.
    WillNeed = 3,
}

impl Advice {
    /// The advice with this number.
    pub const fn from_raw(raw: u64) -> Option<Advice> {
        match raw {
            0 => Some(Advice::Normal),
            1 => Some(Advice::Random),
            2 => Some(Advice::Sequential),
            3 => Some(Advice::WillNeed),
            _ => None,
        }
    }
}

/// What `FILE_SEEK` counts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Whence {
    /// The file's start.
    Start = 0,
    /// The descriptor's position.
    Current = 1,
    /// The file's end.
    End = 2,
}

impl Whence {
    /// The place with this number.
    pub const fn from_raw(raw: u64) -> Option<Whence> {
        match raw {
            0 => Some(Whence::Start),
            1 => Some(Whence::Current),
            2 => Some(Whence::End),
            _ => None,
        }
    }
}

/// What a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum FileKind {
    /// Bytes.
    File = 1,
    /// Names.
    Directory = 2,
}

impl FileKind {
    /// The kind with this number.
    pub const fn from_raw(raw: u32) -> Option<FileKind> {
        match raw {
            1 => Some(FileKind::File),
            2 => Some(FileKind::Directory),
            _ => None,
        }
    }
}

/// What is known of a file (`FILE_STAT`, `FILE_FSTAT`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct FileStat {
    /// A [`FileKind`].
    pub kind: u32,
    /// 1 if it cannot be written.
    pub read_only: u32,
    /// Bytes.
    pub size: u64,
    /// Number of the mount it lies on.
    pub mount: u32,
    /// Names that lead to it.
    pub links: u32,
    /// Its number on that mount; 0 if the file system has none. No two that are there have the same. On a disk image it is where the name
    /// lies, so that a rename changes it, and a later file may have it.
    pub node: u64,
    /// When its bytes last changed, in ns since 1970.
    pub modified: i64,
    /// When it was last read, in ns since 1970, as far as the file system keeps that.
    pub accessed: i64,
    /// When it was made, in ns since 1970, as far as the file system keeps that.
    pub created: i64,
}

/// One buffer of `FILE_READV` or `FILE_WRITEV`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct IoVec {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub len: u64,
}

/// One entry of a directory (`FILE_GETDENTS`): this header, then the name in UTF-8, then zeros up to a multiple of 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct DirEntry {
    /// As in [`FileStat`].
    pub node: u64,
    /// A [`FileKind`].
    pub kind: u32,
    /// Bytes of the name; at most [`NAME_MAX`].
    pub name_len: u32,
}

impl DirEntry {
    /// Bytes of the entry with its name and padding.
    pub const fn record_len(name_len: usize) -> usize {
        size_of::<DirEntry>() + name_len.next_multiple_of(8)
    }
}

/// Bytes of a file that lie side by side in trusted memory ([`FsOp::Pin`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Extent {
    /// The first of them; 0 for bytes that are zero and lie nowhere.
    pub address: u64,
    /// How many.
    pub len: u64,
}

/// What `FILE_PIN` is asked, and answers. Addresses are the asking module's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct FilePin {
    /// Where in the file it begins.
    pub offset: u64,
    /// Bytes, or [`TO_THE_END`]; replaced by the number of bytes that are there.
    pub len: u64,
    /// The answer: bytes of the part when it was pinned first, of which the file may have fewer now.
    pub whole: u64,
    /// Room for [`Extent`]s.
    pub extents: u64,
    /// How many fit there.
    pub room: u64,
    /// The answer: how many there are. If that is more than fit, nothing is written and nothing pinned.
    pub count: u64,
    /// Room for the file's path, [`PATH_MAX`] bytes.
    pub path: u64,
    /// The answer: bytes of it.
    pub path_len: u64,
    /// The answer: what the visor calls a file of a granted directory, which has no extents. Otherwise 0.
    pub host_node: u64,
}

/// What a module asks the visor to map ([`crate::module::Host::map_file`]).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MapRequest {
    /// Where it begins, if the domain goes on from a captured one that had it there; 0: where there is room.
    pub address: u64,
    /// Bytes, at least 1.
    pub len: u64,
    /// Bits of [`map`].
    pub flags: u64,
    /// As in [`FilePin`]. What they lead to stays there until the mapping has been taken back.
    pub extents: *const Extent,
    /// How many there are.
    pub count: u64,
    /// As in [`FilePin`].
    pub host_node: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file's path, for reports.
    pub path: *const u8,
    /// Bytes of it.
    pub path_len: u64,
}

/// What a mount point leads to ([`crate::module::Host::mount`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum MountKind {
    /// Memory; served by `ramfs`.
    Memory = 0,
    /// A disk image; served by `fatfs`.
    Image = 1,
    /// A directory of the host; served by the visor.
    Host = 2,
}

/// One mount, as the workflow has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct MountInfo {
    /// Which file system serves it.
    pub kind: MountKind,
    /// 1 if nothing on it may change.
    pub read_only: u32,
    /// Most bytes it may hold, if the workflow sets a limit.
    pub size: u64,
}

/// What distinguishes the file behind a disk image from every other file, and from itself after a change by others.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct ImageIdentity {
    /// The host's file system.
    pub device: u64,
    /// The file in it.
    pub inode: u64,
    /// Bytes.
    pub len: u64,
    /// When its bytes last changed, in ns since 1970.
    pub modified: i64,
    /// 1 if changes are the domain's own and do not reach the file.
    pub private: u64,
}

/// What the descriptor table asks of a file system. The first argument is the operation in the low byte with the mount's
/// number above it ([`FsOp::word`]); the others are listed. Paths are relative to the mount and clean: names with one `/`
/// between them, `""` for the mount itself. Addresses of buffers have been checked; those of paths are the table's own.
///
/// The table makes one call with a path at a time per mount. Calls with a node come at any moment, `Close` once no other call
/// uses the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum FsOp {
    /// `(path, len, flags, FileStat out)` → node, which is open until `Close`; of a directory 0, and nothing is open.
    Open = 0,
    /// `(node)` → 0.
    Close = 1,
    /// `(node, offset, buffer, len)` → bytes.
    Read = 2,
    /// `(node, offset or [`FsOp::APPEND`], buffer, len)` → bytes; scratch word 0 is the position behind them.
    Write = 3,
    /// `(path, len, FileStat out)` → 0.
    Stat = 4,
    /// `(node, FileStat out)` → 0.
    StatNode = 5,
    /// `(path, len, start, buffer, len)` → bytes of whole entries from number `start` on; scratch word 0 is the number
    /// behind the last. The buffer is the table's own.
    List = 6,
    /// `(path, len)` → 0.
    MakeDirectory = 7,
    /// `(path, len)` → 0.
    RemoveDirectory = 8,
    /// `(path, len)` → 0. Files that are open stay until they are closed.
    RemoveFile = 9,
    /// `(path, len, path, len)` → 0. Replaces what is there, as POSIX's `rename` does.
    Rename = 10,
    /// `(node, size)` → 0.
    Resize = 11,
    /// `(node)` → 0. What has been written survives a crash of the host afterwards, where the mount outlives the domain.
    Sync = 12,
    /// `(node, offset, len, Extent out, room)` → how many extents the range has; scratch word 0 is a pin. If they fit there, they
    /// are written, and what they lead to stays the file's own until `Unpin`, whatever becomes of the file. The range lies inside
    /// the file. The visor answers 0 for its own files.
    Pin = 13,
    /// `(node, pin)` → 0.
    Unpin = 14,
    /// `(path, len)` → 0. The names in a directory survive a crash of the host afterwards, where the mount outlives the domain.
    SyncDirectory = 15,
    /// `(path, len, read, written)` → 0. Sets these times, but for [`KEEP_TIME`], as exactly as the file system keeps them.
    SetTimes = 16,
    /// `(node, path, len, read, written)` → 0. The same of an open file. The path is that by which it was opened.
    SetNodeTimes = 17,
}

impl FsOp {
    /// The offset that stands for the end of the file.
    pub const APPEND: u64 = u64::MAX;

    /// First argument of the call.
    pub const fn word(self, mount: u32) -> u64 {
        self as u64 | (mount as u64) << 8
    }

    /// The operation and the mount.
    pub const fn from_word(word: u64) -> Option<(FsOp, u32)> {
        const ALL: [FsOp; 18] = [
            FsOp::Open,
            FsOp::Close,
            FsOp::Read,
            FsOp::Write,
            FsOp::Stat,
            FsOp::StatNode,
            FsOp::List,
            FsOp::MakeDirectory,
            FsOp::RemoveDirectory,
            FsOp::RemoveFile,
            FsOp::Rename,
            FsOp::Resize,
            FsOp::Sync,
            FsOp::Pin,
            FsOp::Unpin,
            FsOp::SyncDirectory,
            FsOp::SetTimes,
            FsOp::SetNodeTimes,
        ];
        let op = (word & 0xff) as usize;
        if op < ALL.len() { Some((ALL[op], (word >> 8) as u32)) } else { None }
    }
}
