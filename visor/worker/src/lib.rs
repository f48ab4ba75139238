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
mod captures;
pub mod cgroup;
mod exit_status;
mod foreground;
mod job;
mod notices;
mod pkru_tracer;
mod post;
mod process;
mod protocol;
mod reset;
mod sandbox;
mod sent;
mod spawner;
mod template;
mod warmup;
mod wiping;
mod worker;

pub use exit_status::{Cause, Death};
pub use foreground::{Continuing, Keep, Next, Ran, Waiting, run, run_from, run_kept};
pub use job::{Data, Job};
pub use post::Post;
pub use protocol::Notice;
pub use sandbox::allowed_calls;
pub use spawner::{Spawner, StartingWorker};
pub use template::{JobTemplate, Template, may_have_template};

use cgroup::{Membership, OomCause, WorkerCgroup};
use monohull_domain::checkpoint::Wait;
use monohull_domain::keys;
use monohull_domain::may_be_published;
use monohull_engine::workflow_io::OpenError;
use monohull_engine::{Event, HostError, IsolationWish, Ready, modules_folder};
use monohull_ipc as ipc;
use monohull_ipc::ChannelError;
use monohull_report::escape::shown;
use monohull_report::{Outgoing, RunReport, Sandbox, Status};
use monohull_workflow::Plan;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use post::Unanswered;
use protocol::{Content, FromWorker, ToWorker, WorkerChannel};
use rustix::process::{Signal, pidfd_send_signal};
use sent::read_sent;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

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
    /// The default settings. Preloaded are the modules that most workflows use: slots and output.
    pub fn usual(isolation: IsolationWish) -> Result<Settings, HostError> {
        let modules = modules_folder().ok_or(HostError::NoModules)?;
        let preload = ["mm", "stdio"].map(str::to_owned).to_vec();
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
    fn keys_are_silent(&self) -> bool {
        self.keys && !keys::by_default()
    }
}

/// How long a worker may take from its fork until it is ready. It takes well under a millisecond. An error is better than a
/// longer wait on a host that is so busy.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// The most bytes of a worker's standard error that are kept.
const STDERR_TAIL_MAX: usize = 4096;
/// The most packets in which they arrive. Code that panics or aborts sends some dozens.
const STDERR_PIECES_MAX: usize = 4096;

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
    #[error("the spawner has ended; no workflow can be started any more")]
    SpawnerEnded,
    /// The new process has reported why it cannot run a workflow.
    #[error("a process for a workflow cannot be prepared: {0}")]
    Refused(String),
}

/// An error of the host at this step.
fn host(what: &'static str) -> impl FnOnce(io::Error) -> ProcessError {
    move |source| ProcessError::Host { what, source }
}

/// A workflow that waits, without a process.
#[derive(Debug)]
pub struct SuspendedRun {
    /// The rest of it: a sealed memfd, for [`Job::continuation`].
    pub continuation: OwnedFd,
    /// How many bytes that has.
    pub bytes: u64,
    /// What it waits for, as its worker says.
    pub waits: Vec<Wait>,
    /// When it has to go on (ns since 1970), unless nothing happens by itself.
    pub until: Option<u64>,
    /// The numbers of the events that are in the continuation now, as its worker says.
    pub events_taken: Vec<u64>,
    /// What the workflow has published.
    pub published: BTreeMap<String, String>,
    /// Events for other invocations, which leave if this is kept.
    pub sent: Vec<Outgoing>,
}

/// An event of a running workflow.
#[derive(Debug)]
pub enum Message {
    /// Progress or output while it runs.
    Notice(Notice),
    /// The workflow has ended. Its process ends by itself now; it may be dropped before.
    Ended {
        /// The report. It has the sizes of outputs, and no content.
        report: Box<RunReport>,
        /// The output slots.
        outputs: Vec<(String, Data)>,
    },
    /// The workflow only waits, as it was asked to report. Its process ends by itself now.
    Suspended(SuspendedRun),
    /// The workflow as it was a moment ago. It goes on, and sends another one after [`Running::answer`] at the earliest.
    Captured(SuspendedRun),
    /// Events that were sent with a [`Post`] have come, and others may be sent.
    EventsTaken,
    /// The continuation that it was to go on with is damaged, or another workflow's. Its process ends by itself now.
    Unfit {
        /// What is wrong with it, as the worker says.
        why: String,
    },
    /// The worker has written to its standard error. [`Death::stderr`] has the text.
    Stderr,
    /// The workflow had ended as done, and the process is ready for another job: [`Running::into_clean`].
    Clean,
    /// The process has ended. This is the last message.
    Died(Death),
}

