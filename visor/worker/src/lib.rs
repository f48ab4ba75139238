//! The processes a workflow runs in: one for each, so that a crash, a leak or an escape stays with one workflow.
//!
//! ```text
//! supervisor (HTTP, any threads; never maps user code)      or: monohull run
//!    │ control                                                     │ forks its one worker itself
//!    ▼                                                             ▼
//! spawner (one thread, forked once, before there are others)    worker
//!    ├─ worker   idle worker ─▶ job ─▶ runs ─▶ answers ─▶ ends
//!    └─ worker   idle worker: has its layout, its keys and its sandbox; knows no tenant
//! ```
//!
//! Each worker is connected with the supervisor by a socket of its own. The spawner keeps the worker's end too: it reaps the
//! worker, says on that socket how it ended, and closes it. So whoever holds a [`Running`] has all of it in one
//! descriptor, in order: what the worker says, how it died, and the end. Everything dies with what is above it
//! (`PR_SET_PDEATHSIG`, and the end of a socket).
//!
//! All of this is synchronous, on descriptors: [`Running`] can be polled.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::disallowed_methods)]

pub mod cgroup;
mod exit_status;
mod foreground;
mod job;
mod link;
mod notices;
mod pkru_tracer;
mod protocol;
mod sandbox;
mod spawner;
mod warmup;
mod worker;

pub use exit_status::{Cause, Death};
pub use foreground::run;
pub use job::{Data, Job};
pub use protocol::Notice;
pub use spawner::{Spawner, StartingWorker};

use cgroup::{Membership, OomCause, WorkerCgroup};
use link::{Link, LinkError, Packet};
use monohull_domain::keys;
use monohull_engine::workflow_io::OpenError;
use monohull_engine::{HostError, IsolationWish, modules_folder};
use monohull_report::{RunReport, Sandbox};
use monohull_workflow::Plan;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use protocol::{Content, FromWorker};
use rustix::process::{Signal, pidfd_send_signal};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What is the same for every workflow of a spawner.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder with the libos modules. Besides them a worker can open no file; of them, those that were there when the
    /// spawner started.
    pub modules: PathBuf,
    /// Whether protection keys are in force.
    pub keys: bool,
    /// Libos modules (by name) that workers have mapped before they know their workflow. A module that is not here costs
    /// its first caller 30 to 130 µs, one that is here costs every worker a page or two.
    pub preload: Vec<String>,
    /// The control groups workers are in.
    pub groups: Membership,
}

impl Settings {
    /// The usual folder; preloaded is what most workflows use: slots and output.
    pub fn usual(isolation: IsolationWish) -> Result<Settings, HostError> {
        let modules = modules_folder().ok_or(HostError::NoModules)?;
        let preload = ["mm", "stdio"].map(str::to_owned).to_vec();
        let decision = isolation.decide();
        if let Some(note) = &decision.note {
            tracing::error!("{note}");
        }
        let groups = Membership::Shared("nobody has asked for one".to_owned());
        Ok(Settings { modules, keys: decision.keys, preload, groups })
    }
}

impl Settings {
    /// Whether keys are in force under a kernel that cannot report a fault then.
    fn keys_are_silent(&self) -> bool {
        self.keys && !keys::by_default()
    }
}

/// How long a worker may take from its fork to being ready. It takes well under a millisecond; on a host that is so busy
/// that this does not do, an error is better than waiting on.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// Most bytes of a worker's standard error that are kept.
const STDERR_TAIL_MAX: usize = 4096;
/// Most pieces in which they come. Code that panics or gives up writes some dozens.
const STDERR_PIECES_MAX: usize = 4096;

