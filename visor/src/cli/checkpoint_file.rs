//! The file of a suspended workflow: a sealed checkpoint with its continuation, and what is needed to find and check everything else again.
//!
//! ```text
//!   identity, functions    what the checkpoint is of, where it was made, and the hash of each image
//!   plan                   the workflow document
//!   engine                 postcard: Engine { file, settings, outputs, inputs, bytes of the continuation }
//!   modules                the continuation, as the domain has encoded it, in pieces: `continuation.0`, `continuation.1`, …
//! ```
//!
//! The workflow is kept as its document and is checked again, so that a changed file gives a checked plan or none. Images are read
//! again from where the document says, and must have the hashes that they had. What the continuation says of threads and
//! memory is checked by the process that goes on with it. Its instances, threads and pages are inside of the pieces:
//! the sections that the format has for them are empty.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use monohull_abi::ABI_VERSION;
use monohull_checkpoint::record::{Contents, EngineRecord, FunctionRecord, Identity, ModuleRecord, SchedulerRecord};
use monohull_checkpoint::{
    Checkpoint, CheckpointId, Error, Hash, Key, Layout, NewFile, Packing, Pages, Processor, Replace, Trust, seal, write,
};
use monohull_report::escape::shown;
use serde::{Deserialize, Serialize};

/// The version of the engine section's bytes.
const ENGINE_VERSION: u16 = 1;
/// The version that a piece begins with.
const PIECE_VERSION: [u8; 4] = 1u32.to_le_bytes();
/// The most bytes of a piece; a section may have a few more.
const PIECE: usize = 128 << 20;

/// A workflow that waits.
#[derive(Debug)]
pub(super) struct Saved {
    /// The workflow's name.
    pub(super) workflow: String,
    /// How often it has been resumed.
    pub(super) generation: u64,
    /// The workflow document.
    pub(super) document: Vec<u8>,
    /// Each function of the plan: its name, the SHA-256 of its image, and the bytes of the image.
    pub(super) functions: Vec<(String, [u8; 32], u64)>,
    /// What else is needed to go on.
    pub(super) engine: Engine,
    /// The rest of the run.
    pub(super) continuation: Vec<u8>,
}

/// What the engine section holds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Engine {
    /// The workflow's file: relative paths in the document count from its folder.
    pub(super) file: PathBuf,
    /// What `--set` has changed of the document.
    pub(super) settings: Vec<String>,
    /// The files of outputs.
    pub(super) outputs: Vec<(String, PathBuf)>,
    /// The inputs, if the workflow may be run again from its beginning.
    pub(super) inputs: Vec<(String, Vec<u8>)>,
}

/// What the domain's record of a continuation begins with.
#[derive(Deserialize)]
struct Times {
    /// The domain clock at the capture.
    clock: u64,
    /// The wall clock at the capture.
    wall: u64,
}

/// A file cannot be gone on with, or not be written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub(super) enum FileError {
    #[error("{} cannot be read: {source}", shown(path))]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}: {error}", shown(path))]
    Checkpoint { path: PathBuf, error: Error },
    #[error("{}: it is a good checkpoint, but none that `monohull run --suspend` has written: {reason}", shown(path))]
    Other { path: PathBuf, reason: &'static str },
    #[error("{} cannot be written: {source}", shown(path))]
    Unwritable { path: PathBuf, source: io::Error },
}

impl FileError {
    /// Whether the host is at fault, and not the file.
    pub(super) fn is_hosts(&self) -> bool {
        matches!(self, FileError::Checkpoint { error, .. } if error.is_hosts())
    }
}

impl Saved {
    /// Reads a file that this key has sealed, and that fits this host.
    pub(super) fn read(path: &Path, key: &Key) -> Result<Saved, FileError> {
        let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
        let wrong = |error| FileError::Checkpoint { path: path.to_owned(), error };
        let file = File::open(path).map_err(unreadable)?;
        let checkpoint = Checkpoint::read(file, Trust::Key(key)).map_err(wrong)?;
        checkpoint.check_processor(&Processor::here()).map_err(wrong)?;
        Saved::of(checkpoint.contents()).map_err(|reason| FileError::Other { path: path.to_owned(), reason })
    }

