//! Processes that are used again: which are, and how one is kept that has answered.
//!
//! ```text
//!   answer ─ Clean ─▶ kept for the next invocation of the workflow
//!      └──── anything else, or too late ─▶ it ends, and the log says why
//! ```

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::execution::end::LOGGED_MAX;
use crate::execution::messages::MessageReader;
use crate::invocations::admission::RunPermit;
use crate::invocations::workers::{KeptRun, Run};
use crate::service::Watchdog;
use monohull_engine::Ready;
use monohull_worker::Message;
use monohull_workflow::plan::ProcessUse;

/// How long a process may take to reset itself; it takes some ten microseconds, and longer by far if it has gigabytes to give back.
const RESET: Duration = Duration::from_secs(1);

/// How often the memory of processes is looked at that wait: that takes some 160 microseconds for each.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why a process is not used again that says that it has reset itself.
const NOT_SILENT: &str = "it has written to its standard error";

impl Watchdog {
    /// Whether the processes of a workflow are used again: as its file says, or else as the server does. Never those of a document that
    /// is not registered, of an earlier version, or of a workflow with something of the host.
    pub(super) fn reuses(&self, workflow: &Arc<Ready>) -> bool {
        let wanted = workflow.plan().process.map_or(self.reuse, |process| process == ProcessUse::Reused);
        wanted && workflow.is_self_contained() && self.registry.is_current(workflow)
    }

    /// Keeps a process that is to stay; else it ends. It runs, with its permit, until it has reset itself: one that does not is one of those that may run.
    pub(super) fn keep_if(self: &Arc<Self>, stays: bool, run: Run, permit: RunPermit) {
        if !stays || self.is_ending() {
            return;
        }
        if !run.is_clean() {
            tokio::spawn(self.clone().keep(run, permit));
            return;
        }
        let pid = run.pid();
        match run.into_kept() {
            Some(kept) => self.put_kept(kept),
            None => tracing::warn!(pid, why = NOT_SILENT, "a process could not be used again, and has ended"),
        }
    }

    /// None stays at the end, also not one that came while the others went, and none of a version that no invocation will have.
    fn put_kept(&self, kept: KeptRun) {
        if !kept.worker().workflow().is_some_and(|workflow| self.registry.is_current(&workflow)) {
            return;
        }
        let excess = self.kept.put(kept);
        self.metrics.kept_ended(excess);
        if self.is_ending() {
            self.kept.clear();
        }
    }

    /// Looks at the memory of processes that wait for another invocation, at most once in a while.
    pub(crate) async fn weigh_kept(self: &Arc<Self>) -> Infallible {
        loop {
            self.kept.unseen().await;
            sleep(LOOK_EVERY).await;
            let watchdog = self.clone();
            let _ = spawn_blocking(move || watchdog.metrics.kept_ended(watchdog.kept.weigh())).await;
        }
    }

    /// Keeps a process that has answered, once it has reset itself. If it does or says anything else it ends.
    async fn keep(self: Arc<Self>, mut run: Run, _permit: RunPermit) {
        let pid = run.pid();
        let mut reader = MessageReader { latest: Instant::now() + RESET, received: false };
        let why = loop {
            match reader.next(run.next()).await {
                Ok(Ok(Message::Clean)) => match run.into_kept() {
                    Some(kept) => return self.put_kept(kept),
                    None => break NOT_SILENT.to_owned(),
                },
                // The reason why it ends, most likely.
                Ok(Ok(Message::Stderr)) => {}
                Ok(Ok(Message::Died(death))) => break death.failure().message,
                Ok(Ok(_)) => break "it has said something else than that it is reset".to_owned(),
                Ok(Err(refusal)) => break refusal.error.message,
                Err(_) => break format!("it has not reset itself within {RESET:?}"),
            }
        };
        let why = &why[..why.floor_char_boundary(LOGGED_MAX)];
        tracing::warn!(pid, why, "a process could not be used again, and has ended");
    }
}
