//! What a durable invocation was started with, as its row has it.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// The version that the bytes of a start begin with.
const VERSION: u8 = 1;
/// The same if checkpoints are made in the midst of a computation: how often, in ns, follows.
const WITH_CHECKPOINTS: u8 = 2;
/// The same if it may start children: how often checkpoints are made, 0 for never, and the workflows follow.
const WITH_CHILDREN: u8 = 3;

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
    /// The workflows that it may start, and those that these may start.
    #[serde(skip)]
    pub(in super::super) children: Vec<Startable>,
}

/// A workflow of which children may be started. It is kept as it was when the first parent was started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in super::super) struct Startable {
    /// Its name.
    pub(super) name: String,
    /// Its file: relative paths in the document count from its folder.
    pub(super) file: PathBuf,
    /// The workflow document.
    pub(super) document: Vec<u8>,
    /// The input slots that its file fills, and the hash of what fills each.
    pub(super) inputs: Vec<(String, [u8; 32])>,
    /// The others: a child has an input for at most one.
    pub(super) free: Vec<String>,
    /// The functions, and the hash of each one's image.
    pub(super) functions: Vec<(String, [u8; 32])>,
}

impl Start {
    /// The bytes that are kept of it.
    pub(super) fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        let every = self.checkpoint_every.map_or(0, |every| every.as_nanos() as u64);
        if !self.children.is_empty() {
            return postcard::to_extend(&(self, every, &self.children), vec![WITH_CHILDREN]);
        }
        match self.checkpoint_every {
            None => postcard::to_extend(self, vec![VERSION]),
            Some(_) => postcard::to_extend(&(self, every), vec![WITH_CHECKPOINTS]),
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
            (&WITH_CHILDREN, bytes) => match postcard::take_from_bytes::<(Start, u64, Vec<Startable>)>(bytes) {
                Ok(((start, every, children), [])) => {
                    let checkpoint_every = (every > 0).then(|| Duration::from_nanos(every));
                    Some(Start { checkpoint_every, children, ..start })
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The hashes of the files that a start names. One that cannot be read names none.
    pub(super) fn files(bytes: &[u8]) -> Vec<[u8; 32]> {
        let start = Start::decode(bytes).into_iter();
        let all = start.flat_map(|start| {
            let of_children =
                start.children.into_iter().flat_map(|child| child.inputs.into_iter().chain(child.functions));
            start.inputs.into_iter().chain(start.functions).chain(of_children)
        });
        all.map(|(_, hash)| hash).collect()
    }

    /// The hashes of code among [`Start::files`]: they are those of the contents in every state folder.
    pub(super) fn code(&self) -> BTreeSet<[u8; 32]> {
        let of_children = self.children.iter().flat_map(|child| &child.functions);
        self.functions.iter().chain(of_children).map(|(_, hash)| *hash).collect()
    }

    /// The hashes of its inputs and of those of its children.
    pub(super) fn data(&self) -> BTreeSet<[u8; 32]> {
        let of_children = self.children.iter().flat_map(|child| &child.inputs);
        self.inputs.iter().chain(of_children).map(|(_, hash)| *hash).collect()
    }

    /// The same with inputs that have other names in another state folder.
    pub(super) fn renamed(mut self, names: &BTreeMap<[u8; 32], [u8; 32]>) -> Start {
        let of_children = self.children.iter_mut().flat_map(|child| &mut child.inputs);
        for (_, hash) in self.inputs.iter_mut().chain(of_children) {
            *hash = names.get(hash).copied().unwrap_or(*hash);
        }
        self
    }

    /// What a child of it is started with: one of this workflow, with an input that `add` keeps.
    pub(super) fn child(
        &self,
        workflow: &str,
        input: &[u8],
        add: impl FnOnce(&[u8]) -> Result<[u8; 32], String>,
    ) -> Result<Vec<u8>, String> {
        let found = self.children.iter().find(|child| child.name == workflow);
        let found = found.ok_or_else(|| format!("`starts` of the workflow file does not name `{workflow}`"))?;
        let mut inputs = found.inputs.clone();
        match &found.free[..] {
            [] if input.is_empty() => {}
            [] => return Err(format!("the workflow `{workflow}` takes no input")),
            [slot] => inputs.push((slot.clone(), add(input)?)),
            more => return Err(format!("the workflow `{workflow}` has {} inputs, and a child has one", more.len())),
        }
        let start = Start {
            file: found.file.clone(),
            document: found.document.clone(),
            settings: Vec::new(),
            outputs: Vec::new(),
            inputs,
            functions: found.functions.clone(),
            checkpoint_every: self.checkpoint_every,
            children: self.children.clone(),
        };
        start.encode().map_err(|error| error.to_string())
    }
}
