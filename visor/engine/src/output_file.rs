//! The file of an output: a full disk or a killed process leaves the old one whole, and nothing beside it.
//!
//! ```text
//!   a file without a name (O_TMPFILE) ── write ──▶ link ─▶ NAME                                 if there is none
//!                                                  link ─▶ .NAME.monohull-part ─▶ rename        if it is to be replaced
//! ```
//!
//! The file in between stays behind only if the process is killed between link and rename: what next replaces NAME removes it. Where the
//! file system has no files without names, the file is written under a name of this process, and stays there if that is killed.

use monohull_report::escape::shown;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::unistd::linkat;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where the process's descriptors have names.
const DESCRIPTORS: &str = "/proc/self/fd";
/// How the name of a file ends that is to replace another.
const PART: &str = ".monohull-part";

/// Has a file written; errors are texts for people. What has the name is the old file or the new one, and either is whole.
pub fn write_whole(path: &Path, write_to: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), String> {
    let write = || {
        if path.exists() && !path.is_file() {
            // A device or a pipe: there is nothing to replace.
            return write_to(&mut File::options().write(true).open(path)?);
        }
        let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if let Some((folder, mut unnamed)) = unnamed(folder) {
            write_to(&mut unnamed)?;
            // One at a time: they use the same name.
            folder.lock()?;
            return match link(&unnamed, path) {
                Err(Errno::EEXIST) => replace(&unnamed, path, &beside(path, name, PART)),
                linked => Ok(linked?),
            };
        }
        let part = beside(path, name, &format!("{PART}-{}", std::process::id()));
        let written =
            File::create(&part).and_then(|mut file| write_to(&mut file)).and_then(|()| std::fs::rename(&part, path));
        written.inspect_err(|_| {
            let _ = std::fs::remove_file(&part);
        })
    };
    write().map_err(|error: io::Error| format!("{} cannot be written: {error}", shown(&path)))
}

/// A file in a folder that has no name, and the folder; `None` where that cannot be had.
fn unnamed(folder: &Path) -> Option<(File, File)> {
    // A file gets a name by the name of its descriptor.
    if !Path::new(DESCRIPTORS).exists() {
        return None;
    }
    let file = File::options().write(true).mode(0o666).custom_flags(OFlag::O_TMPFILE.bits()).open(folder).ok()?;
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
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

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
