//! The file of a suspended workflow: a sealed checkpoint with its continuation, and what is needed to find and check everything else again. In a state
//! folder that has a key the file is encrypted as a whole ([`Keys`]).
//!
//! ```text
//!   identity, functions    what the checkpoint is of, where it was made, and the hash of each image
//!   plan                   the workflow document
//!   engine                 postcard: Engine { file, settings, outputs, inputs, … }, and the state of the run
//!   instances … pages      the rest of the continuation, see `records`
//!   chain                  the file of the checkpoint that pages are taken from, which lies in the same folder
//! ```
//!
//! The workflow is kept as its document and is checked again, so that a changed file gives a checked plan or none. Images are read
//! again from where the reader says, and must have the hashes that they had. What the continuation says of threads and
//! memory is checked here as far as records alone show it, and once more by the process that goes on with it.

#![forbid(unsafe_code)]

mod engine;
mod keys;
mod pages;
mod records;
mod unread;

pub use engine::{Confined, Engine, OwnCgroup};
pub use keys::{Keys, Source, as_io, begins_encrypted};

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::ENGINE_VERSION;
use monohull_abi::ABI_VERSION;
use monohull_abi::layout::PAGE;
use monohull_checkpoint::record::{CHAIN_MAX, ChainRecord, Contents, EngineRecord, FunctionRecord, Identity, Parent};
use monohull_checkpoint::{
    Chain, Checkpoint, CheckpointId, Error, Hash, Key, Layout, NewFile, Packing, Pages, Piece, Processor, ReadAt,
    Replace, Run, Trust, check_unchanged, seal_bytes, write,
};
use monohull_domain::checkpoint::Continuation;
use monohull_host_files::input;
use monohull_ipc::later_pages::GivePages;
use monohull_report::escape::shown;
use monohull_workflow::Plan;
use monohull_workflow::plan::MountSource;
use pages::Reading;
use unread::UnreadPages;

/// A workflow that waits: with its continuation if it is to be written, with that in sealed memory if it has been read.
#[derive(Debug)]
pub struct Saved<C = Continuation> {
    /// The workflow's name.
    pub workflow: String,
    /// How often it has been resumed.
    pub generation: u64,
    /// The workflow document.
    pub document: Vec<u8>,
    /// Each function of the plan: its name, the SHA-256 of its image, and the bytes of the image.
    pub functions: Vec<(String, [u8; 32], u64)>,
    /// What else is needed to go on.
    pub engine: Engine,
    /// The rest of the run.
    pub continuation: C,
}

/// What has not been read of a file, if there is such.
pub type Unread = Option<Arc<dyn GivePages>>;

/// A file that has been written.
#[derive(Debug)]
pub struct Written {
    /// Where it is.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// What a later one needs to take pages from it.
    pub base: Base,
    /// Its content, if the disk may not have it yet.
    pub unsynced: Option<Vec<u8>>,
}

/// A file that another one may take pages from.
#[derive(Clone, Debug)]
pub struct Base {
    file: String,
    parent: Parent,
    depth: u32,
    runs: Vec<Run>,
    bytes: u64,
    /// Bytes of the whole one that it depends on, which it may be itself, and of those after that.
    whole: u64,
    /// See `whole`.
    since: u64,
}

impl Base {
    /// The name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// How many files there are that it needs.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The newest file of a chain, which has this name.
    fn of<S: ReadAt>(chain: &Chain<S>, file: String) -> Base {
        let newest = chain.newest();
        let parent = Parent { id: newest.contents().identity.id, digest: newest.digest() };
        let depth = newest.contents().chain.as_ref().map_or(0, |chain| chain.depth);
        let (whole, since) = chain.bytes();
        Base { file, parent, depth, runs: newest.runs().to_vec(), bytes: newest.bytes(), whole, since }
    }

    /// Whether the next one has to be whole: so many depend on each other, or those that are not whole are as many bytes as the one that is. So
    /// a chain is never more than some three times as large as what it stands for.
    pub fn is_enough(&self) -> bool {
        self.is_last() || self.since >= self.whole
    }

