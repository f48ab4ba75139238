//! The file of an output: a full disk or a killed process leaves the old one whole, and nothing beside it.
//!
//! ```text
//!   a file without a name (O_TMPFILE) ── write ──▶ link ─▶ NAME                                 if there is none
//!                                                  link ─▶ .NAME.monohull-part ─▶ rename        if it is to be replaced
//!                                                  copy ─▶ NAME                                 if it cannot be replaced
//! ```
//!
//! The file in between stays behind only if the process is killed between link and rename: what next replaces NAME removes it. Where the
//! file system has no files without names, the file is written under a name of this process, and stays there if that is killed.
//!
//! A symbolic link stays one: the file that it leads to is replaced. The new file has the rights and the owner of the old one. A file
//! that cannot be replaced, because its folder may not be written or its owner or its access control list cannot be kept, is written where it is.
//! So is what is no regular file, and what has its name in `/proc`, as `/dev/stdout` does: there is nothing to replace.
//!
//! Nothing is followed or written that another user may have put into a folder where anyone may, as `/tmp`.

use monohull_report::escape::shown;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::unistd::{AccessFlags, faccessat, geteuid, linkat};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Seek};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Component, Path, PathBuf};

/// Where the process's descriptors have names.
const DESCRIPTORS: &str = "/proc/self/fd";
/// Where names of open files are, which lead to these even if their own names are gone.
const PROC: &str = "/proc";
/// How the name of a file ends that is to replace another.
const PART: &str = ".monohull-part";
/// The most symbolic links that are followed, as in Linux.
const LINKS_MAX: usize = 40;
/// The access control list of a file, if its rights are not all.
const ACCESS_LIST: &str = "system.posix_acl_access";
/// The rights that a file keeps. Linux takes the others away when a file is written.
const RIGHTS: u32 = 0o777;

/// Has a file written; errors are texts for people. What has the name is the old file or the new one, and either is whole, unless the
/// old one cannot be replaced.
pub fn write_whole(path: &Path, write_to: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), String> {
    let write = || match Place::of(path)? {
        Place::Direct(there) => write_to(&mut open_direct(&there)?),
        Place::New(there) => replace_whole(&there, None, write_to),
        Place::Old(there, old) => {
            // As if it were written: a file that may not be is not replaced either.
            may(&there, AccessFlags::W_OK)?;
            replace_whole(&there, Some(&old), write_to)
        }
    };
    write().map_err(|error: io::Error| unwritable(path, &error))
}

/// A file that has all of its content, and gets its name when that is asked for.
pub struct Staged {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    /// It has no name yet; the folder that it is in, and what it is to be called.
    Unnamed { folder: File, file: File, there: PathBuf },
    /// The file system has no files without names.
    Unwritten(Write),
    /// It has nothing to replace, and is written when it would be published.
    Stream(Write),
}

/// Writes a file.
type Write = Box<dyn FnOnce(&mut File) -> io::Result<()> + Send>;

impl std::fmt::Debug for Staged {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Staged").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Has a file written as [`write_whole`] does, but for its name: until [`Staged::publish`] what had the name is as it was.
pub fn stage(
    path: &Path,
    write_to: impl FnOnce(&mut File) -> io::Result<()> + Send + 'static,
) -> Result<Staged, String> {
    let stage = || {
        let there = match Place::of(path)? {
            Place::Direct(_) => return Ok(Kind::Stream(Box::new(write_to))),
            Place::New(there) => there,
            Place::Old(there, _) => {
                may(&there, AccessFlags::W_OK)?;
                there
            }
        };
        let Some((folder, mut file)) = unnamed(folder_of(&there)) else {
            return Ok(Kind::Unwritten(Box::new(write_to)));
        };
        write_to(&mut file)?;
        Ok(Kind::Unnamed { folder, file, there })
    };
    let kind = stage().map_err(|error: io::Error| unwritable(path, &error))?;
    Ok(Staged { path: path.to_owned(), kind })
}

impl Staged {
    /// Gives it its name. What had that is replaced, as by [`write_whole`].
    pub fn publish(self) -> Result<(), String> {
        let Staged { path, kind } = self;
        match kind {
            Kind::Unnamed { folder, mut file, there } => {
                put(&folder, &mut file, &there).map_err(|error| unwritable(&path, &error))
            }
            Kind::Unwritten(write_to) | Kind::Stream(write_to) => write_whole(&path, write_to),
        }
    }

