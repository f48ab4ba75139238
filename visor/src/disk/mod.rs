//! Disk images as files: made, filled, read and checked by an ordinary user, without mounting anything.
//!
//! ```text
//!   store   an image's bytes in a file        tree   copies of whole directories, in and out
//! ```

mod store;
mod tree;

use monohull_domain::files::claim_image;
use monohull_fat::check::{Finding, Report, check, left_over, repair};
use monohull_fat::edit::{EditError, Editor, Move};
use monohull_fat::{ASIDE, Entry, Error, Found, Geometry, Runs, encode_time, entries, find, format, runs};
use monohull_host_files::input;
use monohull_report::escape::{Line, shown};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use store::Bytes;
pub use tree::needed;

/// The largest file in an image.
const SIZE_MAX: u64 = u32::MAX as u64;
/// Bytes that are copied together.
const PIECE: usize = 1 << 20;

/// Something about a disk image that could not be done.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum DiskError {
    #[error("{}: {source}", shown(path))]
    Host {
        /// The file or directory of the host.
        path: PathBuf,
        /// The host's answer.
        source: io::Error,
    },
    #[error("{} is in use: {by}", shown(path))]
    InUse {
        /// The image.
        path: PathBuf,
        /// The user of the image.
        by: &'static str,
    },
    #[error("{}: {source}", shown(image))]
    Image {
        /// The image.
        image: PathBuf,
        /// What is wrong with it.
        source: Error,
    },
    #[error("{}: {}: {source}", shown(image), Line(path))]
    File {
        /// The image.
        image: PathBuf,
        /// What is in it.
        path: String,
        /// Why it could not be.
        source: EditError,
    },
    #[error(
        "{}: {} has bytes that {} has too; `monohull image check` says what is wrong",
        shown(image),
        Line(path),
        Line(other)
    )]
    Shared {
        /// The image.
        image: PathBuf,
        /// What is in it.
        path: String,
        /// What has the same clusters.
        other: String,
    },
    #[error(
        "{} is damaged, so nothing is written to it before `monohull image check --repair`: {}",
        shown(image),
        Line(finding)
    )]
    Unsound {
        /// The image.
        image: PathBuf,
        /// The first that is wrong.
        finding: Finding,
    },
    #[error("{}: {} {what}", shown(image), Line(path))]
    Kind {
        /// The image.
        image: PathBuf,
        /// What is in it.
        path: String,
        /// What it is, or is not.
        what: &'static str,
    },
}

/// An image that is open.
pub struct Disk {
    path: PathBuf,
    bytes: Bytes,
    geometry: Geometry,
    editor: Editor<Bytes>,
    writable: bool,
    /// Nothing is wrong with it that would become worse if it were written to.
    sound: bool,
}