    /// Whether so many depend on each other that the next one has to be whole.
    pub fn is_last(&self) -> bool {
        self.depth >= CHAIN_MAX
    }
}

/// A file cannot be gone on with, or not be written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum FileError {
    #[error("{} cannot be read: {source}", shown(path))]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}: {error}", shown(path))]
    Checkpoint { path: PathBuf, error: Error },
    #[error("{}: it is a good checkpoint, but none that `monohull run --suspend` has written: {reason}", shown(path))]
    Other { path: PathBuf, reason: String },
    #[error("the workflow has been captured in a way that no checkpoint can have, which is a bug in Monohull: {0}")]
    Continuation(String),
    #[error("{}: {error}", shown(path))]
    Encrypted { path: PathBuf, error: monohull_state_key::Error },
    #[error(
        "{}: it is encrypted: `monohull wake --state DIR --state-key FILE` goes on with it in its state folder",
        shown(path)
    )]
    Locked { path: PathBuf },
    #[error("{} cannot be written: {source}", shown(path))]
    Unwritable { path: PathBuf, source: io::Error },
}

impl FileError {
    /// Whether the host is at fault, and not the file. One that is not there, or is no regular file, does not become one by itself.
    pub fn is_hosts(&self) -> bool {
        match self {
            FileError::Unreadable { source, .. } => !matches!(
                source.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput
            ),
            FileError::Checkpoint { error, .. } => error.is_hosts(),
            FileError::Encrypted { error, .. } => error.is_hosts(),
            _ => false,
        }
    }
}

impl Saved<OwnedFd> {
    /// Reads a file that these keys have sealed, and that fits this host. `plan` checks the workflow document: its limits bound the memory
    /// that the file may stand for. Any number of runs may go on with what is read: nothing changes that memory any more.
    pub fn read<'k>(
        path: &Path,
        keys: impl Into<Keys<'k>>,
        plan: impl FnOnce(&[u8], &Engine) -> Result<Plan, String>,
    ) -> Result<Saved<OwnedFd>, FileError> {
        let chain = open(path, keys.into())?;
        Saved::of(&chain, plan, Reading::All).map(|(saved, _)| saved).map_err(|why| why.of_file(path))
    }

    /// The same for one run that goes on, and nothing else: if there are many pages, large parts of them are read and verified when the run
    /// touches them, as long as the file is open. Then it is also a base for the next one, unless that has to be
    /// whole.
    pub fn read_for_one<'k>(
        path: &Path,
        keys: impl Into<Keys<'k>>,
        plan: impl FnOnce(&[u8], &Engine) -> Result<Plan, String>,
    ) -> Result<(Saved<OwnedFd>, Unread, Option<Base>), FileError> {
        let keys = keys.into();
        let chain = open(path, keys)?;
        // An encrypted file has been decrypted as a whole. Its contents are not kept longer than it takes to read them.
        let reading = if keys.state.is_some() { Reading::All } else { Reading::SmallParts };
        let (saved, left) = Saved::of(&chain, plan, reading).map_err(|why| why.of_file(path))?;
        if left.is_empty() {
            return Ok((saved, None, None));
        }
        let base = Some(Base::of(&chain, file_name(path))).filter(|base| !base.is_enough());
        Ok((saved, Some(Arc::new(UnreadPages::new(chain, left))), base))
    }

    /// The same of what [`Saved::to_bytes`] gives. `path` is what errors name.
    pub fn from_bytes(
        bytes: Vec<u8>,
        path: &Path,
        seal: &Key,
        plan: impl FnOnce(&[u8], &Engine) -> Result<Plan, String>,
    ) -> Result<Saved<OwnedFd>, FileError> {
        let wrong = |error| FileError::Checkpoint { path: path.to_owned(), error };
        let alone = |_: &str| Err(io::Error::new(io::ErrorKind::NotFound, "it is not a whole one"));
        let chain = Chain::read(Source::Plain(bytes), Trust::Key(seal), alone).map_err(wrong)?;
        chain.newest().check_processor(&Processor::here()).map_err(wrong)?;
        Saved::of(&chain, plan, Reading::All).map(|(saved, _)| saved).map_err(|why| why.of_file(path))
    }

    fn of<S: ReadAt + Sync>(
        chain: &Chain<S>,
        plan: impl FnOnce(&[u8], &Engine) -> Result<Plan, String>,
        reading: Reading,
    ) -> Result<(Saved<OwnedFd>, Vec<Piece>), NotOurs> {
        let contents = chain.newest().contents();
        let (engine, driver) = engine::read(contents.engine.version, &contents.engine.bytes)?;
        let most = most_bytes(&plan(&contents.plan, &engine)?, contents)?;
        let mut record = records::continuation(chain, driver)?;
        (record.lineage.copy, record.lineage.copies) = engine.copy;
        let (memory, left) = pages::into_memory(chain, most, reading)?;
        let continuation = memory.seal(&record).map_err(pages::no_memory)?;
        let functions = contents.functions.iter();
        let saved = Saved {
            workflow: contents.identity.workflow.clone(),
            generation: contents.identity.generation,
            document: contents.plan.clone(),
            functions: functions
                .map(|function| (function.name.clone(), function.image.0, function.image_bytes))
                .collect(),
            engine,
            continuation,
        };
        Ok((saved, left))
    }
}

