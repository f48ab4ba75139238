//! What a durable invocation was started with, as its row has it.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The version that the bytes of a start begin with.
const VERSION: u8 = 1;
/// The same if checkpoints are made in the midst of a computation: how often, in ns, follows.
const WITH_CHECKPOINTS: u8 = 2;

/// What an invocation is started with: all that it needs from outside of the state folder, but for the workflow's mounts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in super::super) struct Start {
    /// The workflow's file: relative paths in the document count from its folder.
    pub(in super::super) file: PathBuf,
    /// The workflow document.
    pub(in super::super) document: Vec<u8>,
    /// What `--set` has changed of it.
    pub(in super::super) settings: Vec<String>,
    /// The files of outputs.
    pub(in super::super) outputs: Vec<(String, PathBuf)>,
    /// The input slots, and the hash of what fills each.
    pub(in super::super) inputs: Vec<(String, [u8; 32])>,
    /// The functions, and the hash of each one's image.
    pub(in super::super) functions: Vec<(String, [u8; 32])>,
    /// How often a checkpoint is made while the workflow computes; `None` if only its waits are kept.
    #[serde(skip)]
    pub(in super::super) checkpoint_every: Option<Duration>,
}

impl Start {
    /// The bytes that are kept of it.
    pub(super) fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        match self.checkpoint_every {
            None => postcard::to_extend(self, vec![VERSION]),
            Some(every) => postcard::to_extend(&(self, every.as_nanos() as u64), vec![WITH_CHECKPOINTS]),
        }
    }

    /// What was encoded; `None` if it was not, or by a version that is not known.
    pub(super) fn decode(bytes: &[u8]) -> Option<Start> {
        match bytes.split_first()? {
            (&VERSION, bytes) => match postcard::take_from_bytes(bytes) {
                Ok((start, [])) => Some(start),
                _ => None,
            },
            (&WITH_CHECKPOINTS, bytes) => match postcard::take_from_bytes::<(Start, u64)>(bytes) {
                Ok(((start, every), [])) => {
                    Some(Start { checkpoint_every: Some(Duration::from_nanos(every)), ..start })
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The hashes of the files that a start names. One that cannot be read names none.
    pub(super) fn files(bytes: &[u8]) -> Vec<[u8; 32]> {
        let start = Start::decode(bytes).into_iter();
        start.flat_map(|start| start.inputs.into_iter().chain(start.functions)).map(|(_, hash)| hash).collect()
    }
}
