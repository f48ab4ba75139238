//! The state of the service, which endpoints and executions share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;

use crate::execution::read_once::ReadOnce;
use crate::http::request_body::Budget;
use crate::http::routes::Routes;
use crate::http::tls::Tls;
use crate::http::transit::Transit;
use crate::invocations::admission::Admission;
use crate::invocations::history::History;
use crate::invocations::kept::KeptWorkers;
use crate::invocations::ledger::Ledger;
use crate::invocations::redact::Secrets;
use crate::invocations::residents::Residents;
use crate::invocations::templates::Templates;
use crate::invocations::workers::{Run, WorkerPool};
use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::settings::Settings;
use crate::store::state_watch::StateWatch;
use crate::task_tracker::TaskTracker;

/// The service: its settings, what is registered, what runs and what has run.
pub(crate) struct Watchdog {
    pub(crate) settings: Settings,
    /// TLS of TCP connections; `None` if they are plain.
    pub(crate) tls: Option<Tls>,
    pub(crate) routes: Routes,
    pub(crate) registry: Registry,
    pub(crate) ledger: Ledger,
    pub(crate) state_watch: StateWatch,
    pub(crate) secrets: Secrets,
    pub(crate) history: History,
    pub(crate) admission: Admission,
    /// Memory for large bodies.
    pub(crate) budget: Budget,
    /// Memory for large answers.
    pub(crate) transit: Arc<Transit>,
    /// Memory for the reports of ends that wait for the disk.
    pub(crate) waiting_reports: Budget,
    pub(crate) workers: WorkerPool,
    /// Processes that wait for another invocation of their workflow.
    pub(crate) kept: KeptWorkers,
    /// Processes that stay with invocations which wait.
    pub(crate) residents: Residents<Run>,
    /// Templates that instances start from.
    pub(crate) templates: Templates,
    /// Checkpoints that runs go on from now.
    pub(crate) read_once: ReadOnce,
    /// Whether processes are used again if the workflow does not say.
    pub(crate) reuse: bool,
    /// Permits for callbacks under way.
    pub(crate) callbacks: Semaphore,
    pub(crate) metrics: Metrics,
    /// What should be finished before the service ends: invocations, answers, changes of the state.
    pub(crate) work: Arc<TaskTracker>,
    /// The shutdown has begun: no new work is accepted.
    pub(crate) ending: AtomicBool,
    /// `process` or `mpk`.
    pub(crate) isolation: &'static str,
    /// The control groups of workflows' processes: `own`, or `none` and why.
    pub(crate) cgroup: String,
}

impl Watchdog {
    /// Whether the shutdown has begun.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }
}
