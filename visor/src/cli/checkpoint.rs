//! `monohull checkpoint`: inspects files of suspended workflows.
//!
//! Such a file is untrusted: its texts are escaped, and it is only read.

mod describe;
mod diff;
mod file;

use super::output;
use super::serve::usual_state;
use super::{Exit, concat_help, refuse};
use clap::{Args, Subcommand};
use file::CheckpointFile;
use monohull_checkpoint::{self as format, Error, Key, KeyError, Processor};
use monohull_durable::StoreError;
use monohull_report::escape::{Line, shown};
use monohull_saved::{Source, make_key_folder};
use monohull_state_key::KeyFileError;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

/// Inspect checkpoints: files of suspended workflows
#[derive(Debug, Args)]
#[command(after_help = concat_help!(
    "monohull checkpoint describe orders.checkpoint",
    "monohull checkpoint verify orders.checkpoint",
    "monohull checkpoint diff monday.checkpoint tuesday.checkpoint"
))]
pub(super) struct Checkpoint {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show the contents of a checkpoint: workflow, functions, instances and what each waits for, bytes
    #[command(after_help = concat_help!("monohull checkpoint describe orders.checkpoint"))]
    Describe {
        /// The checkpoint
        file: PathBuf,
        /// The key that should have sealed it; without it the user's own, if there is one
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        #[command(flatten)]
        encrypted: Encrypted,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Check that a checkpoint is complete, as its owner sealed it, and fits this host
    #[command(after_help = VERIFY_HELP)]
    Verify {
        /// The checkpoint
        file: PathBuf,
        /// The key that must have sealed it; without it the user's own
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        #[command(flatten)]
        encrypted: Encrypted,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Compare two checkpoints
    #[command(after_help = DIFF_HELP)]
    Diff {
        /// The first checkpoint
        first: PathBuf,
        /// The second one
        second: PathBuf,
        #[command(flatten)]
        encrypted: Encrypted,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
}

/// How a checkpoint of an encrypted state folder is read.
#[derive(Debug, Args)]
struct Encrypted {
    /// The file of the key of the state folder that the checkpoint is in, if that is encrypted
    #[arg(long, value_name = "FILE")]
    state_key: Option<PathBuf>,
}

impl Encrypted {
    fn find<'p>(&self, path: &'p Path) -> Result<CheckpointFile<'p>, Trouble> {
        CheckpointFile::find(path, self.state_key.as_deref())
    }
}

/// An example, and exit codes that never change their meaning.
const VERIFY_HELP: &str = "\
Example:
  monohull checkpoint verify orders.checkpoint

Exit codes:
  0  the checkpoint is as it should be
  1  it is not, or not for this host
  2  the invocation is wrong, the file or the key cannot be read, or the output cannot be written";
/// The same.
const DIFF_HELP: &str = "\
Example:
  monohull checkpoint diff monday.checkpoint tuesday.checkpoint

Exit codes:
  0  they say the same
  1  they differ
  2  the invocation is wrong, a file cannot be read or is no good checkpoint, or the output cannot be written";

/// The user's own key, in the state folder.
const KEY_NAME: &str = "checkpoint.key";

/// A checkpoint that has been read.
type Read = format::Checkpoint<Source>;
/// A checkpoint with those that it takes pages from.
type Chain = format::Chain<Source>;

impl Checkpoint {
    pub(super) fn run(&self) -> u8 {
        match &self.verb {
            Verb::Describe { file, key, encrypted, json } => {
                describe(encrypted.find(file), key.as_deref(), *json) as u8
            }
            Verb::Verify { file, key, encrypted, json } => verify(file, encrypted.find(file), key.as_deref(), *json),
            Verb::Diff { first, second, encrypted, json } => diff(encrypted.find(first), encrypted.find(second), *json),
        }
    }

    /// Whether the exit code is a verdict, and not one of the usual ones.
    pub(super) fn is_verdict(&self) -> bool {
        !matches!(self.verb, Verb::Describe { .. })
    }
}

/// A checkpoint's file, if it was found.
type Found<'p> = Result<CheckpointFile<'p>, Trouble>;

fn describe(file: Found<'_>, key: Option<&Path>, json: bool) -> Exit {
    let described = file.and_then(|file| {
        let checkpoint = file.read()?;
        Ok((seal(&checkpoint, key)?, checkpoint, file))
    });
    match described {
        Ok((seal, checkpoint, file)) => {
            let parent = describe::Parent::of(&file, &checkpoint);
            let description = describe::Description::of(&checkpoint, seal, parent);
            match json {
                true => output::json(&description),
                false => output::text(description.text()),
            }
            Exit::Done
        }
        Err(trouble) => {
            let blame = if trouble.exit() == Exit::Host { "host" } else { "invocation" };
            refuse(json, trouble.exit(), blame, &trouble)
        }
    }
}

/// What is known of a seal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Seal {
    /// There is none.
    None,
    /// The key at hand has sealed it.
    Valid,
    /// Another key claims to have sealed it, or there is no key at hand.
    Unchecked,
    /// The seal is not of what the file says.
    Edited,
}

