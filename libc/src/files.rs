//! Files and directories over `FILE_*`.
//!
//! There are no owners, no permissions but read-only mounts, no links: what Linux reports of them is the same for every
//! file. Times can be read and not set.

use crate::clocks::Timespec;
use crate::descriptors::{self, Kind};
use crate::errno::{Answer, EBADF, EFAULT, EINVAL, ENOSYS, ENOTDIR, ENOTTY, EOPNOTSUPP, EPERM, ERANGE, ESPIPE};
use crate::local::Local;
use crate::refuse::{Missing, refuse};
use crate::{host, local, process, sockets, standard};
use alloc::vec;
use core::ffi::{CStr, c_char};
use monohull_abi::file::{DirEntry, FileKind, FileStat, IoVec, KEEP_FLAGS, WORKING_DIRECTORY, open};
use monohull_abi::number;

/// `AT_FDCWD`.
const WORKING: i32 = -100;
const AT_REMOVEDIR: u64 = 0x200;
const AT_EMPTY_PATH: u64 = 0x1000;
const O_CREAT: u64 = 0o100;
const O_EXCL: u64 = 0o200;
const O_TRUNC: u64 = 0o1000;
const O_APPEND: u64 = 0o2000;
const O_NONBLOCK: u64 = 0o4000;
const O_DIRECTORY: u64 = 0o200_000;
const O_TMPFILE: u64 = 0o20_000_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;
const S_IFCHR: u32 = 0o020_000;
const S_IFSOCK: u32 = 0o140_000;
/// Bytes that reading and writing go well with.
const BLOCK: u64 = 4096;

/// A path of the program's, and the directory that it starts from, as hostcalls take them.
struct Path {
    from: u64,
    bytes: &'static [u8],
}

impl Path {
    fn read(directory: u64, address: u64) -> Result<Path, Answer> {
        if address == 0 {
            return Err(EFAULT);
        }
        // SAFETY: the caller's string, which ends with a zero and does not change during the call.
        let bytes = unsafe { CStr::from_ptr(address as *const c_char) }.to_bytes();
        let from = match directory as i32 {
            _ if bytes.first() == Some(&b'/') => WORKING_DIRECTORY,
            WORKING => WORKING_DIRECTORY,
            _ => match descriptors::get(directory)? {
                Kind::File(file) => file,
                _ => return Err(ENOTDIR),
            },
        };
        Ok(Path { from, bytes })
    }

    fn call(&self, number: u32) -> Answer {
        host::call(number, [self.from, self.bytes.as_ptr() as u64, self.bytes.len() as u64])
    }
}

/// Does something with a path, or answers why there is none.
fn with(directory: u64, address: u64, act: impl FnOnce(Path) -> Answer) -> Answer {
    Path::read(directory, address).map_or_else(|error| error, act)
}

/// Does something with an open file, or answers why it is none.
fn with_file(descriptor: u64, otherwise: Answer, act: impl FnOnce(u64) -> Answer) -> Answer {
    match descriptors::get(descriptor) {
        Ok(Kind::File(file)) => act(file),
        Ok(_) => otherwise,
        Err(error) => error,
    }
}

/// Does something with an event counter or an end of a pipe.
fn with_local(at: usize, act: impl FnOnce(&Local) -> Answer) -> Answer {
    local::get(at).map_or_else(|error| error, |local| act(&local))
}

const HERE: u64 = WORKING as i64 as u64;

/// `open(path, flags, mode)`.
pub(crate) fn open([path, flags, ..]: [u64; 6]) -> Answer {
    openat([HERE, path, flags, 0, 0, 0])
}

/// `creat(path, mode)`.
pub(crate) fn creat([path, ..]: [u64; 6]) -> Answer {
    openat([HERE, path, O_CREAT | O_TRUNC | 1, 0, 0, 0])
}