/// A worker process, as its supervisor sees it.
#[derive(Debug)]
struct Worker {
    channel: WorkerChannel,
    /// Shared with the worker's control group, which is used again after the end of the process.
    pidfd: Arc<OwnedFd>,
    pid: i32,
    reaper: Reaper,
    /// The worker's own control group, if it has one.
    cgroup: Option<WorkerCgroup>,
    /// What came of looking at the next message, which has not been read yet.
    received: Option<Result<Option<Option<ipc::Packet<FromWorker>>>, ChannelError>>,
    stderr: StderrTail,
    /// Faults end the process without a report: keys are in force, and neither the kernel nor a tracer opens them.
    keys_silent: bool,
    /// The workflow it was assigned. An answer with other outputs, or larger ones, is a protocol violation.
    plan: Option<Arc<Plan>>,
    /// It may answer with a continuation.
    suspendable: bool,
    /// Whether it may send captures while it goes on.
    captures: Captures,
    /// It may send events to other invocations.
    sends: bool,
    /// It may be sent events while it runs.
    listens: bool,
    /// Those that were sent have not been acknowledged.
    unanswered: Unanswered,
    /// It has got a continuation.
    continues: bool,
    answered: bool,
    stay: Stay,
    dead: bool,
}

/// Whether a worker sends captures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Captures {
    /// It was not asked to.
    Never,
    /// It may send one.
    Next,
    /// It has, and must be answered first.
    Unanswered,
}

/// Whether a worker takes another job after its answer.
#[derive(Clone, Debug, Default)]
enum Stay {
    /// It ends.
    #[default]
    No,
    /// It was asked to, if this version of the workflow ends as done.
    Asked(Weak<Ready>),
    /// It says that it has reset itself.
    Clean(Weak<Ready>),
}

/// The beginning of what a worker has written to its standard error.
#[derive(Debug, Default)]
struct StderrTail {
    bytes: Vec<u8>,
    pieces: usize,
}

impl StderrTail {
    /// Keeps a piece, as far as there is room. More than [`STDERR_PIECES_MAX`] pieces are an error.
    fn receive(&mut self, piece: &[u8]) -> Result<(), ChannelError> {
        let room = STDERR_TAIL_MAX - self.bytes.len();
        self.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        self.pieces += 1;
        match self.pieces {
            ..=STDERR_PIECES_MAX => Ok(()),
            _ => Err(ChannelError::Malformed("too much output to standard error".to_owned())),
        }
    }
}

/// The process that reaps a worker.
#[derive(Clone, Copy, Debug)]
enum Reaper {
    /// This process, which is the parent.
    Here,
    /// The spawner with this process id.
    Spawner(i32),
}

/// A worker that waits for a job. Its process ends when this is dropped.
#[derive(Debug)]
pub struct IdleWorker {
    worker: Worker,
    sandbox: Sandbox,
}

impl IdleWorker {
    /// Waits until the worker is ready.
    fn new(mut worker: Worker) -> Result<IdleWorker, ProcessError> {
        if !worker.channel.wait(Some(READY_LIMIT)).map_err(host("waiting for a new process"))? {
            let text = format!("it was not ready within {READY_LIMIT:?}");
            return Err(ProcessError::Refused(text));
        }
        let first = loop {
            match worker.receive()? {
                Some(WorkerMessage::Message(Message::Stderr)) => {}
                other => break other,
            }
        };
        match first {
            Some(WorkerMessage::Ready(mut sandbox)) => {
                sandbox.cgroup = worker.cgroup.as_ref().map_or(sandbox.cgroup, WorkerCgroup::describe);
                Ok(IdleWorker { worker, sandbox })
            }
            Some(WorkerMessage::Refused(why)) => Err(ProcessError::Refused(why)),
            Some(WorkerMessage::Message(Message::Died(death))) => Err(ProcessError::Refused(death.failure().message)),
            Some(WorkerMessage::Message(_)) | None => {
                Err(ProcessError::Refused("unexpected message in this state".to_owned()))
            }
        }
    }

