//! Whether the disk has room for everything that CI builds. Without room it would fail after half an hour, by an error of
//! the linker's.

use crate::workspace::Workspace;
use crate::{Result, shell};
use nix::sys::statvfs::statvfs;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What the target folder takes in the end without incremental compilation (`.ci/run`), with some room.
const NEEDED: u64 = 14 * GIB;
const GIB: u64 = 1 << 30;
/// Bytes in a block as files count theirs.
const BLOCK: u64 = 512;

/// An error if what is free, with what the target folder has already, is too little.
pub(crate) fn check() -> Result {
    let workspace = Workspace::load()?;
    let target = workspace.target();
    let used = size(target, &mut HashSet::new()).map_err(|error| format!("{}: {error}", target.display()))?;
    let disk = statvfs(target).map_err(|error| format!("{}: {error}", target.display()))?;
    let free = disk.blocks_available() * disk.fragment_size();
    shell::heading(&format!("disk: {} free, {} in {}", shown(free), shown(used), target.display()));
    enough(free, used).map_err(|missing| {
        format!(
            "the disk of {} is too small: CI needs {} there, and {} are missing; `cargo clean` removes what older builds \
             left, CARGO_TARGET_DIR names another folder",
            target.display(),
            shown(NEEDED),
            shown(missing),
        )
    })
}

/// How many bytes are missing, if some are.
fn enough(free: u64, used: u64) -> std::result::Result<(), u64> {
    match NEEDED.saturating_sub(free.saturating_add(used)) {
        0 => Ok(()),
        missing => Err(missing),
    }
}

/// What a folder takes on the disk. Cargo gives many files a second name; each counts once.
fn size(folder: &Path, seen: &mut HashSet<u64>) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A build beside this one may remove files.
        let Ok(about) = entry.metadata() else { continue };
        if about.is_dir() {
            sum += size(&entry.path(), seen)?;
        } else if about.nlink() == 1 || seen.insert(about.ino()) {
            sum += about.blocks() * BLOCK;
        }
    }
    Ok(sum)
}

/// Bytes, for people.
fn shown(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / GIB as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_folder_has_already_counts() {
        assert_eq!(enough(NEEDED, 0), Ok(()));
        assert_eq!(enough(NEEDED - GIB, GIB), Ok(()));
        assert_eq!(enough(GIB, 2 * GIB), Err(NEEDED - 3 * GIB));
    }

    #[test]
    fn a_file_with_two_names_counts_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        fs::write(&one, vec![1; 100_000]).expect("written");
        let alone = size(folder.path(), &mut HashSet::new()).expect("readable");
        fs::hard_link(&one, &other).expect("linked");
        assert_eq!(size(folder.path(), &mut HashSet::new()).expect("readable"), alone);
        assert!(alone >= 100_000);
    }
}
