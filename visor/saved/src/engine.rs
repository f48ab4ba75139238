//! The engine section: what is needed to go on with a workflow besides its continuation.

use monohull_domain::may_be_published;
use monohull_engine::{Event, IsolationWish};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The version of the section's bytes.
pub(crate) const ENGINE_VERSION: u16 = 4;

/// What the engine section holds besides the state of the run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Engine {
    /// The workflow's file: relative paths in the document count from its folder.
    pub file: PathBuf,
    /// What `--set` has changed of the document.
    pub settings: Vec<String>,
    /// The files of outputs.
    pub outputs: Vec<(String, PathBuf)>,
    /// The inputs, if the workflow may be run again from its beginning.
    pub inputs: Vec<(String, Vec<u8>)>,
    /// Events that it was given and has not taken. Those of a durable invocation are in its mailbox.
    pub events: Vec<Event>,
    /// How many events it has been given.
    pub given: u64,
    /// Which copy of a forked workflow it is, and how many were made; zeros if it is none.
    pub copy: (u32, u32),
    /// What it has published. That of a durable invocation is in its row.
    pub published: BTreeMap<String, String>,
    /// How it was confined. A durable invocation is as its next process chooses.
    pub confined: Confined,
}

/// What keeps the functions of a run from the system, as it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Confined {
    /// Protection keys or the process alone.
    pub isolation: IsolationWish,
    /// Whether its process has a control group of its own.
    pub cgroup: OwnCgroup,
}

/// Whether a process is to have a control group of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum OwnCgroup {
    /// It is in that of its parent.
    #[default]
    Never,
    /// Where the host permits.
    Auto,
    /// It is refused without.
    Require,
}

/// The same as version 3 had it.
#[derive(Deserialize)]
struct Engine3 {
    file: PathBuf,
    settings: Vec<String>,
    outputs: Vec<(String, PathBuf)>,
    inputs: Vec<(String, Vec<u8>)>,
    events: Vec<Event>,
    given: u64,
    copy: (u32, u32),
}

impl From<Engine3> for Engine {
    fn from(engine: Engine3) -> Engine {
        let Engine3 { file, settings, outputs, inputs, events, given, copy } = engine;
        let (published, confined) = Default::default();
        Engine { file, settings, outputs, inputs, events, given, copy, published, confined }
    }
}

/// Reads a section that any version of Monohull up to this one has written, and the state of the run.
pub(crate) fn read(version: u16, bytes: &[u8]) -> Result<(Engine, Vec<u8>), String> {
    let read = match version {
        3 => postcard::take_from_bytes::<(Engine3, Vec<u8>)>(bytes)
            .map(|((engine, state), rest)| ((engine.into(), state), rest)),
        ENGINE_VERSION => postcard::take_from_bytes::<(Engine, Vec<u8>)>(bytes),
        _ => return Err("its engine section has another version".to_owned()),
    };
    match read {
        Ok((both, [])) if may_be_published(&both.0.published) => Ok(both),
        Ok((_, [])) => Err("it has published more than a workflow may".to_owned()),
        _ => Err("its engine section cannot be read".to_owned()),
    }
}