/// A process could not be had, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// processes can be forked only while the program has one thread, and it has {0}; this is a bug in Monohull
    #[error("processes can be forked only while the program has one thread, and it has {0}; this is a bug in Monohull")]
    Threads(u64),
    /// the host failed at {what}: {source}
    #[error("the host failed at {what}: {source}")]
    Host {
        /// What was tried.
        what: &'static str,
        /// The host's answer.
        source: io::Error,
    },
    /// {0}
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
    /// the spawner is gone; no workflow can be started any more
    #[error("the spawner is gone; no workflow can be started any more")]
    SpawnerGone,
    /// a process for a workflow cannot be prepared: {0}
    #[error("a process for a workflow cannot be prepared: {0}")]
    Refused(String),
}

/// A failure of the host at something.
fn host(what: &'static str) -> impl FnOnce(io::Error) -> ProcessError {
    move |source| ProcessError::Host { what, source }
}

/// What is heard of a running workflow.
#[derive(Debug)]
pub enum Message {
    /// What happens while it runs.
    Notice(Notice),
    /// The workflow has ended. Its process ends by itself now; whoever does not care to see that may drop it.
    Ended {
        /// How it went. Outputs have sizes in it, and no content.
        report: Box<RunReport>,
        /// The output slots.
        outputs: Vec<(String, Data)>,
    },
    /// It has written to its standard error: its last words, which its death tells.
    Stderr,
    /// The process is gone. Nothing comes after this.
    Died(Death),
}

/// A process of ours, seen from above.
#[derive(Debug)]
struct Worker {
    link: Link,
    /// Shared with its control group, which waits for the end of the process.
    pidfd: Arc<OwnedFd>,
    pid: i32,
    reaper: Reaper,
    /// Its control group, if it has one of its own.
    leaf: Option<WorkerCgroup>,
    words: StderrTail,
    /// The kernel cannot tell of faults while keys are in force, and nobody helps it.
    keys_silent: bool,
    /// What it was given to run. An answer with other outputs, or larger ones, was not made by our code.
    plan: Option<Arc<Plan>>,
    answered: bool,
    dead: bool,
}

/// What a worker has written to its standard error.
#[derive(Debug, Default)]
struct StderrTail {
    bytes: Vec<u8>,
    pieces: usize,
}

impl StderrTail {
    /// Keeps a piece, as far as there is room. An error if it goes on and on.
    fn receive(&mut self, piece: &[u8]) -> Result<(), LinkError> {
        let room = STDERR_TAIL_MAX - self.bytes.len();
        self.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        self.pieces += 1;
        match self.pieces {
            ..=STDERR_PIECES_MAX => Ok(()),
            _ => Err(LinkError::Malformed("it writes on and on".to_owned())),
        }
    }
}

/// Who reaps a worker.
#[derive(Clone, Copy, Debug)]
enum Reaper {
    /// This process: its parent.
    Here,
    /// The spawner with this process id.
    Spawner(i32),
}

/// A process that waits for a job. Ends when it is dropped.
#[derive(Debug)]
pub struct IdleWorker {
    worker: Worker,
    sandbox: Sandbox,
}

impl IdleWorker {
    /// Waits until the worker is ready.
    fn new(mut worker: Worker) -> Result<IdleWorker, ProcessError> {
        if !worker.link.wait(Some(READY_LIMIT)).map_err(host("waiting for a new process"))? {
            let text = format!("it was not ready within {READY_LIMIT:?}");
            return Err(ProcessError::Refused(text));
        }
        let heard = loop {
            match worker.receive()? {
                Some(WorkerMessage::Message(Message::Stderr)) => {}
                heard => break heard,
            }
        };
        match heard {
            Some(WorkerMessage::Ready(mut sandbox)) => {
                sandbox.cgroup = worker.leaf.as_ref().map_or(sandbox.cgroup, WorkerCgroup::describe);
                Ok(IdleWorker { worker, sandbox })
            }
            Some(WorkerMessage::Refused(why)) => Err(ProcessError::Refused(why)),
            Some(WorkerMessage::Message(Message::Died(death))) => Err(ProcessError::Refused(death.failure().message)),
            Some(WorkerMessage::Message(_)) | None => Err(ProcessError::Refused("it spoke out of turn".to_owned())),
        }
    }

