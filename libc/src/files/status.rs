//! What is known of files, in the forms that Linux has for it. There are no owners and no permissions but read-only mounts.

use super::{BLOCK, HERE, Path, WORKING, proc};
use crate::clocks::Timespec;
use crate::descriptors::{self, Kind};
use crate::errno::{Answer, EACCES, EFAULT, EINVAL, ENOENT};
use crate::{host, local};
use monohull_abi::file::{FileKind, FileStat, NAME_MAX};
use monohull_abi::number;

pub(super) const AT_EMPTY_PATH: u64 = 0x1000;
const S_IFDIR: u32 = 0o040_000;
pub(super) const S_IFREG: u32 = 0o100_000;
const S_IFCHR: u32 = 0o020_000;
const S_IFIFO: u32 = 0o010_000;
const S_IFSOCK: u32 = 0o140_000;
/// The `st_dev` of what lies on no mount.
const NO_MOUNT: u64 = 0xffff_ffff;

/// `struct stat`.
#[repr(C)]
pub(super) struct Stat {
    device: u64,
    node: u64,
    links: u64,
    mode: u32,
    owner: [u32; 2],
    padding: u32,
    special: u64,
    size: i64,
    block: i64,
    blocks: i64,
    accessed: Timespec,
    modified: Timespec,
    changed: Timespec,
    reserved: [i64; 3],
}

const _: () = assert!(size_of::<Stat>() == 144);

fn time(nanoseconds: i64) -> Timespec {
    const SECOND: i64 = 1_000_000_000;
    Timespec { seconds: nanoseconds.div_euclid(SECOND), nanoseconds: nanoseconds.rem_euclid(SECOND) }
}

fn mode(file: &FileStat) -> u32 {
    match (FileKind::from_raw(file.kind), file.read_only) {
        (Some(FileKind::Directory), 0) => S_IFDIR | 0o755,
        (Some(FileKind::Directory), _) => S_IFDIR | 0o555,
        (_, 0) => S_IFREG | 0o644,
        (_, _) => S_IFREG | 0o444,
    }
}

impl Stat {
    fn of_file(file: &FileStat) -> Stat {
        Stat { mode: mode(file), ..Stat::of(0, file) }
    }

    /// Of what is no file: each has a number of its own, by which programs tell whether two are the same.
    fn of_other(kind: Kind) -> Result<Stat, Answer> {
        /// Numbers of sockets and lists of what is waited for begin here.
        const PLACES: u64 = 1 << 32;
        // Devices have Linux's numbers.
        let device = |minor: u64| (S_IFCHR | 0o666, minor, (1 << 8) | minor);
        let (mode, node, special) = match kind {
            Kind::Null => device(3),
            Kind::Zero => device(5),
            Kind::Random => device(9),
            // As pipes: they lead away from here.
            Kind::Input => (S_IFIFO | 0o600, 10, 0),
            Kind::Output(stream) => (S_IFIFO | 0o600, 10 + stream, 0),
            Kind::Socket(at) => (S_IFSOCK | 0o777, PLACES + at as u64, 0),
            Kind::Local(at) => {
                let local = local::get(at)?;
                (local.mode(), local.node(), 0)
            }
            // As Linux has it of what is neither a file nor a device.
            Kind::Epoll(at) => (0o600, 2 * PLACES + at as u64, 0),
            Kind::Text(_) => return Ok(proc::stat()),
            Kind::File(_) => return Err(EINVAL),
        };
        Ok(Stat { device: NO_MOUNT, node, special, ..Stat::of(mode, &FileStat::default()) })
    }

    /// Of what has this mode.
    pub(super) fn of(mode: u32, file: &FileStat) -> Stat {
        Stat {
            device: u64::from(file.mount) + 1,
            node: file.node,
            links: u64::from(file.links.max(1)),
            mode,
            owner: [0; 2],
            padding: 0,
            special: 0,
            size: file.size as i64,
            block: BLOCK as i64,
            blocks: file.size.div_ceil(512) as i64,
            accessed: time(file.accessed),
            modified: time(file.modified),
            changed: time(file.modified),
            reserved: [0; 3],
        }
    }