/// Opens a file and those that it takes pages from, which these keys have sealed and which fit this host.
fn open(path: &Path, keys: Keys<'_>) -> Result<Chain<Source>, FileError> {
    let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
    let wrong = |error| FileError::Checkpoint { path: path.to_owned(), error };
    let file = input::open_regular(path, false).map_err(|error| unreadable(error.into()))?;
    if keys.state.is_none() && begins_encrypted(&file) {
        return Err(FileError::Locked { path: path.to_owned() });
    }
    let source = keys.source(file, &file_name(path));
    let source = source.map_err(|error| FileError::Encrypted { path: path.to_owned(), error })?;
    let beside = |name: &str| keys.source(open_beside(path, name)?, name).map_err(as_io);
    let chain = Chain::read(source, Trust::Key(keys.seal), beside).map_err(wrong)?;
    chain.newest().check_processor(&Processor::here()).map_err(wrong)?;
    Ok(chain)
}

impl<C> Saved<C> {
    /// The same with another form of its continuation.
    pub fn with<D, E>(self, change: impl FnOnce(C) -> Result<D, E>) -> Result<Saved<D>, E> {
        let Saved { workflow, generation, document, functions, engine, continuation } = self;
        Ok(Saved { workflow, generation, document, functions, engine, continuation: change(continuation)? })
    }
}

/// Pages of a file with at most so many bytes of them are compressed.
const PACKED_MOST: u64 = 256 << 10;

/// How pages are stored. A small file is read as a whole, by a process that then has copies of its pages; those of a large one are mapped, or read when
/// they are touched. What is encrypted has a length that depends on nothing but how many pages there are: how well they are compressed would tell something
/// of what is in them.
fn packing_of(pages: &Pages<'_>, keys: Keys<'_>) -> Packing {
    if pages.bytes() <= PACKED_MOST && keys.state.is_none() { Packing::Lz4 } else { Packing::Raw }
}