    /// What it has given up.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.worker.pid
    }

    /// Whether it still waits. One that has ended was killed, which the spawner may not have told yet; one that has something
    /// to say is not what it should be.
    pub fn is_waiting(&self) -> bool {
        let mut both =
            [self.worker.link.as_fd(), self.worker.pidfd.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        poll(&mut both, PollTimeout::ZERO) == Ok(0)
    }

    /// Gives it its one job.
    pub fn assign(mut self, job: &Job) -> Result<Running, ProcessError> {
        let plan = job.workflow.plan();
        self.worker.plan = Some(plan.clone());
        if let Some(leaf) = &mut self.worker.leaf {
            leaf.limit(plan).map_err(host("limiting the memory of a process"))?;
            self.sandbox.cgroup = leaf.describe();
        }
        // An idle worker that was killed in the meantime is told of as any other death.
        match job.send(&self.worker.link) {
            Err(ProcessError::Host { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {}
            other => other?,
        }
        Ok(Running { worker: self.worker, sandbox: self.sandbox })
    }
}

/// A process that does a job. It ends, wherever it is, when this is dropped.
#[derive(Debug)]
pub struct Running {
    worker: Worker,
    sandbox: Sandbox,
}

impl Running {
    /// The next message, if there is one now. A worker that sends what it should not is killed, and told of as dead.
    /// After [`Message::Died`] there is none.
    pub fn next_message(&mut self) -> Result<Option<Message>, ProcessError> {
        match self.worker.receive()? {
            None => Ok(None),
            Some(WorkerMessage::Message(Message::Ended { mut report, outputs })) => {
                report.sandbox = Some(self.sandbox.clone());
                Ok(Some(Message::Ended { report, outputs }))
            }
            Some(WorkerMessage::Message(message)) => Ok(Some(message)),
            Some(WorkerMessage::Ready(_) | WorkerMessage::Refused(_)) => {
                Ok(Some(Message::Died(self.worker.protocol_violation("it spoke out of turn"))))
            }
        }
    }

    /// Whether [`Running::next_message`] may take a while: it has many megabytes to read, and not only a few bytes. Each call reads
    /// one message.
    pub fn next_is_long(&self) -> bool {
        self.worker.link.next_is_spilled()
    }

    /// Waits until there is a message; false if that takes longer than `limit`.
    pub fn wait(&self, limit: Option<Duration>) -> Result<bool, ProcessError> {
        if self.worker.dead {
            return Ok(true);
        }
        self.worker.link.wait(limit).map_err(host("waiting for a workflow"))
    }

    /// Ends the process at once. [`Message::Died`] comes soon.
    pub fn kill(&self) {
        self.worker.kill();
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.worker.pid
    }

    /// What it has given up.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }
}

/// Readable when a message waits.
impl AsFd for Running {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.worker.link.as_fd()
    }
}

/// What a worker can say.
enum WorkerMessage {
    Ready(Sandbox),
    Refused(String),
    Message(Message),
}

impl Worker {
    /// What has come, if anything has.
    fn receive(&mut self) -> Result<Option<WorkerMessage>, ProcessError> {
        if self.dead {
            return Ok(None);
        }
        let packet = match self.link.try_receive() {
            Ok(None) => return Ok(None),
            Ok(Some(Some(packet))) => packet,
            Ok(Some(None)) => {
                let death = self.end_of_link();
                return Ok(Some(WorkerMessage::Message(Message::Died(death))));
            }
            Err(error) => {
                let error = error.no_descriptor().map(host("receiving a file")).map_or_else(Ok, Err)?;
                return Ok(Some(WorkerMessage::Message(Message::Died(self.protocol_violation(error)))));
            }
        };
        let heard = match packet.text() {
            Some(_) if !packet.files.is_empty() => Err(LinkError::Malformed("it wrote files".to_owned())),
            Some(text) => self.words.receive(text).map(|()| WorkerMessage::Message(Message::Stderr)),
            None => packet.read::<FromWorker>().and_then(|said| self.understand(said, packet)),
        };
        Ok(Some(heard.unwrap_or_else(|error| WorkerMessage::Message(Message::Died(self.protocol_violation(error))))))
    }

    fn understand(&mut self, said: FromWorker, packet: Packet) -> Result<WorkerMessage, LinkError> {
        let unexpected = |what: &str| LinkError::Malformed(what.to_owned());
        let Packet { files, sender, spilled, .. } = packet;
        if spilled && !matches!(said, FromWorker::Ended { .. }) {
            return Err(unexpected("it is longer than anything but an answer"));
        }
        if !files.is_empty() && !matches!(said, FromWorker::Ended { .. }) {
            return Err(unexpected("it has files that nobody asked for"));
        }
        Ok(WorkerMessage::Message(match said {
            FromWorker::Ready { sandbox, silent } => {
                self.keys_silent = silent;
                return Ok(WorkerMessage::Ready(sandbox));
            }
            FromWorker::Refused(why) => return Ok(WorkerMessage::Refused(why)),
            FromWorker::Notice(notice) => Message::Notice(notice),
            FromWorker::Ended { .. } if self.answered => return Err(unexpected("a second answer")),
            FromWorker::Ended { report, outputs } => {
                let plan = self.plan.as_ref().ok_or_else(|| unexpected("an answer to nothing"))?;
                let outputs = take_outputs(outputs, files, plan)?;
                let report = serde_json::from_slice(&report).map_err(|error| unexpected(&error.to_string()))?;
                self.answered = true;
                Message::Ended { report, outputs }
            }
            FromWorker::Died { status } => match self.reaper {
                Reaper::Spawner(pid) if pid == sender => {
                    let cause = cause_of(status);
                    Message::Died(self.died(cause))
                }
                _ => return Err(unexpected("word of a death from somebody who cannot know")),
            },
        }))
    }

    /// The other end is closed: the process ends, or pretends to.
    fn end_of_link(&mut self) -> Death {
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
        if let (Cause::Signaled(libc::SIGKILL), Some(want)) =
            (&cause, self.leaf.as_ref().and_then(WorkerCgroup::oom_cause))
        {
            cause = match want {
                OomCause::Own(bytes) => Cause::OutOfMemory(Some(bytes)),
                OomCause::Host => Cause::OutOfMemory(None),
            };
        }
        let words = String::from_utf8_lossy(&std::mem::take(&mut self.words.bytes)).into_owned();
        Death::new(cause, self.answered, self.keys_silent, words)
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
        // Its group is free once it has ended, which it may not have yet.
        if let Some(leaf) = self.leaf.take() {
            leaf.free_after(self.pidfd.clone());
        }
    }
}

/// Outputs are taken only if they are the workflow's, each once, and not larger than its slots; files only if they are sealed, so
/// that nobody shortens them while they are read.
fn take_outputs(
    outputs: Vec<(String, Content)>,
    files: Vec<OwnedFd>,
    plan: &Plan,
) -> Result<Vec<(String, Data)>, LinkError> {
    let wrong = |what: &str| LinkError::Malformed(what.to_owned());
    let mut files = files.into_iter();
    let mut room = plan.limits.slots;
    let mut taken: Vec<(String, Data)> = Vec::new();
    for (slot, content) in outputs {
        if !plan.outputs.iter().any(|output| output.slot == slot) || taken.iter().any(|(other, _)| *other == slot) {
            return Err(wrong("an output that is none of the workflow's"));
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

/// What `waitpid` says.
fn cause_of(status: i32) -> Cause {
    if libc::WIFEXITED(status) {
        Cause::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Cause::Signaled(libc::WTERMSIG(status))
    } else {
        Cause::Unknown
    }
}

/// Ends the process behind a descriptor. One that has ended already needs no ending.
fn end(pidfd: &OwnedFd) {
    let _ = pidfd_send_signal(pidfd, Signal::KILL);
}

#[cfg(test)]
mod tests;