    /// The sandbox that is in force.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.worker.pid
    }

    /// Whether it still waits. A worker whose process has ended was killed, which the spawner may not have reported yet. A worker
    /// that sends something before its job violates the protocol.
    pub fn is_waiting(&self) -> bool {
        self.worker.is_silent()
    }

    /// Sends the worker its one job.
    pub fn assign(mut self, job: &Job) -> Result<Running, ProcessError> {
        let plan = job.workflow.plan();
        self.worker.plan = Some(plan.clone());
        self.worker.suspendable = job.suspend.is_some() || matches!(job.template, JobTemplate::Make);
        self.worker.captures = if job.goes_on { Captures::Next } else { Captures::Never };
        self.worker.sends = job.sends;
        self.worker.listens = job.may_listen();
        self.worker.continues = job.continuation.is_some() || job.template.template().is_some();
        if let Some(cgroup) = &mut self.worker.cgroup {
            // A capture on its way: as it was made, and as sealed memory.
            let copies = match job.template {
                _ if job.goes_on => 2,
                JobTemplate::Make => 2,
                JobTemplate::From(_) => 1,
                JobTemplate::No => 0,
            };
            cgroup.limit(plan, copies).map_err(host("limiting the memory of a process"))?;
            self.sandbox.cgroup = cgroup.describe();
        }
        self.worker.send(job, false)?;
        Ok(Running { worker: self.worker, sandbox: self.sandbox, before: 0 })
    }
}

/// A worker that has served jobs of one workflow, has been reset, and waits for another one. Its process ends when this is dropped.
#[derive(Debug)]
pub struct CleanWorker {
    worker: Worker,
    sandbox: Sandbox,
    workflow: Weak<Ready>,
    served: u64,
}

impl CleanWorker {
    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.worker.pid
    }

    /// How many jobs it has served.
    pub fn served(&self) -> u64 {
        self.served
    }

    /// Whether this is the very workflow that it serves, and not another version of it.
    pub fn serves(&self, workflow: &Arc<Ready>) -> bool {
        std::ptr::eq(self.workflow.as_ptr(), Arc::as_ptr(workflow))
    }

    /// Whether that workflow exists still.
    pub fn is_needed(&self) -> bool {
        self.workflow.strong_count() > 0
    }

    /// Whether it still waits, as [`IdleWorker::is_waiting`] says.
    pub fn is_waiting(&self) -> bool {
        self.worker.is_silent()
    }

    /// Sends the worker another job of its workflow. A worker is not given another's.
    pub fn assign(mut self, job: &Job) -> Result<Running, ProcessError> {
        if !self.serves(&job.workflow) || !job.may_stay() {
            return Err(ProcessError::Unfit("a process cannot serve another workflow than before".to_owned()));
        }
        self.worker.answered = false;
        self.worker.continues = job.template.template().is_some();
        self.worker.suspendable = job.suspend.is_some() || matches!(job.template, JobTemplate::Make);
        self.worker.sends = job.sends;
        self.worker.send(job, true)?;
        Ok(Running { worker: self.worker, sandbox: self.sandbox, before: self.served })
    }
}

/// A worker with a job. Its process ends at once when this is dropped.
#[derive(Debug)]
pub struct Running {
    worker: Worker,
    sandbox: Sandbox,
    /// How many jobs it has served before this one.
    before: u64,
}

impl Running {
    /// The next message, if there is one now. A worker that violates the protocol is killed and reported as dead. After
    /// [`Message::Died`] there is none.
    pub fn next_message(&mut self) -> Result<Option<Message>, ProcessError> {
        match self.worker.receive()? {
            None => Ok(None),
            Some(WorkerMessage::Message(Message::Ended { mut report, outputs })) => {
                report.sandbox = Some(self.sandbox.clone());
                report.process = None;
                Ok(Some(Message::Ended { report, outputs }))
            }
            Some(WorkerMessage::Message(message)) => Ok(Some(message)),
            Some(WorkerMessage::Ready(_) | WorkerMessage::Refused(_)) => {
                Ok(Some(Message::Died(self.worker.protocol_violation("unexpected message in this state"))))
            }
        }
    }

    /// Whether [`Running::next_message`] may take a while because the next message has many megabytes. The message is received here, if
    /// there is one, and read there.
    pub fn next_is_long(&mut self) -> bool {
        let worker = &mut self.worker;
        if worker.dead {
            return false;
        }
        let received = worker.received.get_or_insert_with(|| worker.channel.try_receive_packet());
        matches!(received, Ok(Some(Some(packet))) if packet.is_spilled())
    }

