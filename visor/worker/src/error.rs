//! What went wrong with a process, for those who started it.

use monohull_domain::image::map::LoadError;
use monohull_engine::HostError;
use monohull_engine::workflow_io::OpenError;
use monohull_report::escape::shown;
use std::io;
use std::path::PathBuf;

/// A process could not be made, or could not go on.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum ProcessError {
    /// The program has several threads.
    #[error("processes can be forked only while the program has one thread, and it has {0}; this is a bug in Monohull")]
    Threads(u64),
    #[error("the host failed at {what}: {source}")]
    Host {
        /// What was tried.
        what: &'static str,
        /// The host's error.
        source: io::Error,
    },
    /// The workflow could not be run.
    #[error(transparent)]
    Run(#[from] HostError),
    /// An input slot cannot be filled.
    #[error("input slot `{slot}`: {source}")]
    Input {
        /// The slot.
        slot: String,
        /// Why.
        source: OpenError,
    },
    /// The image of a function is not there, or is refused. Nothing has run.
    #[error(transparent)]
    Image(LoadError),
    /// The image of a function is not the one with which the workflow was suspended.
    #[error(
        "function `{function}` is not the one that the workflow was suspended with: its image {} has changed",
        shown(image)
    )]
    ImageChanged {
        /// The function.
        function: String,
        /// Where its image is now.
        image: PathBuf,
    },
    /// The continuation is not one that this workflow can go on with.
    #[error("{0}")]
    Unfit(String),
    /// The host keeps a workflow from going on. Nothing of it has run, and what it was to go on from is as it was.
    #[error("{why}")]
    NotResumed {
        /// What is in the way.
        why: String,
        /// Whether that may pass by itself: a directory that is away, a disk image in use.
        passing: bool,
    },
    #[error("the spawner has ended; no workflow can be started any more")]
    SpawnerEnded,
    /// The new process has reported why it cannot run a workflow.
    #[error("a process for a workflow cannot be prepared: {0}")]
    Refused(String),
}

/// An error of the host at this step.
pub(crate) fn host(what: &'static str) -> impl FnOnce(io::Error) -> ProcessError {
    move |source| ProcessError::Host { what, source }
}