/// `openat(directory, path, flags, mode)`.
pub(crate) fn openat([directory, path, flags, ..]: [u64; 6]) -> Answer {
    with(directory, path, |path| {
        if flags & O_TMPFILE == O_TMPFILE {
            return EOPNOTSUPP;
        }
        let device = match path.bytes {
            b"/dev/null" => Some(Kind::Null),
            b"/dev/zero" => Some(Kind::Zero),
            b"/dev/random" | b"/dev/urandom" => Some(Kind::Random),
            b"/dev/stdin" => Some(Kind::Input),
            b"/dev/stdout" => Some(Kind::Output(1)),
            b"/dev/stderr" => Some(Kind::Output(2)),
            _ => None,
        };
        if let Some(device) = device {
            return descriptors::add(device);
        }
        let mut wanted = match flags & 3 {
            0 => open::READ,
            1 => open::WRITE,
            _ => open::READ | open::WRITE,
        };
        for (flag, bit) in [
            (O_CREAT, open::CREATE),
            (O_EXCL, open::EXCLUSIVE),
            (O_TRUNC, open::TRUNCATE),
            (O_APPEND, open::APPEND),
            (O_DIRECTORY, open::DIRECTORY),
        ] {
            if flags & flag == flag {
                wanted |= bit;
            }
        }
        if wanted & open::CREATE == 0 {
            wanted &= !open::EXCLUSIVE;
        }
        let (bytes, len) = (path.bytes.as_ptr() as u64, path.bytes.len() as u64);
        match host::call(number::FILE_OPEN, [path.from, bytes, len, wanted]) {
            error @ ..0 => error,
            file => descriptors::add(Kind::File(file as u64)),
        }
    })
}

/// `read(descriptor, buffer, length)`.
pub(crate) fn read([descriptor, buffer, len, ..]: [u64; 6]) -> Answer {
    match descriptors::get(descriptor) {
        Ok(Kind::File(file)) => host::call(number::FILE_READ, [file, buffer, len]),
        Ok(Kind::Socket(socket)) => sockets::receive(socket, buffer, len, 0),
        Ok(Kind::Local(local)) => with_local(local, |local| local.read(buffer, len, true, false)),
        Ok(Kind::Input) => standard::read(buffer, len),
        Ok(Kind::Null) => 0,
        Ok(Kind::Zero) => {
            // SAFETY: the caller's buffer.
            unsafe { (buffer as *mut u8).write_bytes(0, len as usize) };
            len as Answer
        }
        Ok(Kind::Random) => process::getrandom([buffer, len, 0, 0, 0, 0]),
        Ok(Kind::Epoll(_)) => EINVAL,
        Ok(Kind::Output(_)) => EBADF,
        Err(error) => error,
    }
}

/// `write(descriptor, bytes, length)`.
pub(crate) fn write([descriptor, bytes, len, ..]: [u64; 6]) -> Answer {
    match descriptors::get(descriptor) {
        Ok(Kind::File(file)) => host::call(number::FILE_WRITE, [file, bytes, len]),
        Ok(Kind::Output(stream)) => host::call(number::STDIO_WRITE, [stream, bytes, len]),
        Ok(Kind::Socket(socket)) => sockets::send(socket, bytes, len),
        Ok(Kind::Local(local)) => with_local(local, |local| local.write(bytes, len, true)),
        Ok(Kind::Null | Kind::Zero | Kind::Random) => len as Answer,
        Ok(Kind::Epoll(_)) => EINVAL,
        Ok(Kind::Input) => EBADF,
        Err(error) => error,
    }
}

/// `pread64(descriptor, buffer, length, offset)`.
pub(crate) fn pread([descriptor, buffer, len, offset, ..]: [u64; 6]) -> Answer {
    positioned(number::FILE_PREAD, descriptor, buffer, len, offset)
}

/// `pwrite64(descriptor, bytes, length, offset)`.
pub(crate) fn pwrite([descriptor, bytes, len, offset, ..]: [u64; 6]) -> Answer {
    positioned(number::FILE_PWRITE, descriptor, bytes, len, offset)
}

/// A call at an offset; the one that stands for "at the position" is no offset here.
fn positioned(number: u32, descriptor: u64, first: u64, second: u64, offset: u64) -> Answer {
    if (offset as i64) < 0 {
        return EINVAL;
    }
    with_file(descriptor, ESPIPE, |file| host::call(number, [file, first, second, offset]))
}

/// Reads or writes several buffers one after another, until one is not done whole.
fn each(list: u64, count: u64, mut act: impl FnMut(u64, u64) -> Answer) -> Answer {
    let mut done = 0;
    for at in 0..count as usize {
        // SAFETY: the caller's list of that many buffers.
        let buffer = unsafe { (list as *const IoVec).add(at).read_unaligned() };
        if buffer.len == 0 {
            continue;
        }
        match act(buffer.address, buffer.len) {
            error @ ..0 if done == 0 => return error,
            ..0 => break,
            part => {
                done += part;
                if (part as u64) < buffer.len {
                    break;
                }
            }
        }
    }
    done
}

