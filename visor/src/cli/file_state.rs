//! Whether a file is still the one that it was: a compiler may have made it anew, or not at all.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Which file it is, and when it was last changed.
pub(super) type State = [i64; 5];

/// That of the file of a path, if there is one.
pub(super) fn state(path: &Path) -> Option<State> {
    let file = fs::metadata(path).ok()?;
    Some([file.dev() as i64, file.ino() as i64, file.size() as i64, file.mtime(), file.mtime_nsec()])
}
