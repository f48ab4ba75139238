//! What the caller of a run chooses.

use super::output_file::{Staged, stage, write_whole};
pub use monohull_domain::GivenEvent as Event;
use monohull_domain::checkpoint::TemplateUse;
use monohull_domain::{Inbox, gadgets, keys};
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How a workflow is run, apart from its file.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Input slots and the files they are filled from; they override the workflow's own.
    pub inputs: Vec<(String, PathBuf)>,
    /// Input slots and their bytes, given instead of a file.
    pub inline_inputs: Vec<(String, Vec<u8>)>,
    /// Output slots and the files they are written to.
    pub outputs: Vec<(String, PathBuf)>,
    /// The isolation asked for.
    pub isolation: IsolationWish,
    /// Load all libos modules at the start instead of each on its first call.
    pub load_all: bool,
    /// The folder with the libos modules, if not the usual one.
    pub modules: Option<PathBuf>,
    /// Events for functions that wait for them, in the order in which they are given.
    pub events: Vec<Event>,
    /// Where events come while it runs.
    pub inbox: Option<Arc<Inbox>>,
    /// Whether events for other invocations are passed on, with the continuation or the report.
    pub sends: bool,
    /// How long a function computes before others get their turn, if not as usual.
    pub time_slice: Option<Duration>,
    /// After so long the run comes to rest wherever it is, and ends with its continuation.
    pub halt: Option<Duration>,
    /// If the workflow only waits for a time, its clock is moved there.
    pub skip_time: bool,
    /// The id of the invocation; without it a new one is drawn.
    pub invocation: Option<String>,
    /// Whether the run makes a template, with which it ends, or instances start from some.
    pub template: TemplateUse,
    /// What an earlier part of the run has published.
    pub published: BTreeMap<String, String>,
    /// Where files of outputs wait for their names, if these do not get them as soon as they are written.
    pub staged: Option<Arc<StagedOutputs>>,
}

/// Files of outputs that have no names yet.
#[derive(Debug, Default)]
pub struct StagedOutputs(Mutex<Vec<Staged>>);

impl StagedOutputs {
    fn lock(&self) -> MutexGuard<'_, Vec<Staged>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether some of them are streams.
    pub fn has_streams(&self) -> bool {
        self.lock().iter().any(Staged::is_stream)
    }

    /// Writes those that are streams.
    pub fn publish_streams(&self) -> Result<(), String> {
        let streams: Vec<_> = self.lock().extract_if(.., |staged| staged.is_stream()).collect();
        streams.into_iter().try_for_each(Staged::publish)
    }

    /// Gives all others their names.
    pub fn publish(&self) -> Result<(), String> {
        let all = std::mem::take(&mut *self.lock());
        all.into_iter().try_for_each(Staged::publish)
    }
}

impl RunOptions {
    /// Writes the file of an output.
    pub fn write_output(
        &self,
        path: &Path,
        write_to: impl FnOnce(&mut File) -> io::Result<()> + Send + 'static,
    ) -> Result<(), String> {
        match &self.staged {
            Some(staged) => stage(path, write_to).map(|file| staged.lock().push(file)),
            None => write_whole(path, write_to),
        }
    }

    /// The id of the invocation, which is drawn if there is none.
    pub fn invocation(&self) -> String {
        self.invocation.clone().unwrap_or_else(|| format!("{:016x}", RandomState::new().hash_one(0)))
    }
}

/// The isolation that was requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum IsolationWish {
    /// The strongest the machine has.
    #[default]
    Auto,
    /// The process wall and the system-call defence; no protection keys.
    Process,
    /// Protection keys, or refuse.
    Mpk,
}

/// What becomes of the wish on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Whether protection keys are to be put in force.
    pub keys: bool,
    /// Why not, although this machine has them.
    pub note: Option<String>,
}

impl IsolationWish {
    /// What becomes of the wish. Trusted code that would make keys useless is changed on this occasion, so that processes
    /// that are forked afterwards inherit it.
    pub fn decide(self) -> Decision {
        let error = match self {
            IsolationWish::Process => return Decision { keys: false, note: None },
            IsolationWish::Mpk => return Decision { keys: true, note: None },
            IsolationWish::Auto if !keys::by_default() => return Decision { keys: false, note: None },
            IsolationWish::Auto => gadgets::remove().err(),
        };
        let note = error.map(|error| format!("protection keys are not in force: {error}"));
        Decision { keys: note.is_none(), note }
    }
}

/// The folder with the libos modules. `None` if there is no such folder.
pub fn modules_folder() -> Option<PathBuf> {
    folder_beside_program("modules")
}

/// A folder that belongs to the program: beside it, or beside the program's folder, where `cargo xtask build` puts it. `None` if there
/// is no such folder.
pub fn folder_beside_program(name: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().ok();
    // Tests lie one level deeper, or in a build folder of their own. An installed program trusts no build folder.
    let levels = if cfg!(debug_assertions) { 3 } else { 2 };
    let beside = program.iter().flat_map(|program| program.ancestors().skip(1).take(levels));
    let built = cfg!(debug_assertions).then(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    let mut folders = beside.map(Path::to_path_buf).chain(built).map(|folder| folder.join(name));
    folders.find(|folder| folder.is_dir())
}