    fn write(self, out: u64) -> Answer {
        if out == 0 {
            return EFAULT;
        }
        // SAFETY: the caller's `struct stat`.
        unsafe { (out as *mut Stat).write_unaligned(self) };
        0
    }
}

/// What is known of an open descriptor.
pub(super) fn known(descriptor: u64) -> Result<(Stat, FileStat), Answer> {
    let mut file = FileStat::default();
    match descriptors::get(descriptor)? {
        Kind::File(number) => {
            let answer = host::call(number::FILE_FSTAT, [number, (&raw mut file) as u64]);
            if answer < 0 { Err(answer) } else { Ok((Stat::of_file(&file), file)) }
        }
        other => Stat::of_other(other).map(|stat| (stat, file)),
    }
}

/// What is known of what a path leads to.
fn known_by_path(directory: u64, path: u64, flags: u64) -> Result<(Stat, FileStat), Answer> {
    // SAFETY: the caller's string, or null.
    let empty = path == 0 || unsafe { (path as *const u8).read() } == 0;
    if flags & AT_EMPTY_PATH != 0 && empty && directory as i32 != WORKING {
        return known(directory);
    }
    let path = Path::read(directory, path)?;
    if let Some(device) = path.device() {
        return Stat::of_other(device).map(|stat| (stat, FileStat::default()));
    }
    if let Some(other) = proc::descriptor(path.bytes) {
        return known(other);
    }
    let mut file = FileStat::default();
    let (bytes, len) = (path.bytes.as_ptr() as u64, path.bytes.len() as u64);
    match host::call(number::FILE_STAT, [path.from, bytes, len, (&raw mut file) as u64]) {
        ENOENT if let Some(stat) = proc::known(path.bytes) => Ok((stat, FileStat { read_only: 1, ..file })),
        error @ ..0 => Err(error),
        _ => Ok((Stat::of_file(&file), file)),
    }
}

fn answer(known: Result<(Stat, FileStat), Answer>, out: u64) -> Answer {
    known.map_or_else(|error| error, |(stat, _)| stat.write(out))
}

/// `stat(path, out)`, `lstat(path, out)`: there are no symbolic links.
pub(crate) fn stat([path, out, ..]: [u64; 6]) -> Answer {
    answer(known_by_path(HERE, path, 0), out)
}

/// `fstat(descriptor, out)`.
pub(crate) fn fstat([descriptor, out, ..]: [u64; 6]) -> Answer {
    answer(known(descriptor), out)
}

/// `newfstatat(directory, path, out, flags)`.
pub(crate) fn newfstatat([directory, path, out, flags, ..]: [u64; 6]) -> Answer {
    answer(known_by_path(directory, path, flags), out)
}

/// `struct statx`.
#[repr(C)]
struct Statx {
    mask: u32,
    block: u32,
    attributes: u64,
    links: u32,
    owner: [u32; 2],
    mode: u16,
    padding: u16,
    node: u64,
    size: u64,
    blocks: u64,
    known_attributes: u64,
    /// Read, made, changed, written: seconds and nanoseconds each.
    times: [[i64; 2]; 4],
    special: [u32; 2],
    device: [u32; 2],
    reserved: [u64; 14],
}

const _: () = assert!(size_of::<Statx>() == 256);

/// `statx(directory, path, flags, mask, out)`.
pub(crate) fn statx([directory, path, flags, _, out, ..]: [u64; 6]) -> Answer {
    /// All that `stat` has, and the time it was made where that is known.
    const BASIC: u32 = 0x7ff;
    const BIRTH: u32 = 0x800;
    let (stat, file) = match known_by_path(directory, path, flags) {
        Ok(known) => known,
        Err(error) => return error,
    };
    if out == 0 {
        return EFAULT;
    }
    let pair = |time: Timespec| [time.seconds, time.nanoseconds];
    let statx = Statx {
        mask: BASIC | if file.created > 0 { BIRTH } else { 0 },
        block: BLOCK as u32,
        attributes: 0,
        links: stat.links as u32,
        owner: [0; 2],
        mode: stat.mode as u16,
        padding: 0,
        node: stat.node,
        size: file.size,
        blocks: stat.blocks as u64,
        known_attributes: 0,
        times: [pair(stat.accessed), pair(time(file.created)), pair(stat.changed), pair(stat.modified)],
        special: [stat.special >> 8, stat.special & 0xff].map(|part| part as u32),
        device: [0, stat.device as u32],
        reserved: [0; 14],
    };
    // SAFETY: the caller's `struct statx`. The nanoseconds fill their own half of the second word and zeros the other.
    unsafe { (out as *mut Statx).write_unaligned(statx) };
    0
}