/// What the key that was given, or else the user's own, says of a checkpoint.
fn seal(checkpoint: &Read, key: Option<&Path>) -> Result<Seal, Trouble> {
    let Some(key) = find_key(key)? else {
        return Ok(checkpoint.sealed_by().map_or(Seal::None, |_| Seal::Unchecked));
    };
    Ok(match checkpoint.authenticate(&key) {
        Ok(()) => Seal::Valid,
        Err(Error::NotSealed) => Seal::None,
        Err(Error::OtherKey { .. }) => Seal::Unchecked,
        Err(_) => Seal::Edited,
    })
}

/// A verdict as it is printed.
#[derive(Serialize)]
struct Verdict<'v> {
    #[serde(serialize_with = "as_shown")]
    file: &'v Path,
    good: bool,
    reason: Option<String>,
}

/// Any name can be shown, also one that is no text.
fn as_shown<S: serde::Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&shown(path))
}

fn verify(path: &Path, file: Found<'_>, key: Option<&Path>, json: bool) -> u8 {
    let verdict = match file.and_then(|file| verdict(&file, key)) {
        Ok(()) => None,
        Err(Trouble::Checkpoint { error, .. }) if !matches!(error, Error::Io { .. }) => Some(error.to_string()),
        Err(Trouble::Decrypt { error, .. }) if !error.is_hosts() => Some(error.to_string()),
        Err(trouble) => return refuse(json, Exit::Usage, "invocation", &trouble) as u8,
    };
    let exit = u8::from(verdict.is_some());
    if json {
        output::json(&Verdict { file: path, good: verdict.is_none(), reason: verdict });
    } else {
        let text = verdict.unwrap_or_else(|| "as it should be".to_owned());
        output::text(format_args!("{}: {}\n", shown(path), Line(text)));
    }
    exit
}

fn verdict(file: &CheckpointFile<'_>, key: Option<&Path>) -> Result<(), Trouble> {
    let chain = file.read_sealed(&checking_key(key)?)?;
    let good = chain.verify_pages().and_then(|()| chain.newest().check_processor(&Processor::here()));
    good.map_err(|error| file.wrong(error))
}

fn diff(first: Found<'_>, second: Found<'_>, json: bool) -> u8 {
    let both = first.and_then(|first| Ok((first.read_chain()?, second?.read_chain()?)));
    let (a, b) = match both {
        Ok(both) => both,
        Err(trouble) => return refuse(json, Exit::Usage, "invocation", &trouble) as u8,
    };
    let comparison = format::compare_chains(&a, &b);
    let difference = diff::Differences::of(a.newest(), b.newest(), &comparison);
    match json {
        true => output::json(&difference),
        false => output::text(difference.text()),
    }
    u8::from(!comparison.is_same())
}

/// Why a verb could not do its work.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("{}: {error}", shown(path))]
    Checkpoint { path: PathBuf, error: Error },
    #[error("{}: {error}", shown(path))]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{}: {error}", shown(path))]
    Key { path: PathBuf, error: KeyError },
    #[error("{}: it is encrypted: `--state-key FILE` names the file of the key of its state folder", shown(path))]
    Encrypted { path: PathBuf },
    #[error(
        "{}: it lies in no state folder, and so there is nothing that the key opens: an encrypted checkpoint is read in the folder `checkpoints` of its own",
        shown(path)
    )]
    Elsewhere { path: PathBuf },
    #[error("{}: {error}", shown(path))]
    Decrypt { path: PathBuf, error: monohull_state_key::Error },
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the user has no key yet, so no seal can be checked: `--key` names one")]
    NoKey,
    #[error("there is no folder for the key that seals checkpoints: set HOME, XDG_STATE_HOME or STATE_DIRECTORY")]
    NoState,
}

impl Trouble {
    pub(super) fn exit(&self) -> Exit {
        match self {
            Trouble::Checkpoint { error, .. } if error.is_hosts() => Exit::Host,
            Trouble::Decrypt { error, .. } if error.is_hosts() => Exit::Host,
            Trouble::Store(StoreError::Meta(error)) if error.is_of_key() => Exit::Usage,
            Trouble::NoState | Trouble::Store(_) => Exit::Host,
            _ => Exit::Usage,
        }
    }
}

/// The key that was named; or the user's own, if there is one.
fn find_key(named: Option<&Path>) -> Result<Option<Key>, Trouble> {
    let usual = || usual_state().map(|folder| folder.join(KEY_NAME)).filter(|path| path.exists());
    let Some(path) = named.map(Path::to_owned).or_else(usual) else { return Ok(None) };
    Key::load(&path).map(Some).map_err(|error| Trouble::Key { path, error })
}

/// The key that was named, or the user's own, to check a seal with.
pub(super) fn checking_key(named: Option<&Path>) -> Result<Key, Trouble> {
    find_key(named)?.ok_or(Trouble::NoKey)
}

/// The user's own key, to seal with. It is made if there is none.
pub(super) fn own_key() -> Result<Key, Trouble> {
    let path = usual_state().ok_or(Trouble::NoState)?.join(KEY_NAME);
    let error = |error| Trouble::Key { path: path.clone(), error };
    make_key_folder(&path).map_err(|cause| error(cause.into()))?;
    Key::load_or_create(&path).map_err(error)
}