    /// Whether it is a stream, a device or a name of an open file, which may take long.
    pub fn is_stream(&self) -> bool {
        matches!(self.kind, Kind::Stream(_))
    }
}

/// Whether a file can be written, as far as that can be told without doing it; errors are texts for people.
pub fn check(path: &Path) -> Result<(), String> {
    let look = || match Place::of(path)? {
        Place::New(there) => may(folder_of(&there), AccessFlags::W_OK | AccessFlags::X_OK),
        Place::Old(there, _) => may(&there, AccessFlags::W_OK),
        Place::Direct(there) if own_stream(&there).is_some() => Ok(()),
        Place::Direct(there) => {
            let kind = std::fs::metadata(&there)?.file_type();
            match () {
                () if kind.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
                () if kind.is_socket() => Err(io::Error::other("it is a socket")),
                () => may(&there, AccessFlags::W_OK),
            }
        }
    };
    look().map_err(|error| unwritable(path, &error))
}

/// Whether a file is a stream, a device or a name of an open file: whether what is written there is added to it.
pub fn is_direct(path: &Path) -> bool {
    matches!(Place::of(path), Ok(Place::Direct(_)))
}

fn unwritable(path: &Path, error: &io::Error) -> String {
    format!("{} cannot be written: {error}", shown(&path))
}

fn may(path: &Path, access: AccessFlags) -> io::Result<()> {
    Ok(faccessat(AT_FDCWD, path, access, AtFlags::AT_EACCESS)?)
}

/// Where an output goes, once symbolic links are followed.
enum Place {
    /// A file that is made.
    New(PathBuf),
    /// A regular file that is replaced.
    Old(PathBuf, Metadata),
    /// Something that is opened and written.
    Direct(PathBuf),
}

impl Place {
    fn of(path: &Path) -> io::Result<Place> {
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
            let folder = without_links(folder_of(&path))?;
            let there = folder.join(name);
            // A link there leads to an open file, even if it reads like a path.
            if folder.starts_with(PROC) {
                return Ok(Place::Direct(there));
            }
            match std::fs::symlink_metadata(&there) {
                Ok(found) if is_trap(&found, &folder)? => return Err(Errno::EACCES.into()),
                Ok(found) if found.is_symlink() => path = folder.join(std::fs::read_link(&there)?),
                Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
                Ok(found) if found.is_file() => return Ok(Place::Old(there, found)),
                Ok(_) => return Ok(Place::Direct(there)),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                // It would have to be a folder.
                Err(_) if path.as_os_str().as_bytes().ends_with(b"/") => {
                    return Err(io::ErrorKind::NotADirectory.into());
                }
                Err(_) if !folder.is_dir() => return Err(io::ErrorKind::NotADirectory.into()),
                Err(_) => return Ok(Place::New(there)),
            }
        }
        Err(Errno::ELOOP.into())
    }
}

/// A folder by a path without links. Each of them that is followed is no trap.
fn without_links(folder: &Path) -> io::Result<PathBuf> {
    let parts = |path: &Path| path.components().rev().map(|part| part.as_os_str().to_owned()).collect::<Vec<_>>();
    let mut there = if folder.is_relative() { std::env::current_dir()? } else { PathBuf::from("/") };
    // The next one is the last.
    let mut rest = parts(folder);
    let mut links = 0;
    while let Some(part) = rest.pop() {
        match Path::new(&part).components().next() {
            Some(Component::RootDir) => there = PathBuf::from("/"),
            Some(Component::ParentDir) => drop(there.pop()),
            Some(Component::Normal(name)) => {
                let next = there.join(name);
                let found = std::fs::symlink_metadata(&next)?;
                if found.is_symlink() {
                    if is_trap(&found, &there)? {
                        return Err(Errno::EACCES.into());
                    }
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(Errno::ELOOP.into());
                    }
                    rest.extend(parts(&std::fs::read_link(&next)?));
                } else if found.is_dir() {
                    there = next;
                } else {
                    return Err(io::ErrorKind::NotADirectory.into());
                }
            }
            Some(Component::CurDir | Component::Prefix(_)) | None => {}
        }
    }
    Ok(there)
}