/// `readlink(path, buffer, length)`.
pub(crate) fn readlink([path, buffer, len, ..]: [u64; 6]) -> Answer {
    readlinkat([HERE, path, buffer, len, 0, 0])
}

/// `readlinkat(directory, path, buffer, length)`: nothing is a link but some names of `/proc`.
pub(crate) fn readlinkat([directory, path, buffer, len, ..]: [u64; 6]) -> Answer {
    let known = known_by_path(directory, path, 0);
    let target = match known {
        Err(ENOENT) => Path::read(directory, path).ok().and_then(|path| proc::link(path.bytes)),
        _ => None,
    };
    match (known, target) {
        (_, Some(target)) => {
            let bytes = &target.as_bytes()[..target.len().min(len as usize)];
            // SAFETY: the caller's buffer.
            unsafe { (buffer as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            bytes.len() as Answer
        }
        (Ok(_), None) => EINVAL,
        (Err(error), None) => error,
    }
}

/// `access(path, mode)`.
pub(crate) fn access([path, mode, ..]: [u64; 6]) -> Answer {
    faccessat([HERE, path, mode, 0, 0, 0])
}

/// `faccessat(directory, path, mode)`: writing where the mount allows it; nothing can be executed but directories.
pub(crate) fn faccessat([directory, path, mode, ..]: [u64; 6]) -> Answer {
    const WRITE: u64 = 2;
    const EXECUTE: u64 = 1;
    const EROFS: Answer = -30;
    if mode as u32 > 7 {
        return EINVAL;
    }
    match known_by_path(directory, path, 0) {
        Ok((_, file)) if mode & WRITE != 0 && file.read_only != 0 => EROFS,
        Ok((stat, _)) if mode & EXECUTE != 0 && stat.mode & S_IFDIR == 0 => EACCES,
        Ok(_) => 0,
        Err(error) => error,
    }
}

/// `chmod(path, …)`, `chown` of what exists: accepted, and nothing changes.
pub(crate) fn accept_path([path, ..]: [u64; 6]) -> Answer {
    known_by_path(HERE, path, 0).map_or_else(|error| error, |_| 0)
}

/// The same with a directory before the path; a null path means the descriptor itself.
pub(crate) fn accept_path_at([directory, path, ..]: [u64; 6]) -> Answer {
    known_by_path(directory, path, AT_EMPTY_PATH).map_or_else(|error| error, |_| 0)
}

/// The same of a descriptor.
pub(crate) fn accept_descriptor([descriptor, ..]: [u64; 6]) -> Answer {
    descriptors::get(descriptor).map_or_else(|error| error, |_| 0)
}

/// `statfs(path, out)`.
pub(crate) fn statfs([path, out, ..]: [u64; 6]) -> Answer {
    known_by_path(HERE, path, 0).map_or_else(|error| error, |_| write_statfs(out))
}

/// `fstatfs(descriptor, out)`.
pub(crate) fn fstatfs([descriptor, out, ..]: [u64; 6]) -> Answer {
    known(descriptor).map_or_else(|error| error, |_| write_statfs(out))
}

/// `struct statfs`, fifteen words: a memory file system whose room is not known. A program that looks for room before it writes finds
/// plenty, and a write that does not fit fails.
fn write_statfs(out: u64) -> Answer {
    const TMPFS: u64 = 0x0102_1994;
    const PLENTY: u64 = 1 << 30;
    if out == 0 {
        return EFAULT;
    }
    let mut words = [0_u64; 15];
    (words[0], words[1], words[8], words[9]) = (TMPFS, BLOCK, NAME_MAX as u64, BLOCK);
    // Blocks, free ones, those for everybody; files and free ones.
    words[2..7].fill(PLENTY);
    // SAFETY: the caller's `struct statfs`.
    unsafe { (out as *mut [u64; 15]).write_unaligned(words) };
    0
}
