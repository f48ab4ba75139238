//! Runs an invocation: waits in the queue, assigns it a worker, reads the worker's messages, and enforces the deadline.
//!
//! ```text
//! accepted ─ turn ─ idle worker ─ job given ─ … ─ report      each step within the deadline; whatever happens,
//!     └──────────── cancel, deadline, death ───────┘     one end is recorded, and the process is gone
//! ```

use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use bytes::Bytes;

use crate::execution::arrivals::Arrivals;
use crate::execution::basis::needs_inputs_later;
use crate::execution::came::{Accepted, Came, NotBegun, Waiting};
use crate::execution::checkpoints::take_sent;
use crate::execution::commit::{Over, OwnRow};
use crate::execution::end::contents;
use crate::execution::first_wait::First;
use crate::execution::messages::{MessageReader, Postman};
use crate::execution::process::Process;
use crate::http::content::Content;
use crate::http::error::{ApiError, Blame};
use crate::http::request_body::Hold;
use crate::invocations::admission::{QueueSlot, RunPermit};
use crate::invocations::invocation::Invocation;
use crate::invocations::report::Report;
use crate::invocations::status::{Mode, Status};
use crate::invocations::workers::{Arrived, Run, failed};
use crate::service::Watchdog;
use monohull_domain::host_time::monotonic_ns;
use monohull_durable::InvocationId;
use monohull_engine::mounts::{self, Opened, Prospect, Unopened};
use monohull_engine::{Delay, Latest, Ready};
use monohull_network as network;
use monohull_report::{self as report, Failure, Outgoing, ProcessKind, ProcessReport, RunReport};
use monohull_worker::{Data, Job, JobTemplate, Message, Notice, ProcessError};

/// The time after its own deadline in which a workflow may report that it has missed it; then its process is killed.
const GRACE: Duration = Duration::from_millis(500);

/// Gives an invocation an end if the task that runs it ends without one. Clients wait for that end.
struct EndGuard<'i>(&'i Invocation);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        if self.0.ended().is_none() {
            let result = Err(ApiError::monohull("the task of the invocation ended unexpectedly"));
            self.0.end(self.0.ending(Status::Failed, None, result));
        }
        self.0.release_permit();
    }
}

/// An invocation that is ready to start.
pub(crate) struct Task {
    pub(crate) invocation: Arc<Invocation>,
    pub(crate) workflow: Arc<Ready>,
    /// Of a registered workflow its document: it becomes durable when it only waits.
    pub(crate) document: Option<Bytes>,
    pub(crate) inputs: Inputs,
    pub(crate) wait: Wait,
    pub(crate) slot: QueueSlot,
    /// Of an asynchronous one its row in the ledger.
    pub(crate) row: Option<OwnRow>,
}

/// Where an invocation waits that only waits, and for long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// In the ledger, if its workflow is registered: its client is told where to ask.
    Durable,
    /// In its process: its client expects the result and nothing else.
    InProcess,
}

/// What fills a workflow's input slots.
pub(crate) struct Inputs {
    pub(crate) slots: Vec<(String, Data)>,
    /// The budget's part that they take, also while the workflow's process has them.
    pub(crate) hold: Hold,
}

impl Watchdog {
    /// Starts an invocation. It runs in a task of its own, independent of the client's connection.
    pub(crate) fn begin(self: &Arc<Self>, task: Task) {
        match &task.row {
            Some(row) => self.show(&row.held, &task.invocation, None),
            None => self.history.begin(task.invocation.clone()),
        }
        let guard = self.work.track();
        let watchdog = self.clone();
        // In a box: the runtime moves a task several times.
        tokio::spawn(Box::pin(async move {
            let _guard = guard;
            watchdog.execute(task).await;
        }));
    }

