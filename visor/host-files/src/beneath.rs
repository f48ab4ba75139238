//! One granted directory: every path is resolved beneath it, by the kernel, in one step.

use super::wire::{Known, LIST_MAX, Name};
use monohull_abi::Errno;
use monohull_abi::file::{NAME_MAX, PATH_MAX, open};
use nix::dir::{Dir, Type};
use nix::errno::Errno as HostErrno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, UtimensatFlags, fstat, futimens, mkdirat, utimensat};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How often a path is resolved again because something on it was renamed meanwhile.
const AGAIN_MAX: u32 = 64;

/// A granted directory.
#[derive(Debug)]
pub struct Directory {
    root: OwnedFd,
    writable: bool,
}

impl Directory {
    /// Opens a directory by its path, with the rights of the calling process. A file system that shows processes is refused: their
    /// memory is among its files, and reading it there bypasses protection keys.
    pub fn open(path: &Path, writable: bool) -> io::Result<Directory> {
        let directory = File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_PATH).open(path)?;
        if fstatfs(&directory)?.filesystem_type() == PROC_SUPER_MAGIC {
            let why = "it shows the memory of processes (procfs), which is not granted";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(Directory { root: directory.into(), writable })
    }

    /// The same directory, to be used elsewhere.
    pub fn try_clone(&self) -> io::Result<Directory> {
        Ok(Directory { root: self.root.try_clone()?, writable: self.writable })
    }

    /// Opens a file as the flags say, or looks at a directory: what is known, and the file.
    pub(super) fn open_file(&self, path: &str, flags: u64) -> Result<(Known, Option<OwnedFd>), Errno> {
        let changes = open::WRITE | open::APPEND | open::CREATE | open::TRUNCATE;
        if flags & !open::ALL != 0 || flags & changes != 0 && !self.writable {
            return Err(Errno::ReadOnly);
        }
        let found = match self.known(path) {
            Ok(_) if flags & open::EXCLUSIVE != 0 => return Err(Errno::Exists),
            Ok(known) if known.directory && flags & changes != 0 => return Err(Errno::IsDirectory),
            Ok(known) if known.directory => return Ok((known, None)),
            Ok(_) if flags & open::DIRECTORY != 0 => return Err(Errno::NotDirectory),
            Ok(_) => true,
            Err(Errno::NotFound) if flags & (open::CREATE | open::DIRECTORY) == open::CREATE => false,
            Err(errno) => return Err(errno),
        };
        let access = match (flags & open::READ != 0, flags & (open::WRITE | open::APPEND) != 0) {
            (true, true) => OFlag::O_RDWR,
            (false, true) => OFlag::O_WRONLY,
            _ => OFlag::O_RDONLY,
        };
        let mut how = access;
        how.set(OFlag::O_CREAT, !found);
        // A file that appears meanwhile was created by another process.
        how.set(OFlag::O_EXCL, !found && flags & open::EXCLUSIVE != 0);
        how.set(OFlag::O_TRUNC, flags & open::TRUNCATE != 0);
        let file = match self.resolve(path, how, Mode::from_bits_truncate(0o666)) {
            // It has been removed since it was looked at.
            Err(Errno::NotFound) if found && flags & open::CREATE != 0 => return self.open_file(path, flags),
            file => file?,
        };
        let known = known_of(&file)?;
        // It may have been replaced since it was looked at.
        if known.directory { Err(Errno::IsDirectory) } else { Ok((known, Some(file))) }
    }

    /// What is known of a path.
    pub(super) fn known(&self, path: &str) -> Result<Known, Errno> {
        known_of(&self.resolve(path, OFlag::O_PATH, Mode::empty())?)
    }