    /// Waits until there is a message; false if that takes longer than `limit`.
    pub fn wait(&self, limit: Option<Duration>) -> Result<bool, ProcessError> {
        if self.worker.dead || self.worker.received.is_some() {
            return Ok(true);
        }
        self.worker.channel.wait(limit).map_err(host("waiting for a workflow"))
    }

    /// The worker after [`Message::Clean`]; `None` at any other time, and if it has written to its standard error: whatever it says
    /// there is about something that went wrong.
    pub fn into_clean(mut self) -> Option<CleanWorker> {
        let Stay::Clean(workflow) = std::mem::take(&mut self.worker.stay) else { return None };
        let clean = self.worker.stderr.pieces == 0 && !self.worker.dead;
        let Running { worker, sandbox, before } = self;
        clean.then_some(CleanWorker { worker, sandbox, workflow, served: before + 1 })
    }

    /// Answers a [`Message::Captured`]: whether it is kept now, whether the next one has to be whole, and events that have come since. A
    /// process that has ended meanwhile is no error here.
    pub fn answer(&mut self, kept: bool, whole: bool, events: &[Event]) -> Result<(), ProcessError> {
        if self.worker.captures != Captures::Unanswered {
            return Ok(());
        }
        self.worker.captures = Captures::Next;
        let events = (!events.is_empty()).then(|| job::seal_events(events)).transpose();
        let events = events.map_err(host("passing on events"))?;
        let files: Vec<_> = events.iter().map(AsFd::as_fd).collect();
        match self.worker.channel.send(&ToWorker::Kept { kept, whole, events: events.is_some() }, &files) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            sent => sent.map_err(host("answering a capture")),
        }
    }

    /// What sends it events while it runs, if its job says that it listens.
    pub fn post(&self) -> io::Result<Option<Post>> {
        let Worker { channel, unanswered, .. } = &self.worker;
        self.worker.listens.then(|| Post::new(channel, unanswered)).transpose()
    }

    /// Kills the process. [`Message::Died`] follows.
    pub fn kill(&self) {
        self.worker.kill();
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.worker.pid
    }

    /// The sandbox that is in force.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }
}

/// Readable when a message waits.
impl AsFd for Running {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.worker.channel.as_fd()
    }
}

/// A message of a worker in any state.
enum WorkerMessage {
    Ready(Sandbox),
    Refused(String),
    Message(Message),
}

