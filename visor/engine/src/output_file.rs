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
//! that cannot be replaced, because its folder may not be written or its owner cannot be kept, is written where it is. So is what is no
//! regular file, and what has its name in `/proc`, as `/dev/stdout` does: there is nothing to replace.

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
use std::path::{Path, PathBuf};

/// Where the process's descriptors have names.
const DESCRIPTORS: &str = "/proc/self/fd";
/// Where names of open files are, which lead to these even if their own names are gone.
const PROC: &str = "/proc";
/// How the name of a file ends that is to replace another.
const PART: &str = ".monohull-part";
/// The most symbolic links that are followed, as in Linux.
const LINKS_MAX: usize = 40;
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
            let folder = folder_of(&path).canonicalize()?;
            let there = folder.join(name);
            // A link there leads to an open file, even if it reads like a path.
            if folder.starts_with(PROC) {
                return Ok(Place::Direct(there));
            }
            match std::fs::symlink_metadata(&there) {
                Ok(found) if found.is_symlink() && is_trap(&found, &folder)? => return Err(Errno::EACCES.into()),
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

/// Whether another user may have put a link into a folder where anyone may, as `/tmp`: one that leads to a file that only its reader
/// may write. Linux does not follow these either, by default (`fs.protected_symlinks`).
fn is_trap(link: &Metadata, folder: &Path) -> io::Result<bool> {
    const SHARED: u32 = 0o1002;
    let folder = std::fs::metadata(folder)?;
    Ok(folder.mode() & SHARED == SHARED && link.uid() != geteuid().as_raw() && link.uid() != folder.uid())
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
        // One at a time: they use the same name.
        folder.lock()?;
        return match link(&unnamed, path) {
            Err(Errno::EEXIST) => {
                let old = std::fs::symlink_metadata(path)?;
                if !old.is_file() {
                    return Err(Errno::EEXIST.into());
                }
                let replaced = adopt(&unnamed, &old).and_then(|()| replace(&unnamed, path, &beside(path, name, PART)));
                replaced.or_else(|error| copy_into(&error, &mut unnamed, path))
            }
            linked => Ok(linked?),
        };
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
        let replaced = old.map_or(Ok(()), |old| adopt(&file, old)).and_then(|()| std::fs::rename(&part, path));
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

/// Gives a file the owner and the rights of the one that it is to replace.
fn adopt(file: &File, old: &Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
        fchown(file, Some(old.uid()), Some(old.gid()))?;
    }
    file.set_permissions(Permissions::from_mode(old.mode() & RIGHTS))
}

/// Whether an error means that a file cannot be replaced, though it may be written: its folder is another's or has its sticky bit, its
/// owner cannot be kept, or something is mounted on it.
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

fn open_in_place(path: &Path) -> io::Result<File> {
    File::options().write(true).truncate(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path)
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
mod tests {
    use super::*;
    use nix::unistd::{Gid, Uid};
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_made_and_replaced_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        // One that was killed before it could rename has left this.
        fs::write(folder.path().join(".out.monohull-part"), "half").expect("written");
        for text in ["first", "second"] {
            write_whole(&path, |file| file.write_all(text.as_bytes())).expect("written");
            assert_eq!(fs::read_to_string(&path).expect("read"), text);
        }
        assert_eq!(names(folder.path()), ["out"]);
        // As other programs make theirs.
        let other = folder.path().join("other");
        File::create(&other).expect("made");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode(&path), mode(&other));
    }

    #[test]
    fn what_cannot_be_written_leaves_the_old_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        fs::write(&path, "old").expect("written");
        let error = write_whole(&path, |file| {
            file.write_all(b"ne")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(error.expect_err("an error").contains("out cannot be written: no storage space"), "the path and why");
        assert_eq!(fs::read_to_string(&path).expect("read"), "old");
        assert_eq!(names(folder.path()), ["out"]);
        let missing = write_whole(&folder.path().join("missing/out"), |_| Ok(()));
        assert!(missing.expect_err("an error").contains("missing/out cannot be written: No such file"));
        let of_a_folder = write_whole(folder.path(), |_| Ok(()));
        assert!(of_a_folder.expect_err("an error").contains("cannot be written"));
    }

    /// Does something as a user without rights to others' files. The rights of other threads stay what they are.
    fn unprivileged(act: impl FnOnce() + Send) {
        let other = |number| if nix::unistd::geteuid().is_root() { 65_534 } else { number };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                nix::unistd::setfsgid(Gid::from_raw(other(nix::unistd::getegid().as_raw())));
                nix::unistd::setfsuid(Uid::from_raw(other(nix::unistd::geteuid().as_raw())));
                act();
            });
        });
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").mode() & 0o7777
    }

    #[test]
    fn a_link_stays_and_what_it_leads_to_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("real")).expect("a folder");
        fs::write(at("real/out"), "old").expect("written");
        symlink("real/out", at("link")).expect("a link");
        symlink(at("link"), at("second")).expect("a link");
        symlink("real/new", at("dangling")).expect("a link");
        symlink("loop", at("loop")).expect("a link");
        for (name, real) in [("link", "real/out"), ("second", "real/out"), ("dangling", "real/new")] {
            check(&at(name)).expect("it can be written");
            write_whole(&at(name), |file| file.write_all(name.as_bytes())).expect("written");
            assert!(fs::symlink_metadata(at(name)).expect("there").is_symlink(), "{name}");
            assert_eq!(fs::read_to_string(at(real)).expect("read"), name);
        }
        assert_eq!(names(folder.path()), ["dangling", "link", "loop", "real", "second"]);
        assert_eq!(names(&at("real")), ["new", "out"]);
        for act in [check(&at("loop")), write_whole(&at("loop"), |_| Ok(()))] {
            assert!(act.expect_err("a loop").contains("Too many levels of symbolic links"));
        }
    }

    #[test]
    fn a_link_of_another_user_is_not_followed_in_a_shared_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").expect("written");
        symlink(&file, &link).expect("a link");
        set_mode(folder.path(), 0o1777);
        check(&link).expect("it is this user's own");
        // Only root can give a link away.
        if geteuid().is_root() {
            std::os::unix::fs::lchown(&link, Some(65_534), None).expect("another owner");
            for act in [check(&link), write_whole(&link, |file| file.write_all(b"new"))] {
                assert!(act.expect_err("refused").contains("link cannot be written: Permission denied"));
            }
            assert_eq!(fs::read_to_string(&file).expect("read"), "old");
            set_mode(folder.path(), 0o755);
            check(&link).expect("others could not have put it there");
        }
    }

    /// A name in `/proc` leads to an open file. If that were replaced, what has it open would write to a file without a name.
    #[test]
    fn an_open_file_is_written_and_not_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("open"), "before ").expect("written");
        let mut open = File::options().append(true).open(at("open")).expect("a file");
        let inode = open.metadata().expect("there").ino();
        let descriptor = PathBuf::from(format!("{DESCRIPTORS}/{}", open.as_raw_fd()));
        // As /dev/stdout is one.
        symlink(&descriptor, at("link")).expect("a link");
        for path in [descriptor, at("link")] {
            assert!(is_direct(&path));
            check(&path).expect("it can be written");
            write_whole(&path, |file| file.write_all(b"output ")).expect("written");
        }
        open.write_all(b"after").expect("written");
        assert_eq!(fs::metadata(at("open")).expect("there").ino(), inode);
        assert_eq!(fs::read_to_string(at("open")).expect("read"), "before output output after");
        assert_eq!(names(folder.path()), ["link", "open"]);
    }

    #[test]
    fn the_new_file_has_the_rights_of_the_old_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        fs::write(&path, "old").expect("written");
        let root = nix::unistd::geteuid().is_root();
        if root {
            std::os::unix::fs::chown(&path, Some(65_534), Some(65_534)).expect("another owner");
        }
        let owner = |path: &Path| fs::metadata(path).map(|file| (file.uid(), file.gid())).expect("there");
        let before = owner(&path);
        for rights in [0o600, 0o666, 0o755] {
            set_mode(&path, rights);
            write_whole(&path, |file| file.write_all(b"new")).expect("written");
            assert_eq!((mode(&path), owner(&path)), (rights, before));
        }
    }

    #[test]
    fn a_file_that_may_not_be_written_is_not_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        set_mode(folder.path(), 0o777);
        let path = folder.path().join("out");
        fs::write(&path, "old").expect("written");
        if geteuid().is_root() {
            // Its owner could replace it.
            std::os::unix::fs::chown(&path, Some(65_534), Some(65_534)).expect("another owner");
        }
        set_mode(&path, 0o444);
        unprivileged(|| {
            for act in [check(&path), write_whole(&path, |file| file.write_all(b"new"))] {
                assert!(act.expect_err("refused").contains("out cannot be written: Permission denied"));
            }
        });
        assert_eq!((fs::read_to_string(&path).expect("read"), mode(&path)), ("old".to_owned(), 0o444));
    }

    #[test]
    fn where_a_file_cannot_be_replaced_it_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        // A folder that may not be written, and one where the files of others may not be removed.
        for folder_mode in [0o555, 0o1777] {
            fs::write(&path, "the old content").expect("written");
            set_mode(&path, 0o666);
            set_mode(folder.path(), folder_mode);
            let inode = fs::metadata(&path).expect("there").ino();
            unprivileged(|| {
                check(&path).expect("it can be written");
                write_whole(&path, |file| file.write_all(b"new")).expect("written");
                if folder_mode == 0o555 {
                    let beside = check(&folder.path().join("other"));
                    assert!(beside.expect_err("refused").contains("other cannot be written: Permission denied"));
                }
            });
            set_mode(folder.path(), 0o755);
            assert_eq!(fs::read_to_string(&path).expect("read"), "new");
            if folder_mode == 0o555 || nix::unistd::geteuid().is_root() {
                assert_eq!(fs::metadata(&path).expect("there").ino(), inode);
            }
            assert_eq!(names(folder.path()), ["out"]);
        }
    }

    #[test]
    fn what_cannot_be_a_file_is_told_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "").expect("written");
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("a socket");
        for (name, why) in [
            ("missing/out", "No such file"),
            ("file/out", "Not a directory"),
            ("new/", "not a directory"),
            (".", "is a directory"),
            ("..", "is a directory"),
            ("socket", "it is a socket"),
        ] {
            let error = check(&at(name)).expect_err(name);
            assert!(error.to_lowercase().contains(&why.to_lowercase()), "{error}");
        }
        for name in ["new", "file"] {
            check(&at(name)).expect(name);
        }
        check(Path::new("/dev/null")).expect("a device");
        assert_eq!(names(folder.path()), ["file", "socket"]);
    }

    #[test]
    fn writers_of_one_file_take_turns() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        std::thread::scope(|scope| {
            for letter in ["a", "b", "c", "d"] {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..50 {
                        let text = letter.repeat(9_000);
                        write_whole(path, |file| file.write_all(text.as_bytes())).expect("written");
                    }
                });
            }
        });
        let text = fs::read_to_string(&path).expect("read");
        assert!(text.len() == 9_000 && text.bytes().all(|byte| byte == text.as_bytes()[0]), "one of them, whole");
        assert_eq!(names(folder.path()), ["out"]);
    }
}