    /// The entries of a directory from number `start` on, as many as fit into a message. What is neither a file nor a
    /// directory, or has a name that is not UTF-8, is left out.
    pub(super) fn list(&self, path: &str, start: u64) -> Result<Vec<Name>, Errno> {
        let directory = self.resolve(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty())?;
        let mut directory = Dir::from_fd(directory).map_err(errno_of)?;
        let (mut names, mut bytes, mut index) = (Vec::new(), 0, 0);
        for entry in directory.iter() {
            let entry = entry.map_err(errno_of)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let is_directory = match entry.file_type() {
                Some(Type::Directory) => true,
                Some(Type::File) => false,
                Some(_) => continue,
                // A file system that keeps the kinds elsewhere.
                None => match self.known(format!("{path}/{name}").trim_start_matches('/')) {
                    Ok(known) => known.directory,
                    Err(_) => continue,
                },
            };
            if matches!(name, "." | "..") {
                continue;
            }
            index += 1;
            if index <= start {
                continue;
            }
            bytes += name.len() + 16;
            if bytes > LIST_MAX {
                break;
            }
            names.push(Name { name: name.to_owned(), directory: is_directory, node: entry.ino() });
        }
        Ok(names)
    }

    /// Makes a directory.
    pub(super) fn make_directory(&self, path: &str) -> Result<(), Errno> {
        let (parent, name) = self.parent(path)?;
        mkdirat(&parent, name, Mode::from_bits_truncate(0o777)).map_err(errno_of)
    }

    /// Removes an empty directory.
    pub(super) fn remove_directory(&self, path: &str) -> Result<(), Errno> {
        let (parent, name) = self.parent(path)?;
        unlinkat(&parent, name, UnlinkatFlags::RemoveDir).map_err(errno_of)
    }

    /// Removes a file.
    pub(super) fn remove_file(&self, path: &str) -> Result<(), Errno> {
        let (parent, name) = self.parent(path)?;
        unlinkat(&parent, name, UnlinkatFlags::NoRemoveDir).map_err(errno_of)
    }