impl Disk {
    /// Makes an empty image of this many bytes. A file that is there is replaced only if `force` says so.
    pub fn create(path: &Path, size: u64, force: bool) -> Result<Disk, DiskError> {
        let host = |source| DiskError::Host { path: path.to_owned(), source };
        let mut options = File::options();
        options.read(true).write(true).create(true).create_new(!force).truncate(false);
        let file = options.open(path).map_err(host)?;
        claim(path, &file, true)?;
        // Cut to nothing first: what is added then is zeros.
        let sized = file.set_len(0).and_then(|()| file.set_len(size));
        if sized.is_err() && !force {
            // It is this call that has made it.
            let _ = std::fs::remove_file(path);
        }
        sized.map_err(host)?;
        let bytes = Bytes::new(file).map_err(host)?;
        let id =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos() ^ time.as_secs() as u32);
        format(&bytes, id).map_err(|source| DiskError::Image { image: path.to_owned(), source })?;
        let mut disk = Disk::of(path, bytes, true)?;
        disk.sound = true;
        Ok(disk)
    }

    /// Opens an image, alone if it is to be written.
    pub fn open(path: &Path, writable: bool) -> Result<Disk, DiskError> {
        let host = |source| DiskError::Host { path: path.to_owned(), source };
        let file = input::open_regular(path, writable).map_err(|error| host(error.into()))?;
        claim(path, &file, writable)?;
        Disk::of(path, Bytes::new(file).map_err(host)?, writable)
    }

    fn of(path: &Path, bytes: Bytes, writable: bool) -> Result<Disk, DiskError> {
        let damaged = |source| DiskError::Image { image: path.to_owned(), source };
        let geometry = Geometry::read(&bytes).map_err(damaged)?;
        let editor = Editor::new(bytes.clone(), geometry, now);
        Ok(Disk { path: path.to_owned(), bytes, geometry, editor, writable, sound: false })
    }

    /// Where everything is.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// What is not as it should be; put right if asked for.
    pub fn check(&mut self, repair_it: bool) -> Result<Report, DiskError> {
        let report = if repair_it { repair(&mut self.bytes) } else { check(&self.bytes) };
        report.map_err(|source| DiskError::Image { image: self.path.clone(), source })
    }

    /// Refuses an image whose files would lose more if it were written to, because they have the same clusters or some that are free. Of
    /// two names of one file, left by an interrupted rename, one is removed first: replacing the other would free the clusters of both.
    fn make_sound(&mut self) -> Result<(), DiskError> {
        if self.sound {
            return Ok(());
        }
        let findings = self.check(false)?.findings;
        let worse = |finding: &Finding| finding.loses_data() || matches!(finding, Finding::Circle { .. });
        if let Some(finding) = findings.iter().find(|finding| worse(finding)) {
            return Err(DiskError::Unsound { image: self.path.clone(), finding: finding.clone() });
        }
        if findings.iter().any(|finding| matches!(finding, Finding::Moved { .. })) {
            self.check(true)?;
        }
        self.sound = true;
        Ok(())
    }

    /// What a path leads to.
    pub fn find(&self, path: &str) -> Result<Found, DiskError> {
        find(&self.geometry, &self.bytes, path).map_err(|error| self.of_path(path, error))
    }

    /// The entries of a directory, sorted by name; of a file the file alone.
    pub fn list(&self, path: &str) -> Result<Vec<Entry>, DiskError> {
        let found = self.find(path)?;
        if let Found::Entry(entry) = &found
            && !entry.directory
        {
            return Ok(vec![entry.clone()]);
        }
        let mut list = Vec::new();
        let listed = entries(&self.geometry, &self.bytes, &found, |entry| {
            list.push(entry);
            true
        });
        listed.map_err(|error| self.of_path(path, error))?;
        list.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(list)
    }

    /// Copies a file out.
    pub fn read(&self, path: &str, to: &mut dyn Write) -> Result<(), DiskError> {
        let Found::Entry(entry) = self.find(path)? else { return Err(self.kind(path, "is a directory")) };
        if entry.directory {
            return Err(self.kind(path, "is a directory"));
        }
        let damaged = |error| self.of_path(path, error);
        let chain = runs(&self.geometry, &self.bytes, entry.cluster).map_err(damaged)?;
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while at < entry.size {
            let (offset, side_by_side) =
                chain.find(at).ok_or_else(|| damaged(Error::Damaged("a chain ends before its file")))?;
            let len = side_by_side.min(entry.size - at).min(PIECE as u64) as usize;
            monohull_fat::Image::read(&self.bytes, offset, &mut piece[..len]).map_err(damaged)?;
            to.write_all(&piece[..len]).map_err(|source| DiskError::Host { path: "the copy".into(), source })?;
            at += len as u64;
        }
        Ok(())
    }

    /// Copies a file in, in the place of one that has the name: `size` bytes, last changed at `modified` (ns since 1970). It gets the
    /// name when all of it is there; until then, and if it fails, the name leads to what it did before.
    pub fn write(&mut self, path: &str, from: &mut dyn Read, size: u64, modified: i64) -> Result<(), DiskError> {
        if size > SIZE_MAX {
            return Err(self.kind(path, "would have more than 4 GiB, which FAT cannot hold"));
        }
        let replaced = match self.find(path) {
            Ok(found) if found.is_directory() => return Err(self.kind(path, "is a directory")),
            found => found.is_ok(),
        };
        for left in left_over(&self.bytes).map_err(|error| self.of_path(path, error))? {
            self.edit(path, |editor| editor.remove(&left))?;
        }
        let copy = self.unused("copy");
        let written = self.write_aside(&copy, path, from, size, modified).and_then(|()| {
            let change = Move { from: &copy, to: path, replaced, hidden: None };
            self.edit(path, |editor| editor.rename(&change))
        });
        if written.is_err() {
            // The incomplete copy is removed.
            let _ = self.editor.remove(&copy);
        }
        written
    }

    /// A name for a while.
    fn unused(&self, what: &str) -> String {
        let mut names = (0..).map(|n| format!("{ASIDE}{what}-{n}"));
        names.find(|name| self.find(name).is_err()).expect("there are more names than entries")
    }

    /// Makes a file under a name that is not its own yet; errors are about `path`.
    fn write_aside(
        &mut self,
        copy: &str,
        path: &str,
        from: &mut dyn Read,
        size: u64,
        modified: i64,
    ) -> Result<(), DiskError> {
        self.edit(path, |editor| editor.make(copy, false))?;
        let Found::Entry(entry) = self.find(copy)? else { return Err(self.kind(path, "is a directory")) };
        let mut chain = Runs::default();
        self.edit(path, |editor| editor.lengthen(entry.slot, &mut chain, size))?;
        let damaged = |disk: &Disk, error| disk.of_path(path, error);
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while at < size {
            let (offset, side_by_side) =
                chain.find(at).ok_or_else(|| damaged(self, Error::Damaged("a chain ends before its file")))?;
            let len = side_by_side.min(size - at).min(PIECE as u64) as usize;
            from.read_exact(&mut piece[..len]).map_err(|source| DiskError::Host { path: path.into(), source })?;
            self.store(path, offset, &piece[..len])?;
            at += len as u64;
        }
        let (date, time) = encode_time(modified);
        self.store(path, entry.slot + 22, &time.to_le_bytes())?;
        self.store(path, entry.slot + 24, &date.to_le_bytes())?;
        self.store(path, entry.slot + 28, &(size as u32).to_le_bytes())
    }

    /// Makes a directory, if it is not there.
    pub fn make_directory(&mut self, path: &str) -> Result<(), DiskError> {
        match self.find(path) {
            Ok(found) if found.is_directory() => Ok(()),
            Ok(_) => Err(self.kind(path, "is a file")),
            Err(_) => self.edit(path, |editor| editor.make(path, true)),
        }
    }

    fn store(&self, path: &str, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        monohull_fat::edit::Store::store(&self.bytes, offset, bytes).map_err(|error| self.of_path(path, error))
    }

    fn edit(
        &mut self,
        path: &str,
        edit: impl FnOnce(&mut Editor<Bytes>) -> Result<(), EditError>,
    ) -> Result<(), DiskError> {
        let edited = edit(&mut self.editor);
        edited.map_err(|source| DiskError::File { image: self.path.clone(), path: path.to_owned(), source })
    }

    fn of_path(&self, path: &str, error: Error) -> DiskError {
        DiskError::File { image: self.path.clone(), path: format!("/{path}"), source: error.into() }
    }

    fn kind(&self, path: &str, what: &'static str) -> DiskError {
        DiskError::Kind { image: self.path.clone(), path: format!("/{path}"), what }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.writable {
            self.editor.close();
        }
    }
}

/// Claims an image, as a workflow does.
fn claim(path: &Path, file: &File, alone: bool) -> Result<(), DiskError> {
    let by = if alone { "another process has it open" } else { "a workflow that writes to it runs" };
    claim_image(file, alone).map_err(|_| DiskError::InUse { path: path.to_owned(), by })
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i64)
}