    async fn execute(self: &Arc<Self>, task: Task) {
        let Task { invocation, workflow, document, inputs, wait, slot, mut row } = task;
        let Inputs { slots, hold } = inputs;
        let _sure = EndGuard(&invocation);
        // What few invocations wait for is in boxes here and below: the task of each is moved as a whole when it is made.
        let run = self.run(&invocation, workflow.clone(), slots, &slot, document.as_ref().map(|_| wait));
        let came = tokio::select! {
            biased;
            came = run => Some(came),
            () = invocation.cancelled() => None,
        };
        let (mut status, (mut report, mut result)) = match came {
            Some(Came::Suspended(waiting)) => {
                let workflow = workflow.clone();
                let waits = First { invocation: &invocation, workflow, document, row: row.as_ref() };
                match Box::pin(self.become_durable(waits, *waiting)).await {
                    Ok(owed) => {
                        let is_own = row.is_none();
                        // The client may send the next request as soon as it has the answer.
                        drop((slot, hold));
                        return Box::pin(self.leave_for_ledger(&invocation, owed, is_own)).await;
                    }
                    Err(_) if invocation.is_cancelled() => (Status::Cancelled, (None, Err(self.given_up()))),
                    Err(refusal) => (Status::Failed, (None, Err(refusal))),
                }
            }
            Some(Came::Ended(ended)) => (if ended.1.is_ok() { Status::Completed } else { Status::Failed }, *ended),
            Some(Came::Unfit(why)) => (Status::Failed, (None, Err(ApiError::monohull(why)))),
            Some(Came::Refused(refusal)) => (Status::Failed, (None, Err(*refusal))),
            Some(Came::NotBegun(not_begun)) => match (row, document) {
                (Some(row), Some(document)) => {
                    let call = Accepted { row, invocation: invocation.clone(), document, workflow };
                    return Box::pin(self.begin_later(call, *not_begun, (hold, slot))).await;
                }
                (none, _) => {
                    row = none;
                    (Status::Failed, (None, Err(not_begun.refusal)))
                }
            },
            None => (Status::Cancelled, (None, Err(self.given_up()))),
        };
        drop(hold);
        let sent = take_sent(report.as_mut());
        if let Some(row) = row {
            let (report, result) = self.redact(report, result).await;
            let attempt = None;
            let over = Over { row, invocation: invocation.clone(), workflow, status, report, result, sent, attempt };
            // An end that waits for the disk keeps its queue slot, so there is a bounded number of them.
            return Box::pin(self.conclude(over, slot)).await;
        }
        if !sent.is_empty() {
            // Nothing that waits for the disk lets others with a long report wait.
            invocation.release_permit();
            if let Err(refusal) = Box::pin(self.send_all(&invocation, &workflow, sent)).await {
                (status, result) = (Status::Failed, Err(refusal));
            }
        }
        if !self.secrets.redactor().is_empty() {
            (report, result) = Box::pin(self.redact(report, result)).await;
        }
        invocation.point("ended");
        let end = invocation.ending(status, report, result);
        // The client may send the next request as soon as it has the answer, and finds this one counted.
        drop(slot);
        if invocation.is_long() {
            invocation.end(end.clone());
            let (watchdog, invocation) = (self.clone(), invocation.clone());
            let done = move || {
                watchdog.history.end(&invocation, &end);
                watchdog.log_end(&invocation, &end);
            };
            let _ = spawn_blocking(done).await;
        } else {
            self.history.end(&invocation, &end);
            self.log_end(&invocation, &end);
            invocation.end(end);
        }
        invocation.release_permit();
    }

    /// Sends the events of an invocation that has ended without a wait, and starts those of its children that do not end with it.
    async fn send_all(
        self: &Arc<Self>,
        invocation: &Invocation,
        workflow: &Arc<Ready>,
        sent: Vec<Outgoing>,
    ) -> Result<(), ApiError> {
        if sent.is_empty() {
            return Ok(());
        }
        let id: InvocationId = invocation.id.parse().map_err(|_| ApiError::monohull("an id is none"))?;
        let (watchdog, workflow) = (self.clone(), workflow.clone());
        let done = spawn_blocking(move || {
            let adding = watchdog.ledger.adding()?;
            let sent = watchdog.outbox(&adding, &id, workflow.plan(), sent);
            watchdog.ledger.send_all(&id, &sent)?;
            if sent.has_children() {
                watchdog.settle(&id);
            }
            Ok(())
        });
        done.await.map_err(|error| ApiError::monohull(error.to_string())).flatten()
    }

    /// Why an invocation was stopped.
    pub(crate) fn given_up(&self) -> ApiError {
        if self.is_ending() {
            ApiError::stopped("the server stops, and the invocation had not ended in time")
        } else {
            ApiError::cancelled("the client has disconnected, or the invocation was cancelled")
        }
    }

