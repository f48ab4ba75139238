//! Looks for bytes in files, for tests of what must not be readable.

use std::fs;
use std::path::Path;

/// Whether a file in a folder, or below it, has these bytes.
pub(crate) fn has(folder: &Path, bytes: &str) -> bool {
    fs::read_dir(folder).expect("a folder").any(|entry| {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => has(&path, bytes),
            false => fs::read(&path).expect("a file").windows(bytes.len()).any(|window| window == bytes.as_bytes()),
        }
    })
}