    fn of(contents: &Contents) -> Result<Saved, &'static str> {
        if !contents.instances.is_empty() {
            return Err("it has instances outside of its continuation");
        }
        if contents.engine.version != ENGINE_VERSION {
            return Err("its engine section has another version");
        }
        let engine = match postcard::take_from_bytes(&contents.engine.bytes) {
            Ok((engine, [])) => engine,
            _ => return Err("its engine section cannot be read"),
        };
        let mut continuation = Vec::new();
        for (index, module) in contents.modules.iter().enumerate() {
            let piece = module.bytes.strip_prefix(&PIECE_VERSION).filter(|_| module.name == piece_name(index));
            continuation.extend_from_slice(piece.ok_or("a piece of its continuation is another's")?);
        }
        let functions = contents.functions.iter();
        Ok(Saved {
            workflow: contents.identity.workflow.clone(),
            generation: contents.identity.generation,
            document: contents.plan.clone(),
            functions: functions
                .map(|function| (function.name.clone(), function.image.0, function.image_bytes))
                .collect(),
            engine,
            continuation,
        })
    }

    /// Writes a new file into a folder, sealed, and gives its path and size. It is whole and on the disk, or it is not there.
    pub(super) fn write(&self, folder: &Path, name: &str, key: &Key) -> Result<(PathBuf, u64), FileError> {
        let path = folder.join(format!("{name}.checkpoint"));
        let unwritable = |source| FileError::Unwritable { path: path.clone(), source };
        let wrong = |error| FileError::Checkpoint { path: path.clone(), error };
        let contents = self.contents().map_err(unwritable)?;
        DirBuilder::new().recursive(true).create(folder).map_err(unwritable)?;
        let new = NewFile::beside(&path).map_err(unwritable)?;
        let written = write(&mut new.file(), &contents, &Pages::new(), Packing::Raw).map_err(wrong)?;
        // Read back and checked: what has been sealed can be resumed.
        seal(new.file(), key).map_err(wrong)?;
        new.publish(Replace::No).map_err(unwritable)?;
        Ok((path, written.bytes))
    }

    fn contents(&self) -> io::Result<Contents> {
        let (times, _) = postcard::take_from_bytes::<Times>(&self.continuation).map_err(io::Error::other)?;
        let functions = self.functions.iter();
        let pieces = self.continuation.chunks(PIECE).enumerate();
        Ok(Contents {
            identity: Identity {
                id: CheckpointId::random().map_err(io::Error::from)?,
                generation: self.generation,
                parent: None,
                label: String::new(),
                workflow: self.workflow.clone(),
                plan: Hash::of(&self.document),
                tenant: String::new(),
                wall_ns: times.wall,
                domain_ns: times.clock,
                processor: Processor::here(),
                layout: Layout::HERE,
                abi: ABI_VERSION,
                program: env!("CARGO_PKG_VERSION").to_owned(),
            },
            functions: functions
                .map(|(name, image, bytes)| FunctionRecord {
                    name: name.clone(),
                    image: Hash(*image),
                    image_bytes: *bytes,
                })
                .collect(),
            instances: Vec::new(),
            threads: Vec::new(),
            scheduler: SchedulerRecord::default(),
            plan: self.document.clone(),
            engine: EngineRecord {
                version: ENGINE_VERSION,
                bytes: postcard::to_extend(&self.engine, Vec::new()).map_err(io::Error::other)?,
            },
            modules: pieces
                .map(|(index, piece)| ModuleRecord {
                    name: piece_name(index),
                    bytes: [&PIECE_VERSION, piece].concat(),
                    pages: Vec::new(),
                })
                .collect(),
        })
    }
}

fn piece_name(index: usize) -> String {
    format!("continuation.{index}")
}

/// The folder of a key is its owner's alone.
pub(super) fn make_key_folder(key: &Path) -> io::Result<()> {
    let folder = key.parent().ok_or(io::ErrorKind::InvalidFilename)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const KEY: Key = Key::new([5; 32]);

    fn saved() -> Saved {
        Saved {
            workflow: "w".to_owned(),
            generation: 3,
            document: b"{}".to_vec(),
            functions: vec![("f".to_owned(), [7; 32], 9)],
            engine: Engine { file: "w.json".into(), settings: Vec::new(), outputs: Vec::new(), inputs: Vec::new() },
            continuation: vec![1, 2, 3],
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_by_its_owner_alone() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let (path, size) = saved().write(&folder.path().join("new"), "w-1", &KEY).expect("written");
        let metadata = fs::metadata(&path).expect("it is there");
        assert_eq!(
            (metadata.len(), std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777),
            (size, 0o600)
        );
        let read = Saved::read(&path, &KEY).expect("right");
        assert_eq!((read.continuation, read.generation, read.functions), (vec![1, 2, 3], 3, saved().functions));
        assert_eq!(fs::read_dir(folder.path().join("new")).expect("a folder").count(), 1, "nothing else is left");
    }

    #[test]
    fn a_continuation_of_other_pieces_is_refused() {
        let good = saved().contents().expect("contents");
        assert!(Saved::of(&good).is_ok());
        let mut named = good.clone();
        named.modules[0].name = "mm".to_owned();
        let mut versioned = good.clone();
        versioned.modules[0].bytes[0] = 2;
        let mut engine = good.clone();
        engine.engine.bytes.push(0);
        let mut newer = good;
        newer.engine.version = 2;
        for bad in [named, versioned, engine, newer] {
            assert!(Saved::of(&bad).is_err());
        }
    }
}