    /// Gives a file or directory another name.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        let ((from_parent, from), (to_parent, to)) = (self.parent(from)?, self.parent(to)?);
        renameat(&from_parent, from, &to_parent, to).map_err(errno_of)
    }

    /// Sets when what is at a path was last read and written, in ns since 1970; `None` stays as it is. With a `node`, only if it is that
    /// one: between looking and setting another may take its place, which is in the granted directory as well.
    pub(super) fn set_times(
        &self,
        path: &str,
        (read, written): (Option<i64>, Option<i64>),
        node: Option<u64>,
    ) -> Result<(), Errno> {
        if !self.writable {
            return Err(Errno::ReadOnly);
        }
        let known = self.known(path)?;
        if node.is_some_and(|node| node != known.node) {
            return Err(Errno::NotFound);
        }
        let time = |ns: Option<i64>| match ns {
            Some(ns) => TimeSpec::new(ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000)),
            None => TimeSpec::UTIME_OMIT,
        };
        let (read, written) = (time(read), time(written));
        if path.is_empty() {
            let root = self.resolve("", OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty())?;
            return futimens(&root, &read, &written).map_err(errno_of);
        }
        let (parent, name) = self.parent(path)?;
        utimensat(&parent, name, &read, &written, UtimensatFlags::NoFollowSymlink).map_err(errno_of)
    }

    /// Waits until the names in a directory are on the disk. Where nothing can be changed there is nothing to wait for.
    pub(super) fn sync(&self, path: &str) -> Result<(), Errno> {
        let directory = self.resolve(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty())?;
        if self.writable { fsync(&directory).map_err(errno_of) } else { Ok(()) }
    }

    /// The directory in which a path's last name is or would be, and that name, which leads nowhere else by itself.
    fn parent<'p>(&self, path: &'p str) -> Result<(OwnedFd, &'p str), Errno> {
        if !self.writable {
            return Err(Errno::ReadOnly);
        }
        path.split('/').try_for_each(check)?;
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.resolve(parent, OFlag::O_PATH | OFlag::O_DIRECTORY, Mode::empty())?;
        Ok((parent, name))
    }

    /// Opens what a path leads to beneath the granted directory.
    fn resolve(&self, path: &str, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno> {
        if path.len() > PATH_MAX {
            return Err(Errno::NameTooLong);
        }
        let path = match path {
            "" => ".",
            path => {
                path.split('/').try_for_each(check)?;
                path
            }
        };
        let mut flags = flags | OFlag::O_CLOEXEC;
        if !flags.contains(OFlag::O_PATH) {
            // Something else than a file may have taken its place: opening it must not block, nor acquire a controlling terminal.
            flags |= OFlag::O_NOCTTY | OFlag::O_NONBLOCK;
        }
        let beneath = ResolveFlag::RESOLVE_BENEATH
            | ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_NO_MAGICLINKS
            | ResolveFlag::RESOLVE_NO_XDEV;
        let mode = if flags.contains(OFlag::O_CREAT) { mode } else { Mode::empty() };
        let how = OpenHow::new().flags(flags).mode(mode).resolve(beneath);
        for _ in 0..AGAIN_MAX {
            match openat2(&self.root, path, how) {
                Err(HostErrno::EAGAIN | HostErrno::EINTR) => {}
                opened => return opened.map_err(errno_of),
            }
        }
        Err(Errno::Again)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}

/// Whether a text is one name: the descriptor table passes no other, and a worker in the wrong hands no other may.
fn check(name: &str) -> Result<(), Errno> {
    match name {
        "" | "." | ".." => Err(Errno::NotPermitted),
        name if name.contains(['/', '\0']) => Err(Errno::NotPermitted),
        name if name.len() > NAME_MAX => Err(Errno::NameTooLong),
        _ => Ok(()),
    }
}

/// The metadata of an open file or directory; other kinds of files are refused.
pub fn known_of(file: &OwnedFd) -> Result<Known, Errno> {
    let stat: FileStat = fstat(file).map_err(errno_of)?;
    let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    if kind != SFlag::S_IFREG && kind != SFlag::S_IFDIR {
        return Err(if kind == SFlag::S_IFLNK { Errno::Link } else { Errno::NotPermitted });
    }
    let time = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
    let directory = kind == SFlag::S_IFDIR;
    Ok(Known {
        directory,
        read_only: stat.st_mode & 0o222 == 0,
        size: if directory { 0 } else { stat.st_size as u64 },
        node: stat.st_ino,
        links: stat.st_nlink as u32,
        modified: time(stat.st_mtime, stat.st_mtime_nsec),
        accessed: time(stat.st_atime, stat.st_atime_nsec),
        changed: time(stat.st_ctime, stat.st_ctime_nsec),
    })
}

/// The error that functions get for one of the host.
pub(super) fn errno_of(errno: HostErrno) -> Errno {
    match errno {
        // A path that leads out of the folder, a missing permission, or a special file.
        HostErrno::EXDEV | HostErrno::EACCES | HostErrno::EPERM | HostErrno::ENXIO => Errno::NotPermitted,
        HostErrno::ELOOP => Errno::Link,
        HostErrno::EDQUOT => Errno::NoSpace,
        HostErrno::ETXTBSY => Errno::Busy,
        HostErrno::ENFILE => Errno::TooManyOpen,
        other => Errno::from_value(-i64::from(other as i32)).err().unwrap_or(Errno::Io),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    fn granted(writable: bool) -> (TempDir, Directory) {
        let folder = TempDir::new().expect("a folder");
        fs::create_dir_all(folder.path().join("granted/d")).expect("a folder");
        fs::write(folder.path().join("granted/f"), "f").expect("a file");
        fs::write(folder.path().join("secret"), "secret").expect("a file");
        let directory = Directory::open(&folder.path().join("granted"), writable).expect("it is there");
        (folder, directory)
    }

    #[test]
    fn paths_that_the_descriptor_table_never_passes_are_refused() {
        let (folder, directory) = granted(true);
        let secret = folder.path().join("secret").to_string_lossy().into_owned();
        let paths = ["..", "../secret", "d/../../secret", "d/..", "./f", "d//f", "/", "/etc", "f/", secret.as_str()];
        for path in paths {
            assert_eq!(directory.known(path), Err(Errno::NotPermitted), "{path}");
            assert_eq!(directory.open_file(path, open::READ).err(), Some(Errno::NotPermitted), "{path}");
            assert_eq!(directory.make_directory(path), Err(Errno::NotPermitted), "{path}");
            assert_eq!(directory.remove_file(path), Err(Errno::NotPermitted), "{path}");
            assert_eq!(directory.rename("f", path), Err(Errno::NotPermitted), "{path}");
            assert_eq!(directory.rename(path, "g"), Err(Errno::NotPermitted), "{path}");
            assert_eq!(directory.list(path, 0), Err(Errno::NotPermitted), "{path}");
            assert_eq!(directory.set_times(path, (None, Some(1)), None), Err(Errno::NotPermitted), "{path}");
        }
        for path in ["..", "d/..", "/", "f", "d/../../secret"] {
            assert!(directory.sync(path).is_err(), "{path}");
        }
        assert_eq!((directory.sync(""), directory.sync("d")), (Ok(()), Ok(())), "the control");
        assert_eq!(directory.known("a\0b"), Err(Errno::NotPermitted));
        assert_eq!(directory.known(&"x".repeat(256)), Err(Errno::NameTooLong));
        assert_eq!(directory.known("f").map(|known| known.size), Ok(1), "the control");
    }

    #[test]
    fn a_grant_to_read_is_none_to_write() {
        let (_folder, directory) = granted(false);
        for flags in
            [open::WRITE, open::READ | open::APPEND, open::WRITE | open::CREATE, open::READ | open::TRUNCATE, u64::MAX]
        {
            assert_eq!(directory.open_file("f", flags).err(), Some(Errno::ReadOnly), "{flags:#x}");
        }
        assert_eq!(directory.make_directory("g"), Err(Errno::ReadOnly));
        assert_eq!(directory.remove_file("f"), Err(Errno::ReadOnly));
        assert_eq!(directory.remove_directory("d"), Err(Errno::ReadOnly));
        assert_eq!(directory.rename("f", "g"), Err(Errno::ReadOnly));
        assert_eq!(directory.set_times("f", (Some(1), Some(1)), None), Err(Errno::ReadOnly));
        let (known, file) = directory.open_file("f", open::READ).expect("the control");
        assert!(known.size == 1 && file.is_some());
    }

    #[test]
    fn times_are_set_of_what_is_there_and_of_nothing_else() {
        let (folder, directory) = granted(true);
        std::os::unix::fs::symlink(folder.path().join("secret"), folder.path().join("granted/link")).expect("a link");
        let secret = || fs::metadata(folder.path().join("secret")).expect("it is there").modified().expect("a time");
        let before = secret();
        for (path, written) in [("f", 7), ("d", -1_500_000_000), ("", 1_795_185_317_000_000_123)] {
            let read = directory.known(path).expect("there").accessed;
            assert_eq!(directory.set_times(path, (None, Some(written)), None), Ok(()), "{path}");
            let known = directory.known(path).expect("there");
            assert_eq!((known.accessed, known.modified), (read, written), "{path}");
        }
        assert_eq!(directory.set_times("f", (Some(9), None), None), Ok(()));
        let known = directory.known("f").expect("there");
        assert_eq!((known.accessed, known.modified), (9, 7));
        // Another file has the path of the one that is meant.
        assert_eq!(directory.set_times("f", (None, Some(1)), Some(known.node + 1)), Err(Errno::NotFound));
        assert_eq!(directory.set_times("f", (None, Some(8)), Some(known.node)), Ok(()), "the control");
        assert_eq!(directory.set_times("link", (None, Some(1)), None), Err(Errno::Link));
        assert_eq!(directory.set_times("none", (None, Some(1)), None), Err(Errno::NotFound));
        assert_eq!((directory.known("f").expect("there").modified, secret()), (8, before));
    }

    #[test]
    fn a_directory_is_listed_piece_by_piece() {
        let (folder, directory) = granted(true);
        for index in 0..2000 {
            fs::write(folder.path().join(format!("granted/d/{index} {}", "x".repeat(100))), "").expect("a file");
        }
        let mut names = Vec::new();
        loop {
            let piece = directory.list("d", names.len() as u64).expect("listed");
            if piece.is_empty() {
                break;
            }
            names.extend(piece.into_iter().map(|name| name.name));
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 2000);
    }
}
