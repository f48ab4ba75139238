//! The guest's file system: an archive that the kernel unpacks into memory at boot.
//!
//! A file has the path that it has on the host, because programs have such paths built in. Programs lose their
//! debugging information, which is most of them, and bring the shared libraries they need.

use crate::{Result, shell};
use cpio::newc;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDER: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// An archive being written, to a file without a name.
pub(super) struct Archive {
    out: BufWriter<File>,
    /// What is in it already.
    paths: BTreeSet<PathBuf>,
}

/// The bytes of a file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

impl Archive {
    /// An empty one, whose bytes will lie on the disk of `folder`.
    pub(super) fn new(folder: &Path) -> Result<Archive> {
        let file = tempfile::tempfile_in(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Archive { out: BufWriter::new(file), paths: BTreeSet::new() })
    }

    /// A folder and those above it.
    pub(super) fn folder(&mut self, path: impl AsRef<Path>) -> Result {
        self.entry(path.as_ref(), FOLDER | 0o755, b"")
    }

    /// A folder in which all users may write.
    pub(super) fn scratch(&mut self, path: impl AsRef<Path>) -> Result {
        self.entry(path.as_ref(), FOLDER | 0o1777, b"")
    }

    /// A script, or a program that needs no library.
    pub(super) fn script(&mut self, path: impl AsRef<Path>, bytes: &[u8]) -> Result {
        self.entry(path.as_ref(), REGULAR | 0o755, bytes)
    }

    /// A symbolic link.
    pub(super) fn link(&mut self, path: impl AsRef<Path>, target: &Path) -> Result {
        self.entry(path.as_ref(), LINK | 0o777, target.as_os_str().as_encoded_bytes())
    }

    /// A file of the host: if it is an executable program, as [`Archive::program`] does it.
    pub(super) fn copy(&mut self, path: &Path) -> Result {
        let fail = |error: io::Error| format!("{}: {error}", path.display());
        let mode = std::fs::metadata(path).map_err(fail)?.permissions().mode();
        let bytes = read(path)?;
        // Function images are executable by their mode but have no interpreter: ldd refuses them.
        let program = mode & 0o111 != 0 && bytes.starts_with(b"\x7fELF") && path.extension().is_none();
        match program {
            true => self.program(path),
            false => self.entry(path, REGULAR | (mode & 0o777), &bytes),
        }
    }

    /// All files of a folder of the host, and of those below it.
    pub(super) fn tree(&mut self, folder: &Path) -> Result {
        let fail = |error: io::Error| format!("{}: {error}", folder.display());
        for entry in std::fs::read_dir(folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            match path.is_dir() {
                true => self.tree(&path)?,
                false => self.copy(&path)?,
            }
        }
        Ok(())
    }

    /// All of a folder of the host as it is: links stay links, programs keep what they have and bring nothing along.
    pub(super) fn tree_as_it_is(&mut self, folder: &Path) -> Result {
        let fail = |error: io::Error| format!("{}: {error}", folder.display());
        for entry in std::fs::read_dir(folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            let about = path.symlink_metadata().map_err(fail)?;
            match about.file_type() {
                kind if kind.is_dir() => self.tree_as_it_is(&path)?,
                kind if kind.is_symlink() => self.link(&path, &std::fs::read_link(&path).map_err(fail)?)?,
                _ => self.entry(&path, REGULAR | (about.permissions().mode() & 0o777), &read(&path)?)?,
            }
        }
        Ok(())
    }

    /// A file of the host, at another path.
    pub(super) fn file_as(&mut self, from: &Path, to: impl AsRef<Path>) -> Result {
        self.entry(to.as_ref(), REGULAR | 0o644, &read(from)?)
    }

    /// A program of the host, with its libraries.
    pub(super) fn program(&mut self, path: &Path) -> Result {
        self.program_as(path, path)
    }

    /// The same, at another path.
    pub(super) fn program_as(&mut self, from: &Path, to: impl AsRef<Path>) -> Result {
        for library in libraries(from)? {
            self.entry(&library, REGULAR | 0o755, &read(&library)?)?;
        }
        let fail = |error: io::Error| format!("{}: {error}", from.display());
        let stripped = tempfile::NamedTempFile::new().map_err(fail)?;
        shell::run(Command::new("strip").arg("--strip-debug").arg("-o").arg(stripped.path()).arg(from))?;
        self.entry(to.as_ref(), REGULAR | 0o755, &read(stripped.path())?)
    }

    /// Ends the archive and gives its file, to be read from the start.
    pub(super) fn finish(self) -> Result<File> {
        let finish = || {
            let mut file = newc::trailer(self.out)?.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.rewind()?;
            Ok(file)
        };
        finish().map_err(|error: io::Error| format!("cannot write the guest's files: {error}"))
    }

    /// Anything, once; the folders above it first.
    fn entry(&mut self, path: &Path, mode: u32, bytes: &[u8]) -> Result {
        if self.paths.contains(path) {
            return Ok(());
        }
        if let Some(above) = path.parent().filter(|above| *above != Path::new("/")) {
            self.folder(above)?;
        }
        let name = path.strip_prefix("/").ok().and_then(Path::to_str);
        let name = name.ok_or_else(|| format!("{} cannot be a file of the guest", path.display()))?;
        let size = u32::try_from(bytes.len()).map_err(|_| format!("{} is too large", path.display()))?;
        let number = u32::try_from(self.paths.len()).expect("far fewer files") + 1;
        let mut writer = newc::Builder::new(name).ino(number).mode(mode).write(&mut self.out, size);
        let written = writer.write_all(bytes).and_then(|()| writer.finish());
        written.map_err(|error| format!("cannot write the guest's files: {error}"))?;
        self.paths.insert(path.to_path_buf());
        Ok(())
    }
}

/// The shared libraries of a program, the loader among them.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let said = shell::output(Command::new("ldd").arg(program).env_remove("LD_LIBRARY_PATH"))?;
    let said = String::from_utf8_lossy(&said);
    if said.contains("not found") {
        return Err(format!("{} misses a library:\n{said}", program.display()));
    }
    Ok(said.lines().filter_map(library).map(PathBuf::from).collect())
}

/// The path in a line of ldd: `NAME => PATH (ADDRESS)` or `PATH (ADDRESS)`; the vDSO has none.
fn library(line: &str) -> Option<&str> {
    line.split_whitespace().find(|word| word.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::library;

    #[test]
    fn reads_what_ldd_says() {
        assert_eq!(library("\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f32995dd000)"), Some("/lib/x/libc.so.6"));
        assert_eq!(library("\t/lib64/ld.so.2 (0x00007f32997dc000)"), Some("/lib64/ld.so.2"));
        assert_eq!(library("\tlinux-vdso.so.1 (0x00007f32997da000)"), None);
    }
}