/// `readv(descriptor, list, count)`.
pub(crate) fn readv([descriptor, list, count, ..]: [u64; 6]) -> Answer {
    match descriptors::get(descriptor) {
        Ok(Kind::File(file)) => host::call(number::FILE_READV, [file, list, count, monohull_abi::file::AT_POSITION]),
        _ if count > 1024 => EINVAL,
        Ok(Kind::Local(local)) => with_local(local, |local| {
            // Only the first part waits.
            let mut first = true;
            each(list, count, |buffer, len| local.read(buffer, len, core::mem::take(&mut first), false))
        }),
        _ => each(list, count, |buffer, len| read([descriptor, buffer, len, 0, 0, 0])),
    }
}

/// `writev(descriptor, list, count)`.
pub(crate) fn writev([descriptor, list, count, ..]: [u64; 6]) -> Answer {
    match descriptors::get(descriptor) {
        Ok(Kind::File(file)) => host::call(number::FILE_WRITEV, [file, list, count, monohull_abi::file::AT_POSITION]),
        _ if count > 1024 => EINVAL,
        _ => each(list, count, |bytes, len| write([descriptor, bytes, len, 0, 0, 0])),
    }
}

/// `preadv(descriptor, list, count, offset, high half)`.
pub(crate) fn preadv([descriptor, list, count, offset, ..]: [u64; 6]) -> Answer {
    positioned(number::FILE_READV, descriptor, list, count, offset)
}

/// `pwritev(descriptor, list, count, offset, high half)`.
pub(crate) fn pwritev([descriptor, list, count, offset, ..]: [u64; 6]) -> Answer {
    positioned(number::FILE_WRITEV, descriptor, list, count, offset)
}

/// `preadv2(descriptor, list, count, offset, high half, flags)`: offset −1 is the position; no flags.
pub(crate) fn preadv2([descriptor, list, count, offset, _, flags]: [u64; 6]) -> Answer {
    match (flags as u32, offset as i64) {
        (0, -1) => readv([descriptor, list, count, 0, 0, 0]),
        (0, _) => preadv([descriptor, list, count, offset, 0, 0]),
        _ => EOPNOTSUPP,
    }
}

/// `pwritev2(descriptor, list, count, offset, high half, flags)`: also with `RWF_NOAPPEND`, unless the descriptor appends.
pub(crate) fn pwritev2([descriptor, list, count, offset, _, flags]: [u64; 6]) -> Answer {
    const RWF_NOAPPEND: u32 = 0x20;
    let appends = || descriptors::get(descriptor).is_ok_and(|kind| self::flags(kind) & O_APPEND as Answer != 0);
    match (flags as u32, offset as i64) {
        (0, -1) => writev([descriptor, list, count, 0, 0, 0]),
        (RWF_NOAPPEND, _) if appends() => EOPNOTSUPP,
        (0 | RWF_NOAPPEND, 0..) => pwritev([descriptor, list, count, offset, 0, 0]),
        (0, _) => EINVAL,
        _ => EOPNOTSUPP,
    }
}

/// `lseek(descriptor, offset, whence)`.
pub(crate) fn lseek([descriptor, offset, whence, ..]: [u64; 6]) -> Answer {
    with_file(descriptor, ESPIPE, |file| host::call(number::FILE_SEEK, [file, offset, whence]))
}

/// `struct stat`.
#[repr(C)]
struct Stat {
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
    Timespec::new(nanoseconds.max(0) as u64)
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

