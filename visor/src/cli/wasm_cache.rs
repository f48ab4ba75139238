//! Workflow files that name WebAssembly programs: each is compiled once and then taken from a cache.
//!
//! Only the command line does this. What the engine and a server get is an ordinary image.
//!
//! ```text
//!   app.wasm ─┐
//!   compiler ─┼─ SHA-256 ─▶ CACHE/monohull/wasi/HASH      seal (32 bytes) | image
//!   runtime  ─┘
//! ```
//!
//! The seal is made with a key of the user that lies in the user's folder of settings, not in the cache. Write access to the
//! cache alone (a cache that is restored from elsewhere, one that is shared) is not enough to change an image or to give it to another
//! program: such an entry is compiled again and replaced. What was read is passed on as a sealed memory file, so the bytes that were
//! verified are those that run. The hash covers the settings of the compiler and the processor's level too.
//!
//! Nothing depends on the cache. Where it cannot be used, the program is compiled each time. Its size is bounded: each new entry
//! removes those that were used least recently.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use sha2::{Digest, Sha256};

use super::build::BuildError;
use super::cache::cache;
use super::wasm::{self, Settings};
use monohull_checkpoint::{Key, NewFile, Replace};
use monohull_ipc::sealed::seal;
use monohull_workflow::Plan;

/// The key that seals entries.
const KEY_NAME: &str = "wasi-cache.key";
const SEAL_BYTES: usize = 32;
/// Largest entry that is read.
const ENTRY_MAX: u64 = SEAL_BYTES as u64 + wasm::IMAGE_MAX;
/// Bounds of the whole cache. A workflow seldom names more than a few programs.
const ENTRIES_MAX: usize = 64;
const CACHE_BYTES_MAX: u64 = 2 << 30;

/// Sealed memory files with images. They are there as long as this is.
#[derive(Debug, Default)]
pub(super) struct Images {
    _files: Vec<OwnedFd>,
}

/// Replaces each WebAssembly program in a plan by its image.
pub(super) fn replace_programs(plan: &mut Plan) -> Result<Images, BuildError> {
    let mut files = Vec::new();
    for function in &mut plan.functions {
        if wasm::is_program(&function.image) {
            let image = image_of(&function.image)?;
            let file = seal(&image, 0).map_err(|source| BuildError::File { path: function.image.clone(), source })?;
            // The engine opens it in this process.
            let image = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            function.made_of = Some(std::mem::replace(&mut function.image, image));
            files.push(file);
        }
    }
    Ok(Images { _files: files })
}

/// The image of a program: from the cache, or compiled now.
pub(super) fn image_of(program: &Path) -> Result<Vec<u8>, BuildError> {
    let tools = wasm::tools()?;
    let bytes = wasm::module(&tools, program)?;
    let made_from = identity(&tools, &bytes)?;
    let entry = Entry::of(made_from);
    if let Some(image) = entry.as_ref().and_then(Entry::read) {
        return Ok(image);
    }
    let (image, _) = wasm::compile_program(&tools, program, &bytes, &program.with_extension("so"), Settings::USUAL)?;
    // Without an entry the program is compiled again the next time.
    let _ = entry.map(|entry| entry.write(&image));
    Ok(image)
}

/// The hash of all that decides what is compiled: this program's version has the list of variants.
fn identity(tools: &Path, program: &[u8]) -> Result<[u8; 32], BuildError> {
    let mut hash = Sha256::new().chain_update(concat!("monohull wasi ", env!("CARGO_PKG_VERSION")));
    for part in ["compile", "runtime.so"] {
        hash.update(Sha256::digest(wasm::read(&tools.join(part))?));
    }
    Ok(hash.chain_update(Sha256::digest(program)).finalize().into())
}

/// The user's folder of settings. The state folder may be a server's, which refuses files that it does not know.
fn key_folder() -> Option<PathBuf> {
    let settings = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let settings = settings.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")));
    Some(settings?.join("monohull"))
}

/// A place in the cache.
struct Entry {
    path: PathBuf,
    key: Key,
    made_from: [u8; 32],
}

impl Entry {
    /// None if there is no folder for it, or no key.
    fn of(made_from: [u8; 32]) -> Option<Entry> {
        let (folder, keys) = (cache()?.join("wasi"), key_folder()?);
        for folder in [&folder, &keys] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
        }
        let key = Key::load_or_create(&keys.join(KEY_NAME)).ok()?;
        let name: String = made_from.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Entry { path: folder.join(name), key, made_from })
    }

    /// The image, if there is one that the user's key has sealed for this very program.
    fn read(&self) -> Option<Vec<u8>> {
        let flags = O_NOFOLLOW | O_NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&self.path).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.len() > ENTRY_MAX {
            return None;
        }
        let mut bytes = Vec::new();
        (&file).take(ENTRY_MAX).read_to_end(&mut bytes).ok()?;
        let (seal, image) = bytes.split_first_chunk::<SEAL_BYTES>()?;
        if !self.key.has_sealed_entry(&self.made_from, image, seal) {
            return None;
        }
        // The time of the last use decides what is removed. Where it cannot be set, the entry only goes earlier.
        let _ = file.set_modified(SystemTime::now());
        Some(image.to_vec())
    }

    fn write(&self, image: &[u8]) -> std::io::Result<()> {
        let new = NewFile::beside(&self.path)?;
        let mut file: &File = new.file();
        file.write_all(&self.key.seal_entry(&self.made_from, image))?;
        file.write_all(image)?;
        new.publish(Replace::Yes)?;
        self.path.parent().map_or(Ok(()), prune)
    }
}

/// Removes the entries that were used least recently, until the rest is within the bounds. The newest is always kept.
fn prune(folder: &Path) -> std::io::Result<()> {
    let mut entries = Vec::new();
    for found in fs::read_dir(folder)? {
        let found = found?;
        // Other files are not the cache's.
        if is_entry_name(&found.file_name()) {
            // An entry that another process has removed meanwhile needs no place.
            let Ok(metadata) = found.metadata() else { continue };
            entries.push((metadata.modified()?, metadata.len(), found.path()));
        }
    }
    entries.sort_unstable_by(|one, other| other.cmp(one));
    let mut bytes = 0_u64;
    for (place, (_, length, path)) in entries.iter().enumerate() {
        bytes = bytes.saturating_add(*length);
        if place > 0 && (place >= ENTRIES_MAX || bytes > CACHE_BYTES_MAX) {
            // What cannot be removed is tried again with the next entry.
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

fn is_entry_name(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.len() == 64 && name.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