impl Worker {
    /// Sends a job, and the workflow unless the worker has it.
    fn send(&mut self, job: &Job, has_workflow: bool) -> Result<(), ProcessError> {
        let stays = job.stay && job.may_stay();
        self.stay = if stays { Stay::Asked(Arc::downgrade(&job.workflow)) } else { Stay::No };
        // A worker that was killed in the meantime is reported as dead later, as any other.
        match job.send(&self.channel, has_workflow) {
            Err(ProcessError::Host { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Whether it lives and says nothing.
    fn is_silent(&self) -> bool {
        let mut both = [self.channel.as_fd(), self.pidfd.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        poll(&mut both, PollTimeout::ZERO) == Ok(0)
    }

    /// The next message, if there is one now.
    fn receive(&mut self) -> Result<Option<WorkerMessage>, ProcessError> {
        if self.dead {
            return Ok(None);
        }
        let received = self.received.take().unwrap_or_else(|| self.channel.try_receive_packet());
        let received = received.and_then(|received| match received {
            Some(Some(packet)) => packet.load().map(Some).map(Some),
            Some(None) => Ok(Some(None)),
            None => Ok(None),
        });
        let packet = match received {
            Ok(None) => return Ok(None),
            Ok(Some(Some(packet))) => packet,
            Ok(Some(None)) => {
                let death = self.end_of_channel();
                return Ok(Some(WorkerMessage::Message(Message::Died(death))));
            }
            Err(error) => {
                let error = error.no_descriptor().map(host("receiving a file")).map_or_else(Ok, Err)?;
                return Ok(Some(WorkerMessage::Message(Message::Died(self.protocol_violation(error)))));
            }
        };
        let message = match packet.text() {
            Some(_) if !packet.files.is_empty() => {
                Err(ChannelError::Malformed("it has sent files with a text".to_owned()))
            }
            Some(text) => self.stderr.receive(text).map(|()| WorkerMessage::Message(Message::Stderr)),
            None => packet.read().and_then(|message| self.interpret(message, packet)),
        };
        Ok(Some(message.unwrap_or_else(|error| WorkerMessage::Message(Message::Died(self.protocol_violation(error))))))
    }

    fn interpret(
        &mut self,
        message: FromWorker,
        packet: ipc::Message<FromWorker>,
    ) -> Result<WorkerMessage, ChannelError> {
        let unexpected = |what: &str| ChannelError::Malformed(what.to_owned());
        let ipc::Message { mut files, sender, spilled, .. } = packet;
        if spilled && !matches!(message, FromWorker::Ended { .. }) {
            return Err(unexpected("only an answer may be that long"));
        }
        if !files.is_empty()
            && !matches!(message, FromWorker::Ended { .. } | FromWorker::Suspended { .. } | FromWorker::Captured { .. })
        {
            return Err(unexpected("only an answer may have files"));
        }
        let has_sent = matches!(
            message,
            FromWorker::Ended { sent: true, .. }
                | FromWorker::Suspended { sent: true, .. }
                | FromWorker::Captured { sent: true, .. }
        );
        let sent = match has_sent {
            true if !self.sends => return Err(unexpected("events for others, which it may not send")),
            true => read_sent(&files.pop().ok_or_else(|| unexpected("the events that it has sent are missing"))?)?,
            false => Vec::new(),
        };
        Ok(WorkerMessage::Message(match message {
            FromWorker::Ready { sandbox, silent } => {
                self.keys_silent = silent;
                return Ok(WorkerMessage::Ready(sandbox));
            }
            FromWorker::Refused(why) => return Ok(WorkerMessage::Refused(why)),
            FromWorker::Notice(notice) => Message::Notice(notice),
            FromWorker::Ended { .. } if self.answered => return Err(unexpected("a second answer")),
            FromWorker::Ended { report, outputs, .. } => {
                let plan = self.plan.as_ref().ok_or_else(|| unexpected("an answer to nothing"))?;
                let outputs = take_outputs(outputs, files, plan)?;
                let mut report: Box<RunReport> =
                    serde_json::from_slice(&report).map_err(|error| unexpected(&error.to_string()))?;
                if !may_be_published(&report.published) {
                    return Err(unexpected("more than a workflow may publish"));
                }
                report.sent = sent;
                self.answered = true;
                if report.status != Status::Done || report.error.is_some() {
                    self.stay = Stay::No;
                }
                Message::Ended { report, outputs }
            }
            FromWorker::Suspended { .. } if self.answered || !self.suspendable => {
                return Err(unexpected("a continuation that was not asked for"));
            }
            FromWorker::Suspended { published, .. } | FromWorker::Captured { published, .. }
                if !may_be_published(&published) =>
            {
                return Err(unexpected("more than a workflow may publish"));
            }
            FromWorker::Suspended { waits, until, events_taken, published, .. } => {
                let run = suspended_run(files, waits, until, (events_taken, published, sent))?;
                self.answered = true;
                Message::Suspended(run)
            }
            FromWorker::Captured { .. } if self.answered || self.captures != Captures::Next => {
                return Err(unexpected("a capture that was not asked for"));
            }
            FromWorker::Captured { waits, until, events_taken, published, .. } => {
                self.captures = Captures::Unanswered;
                Message::Captured(suspended_run(files, waits, until, (events_taken, published, sent))?)
            }
            FromWorker::EventsTaken if !self.unanswered.answer() => {
                return Err(unexpected("an acknowledgement of nothing"));
            }
            FromWorker::EventsTaken => Message::EventsTaken,
            FromWorker::Unfit { .. } if self.answered || !self.continues => {
                return Err(unexpected("a refusal of a continuation that it has not got"));
            }
            FromWorker::Unfit { why } => {
                self.answered = true;
                Message::Unfit { why }
            }
            FromWorker::Clean => match (std::mem::take(&mut self.stay), self.answered) {
                (Stay::Asked(workflow), true) => {
                    self.stay = Stay::Clean(workflow);
                    Message::Clean
                }
                _ => return Err(unexpected("a reset that was not asked for")),
            },
            FromWorker::Died { status } => match self.reaper {
                Reaper::Spawner(pid) if pid == sender => {
                    let cause = cause_of(status);
                    Message::Died(self.died(cause))
                }
                _ => return Err(unexpected("an exit status that the spawner has not sent")),
            },
        }))
    }

    /// The other end is closed: the process ends, or pretends to. It is killed in either case.
    fn end_of_channel(&mut self) -> Death {
        self.kill();
        let cause = match self.reaper {
            Reaper::Here => self.reap(),
            Reaper::Spawner(_) => Cause::Unknown,
        };
        self.died(cause)
    }

    fn protocol_violation(&mut self, how: impl ToString) -> Death {
        self.kill();
        if let Reaper::Here = self.reaper {
            self.reap();
        }
        self.died(Cause::ProtocolViolation(how.to_string()))
    }

    fn died(&mut self, mut cause: Cause) -> Death {
        self.dead = true;
        if let (Cause::Signaled(libc::SIGKILL), Some(oom)) =
            (&cause, self.cgroup.as_ref().and_then(WorkerCgroup::oom_cause))
        {
            cause = match oom {
                OomCause::Own(bytes) => Cause::OutOfMemory(Some(bytes)),
                OomCause::Host => Cause::OutOfMemory(None),
            };
        }
        let stderr = String::from_utf8_lossy(&std::mem::take(&mut self.stderr.bytes)).into_owned();
        Death::new(cause, self.answered, self.keys_silent, stderr)
    }

    /// Waits for the end of a child that has been killed.
    fn reap(&self) -> Cause {
        match waitid(Id::PIDFd(self.pidfd.as_fd()), WaitPidFlag::WEXITED) {
            Ok(WaitStatus::Exited(_, status)) => Cause::Exited(status),
            Ok(WaitStatus::Signaled(_, signal, _)) => Cause::Signaled(signal as i32),
            _ => Cause::Unknown,
        }
    }

    fn kill(&self) {
        end(&self.pidfd);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.dead {
            self.kill();
            if let Reaper::Here = self.reaper {
                self.reap();
            }
        }
        // The group can be used again once the process has ended.
        if let Some(cgroup) = self.cgroup.take() {
            cgroup.free_after(self.pidfd.clone());
        }
    }
}

/// A continuation that has come with a message.
fn suspended_run(
    files: Vec<OwnedFd>,
    waits: Vec<Wait>,
    until: Option<u64>,
    (events_taken, published, sent): (Vec<u64>, BTreeMap<String, String>, Vec<Outgoing>),
) -> Result<SuspendedRun, ChannelError> {
    let not_one = |_| ChannelError::Malformed("not one continuation".to_owned());
    let [continuation] = <[OwnedFd; 1]>::try_from(files).map_err(not_one)?;
    let bytes = ipc::sealed::sealed_size(&continuation)?;
    Ok(SuspendedRun { continuation, bytes, waits, until, events_taken, published, sent })
}

/// Accepts outputs that are the workflow's, each once, and together not larger than its slots. Files have to be sealed, so that
/// they cannot be shortened while they are read.
fn take_outputs(
    outputs: Vec<(String, Content)>,
    files: Vec<OwnedFd>,
    plan: &Plan,
) -> Result<Vec<(String, Data)>, ChannelError> {
    let wrong = |what: &str| ChannelError::Malformed(what.to_owned());
    let mut files = files.into_iter();
    let mut room = plan.limits.slots;
    let mut taken: Vec<(String, Data)> = Vec::new();
    for (slot, content) in outputs {
        if !plan.outputs.iter().any(|output| output.slot == slot) || taken.iter().any(|(other, _)| *other == slot) {
            return Err(wrong("an output that the workflow does not have"));
        }
        let data = match content {
            Content::Bytes(bytes) => Data::Bytes(bytes),
            Content::Attached => Data::File(files.next().ok_or_else(|| wrong("an output is missing"))?),
        };
        let size = match &data {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::File(file) => monohull_ipc::sealed::sealed_size(file)?,
        };
        room = room.checked_sub(size).ok_or_else(|| wrong("its outputs are larger than its slots"))?;
        taken.push((slot, data));
    }
    match files.next() {
        None => Ok(taken),
        Some(_) => Err(wrong("it has more files than outputs")),
    }
}

/// A status of `waitpid`.
fn cause_of(status: i32) -> Cause {
    if libc::WIFEXITED(status) {
        Cause::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Cause::Signaled(libc::WTERMSIG(status))
    } else {
        Cause::Unknown
    }
}

/// Kills a process. That it has ended already is no error.
fn end(pidfd: &OwnedFd) {
    let _ = pidfd_send_signal(pidfd, Signal::KILL);
}

#[cfg(test)]
mod tests;