    /// From the queue to the report, or to a wait if it may do that outside of its process. `wait` is of a workflow that is registered.
    /// Dropping the future ends the process.
    async fn run(
        self: &Arc<Self>,
        invocation: &Arc<Invocation>,
        workflow: Arc<Ready>,
        inputs: Vec<(String, Data)>,
        slot: &QueueSlot,
        wait: Option<Wait>,
    ) -> Came {
        let latest = Instant::from_std(invocation.received) + self.settings.timeout;
        let Ok(permit) = timeout_at(latest, slot.run_permit()).await else {
            let message = format!("it waited in the queue for {:?}", self.settings.timeout);
            return ApiError::deadline(message, Blame::Host).into();
        };
        let reused = self.reuses(&workflow);
        let kept = if reused { self.kept.take(&workflow).map(Process::Kept) } else { None };
        let process = match kept {
            Some(kept) => kept,
            None => match Box::pin(timeout_at(latest, self.workers.idle_worker())).await {
                Ok(Ok(worker)) => Process::New(worker),
                Ok(Err(refusal)) => return Came::NotBegun(Box::new(NotBegun { refusal, inputs })),
                Err(_) => {
                    let message = format!("no worker process was available within {:?}", self.settings.timeout);
                    return ApiError::deadline(message, Blame::Host).into();
                }
            },
        };
        invocation.set_running();
        let files = match workflow.is_self_contained() {
            true => Vec::new(),
            false => match Box::pin(self.open_files(&workflow)).await {
                Ok(files) => files,
                Err((refusal, Prospect::Passing)) => return Came::NotBegun(Box::new(NotBegun { refusal, inputs })),
                Err((refusal, _)) => return Came::Refused(Box::new(refusal)),
            },
        };
        let own = Instant::now() + workflow.plan().limits.timeout.unwrap_or(self.settings.timeout);
        let deadline = latest.min(own);
        // After a wait in the queue less than its own timeout remains; the workflow should report that deadline itself.
        let waited = latest + GRACE / 2 < own;
        let at_ns = || monotonic_ns() + (latest - Instant::now()).as_nanos() as u64;
        let latest = waited.then(|| Latest { at_ns: at_ns(), delay: Delay::Queue });
        let used = ProcessReport {
            kind: if reused { ProcessKind::Reused } else { ProcessKind::PerInvocation },
            before: process.served(),
        };
        self.metrics.given_to_process(used.before > 0);
        let job = Job {
            stay: reused && self.kept.may_stay(process.pid(), process.served()),
            files,
            requested_ns: invocation.begin_ns,
            latest,
            lines: true,
            progress: invocation.mode == Mode::Async,
            suspend: self.settings.suspend.filter(|_| wait == Some(Wait::Durable)),
            sends: wait.is_some(),
            // One that may be run again has a plan of its own then.
            resident: wait == Some(Wait::Durable) && self.residents.is_on() && !needs_inputs_later(workflow.plan()),
            invocation: invocation.id.clone(),
            public_url: self.settings.public_url.clone(),
            template: self.templates_for(&workflow),
            ..Job::new(workflow, inputs)
        };
        self.metrics.started(matches!(job.template, JobTemplate::From(_)));
        // The process cannot begin before this.
        invocation.point("dispatched");
        let workflow = job.workflow.clone();
        let mut came = self.run_job(invocation, (process, used, permit), job, deadline, None).await;
        match &mut came {
            Came::Ended(ended) => ended.0.iter_mut().for_each(|report| self.note_starts(&workflow, report)),
            Came::Unfit(why) => self.drop_templates(&workflow, why),
            Came::Suspended(_) | Came::NotBegun(_) | Came::Refused(_) => {}
        }
        came
    }

    /// Gives a process its job, and events that arrive; reads what it says until the deadline. The permit is that process's: it is given back when the
    /// process has ended, stays with a workflow that waits, or is clean.
    pub(crate) async fn run_job(
        self: &Arc<Self>,
        invocation: &Invocation,
        (process, used, permit): (Process, ProcessReport, RunPermit),
        job: Job,
        deadline: Instant,
        arrivals: Option<Arrivals>,
    ) -> Came {
        let stays = job.stay;
        // Inputs may be large. The process has them then, and they are needed again only by one that waits.
        let needed = job.suspend.is_some() && needs_inputs_later(job.workflow.plan());
        let start = move |process: Process, job: Job| match process.start(&job) {
            Ok(run) => (Ok(run), if needed { job.inputs } else { Vec::new() }),
            Err(error) => (Err(error), job.inputs),
        };
        let started = match job.workflow.plan().network {
            network::Plan::None if job.files.is_empty() => Ok(start(process, job)),
            // Starting brokers, and requesting a device from the helper, may block.
            _ => spawn_blocking(move || start(process, job)).await,
        };
        let (started, inputs) = match started {
            Ok(started) => started,
            Err(error) => return ApiError::monohull(error.to_string()).into(),
        };
        match started {
            Ok(run) => {
                let postman = Postman { post: run.post(), arrivals };
                let run = (run, postman, permit);
                match self.read_messages(invocation, run, self.with_grace(deadline), used, stays).await {
                    Came::Suspended(waiting) => Came::Suspended(Box::new(Waiting { inputs, ..*waiting })),
                    came => came,
                }
            }
            Err(error @ ProcessError::Host { .. }) => {
                Came::NotBegun(Box::new(NotBegun { refusal: failed(&error), inputs }))
            }
            Err(error) => failed(&error).into(),
        }
    }