impl Saved {
    /// Writes a new file into a folder, sealed. It is whole and on the disk, or it is not there.
    ///
    /// What the continuation says to be as it was is taken from `base`, a file in the same folder; without one nothing may be.
    pub fn write<'k>(
        &self,
        folder: &Path,
        name: &str,
        keys: impl Into<Keys<'k>>,
        base: Option<&Base>,
    ) -> Result<Written, FileError> {
        self.write_as(folder, name, keys.into(), base, 0)
    }

    /// The same of one that takes no pages from another. The disk is not waited for if the file has at most so many bytes: its content, which
    /// [`Written::unsynced`] has, is to be kept elsewhere until the disk has the file.
    pub fn write_unsynced<'k>(
        &self,
        folder: &Path,
        name: &str,
        keys: impl Into<Keys<'k>>,
        most: u64,
    ) -> Result<Written, FileError> {
        self.write_as(folder, name, keys.into(), None, most)
    }

    /// What a new file of this path is to have, sealed. It takes no pages from another. With a key for encryption it is made to be encrypted, which the
    /// caller does.
    pub fn to_bytes<'k>(&self, path: &Path, keys: impl Into<Keys<'k>>) -> Result<Vec<u8>, FileError> {
        let keys = keys.into();
        let wrong = |error| FileError::Checkpoint { path: path.to_owned(), error };
        self.check_unchanged(None)?;
        let contents = self.contents(path.to_owned(), None)?;
        let pages = records::pages(&self.continuation).map_err(wrong)?;
        let mut bytes = Vec::new();
        write(&mut bytes, &contents, &pages, packing_of(&pages, keys)).map_err(wrong)?;
        // As with a file: what has been sealed can be resumed.
        seal_bytes(&mut bytes, keys.seal).map_err(wrong)?;
        Ok(bytes)
    }

    fn write_as(
        &self,
        folder: &Path,
        name: &str,
        keys: Keys<'_>,
        base: Option<&Base>,
        unsynced_most: u64,
    ) -> Result<Written, FileError> {
        let file = format!("{name}.checkpoint");
        let path = folder.join(&file);
        let unwritable = |source| FileError::Unwritable { path: path.clone(), source };
        let wrong = |error| FileError::Checkpoint { path: path.clone(), error };
        let base = base.filter(|_| !self.continuation.unchanged.is_empty());
        self.check_unchanged(base)?;
        let contents = self.contents(path.clone(), base)?;
        let pages = records::pages(&self.continuation).map_err(wrong)?;
        DirBuilder::new().recursive(true).create(folder).map_err(unwritable)?;
        let new = NewFile::beside(&path).map_err(unwritable)?;
        let plain = keys.plain_file().map_err(unwritable)?;
        let to = plain.as_ref().unwrap_or(new.file());
        write(&mut &*to, &contents, &pages, packing_of(&pages, keys)).map_err(wrong)?;
        // Read back and checked: what has been sealed can be resumed.
        let read = Checkpoint::read(to, Trust::NotSealed).map_err(wrong)?;
        let digest = read.seal(to, keys.seal).map_err(wrong)?;
        let runs = read.runs().to_vec();
        if let Some(plain) = &plain {
            keys.encrypt(plain, new.file(), &file).map_err(unwritable)?;
        }
        let bytes = new.file().metadata().map_err(unwritable)?.len();
        let unsynced = match bytes <= unsynced_most {
            true => Some(content(new.file(), bytes).map_err(unwritable)?),
            false => None,
        };
        match unsynced {
            Some(_) => new.name_unsynced(),
            None => new.publish(Replace::No),
        }
        .map_err(unwritable)?;
        let parent = Parent { id: contents.identity.id, digest };
        let depth = contents.chain.map_or(0, |chain| chain.depth);
        let (whole, since) = base.map_or((bytes, 0), |base| (base.whole, base.since + bytes));
        Ok(Written { path, bytes, base: Base { file, parent, depth, runs, bytes, whole, since }, unsynced })
    }

    /// A process in the wrong hands may say that pages are as they were which were not there.
    fn check_unchanged(&self, base: Option<&Base>) -> Result<(), FileError> {
        let unchanged = records::unchanged(&self.continuation);
        let checked = match base {
            Some(_)
                if !self.continuation.unchanged.iter().all(|(_, bytes)| bytes.is_multiple_of(PAGE) && *bytes > 0) =>
            {
                Err("what has not changed is no whole pages".to_owned())
            }
            Some(base) if base.is_last() => Err("it takes pages from one that none may be taken from".to_owned()),
            Some(base) => check_unchanged(&base.runs, unchanged).map_err(|error| error.to_string()),
            None if self.continuation.unchanged.is_empty() => Ok(()),
            None => Err("it has only what has changed, and there is nothing before it".to_owned()),
        };
        checked.map_err(FileError::Continuation)
    }

    fn contents(&self, path: PathBuf, base: Option<&Base>) -> Result<Contents, FileError> {
        let names: Vec<&str> = self.functions.iter().map(|(name, ..)| name.as_str()).collect();
        let records = records::Records::of(&self.continuation, &names).map_err(FileError::Continuation)?;
        let id = CheckpointId::random().map_err(|source| FileError::Unwritable { path, source: source.into() })?;
        let state = (&self.engine, &self.continuation.driver);
        let functions = self.functions.iter();
        Ok(Contents {
            identity: Identity {
                id,
                generation: self.generation,
                parent: base.map(|base| base.parent.clone()),
                label: String::new(),
                workflow: self.workflow.clone(),
                plan: Hash::of(&self.document),
                tenant: String::new(),
                wall_ns: self.continuation.wall,
                domain_ns: self.continuation.clock,
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
            instances: records.instances,
            threads: records.threads,
            scheduler: records.scheduler,
            plan: self.document.clone(),
            engine: EngineRecord {
                version: ENGINE_VERSION,
                bytes: postcard::to_extend(&state, Vec::new())
                    .map_err(|error| FileError::Continuation(error.to_string()))?,
            },
            modules: records.modules,
            handlers: records.handlers,
            registers: records.registers,
            files: records.files,
            requests: records.requests,
            chain: base.map(|base| ChainRecord { file: base.file.clone(), depth: base.depth + 1 }),
        })
    }
}

