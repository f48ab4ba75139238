//! Whole directories, in and out.

use super::{Disk, DiskError, PIECE};
use monohull_fat::{Entry, Found, runs};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

/// What a file takes at least, whatever the size of a cluster: that is chosen by the size of the image.
const CLUSTER: u64 = 8 * 1024;

/// How large an image must be to hold what is in a directory of the host, with some room. The file `image` does not count: it may lie in
/// the directory.
pub fn needed(directory: &Path, image: &Path) -> Result<u64, DiskError> {
    fn add(path: &Path, image: Option<Identity>, sum: &mut u64) -> io::Result<()> {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let known = look(&entry.path())?;
            if Some(identity(&known)) == image {
                continue;
            }
            // Its slots, for a name of any length.
            *sum += 1024;
            if known.is_dir() {
                *sum += CLUSTER;
                add(&entry.path(), image, sum)?;
            } else {
                *sum += known.len().next_multiple_of(CLUSTER);
            }
        }
        Ok(())
    }
    let mut sum = 2 << 20;
    let image = fs::metadata(image).ok().map(|known| identity(&known));
    add(directory, image, &mut sum).map_err(|source| DiskError::Host { path: directory.to_owned(), source })?;
    Ok((sum + sum / 16).next_multiple_of(1 << 20))
}

/// What has been copied out. In a damaged image a directory may be there as often as there are ways to it, and files may share their
/// bytes: a copy would be larger than any disk.
#[derive(Default)]
struct Taken {
    /// Bytes of the image, from where to where, and whose they are.
    runs: BTreeMap<u64, (u64, Rc<str>)>,
    /// Files that have been copied once: first cluster and size.
    files: BTreeSet<(u32, u64)>,
}

impl Disk {
    /// Copies a file or a whole directory of the host to a path in the image; says how many files that were. A symbolic
    /// link to a file becomes a file: an image has no links. The image itself is left out of a directory that it lies in.
    pub fn copy_in(&mut self, from: &Path, to: &str) -> Result<u64, DiskError> {
        let real = fs::canonicalize(from).map_err(|source| DiskError::Host { path: from.to_owned(), source })?;
        self.make_sound()?;
        let own = fs::metadata(&self.path).map_err(|source| DiskError::Host { path: self.path.clone(), source })?;
        self.add(&real, to, identity(&own))
    }

    fn add(&mut self, from: &Path, to: &str, own: Identity) -> Result<u64, DiskError> {
        let host = |source| DiskError::Host { path: from.to_owned(), source };
        let known = look(from).map_err(host)?;
        if !known.is_dir() {
            let mut file = File::open(from).map_err(host)?;
            self.write(to, &mut file, known.len(), modified(&known))?;
            return Ok(1);
        }
        if !to.is_empty() {
            self.make_directory(to)?;
        }
        let names = fs::read_dir(from).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
        let mut names: Vec<_> = names.map_err(host)?;
        // The same directory gives the same image.
        names.sort();
        let mut copied = 0;
        for name in names {
            let path = from.join(&name);
            if look(&path).is_ok_and(|known| identity(&known) == own) {
                continue;
            }
            let text = name.to_str().ok_or_else(|| host(io::Error::other(format!("{name:?} is no UTF-8"))))?;
            let inner = if to.is_empty() { text.to_owned() } else { format!("{to}/{text}") };
            copied += self.add(&path, &inner, own)?;
        }
        Ok(copied)
    }

    /// Copies a file or a whole directory of the image to a path of the host; says how many files that were.
    pub fn copy_out(&self, from: &str, to: &Path) -> Result<u64, DiskError> {
        self.take_out(from, to, &mut Taken::default())
    }

    fn take_out(&self, from: &str, to: &Path, taken: &mut Taken) -> Result<u64, DiskError> {
        let found = self.find(from)?;
        self.take(from, &found, taken)?;
        if let Found::Entry(entry) = &found
            && !entry.directory
        {
            return self.copy_file_out(from, entry, to).map(|()| 1);
        }
        fs::create_dir_all(to).map_err(|source| DiskError::Host { path: to.to_owned(), source })?;
        let mut copied = 0;
        for entry in self.list(from)? {
            // The names come from the image, which is untrusted.
            if matches!(entry.name.as_str(), "" | "." | "..") || entry.name.contains(['/', '\0']) {
                return Err(self.kind(from, "has an entry whose name cannot be one here"));
            }
            let inner = if from.is_empty() { entry.name.clone() } else { format!("{from}/{}", entry.name) };
            copied += self.take_out(&inner, &to.join(&entry.name), taken)?;
        }
        Ok(copied)
    }

    /// Enters whose clusters something has; an error if they are something else's.
    fn take(&self, path: &str, found: &Found, taken: &mut Taken) -> Result<(), DiskError> {
        let Found::Entry(entry) = found else { return Ok(()) };
        // A file whose name was being changed may have both: once more it is copied.
        if !entry.directory && taken.files.remove(&(entry.cluster, entry.size)) {
            return Ok(());
        }
        let chain = runs(&self.geometry, &self.bytes, entry.cluster).map_err(|error| self.of_path(path, error))?;
        let shown: Rc<str> = format!("/{path}").into();
        for run in chain.list() {
            let before = taken.runs.range(..run.offset + run.len).next_back();
            if let Some((_, (_, other))) = before.filter(|(_, (end, _))| *end > run.offset) {
                let (image, path, other) = (self.path.clone(), shown.to_string(), other.to_string());
                return Err(DiskError::Shared { image, path, other });
            }
            taken.runs.insert(run.offset, (run.offset + run.len, shown.clone()));
        }
        if !entry.directory {
            taken.files.insert((entry.cluster, entry.size));
        }
        Ok(())
    }

    fn copy_file_out(&self, from: &str, entry: &Entry, to: &Path) -> Result<(), DiskError> {
        let host = |source| DiskError::Host { path: to.to_owned(), source };
        let file = File::create(to).map_err(host)?;
        let mut buffered = BufWriter::with_capacity(PIECE, file);
        self.read(from, &mut buffered)?;
        let file = buffered.into_inner().map_err(|error| host(error.into_error()))?;
        let time = UNIX_EPOCH + Duration::from_nanos(entry.modified.max(0) as u64);
        file.set_modified(time).map_err(host)
    }
}

/// What is known of a file or directory of the host. Links to directories can go in circles.
fn look(path: &Path) -> io::Result<Metadata> {
    let known = fs::symlink_metadata(path)?;
    let link = known.is_symlink();
    let known = if link { fs::metadata(path)? } else { known };
    if link && known.is_dir() {
        return Err(io::Error::other("is a symbolic link to a directory, which is not followed"));
    }
    if known.is_file() || known.is_dir() {
        Ok(known)
    } else {
        Err(io::Error::other("is neither a file nor a directory"))
    }
}

/// Identifies a file of the host: device and inode.
type Identity = (u64, u64);

fn identity(known: &Metadata) -> Identity {
    (known.dev(), known.ino())
}

/// When a file of the host last changed, in ns since 1970.
fn modified(known: &Metadata) -> i64 {
    let since = known.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |time| time.as_nanos() as i64)
}
