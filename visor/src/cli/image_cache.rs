//! The user's cache of what was made of programs that workflow files name.
//!
//! ```text
//!   program ───────────┐
//!   compiler (file) ───┼─ SHA-256 ─▶ CACHE/monohull/KIND/HASH      seal (32 bytes) | what was made
//!   settings, runtime ─┘
//! ```
//!
//! The seal is made with a key of the user that lies in the user's folder of settings, not in the cache. Write access to the
//! cache alone (a cache that is restored from elsewhere, one that is shared) is not enough to change an entry or to give it to another
//! program: such an entry is made again and replaced.
//!
//! Nothing depends on the cache. Where it cannot be used, everything is made each time. The size of each kind is bounded: each new entry
//! removes those that were used least recently.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::SystemTime;

use super::cache::cache;
use super::output;
use monohull_checkpoint::{Key, KeyError, NewFile, Replace, remove_abandoned};
use monohull_report::escape::shown;
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

const SEAL_BYTES: usize = 32;
/// Largest entry that is read; a larger one is nothing that the loader would take.
const ENTRY_MAX: u64 = SEAL_BYTES as u64 + (1 << 30);
/// Bounds of all entries of a kind. A workflow seldom names more than a few programs.
const ENTRIES_MAX: usize = 256;
const CACHE_BYTES_MAX: u64 = 2 << 30;

/// The user's folder of settings. The state folder may be a server's, which refuses files that it does not know.
fn key_folder() -> Option<PathBuf> {
    let settings = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let settings = settings.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")));
    Some(settings?.join("monohull"))
}

/// What a large file is known by that belongs to Monohull: which it is, and the times at which it was changed. To hash what it holds would take
/// longer than to start a program from the cache. Bytes that were written in its place have another time of change, which the kernel sets.
pub(super) fn state_of(file: &Metadata) -> [u8; 56] {
    let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()].map(i64::cast_unsigned);
    let mut state = [0; 56];
    let words = [file.dev(), file.ino(), file.len()].into_iter().chain(times);
    for (place, word) in state.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    state
}

/// A place in the cache.
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) key: Key,
    pub(super) made_from: [u8; 32],
}

/// Where an entry with this name is, if there is one. Nothing is made.
pub(super) fn path_of(kind: &str, name: &[u8; 32]) -> Option<PathBuf> {
    let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(cache()?.join(kind).join(name))
}

impl Entry {
    /// The place of what is made from something with this hash. None if there is no folder for it, or no key. Each kind has its own
    /// folder and its own key.
    pub(super) fn of(kind: &str, made_from: [u8; 32]) -> Option<Entry> {
        Entry::named(kind, &made_from, made_from)
    }

    /// The same under another name than that hash.
    pub(super) fn named(kind: &str, name: &[u8; 32], made_from: [u8; 32]) -> Option<Entry> {
        let (path, keys) = (path_of(kind, name)?, key_folder()?);
        for folder in [path.parent()?, &keys] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
        }
        let file = keys.join(format!("{kind}-cache.key"));
        match Key::load_or_create(&file) {
            Ok(key) => Some(Entry { path, key, made_from }),
            Err(error) => {
                note_wrong_key(&file, &error);
                None
            }
        }
    }

    /// What was made, if the user's key has sealed it for this very hash.
    pub(super) fn read(&self) -> Option<Vec<u8>> {
        let flags = O_NOFOLLOW | O_NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&self.path).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.len() > ENTRY_MAX {
            return None;
        }
        let mut bytes = Vec::new();
        (&file).take(ENTRY_MAX).read_to_end(&mut bytes).ok()?;
        let (seal, made) = bytes.split_first_chunk::<SEAL_BYTES>()?;
        if !self.key.has_sealed_entry(&self.made_from, made, seal) {
            return None;
        }
        // The time of the last use decides what is removed. Where it cannot be set, the entry only goes earlier.
        let _ = file.set_modified(SystemTime::now());
        Some(made.to_vec())
    }

    pub(super) fn write(&self, made: &[u8]) -> std::io::Result<()> {
        self.publish(|mut file| {
            file.write_all(&self.key.seal_entry(&self.made_from, made))?;
            file.write_all(made)
        })
    }

    /// Puts a file there, of which this writes the content.
    pub(super) fn publish(&self, write: impl FnOnce(&File) -> std::io::Result<()>) -> std::io::Result<()> {
        let new = NewFile::beside(&self.path)?;
        write(new.file())?;
        new.publish(Replace::Yes)?;
        self.path.parent().map_or(Ok(()), prune)
    }
}