/// Whether another user may have put something into a folder where anyone may, as `/tmp`: a link that leads to a file that only its reader
/// may write, a file whose owner reads what is written there, or a pipe. Linux does not open these either, by default
/// (`fs.protected_symlinks`, `fs.protected_regular`, `fs.protected_fifos`).
fn is_trap(found: &Metadata, folder: &Path) -> io::Result<bool> {
    const SHARED: u32 = 0o1002;
    let kind = found.file_type();
    if !(kind.is_symlink() || kind.is_file() || kind.is_fifo()) {
        return Ok(false);
    }
    let folder = std::fs::metadata(folder)?;
    Ok(folder.mode() & SHARED == SHARED && found.uid() != geteuid().as_raw() && found.uid() != folder.uid())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens what is not replaced. What is open already as standard output or standard error is not opened again, because another place to
/// write at would then begin at its start, and a socket cannot be opened. Any other regular file is written at its end.
fn open_direct(path: &Path) -> io::Result<File> {
    if let Some(own) = own_stream(path) {
        return own;
    }
    File::options().write(true).append(std::fs::metadata(path)?.is_file()).open(path)
}

/// This process's standard output or standard error, if that is what a path names.
#[expect(clippy::disallowed_methods, reason = "a user names it as the file of an output")]
fn own_stream(path: &Path) -> Option<io::Result<File>> {
    let folder = Path::new(DESCRIPTORS).canonicalize().ok()?;
    if path.parent() != Some(&folder) {
        return None;
    }
    let copied = match path.file_name()?.to_str()? {
        "1" => io::stdout().as_fd().try_clone_to_owned(),
        "2" => io::stderr().as_fd().try_clone_to_owned(),
        _ => return None,
    };
    Some(copied.map(File::from))
}

/// Has a regular file written; no part of its path is a symbolic link.
fn replace_whole(
    path: &Path,
    old: Option<&Metadata>,
    write_to: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let folder = folder_of(path);
    if let Some((folder, mut unnamed)) = unnamed(folder) {
        write_to(&mut unnamed)?;
        return put(&folder, &mut unnamed, path);
    }
    let part = beside(path, name, &format!("{PART}-{}", std::process::id()));
    // One of this name is of another process that had this number, or a trap.
    let _ = std::fs::remove_file(&part);
    // Until it has the rights of the old one it is for its owner alone.
    let mode = if old.is_some() { 0o600 } else { 0o666 };
    let mut file = match File::options().read(true).write(true).create_new(true).mode(mode).open(&part) {
        Err(error) if old.is_some() && must_stay(&error) => return write_to(&mut open_in_place(path)?),
        file => file?,
    };
    let written = write_to(&mut file).and_then(|()| {
        let replaced = old.map_or(Ok(()), |old| adopt(&file, path, old)).and_then(|()| std::fs::rename(&part, path));
        match replaced {
            Err(error) if old.is_some() => {
                copy_into(&error, &mut file, path)?;
                std::fs::remove_file(&part)
            }
            replaced => replaced,
        }
    });
    written.inspect_err(|_| {
        let _ = std::fs::remove_file(&part);
    })
}

/// Gives a file without a name the one that it is to have, in its folder.
fn put(folder: &File, unnamed: &mut File, path: &Path) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    // One at a time: they use the same name.
    folder.lock()?;
    match link(unnamed, path) {
        Err(Errno::EEXIST) => {
            let old = std::fs::symlink_metadata(path)?;
            if !old.is_file() || is_trap(&old, folder_of(path))? {
                return Err(Errno::EEXIST.into());
            }
            let replaced = adopt(unnamed, path, &old).and_then(|()| replace(unnamed, path, &beside(path, name, PART)));
            replaced.or_else(|error| copy_into(&error, unnamed, path))
        }
        linked => Ok(linked?),
    }
}

/// Gives a file the owner and the rights of the one that it is to replace. A list of those who may is not copied: the one that has it stays.
fn adopt(file: &File, path: &Path, old: &Metadata) -> io::Result<()> {
    // Its length. A file system without lists has none.
    if rustix::fs::lgetxattr(path, ACCESS_LIST, &mut [0_u8; 0]).is_ok() {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
        fchown(file, Some(old.uid()), Some(old.gid()))?;
    }
    file.set_permissions(Permissions::from_mode(old.mode() & RIGHTS))
}

/// Whether an error means that a file cannot be replaced, though it may be written: its folder is another's or has its sticky bit, its
/// owner or its access control list cannot be kept, or something is mounted on it.
fn must_stay(error: &io::Error) -> bool {
    let errors = [Errno::EACCES, Errno::EPERM, Errno::EROFS, Errno::EBUSY, Errno::EXDEV, Errno::EOPNOTSUPP];
    errors.iter().any(|errno| error.raw_os_error() == Some(*errno as i32))
}

/// Writes a file that cannot be replaced, for the reason given, with what is in another.
fn copy_into(why: &io::Error, from: &mut File, path: &Path) -> io::Result<()> {
    if !must_stay(why) {
        return Err(io::Error::new(why.kind(), why.to_string()));
    }
    from.rewind()?;
    io::copy(from, &mut open_in_place(path)?).map(drop)
}

/// Opens a regular file. It is looked at again: it may be another one by now, and what it has is gone only then.
fn open_in_place(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = File::options().write(true).custom_flags(flags.bits()).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || is_trap(&found, folder_of(path))? {
        return Err(Errno::EACCES.into());
    }
    file.set_len(0)?;
    Ok(file)
}

/// A file in a folder that has no name, and the folder; `None` where that cannot be had.
fn unnamed(folder: &Path) -> Option<(File, File)> {
    // A file gets a name by the name of its descriptor.
    if !Path::new(DESCRIPTORS).exists() {
        return None;
    }
    let mut options = File::options();
    options.read(true).write(true).mode(0o666).custom_flags(OFlag::O_TMPFILE.bits());
    let file = options.open(folder).ok()?;
    Some((File::open(folder).ok()?, file))
}

fn link(file: &File, to: &Path) -> Result<(), Errno> {
    let own = format!("{DESCRIPTORS}/{}", file.as_raw_fd());
    linkat(AT_FDCWD, own.as_str(), AT_FDCWD, to, AtFlags::AT_SYMLINK_FOLLOW)
}

/// Puts a file in the place of another, by way of the name `part`.
fn replace(file: &File, path: &Path, part: &Path) -> io::Result<()> {
    if let Err(error) = std::fs::remove_file(part)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    link(file, part)?;
    std::fs::rename(part, path).inspect_err(|_| {
        let _ = std::fs::remove_file(part);
    })
}

/// `.NAME` and an end, in the same folder.
fn beside(path: &Path, name: &OsStr, end: &str) -> PathBuf {
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(end);
    path.with_file_name(hidden)
}

#[cfg(test)]
mod tests;