    /// Replaces secrets in the report and the error. Outputs are the workflow's data, and remain unchanged.
    pub(crate) async fn redact(
        &self,
        report: Option<Report>,
        result: Result<Vec<(String, Content)>, ApiError>,
    ) -> (Option<Report>, Result<Vec<(String, Content)>, ApiError>) {
        let redactor = self.secrets.redactor();
        if redactor.is_empty() {
            return (report, result);
        }
        // A report may be long.
        let redacted = spawn_blocking(move || {
            let report = report.and_then(Report::into_whole).and_then(|report| redactor.report(&report));
            let report = report.map(Report::from);
            (report, result.map_err(|refusal| redactor.refusal(refusal)))
        });
        redacted.await.unwrap_or_else(|error| (None, Err(ApiError::monohull(error.to_string()))))
    }

    /// Opens the files of this host that are granted to a workflow. If that fails: whether it may pass.
    pub(crate) async fn open_files(&self, workflow: &Arc<Ready>) -> Result<Vec<Opened>, (ApiError, Prospect)> {
        let plan = workflow.plan();
        if plan.files.iter().all(|mount| mount.source.path().is_none()) {
            return Ok(Vec::new());
        }
        let plan = plan.clone();
        let opened = spawn_blocking(move || mounts::open(&plan)).await;
        let opened = opened.map_err(|error| (ApiError::monohull(error.to_string()), Prospect::None))?;
        // What is granted is the operator's choice, and not the workflow's.
        opened.map_err(|Unopened { failure, prospect }| {
            (ApiError::died(&Failure { blame: report::Blame::Host, ..*failure }), prospect)
        })
    }

    /// When a process is killed that has not ended by this deadline.
    pub(crate) fn with_grace(&self, deadline: Instant) -> Instant {
        deadline + GRACE
    }

    /// Reads the messages of a running workflow until it has ended.
    pub(crate) async fn read_messages(
        self: &Arc<Self>,
        invocation: &Invocation,
        (mut run, mut postman, permit): (Run, Postman, RunPermit),
        latest: Instant,
        used: ProcessReport,
        stays: bool,
    ) -> Came {
        let mut reader = MessageReader { latest, received: false };
        let redactor = self.secrets.redactor();
        loop {
            let Ok(arrived) = postman.deliver_until(reader.next(run.arrived())).await else {
                tracing::warn!(id = invocation.id, pid = run.pid(), "killed: its deadline is over");
                let message = "the deadline passed, and the workflow's process had not ended by itself";
                return ApiError::deadline(message, Blame::Workflow).into();
            };
            let message = match arrived {
                Ok(Arrived::Message(message)) => Ok(message),
                // It has come in time.
                Ok(Arrived::Long) => run.next_long().await,
                Err(refusal) => Err(refusal),
            };
            match message {
                Ok(Message::Notice(Notice::Point { name, at_ns })) => invocation.point_at(name, at_ns),
                Ok(Message::Notice(Notice::Line { step, instance, stream, text })) => {
                    invocation.line(step, instance, stream, redactor.text(text));
                }
                Ok(Message::Notice(_) | Message::Stderr | Message::EventsTaken | Message::WentOn(_)) => {}
                Ok(Message::Ended { report, outputs }) => {
                    if let Some(permit) = run.take_permit() {
                        invocation.set_long(Some(permit));
                    }
                    let report = RunReport { process: Some(used), ..*report };
                    let stays = stays && run.may_stay_after(&outputs);
                    let ended = self.ended(invocation, report, outputs);
                    self.keep_if(stays && ended.1.is_ok(), run, permit);
                    return Came::Ended(Box::new(ended));
                }
                Ok(Message::Done { report, outputs }) => {
                    if let Some(permit) = run.take_permit() {
                        invocation.set_long(Some(permit));
                    }
                    let stays = stays && run.may_stay_after(&outputs);
                    // The report of one that is recorded, or that secrets are taken out of, is needed now.
                    let ended = if invocation.mode == Mode::Sync && redactor.is_empty() {
                        (Some(Report::Packed(report, used)), contents(outputs))
                    } else {
                        match report.unpack() {
                            Ok(report) => self.ended(invocation, RunReport { process: Some(used), ..report }, outputs),
                            Err(error) => return ApiError::monohull(error.to_string()).into(),
                        }
                    };
                    self.keep_if(stays && ended.1.is_ok(), run, permit);
                    return Came::Ended(Box::new(ended));
                }
                Ok(Message::Clean) => {
                    return ApiError::monohull("the process was reset before its answer").into();
                }
                Ok(Message::Suspended(suspended)) => {
                    let process = suspended.stays.then_some(run);
                    return Came::Suspended(Box::new(Waiting { run: suspended, inputs: Vec::new(), process }));
                }
                // Not asked for, so it is refused before it comes here.
                Ok(Message::Captured(_)) => {}
                Ok(Message::Unfit { why }) => return Came::Unfit(why),
                Ok(Message::Died(death)) => return ApiError::died(&death.failure()).into(),
                Err(refusal) => return refusal.into(),
            }
        }
    }
}