/// Says once that a key is there which cannot be used: without a word each program would be made again each time, for good. A host on which there can be no
/// key has no cache, and that is all.
fn note_wrong_key(file: &Path, error: &KeyError) {
    static SAID: Once = Once::new();
    if !matches!(error, KeyError::Io(_)) {
        SAID.call_once(|| output::note(format_args!("monohull: the cache is not used: {}: {error}", shown(file))));
    }
}

/// Removes the entries that were used least recently, until the rest is within the bounds. The newest is always kept. What a writer has left behind
/// that was killed is removed; what one is writing takes room.
fn prune(folder: &Path) -> std::io::Result<()> {
    let (mut entries, mut bytes) = (Vec::new(), 0_u64);
    for found in fs::read_dir(folder)? {
        let found = found?;
        let name = found.file_name();
        // Other files are not the cache's.
        let is_entry = is_entry_name(name.as_encoded_bytes());
        if !is_entry && !is_part_name(name.as_encoded_bytes()) {
            continue;
        }
        // What another process has removed or renamed meanwhile needs no place.
        let Ok(metadata) = found.metadata() else { continue };
        if is_entry {
            entries.push((metadata.modified()?, metadata.len(), found.path()));
        } else if !remove_abandoned(&found.path()).unwrap_or(false) {
            bytes = bytes.saturating_add(metadata.len());
        }
    }
    entries.sort_unstable_by(|one, other| other.cmp(one));
    for (place, (_, length, path)) in entries.iter().enumerate() {
        bytes = bytes.saturating_add(*length);
        if place > 0 && (place >= ENTRIES_MAX || bytes > CACHE_BYTES_MAX) {
            // What cannot be removed is tried again with the next entry.
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

fn is_entry_name(name: &[u8]) -> bool {
    name.len() == 64 && name.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether it is the name of an entry that is being written: `HASH.part`, or `.HASH.NUMBER.part`.
fn is_part_name(name: &[u8]) -> bool {
    let Some(entry) = name.strip_suffix(b".part") else { return false };
    let numbered = entry.strip_prefix(b".").and_then(|entry| entry.split_at_checked(64));
    is_entry_name(entry) || numbered.is_some_and(|(entry, number)| is_entry_name(entry) && number.starts_with(b"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_writers_have_left_is_removed_and_what_others_write_takes_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = |number: usize| format!("{number:064x}");
        let path = |name: &str| folder.path().join(name);
        let put = |name: &str| fs::write(path(name), "content").expect("written");
        let dead = [format!("{}.part", name(1)), format!(".{}.0123456789abcdef.part", name(2))];
        let live = format!(".{}.fedcba9876543210.part", name(3));
        let others = ["notes.part".to_owned(), format!("{}.parts", name(4)), format!(".{}0.part", name(5))];
        let all = dead.iter().chain([&live]).chain(&others);
        all.chain([&name(6), &name(7)]).for_each(|name| put(name));
        let writer = File::options().write(true).open(path(&live)).expect("it is there");
        writer.try_lock().expect("nothing else has it");
        prune(folder.path()).expect("pruned");
        for name in &dead {
            assert!(!path(name).exists(), "{name}");
        }
        for name in others.iter().chain([&live, &name(6), &name(7)]) {
            assert!(path(name).exists(), "{name}");
        }
        // No bytes are left for another one than the newest.
        writer.set_len(CACHE_BYTES_MAX).expect("a hole");
        prune(folder.path()).expect("pruned");
        let left = [6, 7].into_iter().filter(|number| path(&name(*number)).exists()).count();
        assert_eq!((left, path(&live).exists()), (1, true));
    }
}
