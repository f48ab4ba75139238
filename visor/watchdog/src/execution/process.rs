//! The process for an invocation: a new one, or one that has served others of the same workflow.

use crate::invocations::workers::{KeptRun, Run};
use monohull_report::{ProcessKind, ProcessReport};
use monohull_worker::{IdleWorker, Job, ProcessError};

/// The process for an invocation.
pub(crate) enum Process {
    /// A new one.
    New(IdleWorker),
    /// One that has served invocations of the same workflow.
    Kept(KeptRun),
}

/// What is reported of a process that serves one invocation.
pub(crate) fn alone() -> ProcessReport {
    ProcessReport { kind: ProcessKind::PerInvocation, before: 0 }
}

impl Process {
    /// A new one, which ends with its job.
    pub(crate) fn alone(worker: IdleWorker) -> (Process, ProcessReport) {
        (Process::New(worker), alone())
    }

    pub(crate) fn pid(&self) -> i32 {
        match self {
            Process::New(worker) => worker.pid(),
            Process::Kept(run) => run.worker().pid(),
        }
    }

    /// How many invocations it has served.
    pub(crate) fn served(&self) -> u64 {
        match self {
            Process::New(_) => 0,
            Process::Kept(run) => run.worker().served(),
        }
    }

    /// Gives it its job. After an error nothing of that has been run.
    pub(crate) fn start(self, job: &Job) -> Result<Run, ProcessError> {
        match self {
            Process::New(worker) => Run::start(worker, job),
            Process::Kept(run) => run.start(job),
        }
    }
}