    /// Of what is no file: its mode says what it is.
    fn of(mode: u32, file: &FileStat) -> Stat {
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
            accessed: time(file.accessed.max(file.modified)),
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
fn known(descriptor: u64) -> Result<(Stat, FileStat), Answer> {
    let mut file = FileStat::default();
    let mode = match descriptors::get(descriptor)? {
        Kind::File(number) => {
            let answer = host::call(number::FILE_FSTAT, [number, (&raw mut file) as u64]);
            return if answer < 0 { Err(answer) } else { Ok((Stat::of_file(&file), file)) };
        }
        Kind::Socket(_) => S_IFSOCK | 0o777,
        Kind::Local(at) => local::get(at)?.mode(),
        // As Linux has it of what is neither a file nor a device.
        Kind::Epoll(_) => 0o600,
        _ => S_IFCHR | 0o666,
    };
    Ok((Stat::of(mode, &file), file))
}

/// What is known of what a path leads to.
fn known_by_path(directory: u64, path: u64, flags: u64) -> Result<(Stat, FileStat), Answer> {
    // SAFETY: the caller's string, or null.
    let empty = path == 0 || unsafe { (path as *const u8).read() } == 0;
    if flags & AT_EMPTY_PATH != 0 && empty && directory as i32 != WORKING {
        return known(directory);
    }
    let path = Path::read(directory, path)?;
    if path.bytes.starts_with(b"/dev/")
        && matches!(path.bytes, b"/dev/null" | b"/dev/zero" | b"/dev/urandom" | b"/dev/random")
    {
        let file = FileStat::default();
        return Ok((Stat::of(S_IFCHR | 0o666, &file), file));
    }
    let mut file = FileStat::default();
    let (bytes, len) = (path.bytes.as_ptr() as u64, path.bytes.len() as u64);
    match host::call(number::FILE_STAT, [path.from, bytes, len, (&raw mut file) as u64]) {
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
        special: [0; 2],
        device: [0, stat.device as u32],
        reserved: [0; 14],
    };
    // SAFETY: the caller's `struct statx`. The nanoseconds fill their own half of the second word and zeros the other.
    unsafe { (out as *mut Statx).write_unaligned(statx) };
    0
}

/// `getdents64(descriptor, buffer, length)`: without `.` and `..`.
pub(crate) fn getdents64([descriptor, buffer, len, ..]: [u64; 6]) -> Answer {
    /// Bytes of the fields before a name.
    const HEADER: usize = 19;
    // An entry takes at most a third more here than where it comes from.
    let mut entries = vec![0_u8; len as usize * 3 / 4];
    let read = with_file(descriptor, ENOTDIR, |file| {
        host::call(number::FILE_GETDENTS, [file, entries.as_mut_ptr() as u64, entries.len() as u64])
    });
    if read <= 0 {
        return read;
    }
    let (mut from, mut to) = (0, 0);
    while from < read as usize {
        // SAFETY: the host has written whole entries up to `read`.
        let entry = unsafe { entries.as_ptr().add(from).cast::<DirEntry>().read_unaligned() };
        let name = &entries[from + size_of::<DirEntry>()..][..entry.name_len as usize];
        let record = (HEADER + name.len() + 1).next_multiple_of(8);
        let kind = if FileKind::from_raw(entry.kind) == Some(FileKind::Directory) { 4 } else { 8 };
        // SAFETY: the caller's buffer, in which `to + record` is at most `len`: see above.
        unsafe {
            let out = (buffer as *mut u8).add(to);
            out.write_bytes(0, record);
            out.cast::<u64>().write_unaligned(entry.node);
            out.add(8).cast::<u64>().write_unaligned((to + record) as u64);
            out.add(16).cast::<u16>().write_unaligned(record as u16);
            out.add(18).write(kind);
            out.add(HEADER).copy_from_nonoverlapping(name.as_ptr(), name.len());
        }
        to += record;
        from += DirEntry::record_len(name.len());
    }
    to as Answer
}

/// `mkdir(path, mode)`.
pub(crate) fn mkdir([path, ..]: [u64; 6]) -> Answer {
    with(HERE, path, |path| path.call(number::FILE_MKDIR))
}

/// `mkdirat(directory, path, mode)`.
pub(crate) fn mkdirat([directory, path, ..]: [u64; 6]) -> Answer {
    with(directory, path, |path| path.call(number::FILE_MKDIR))
}

/// `rmdir(path)`.
pub(crate) fn rmdir([path, ..]: [u64; 6]) -> Answer {
    with(HERE, path, |path| path.call(number::FILE_RMDIR))
}

/// `unlink(path)`.
pub(crate) fn unlink([path, ..]: [u64; 6]) -> Answer {
    with(HERE, path, |path| path.call(number::FILE_UNLINK))
}

/// `unlinkat(directory, path, flags)`.
pub(crate) fn unlinkat([directory, path, flags, ..]: [u64; 6]) -> Answer {
    let number = if flags & AT_REMOVEDIR != 0 { number::FILE_RMDIR } else { number::FILE_UNLINK };
    with(directory, path, |path| path.call(number))
}

/// `rename(from, to)`.
pub(crate) fn rename([from, to, ..]: [u64; 6]) -> Answer {
    renameat2([HERE, from, HERE, to, 0, 0])
}

/// `renameat(directory, from, directory, to)`.
pub(crate) fn renameat([one, from, other, to, ..]: [u64; 6]) -> Answer {
    renameat2([one, from, other, to, 0, 0])
}

/// `renameat2(directory, from, directory, to, flags)`: without flags.
pub(crate) fn renameat2([one, from, other, to, flags, ..]: [u64; 6]) -> Answer {
    if flags as u32 != 0 {
        return EINVAL;
    }
    with(one, from, |from| {
        with(other, to, |to| {
            let bytes = |path: &Path| (path.bytes.as_ptr() as u64, path.bytes.len() as u64);
            let ((a, b), (c, d)) = (bytes(&from), bytes(&to));
            host::call(number::FILE_RENAME, [from.from, a, b, to.from, c, d])
        })
    })
}

/// `truncate(path, size)`.
pub(crate) fn truncate([path, size, ..]: [u64; 6]) -> Answer {
    match open([path, 1, 0, 0, 0, 0]) {
        error @ ..0 => error,
        descriptor => {
            let answer = ftruncate([descriptor as u64, size, 0, 0, 0, 0]);
            descriptors::close([descriptor as u64, 0, 0, 0, 0, 0]);
            answer
        }
    }
}

/// `ftruncate(descriptor, size)`.
pub(crate) fn ftruncate([descriptor, size, ..]: [u64; 6]) -> Answer {
    if (size as i64) < 0 {
        return EINVAL;
    }
    with_file(descriptor, EINVAL, |file| host::call(number::FILE_FTRUNCATE, [file, size]))
}

/// `fallocate(descriptor, mode, offset, length)`: extends a file, with mode 0.
pub(crate) fn fallocate([descriptor, mode, offset, len, ..]: [u64; 6]) -> Answer {
    if mode as u32 != 0 {
        return EOPNOTSUPP;
    }
    match known(descriptor) {
        Ok((_, file)) if file.size >= offset.saturating_add(len) => 0,
        Ok(_) => ftruncate([descriptor, offset.saturating_add(len), 0, 0, 0, 0]),
        Err(error) => error,
    }
}

/// `fsync(descriptor)`, `fdatasync(descriptor)`.
pub(crate) fn fsync([descriptor, ..]: [u64; 6]) -> Answer {
    with_file(descriptor, EINVAL, |file| host::call(number::FILE_FSYNC, [file]))
}

/// Makes the written data of all open files safe.
pub(crate) fn sync_all() -> Answer {
    for descriptor in 0..descriptors::MOST as u64 {
        with_file(descriptor, 0, |file| host::call(number::FILE_FSYNC, [file]));
    }
    0
}

/// `chdir(path)`.
pub(crate) fn chdir([path, ..]: [u64; 6]) -> Answer {
    with(HERE, path, |path| path.call(number::FILE_CHDIR))
}

/// `fchdir(directory)`.
pub(crate) fn fchdir([directory, ..]: [u64; 6]) -> Answer {
    with(directory, c".".as_ptr() as u64, |path| path.call(number::FILE_CHDIR))
}

/// `getcwd(buffer, length)` → bytes, the zero included.
pub(crate) fn getcwd([buffer, len, ..]: [u64; 6]) -> Answer {
    let mut path = vec![0_u8; monohull_abi::file::PATH_MAX];
    match host::call(number::FILE_GETCWD, [path.as_mut_ptr() as u64, path.len() as u64]) {
        error @ ..0 => error,
        bytes if bytes as u64 >= len => ERANGE,
        bytes => {
            // SAFETY: the caller's buffer, which is longer than the path.
            unsafe {
                (buffer as *mut u8).copy_from_nonoverlapping(path.as_ptr(), bytes as usize);
                (buffer as *mut u8).add(bytes as usize).write(0);
            }
            bytes + 1
        }
    }
}

/// `readlink(path, …)`: nothing is a link.
pub(crate) fn readlink([path, ..]: [u64; 6]) -> Answer {
    readlinkat([HERE, path, 0, 0, 0, 0])
}

/// `readlinkat(directory, path, …)`.
pub(crate) fn readlinkat([directory, path, ..]: [u64; 6]) -> Answer {
    known_by_path(directory, path, 0).map_or_else(|error| error, |_| EINVAL)
}

/// `symlink`, `link` and their kin.
pub(crate) fn link(_: [u64; 6]) -> Answer {
    refuse(Missing::Link, EPERM)
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
    match known_by_path(directory, path, 0) {
        Ok((_, file)) if mode & WRITE != 0 && file.read_only != 0 => EROFS,
        Ok((stat, _)) if mode & EXECUTE != 0 && stat.mode & S_IFDIR == 0 => crate::errno::EACCES,
        Ok(_) => 0,
        Err(error) => error,
    }
}

/// `chmod(path, …)`, `chown`, `utimensat` of what exists: accepted, and nothing changes.
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

/// `struct statfs`, fifteen words: a memory file system whose room is not known.
fn write_statfs(out: u64) -> Answer {
    const TMPFS: u64 = 0x0102_1994;
    if out == 0 {
        return EFAULT;
    }
    let mut words = [0_u64; 15];
    (words[0], words[1], words[8], words[9]) = (TMPFS, BLOCK, monohull_abi::file::NAME_MAX as u64, BLOCK);
    // SAFETY: the caller's `struct statfs`.
    unsafe { (out as *mut [u64; 15]).write_unaligned(words) };
    0
}

/// `ioctl(descriptor, request, argument)`: bytes that can be read and non-blocking sockets; nothing is a terminal.
pub(crate) fn ioctl([descriptor, request, argument, ..]: [u64; 6]) -> Answer {
    const FIONBIO: u32 = 0x5421;
    const FIOCLEX: u32 = 0x5451;
    const FIONCLEX: u32 = 0x5450;
    match (descriptors::get(descriptor), request as u32) {
        (Err(error), _) => error,
        (Ok(kind), FIONBIO) => {
            // SAFETY: the caller's pointer to an `int`.
            let on = unsafe { (argument as *const i32).read_unaligned() } != 0;
            set_flags(kind, if on { O_NONBLOCK } else { 0 })
        }
        (Ok(_), FIOCLEX | FIONCLEX) => 0,
        (Ok(_), _) => ENOTTY,
    }
}

/// `F_GETFL`.
pub(crate) fn flags(kind: Kind) -> Answer {
    match kind {
        Kind::File(file) => match host::call(number::FILE_FLAGS, [file, KEEP_FLAGS]) {
            error @ ..0 => error,
            flags => {
                let flags = flags as u64;
                let access = match (flags & open::READ != 0, flags & open::WRITE != 0) {
                    (true, true) => 2,
                    (false, true) => 1,
                    _ => 0,
                };
                access | if flags & open::APPEND != 0 { O_APPEND as Answer } else { 0 }
            }
        },
        Kind::Socket(socket) => 2 | if sockets::is_non_blocking(socket) { O_NONBLOCK as Answer } else { 0 },
        Kind::Local(local) => {
            with_local(local, |local| local.access() | if local.is_non_blocking() { O_NONBLOCK as Answer } else { 0 })
        }
        Kind::Output(_) => 1,
        Kind::Input => 0,
        Kind::Null | Kind::Zero | Kind::Random | Kind::Epoll(_) => 2,
    }
}

/// `F_SETFL`: appending of files, non-blocking of sockets, pipes and event counters.
pub(crate) fn set_flags(kind: Kind, flags: u64) -> Answer {
    match kind {
        Kind::File(file) => match host::call(number::FILE_FLAGS, [file, KEEP_FLAGS]) {
            error @ ..0 => error,
            old => {
                let append = if flags & O_APPEND != 0 { open::APPEND } else { 0 };
                host::call(number::FILE_FLAGS, [file, old as u64 & !open::APPEND | append]).min(0)
            }
        },
        Kind::Socket(socket) => sockets::set_non_blocking(socket, flags & O_NONBLOCK != 0),
        Kind::Local(local) => with_local(local, |local| local.set_non_blocking(flags & O_NONBLOCK != 0)),
        _ => 0,
    }
}

/// `copy_file_range`, `sendfile`, `splice`: libraries copy by themselves then.
pub(crate) fn copy(_: [u64; 6]) -> Answer {
    ENOSYS
}

/// `getxattr` and its kin: there are no attributes.
pub(crate) fn attributes(_: [u64; 6]) -> Answer {
    EOPNOTSUPP
}
