//! Processes for workflows: one for each, so that a crash, a leak or an escape stays with one workflow.
//!
//! ```text
//! supervisor (HTTP, any threads; never maps user code)      or: monohull run
//!    │ control                                                     │ forks its one worker itself
//!    ▼                                                             ▼
//! spawner (one thread, forked before there are others)          worker
//!    ├─ worker   idle ─▶ job ─▶ runs ─▶ answers ─▶ ends, or is reset and stays for another job of the same workflow
//!    └─ worker   idle: has its address space, its keys and its sandbox, and no tenant yet
//! ```
//!
//! A socket of its own connects each worker with the supervisor. The spawner keeps the worker's end too: it reaps the worker,
//! sends the exit status over that socket, and closes it. So a [`Running`] has everything about a worker in one descriptor, in
//! order: the worker's messages, its exit status, and the end. Each process dies with its parent (`PR_SET_PDEATHSIG`, and the
//! end of a socket).
//!
//! All of this is synchronous, on descriptors: [`Running`] can be polled.
//!
//! ```no_run
//! use monohull_engine::{IsolationWish, Ready};
//! use monohull_worker::{Job, Message, Settings, Spawner};
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! // Before this program starts a second thread.
//! let spawner = Spawner::start(&Settings::usual(IsolationWish::Auto)?)?;
//! let plan = monohull_workflow::load(Path::new("workflows/word-count.json"))?;
//! let job = Job::new(Arc::new(Ready::new(plan)?), Vec::new());
//! let mut running = spawner.idle_worker()?.assign(&job)?;
//! while running.wait(None)? {
//!     match running.next_message()? {
//!         Some(Message::Done { report, .. }) => println!("{:?}", report.unpack()?.status),
//!         Some(Message::Ended { report, .. }) => println!("{:?}", report.status),
//!         Some(Message::Died(_)) => break,
//!         _ => {}
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::disallowed_methods)]

mod arrivals;
mod captured;
mod captures;
pub mod cgroup;
mod error;
mod exit_status;
mod foreground;
mod job;
mod later_pages;
mod memory;
mod message;
mod notices;
mod packed_report;
mod pkru_tracer;
mod post;
mod process;
mod protocol;
mod reply;
mod reset;
mod residence;
mod running;
mod sandbox;
mod sent;
mod slot_memory;
mod spawner;
mod supervised;
mod template;
mod warmup;
mod wiping;
mod worker;

pub use captured::{Bounds, copy_continuation, read_continuation, read_record, seal_continuation};
pub use error::ProcessError;
pub use exit_status::{Cause, Death};
pub use foreground::{
    Continuing, Keep, KeepWaiting, KeptTemplates, Next, NotMade, Ran, Templates, Waiting, make_template, run, run_from,
    run_kept, run_until_kept,
};
pub use job::{Data, HELD_MAX, Job, Rest};
pub use memory::Gauge;
pub use message::{Message, SuspendedRun};
pub use packed_report::{PackedReport, Summary};
pub use post::Post;
pub use protocol::Notice;
pub use running::{CleanWorker, IdleWorker, Running};
pub use sandbox::allowed_calls;
pub use spawner::{Spawner, StartingWorker};
pub use template::{JobTemplate, OF_THE_HOST, Template, template_instances};

use cgroup::Membership;
use monohull_domain::keys;
use monohull_engine::{HostError, IsolationWish, modules_folder};
use std::path::PathBuf;

/// What is the same for every workflow of a spawner.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder with the libos modules. A worker can open no other file, and only modules that existed when the spawner
    /// started.
    pub modules: PathBuf,
    /// Whether protection keys are in force.
    pub keys: bool,
    /// Names of libos modules that are mapped before the first fork. A module that is not preloaded costs its first caller 30 to
    /// 130 µs, one that is costs every worker a page or two.
    pub preload: Vec<String>,
    /// The control groups of workers.
    pub groups: Membership,
}

impl Settings {
    /// The default settings. Preloaded are the modules that most workflows use (slots and output), and the one of time, which each
    /// that goes on from a continuation uses.
    pub fn usual(isolation: IsolationWish) -> Result<Settings, HostError> {
        let modules = modules_folder().ok_or(HostError::NoModules)?;
        let preload = ["mm", "stdio", "time"].map(str::to_owned).to_vec();
        let decision = isolation.decide();
        if let Some(note) = &decision.note {
            tracing::error!("{note}");
        }
        let groups = Membership::Shared("not requested".to_owned());
        Ok(Settings { modules, keys: decision.keys, preload, groups })
    }
}

impl Settings {
    /// Whether keys are in force on a kernel that cannot deliver signals with them (before Linux 6.12).
    pub(crate) fn keys_are_silent(&self) -> bool {
        self.keys && !keys::by_default()
    }
}

#[cfg(test)]
mod tests;