/// Makes a folder for checkpoints, and sees whether one could be written there now.
pub fn prepare_folder(folder: &Path) -> Result<(), FileError> {
    let path = folder.join("new.checkpoint");
    let made = DirBuilder::new().recursive(true).create(folder);
    made.and_then(|()| NewFile::beside(&path)).map(drop).map_err(|source| FileError::Unwritable { path, source })
}

/// What a file of so many bytes has.
fn content(file: &File, bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    ReadAt::read_exact_at(file, &mut content, 0)?;
    Ok(content)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Opens a file that a checkpoint names: one in the same folder.
pub fn open_beside(path: &Path, name: &str) -> io::Result<File> {
    let folder = path.parent().unwrap_or(Path::new(""));
    input::open_regular(&folder.join(name), false).map_err(io::Error::from)
}

/// The most bytes of pages that the workflow's limits let it have. A small file may name many: equal pages are stored once,
/// and zero pages not at all.
fn most_bytes(plan: &Plan, contents: &Contents) -> Result<u64, String> {
    let of_instance = |step: &str| {
        let step = plan.steps.iter().find(|planned| planned.name == step);
        // The main stack is not charged.
        step.map(|step| step.memory.saturating_add(step.stack)).ok_or("an instance is not as the workflow has it")
    };
    let instances = contents.instances.iter().map(|instance| of_instance(&instance.step));
    let instances = instances.sum::<Result<u64, _>>()?;
    let files = plan.files.iter().map(|mount| match mount.source {
        MountSource::Memory { size } => size,
        _ => 0,
    });
    Ok(files.fold(instances.saturating_add(plan.limits.slots), u64::saturating_add))
}

/// A checkpoint holds no continuation as `records` writes it, or a page of it is damaged.
#[derive(Debug)]
enum NotOurs {
    /// What no suspended workflow has.
    Other(String),
    /// A page cannot be read or is damaged.
    Damaged(Error),
}

impl NotOurs {
    fn of_file(self, path: &Path) -> FileError {
        let path = path.to_owned();
        match self {
            NotOurs::Other(reason) => FileError::Other { path, reason },
            NotOurs::Damaged(error) => FileError::Checkpoint { path, error },
        }
    }
}

impl From<String> for NotOurs {
    fn from(reason: String) -> NotOurs {
        NotOurs::Other(reason)
    }
}

/// The folder of a key is its owner's alone.
pub fn make_key_folder(key: &Path) -> io::Result<()> {
    let folder = key.parent().ok_or(io::ErrorKind::InvalidFilename)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests;
