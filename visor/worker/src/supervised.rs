//! A worker process, as its supervisor sees it: its channel, its exit status, and what it may send now.

use crate::cgroup::{OomCause, WorkerCgroup};
use crate::error::{ProcessError, host};
use crate::exit_status::{Cause, Death};
use crate::job::Job;
use crate::memory::Gauge;
use crate::message::{Message, SuspendedRun, WorkerMessage, suspended_run, take_outputs};
use crate::post::Unanswered;
use crate::protocol::{FromWorker, WorkerChannel};
use crate::sent::{decode_few, read_sent};
use crate::slot_memory::SlotMemory;
use monohull_domain::may_be_published;
use monohull_engine::Ready;
use monohull_ipc as ipc;
use monohull_ipc::ChannelError;
use monohull_report::RunReport;
use monohull_workflow::Plan;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use rustix::process::{Signal, pidfd_send_signal};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};

/// The most bytes of a worker's standard error that are kept.
pub(crate) const STDERR_TAIL_MAX: usize = 4096;
/// The most packets in which they arrive. Code that panics or aborts sends some dozens.
pub(crate) const STDERR_PIECES_MAX: usize = 4096;

/// A worker process, as its supervisor sees it.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) channel: WorkerChannel,
    /// Shared with the worker's control group, which is used again after the end of the process.
    pub(crate) pidfd: Arc<OwnedFd>,
    pub(crate) pid: i32,
    pub(crate) reaper: Reaper,
    /// The worker's own control group, if it has one.
    pub(crate) cgroup: Option<WorkerCgroup>,
    /// What came of looking at the next message, which has not been read yet.
    pub(crate) received: Option<Result<Option<Option<ipc::Packet<FromWorker>>>, ChannelError>>,
    pub(crate) stderr: StderrTail,
    /// Faults end the process without a report: keys are in force, and neither the kernel nor a tracer opens them.
    pub(crate) keys_silent: bool,
    /// The workflow it was assigned. An answer with other outputs, or larger ones, is a protocol violation.
    pub(crate) plan: Option<Arc<Plan>>,
    /// It may answer with a continuation.
    pub(crate) suspendable: bool,
    /// Whether it stays after that.
    pub(crate) residence: Residence,
    /// Whether it may send captures while it goes on.
    pub(crate) captures: Captures,
    /// It may send events to other invocations.
    pub(crate) sends: bool,
    /// It may be sent events while it runs.
    pub(crate) listens: bool,
    /// Those that were sent have not been acknowledged.
    pub(crate) unanswered: Unanswered,
    /// It has got a continuation.
    pub(crate) continues: bool,
    /// Bytes of the memory that it goes on with: they are freed with it, unless another process has that memory as well.
    pub(crate) rest: u64,
    pub(crate) answered: bool,
    pub(crate) stay: Stay,
    /// Where large inputs and outputs are of one that stays.
    pub(crate) memory: Option<SlotMemory>,
    pub(crate) dead: bool,
}

/// Whether a worker sends captures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Captures {
    /// It was not asked to.
    Never,
    /// It may send one.
    Next,
    /// It has, and must be answered first.
    Unanswered,
}

/// Whether a worker stays with a workflow that only waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Residence {
    /// It was not asked to.
    Never,
    /// It may.
    May,
    /// It does.
    Stays,
    /// It has been ordered to go on.
    Ordered,
}

/// Whether a worker takes another job after its answer.
#[derive(Clone, Debug, Default)]
pub(crate) enum Stay {
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
pub(crate) struct StderrTail {
    pub(crate) bytes: Vec<u8>,
    pub(crate) pieces: usize,
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
pub(crate) enum Reaper {
    /// This process, which is the parent.
    Here,
    /// The spawner with this process id.
    Spawner(i32),
}

impl Worker {
    /// Sends a job, and the workflow unless the worker has it.
    pub(crate) fn send(&mut self, job: &Job, has_workflow: bool) -> Result<(), ProcessError> {
        let stays = job.stay && job.may_stay();
        self.stay = if stays { Stay::Asked(Arc::downgrade(&job.workflow)) } else { Stay::No };
        if stays && !has_workflow && job.has_slots() {
            // Without it each large slot takes a file of its own.
            self.memory = SlotMemory::new().inspect_err(|error| tracing::warn!(%error, "no memory for slots")).ok();
        }
        // A worker that was killed in the meantime is reported as dead later, as any other.
        match job.send(&self.channel, has_workflow, self.memory.as_mut()) {
            Err(ProcessError::Host { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// What tells its memory. `shared`: bytes that it has in common with this process, and that are freed with it.
    pub(crate) fn gauge(&self, shared: u64) -> Gauge {
        let spawner = match self.reaper {
            Reaper::Spawner(pid) => Some(pid),
            Reaper::Here => None,
        };
        let account = self.cgroup.as_ref().and_then(WorkerCgroup::account);
        Gauge::new(self.pid, account, spawner, shared)
    }

    /// Whether it lives and says nothing.
    pub(crate) fn is_silent(&self) -> bool {
        let mut both = [self.channel.as_fd(), self.pidfd.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        poll(&mut both, PollTimeout::ZERO) == Ok(0)
    }

    /// The next message, if there is one now.
    pub(crate) fn receive(&mut self) -> Result<Option<WorkerMessage>, ProcessError> {
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
            Err(error) => return self.unusable(error).map(Some),
        };
        let message = match packet.text() {
            Some(_) if !packet.files.is_empty() => {
                Err(ChannelError::Malformed("it has sent files with a text".to_owned()))
            }
            Some(text) => self.stderr.receive(text).map(|()| WorkerMessage::Message(Message::Stderr)),
            None => packet.read().and_then(|message| self.interpret(message, packet)),
        };
        message.or_else(|error| self.unusable(error)).map(Some)
    }

    /// What becomes of a message that cannot be used: an error of the host, or the end of the process that has sent it.
    fn unusable(&mut self, error: ChannelError) -> Result<WorkerMessage, ProcessError> {
        match error.of_host() {
            Ok(error) => Err(host("receiving a message of a workflow's process")(error)),
            Err(error) => Ok(WorkerMessage::Message(Message::Died(self.protocol_violation(error)))),
        }
    }

    fn interpret(
        &mut self,
        message: FromWorker,
        packet: ipc::Message<FromWorker>,
    ) -> Result<WorkerMessage, ChannelError> {
        let unexpected = |what: &str| ChannelError::Malformed(what.to_owned());
        let ipc::Message { mut files, sender, spilled, .. } = packet;
        // Reports are long, and so is the list of what many threads wait for.
        let is_answer = matches!(
            message,
            FromWorker::Ended { .. }
                | FromWorker::Done { .. }
                | FromWorker::Suspended { .. }
                | FromWorker::Captured { .. }
        );
        if spilled && !is_answer {
            return Err(unexpected("only an answer may be that long"));
        }
        if !files.is_empty() && !is_answer {
            return Err(unexpected("only an answer may have files"));
        }
        let has_sent = matches!(
            message,
            FromWorker::Ended { sent: true, .. }
                | FromWorker::Suspended { sent: true, .. }
                | FromWorker::Captured { sent: true, .. }
        );
        let few = match &message {
            FromWorker::Suspended { few, .. } => &few[..],
            _ => &[],
        };
        let sent = match has_sent {
            _ if (has_sent || !few.is_empty()) && !self.sends => {
                return Err(unexpected("events for others, which it may not send"));
            }
            true => read_sent(&files.pop().ok_or_else(|| unexpected("the events that it has sent are missing"))?)?,
            false => decode_few(few)?,
        };
        Ok(WorkerMessage::Message(match message {
            FromWorker::Ready { sandbox, silent } => {
                self.keys_silent = silent;
                return Ok(WorkerMessage::Ready(sandbox));
            }
            FromWorker::Refused(why) => return Ok(WorkerMessage::Refused(why)),
            FromWorker::Notice(notice) => Message::Notice(notice),
            FromWorker::Ended { .. } | FromWorker::Done { .. } if self.answered => {
                return Err(unexpected("a second answer"));
            }
            FromWorker::Done { report, outputs, clean } => {
                let plan = self.plan.as_ref().ok_or_else(|| unexpected("an answer to nothing"))?;
                let outputs = take_outputs(outputs, files, plan, self.memory.as_mut())?;
                self.answered = true;
                if clean {
                    self.is_reset()?;
                }
                return Ok(WorkerMessage::Done(report, outputs));
            }
            FromWorker::Ended { report, outputs, .. } => {
                let plan = self.plan.as_ref().ok_or_else(|| unexpected("an answer to nothing"))?;
                let outputs = take_outputs(outputs, files, plan, self.memory.as_mut())?;
                let mut report: Box<RunReport> =
                    serde_json::from_slice(&report).map_err(|error| unexpected(&error.to_string()))?;
                if !may_be_published(&report.published) {
                    return Err(unexpected("more than a workflow may publish"));
                }
                report.sent = sent;
                self.answered = true;
                if !report.is_without_failure() {
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
            FromWorker::Suspended { stays: true, .. } if self.residence != Residence::May => {
                return Err(unexpected("that it stays, which was not asked for"));
            }
            FromWorker::Suspended { waits, until, events_taken, published, stays, .. } => {
                let run = suspended_run(files, waits, until, (events_taken, published, sent))?;
                self.answered = true;
                self.residence = if stays { Residence::Stays } else { Residence::Never };
                Message::Suspended(SuspendedRun { stays, ..run })
            }
            FromWorker::WentOn { .. } if self.residence != Residence::Ordered => {
                return Err(unexpected("an answer to no order"));
            }
            FromWorker::WentOn { goes_on } => {
                self.answered = !goes_on;
                self.residence = if goes_on { Residence::May } else { Residence::Never };
                Message::WentOn(goes_on)
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
            FromWorker::Clean => {
                self.is_reset()?;
                Message::Clean
            }
            FromWorker::Died { status } => match self.reaper {
                Reaper::Spawner(pid) if pid == sender => {
                    let cause = cause_of(status);
                    Message::Died(self.died(cause))
                }
                _ => return Err(unexpected("an exit status that the spawner has not sent")),
            },
        }))
    }

    /// It says that it has reset itself.
    fn is_reset(&mut self) -> Result<(), ChannelError> {
        match (std::mem::take(&mut self.stay), self.answered) {
            (Stay::Asked(workflow), true) => {
                self.stay = Stay::Clean(workflow);
                Ok(())
            }
            _ => Err(ChannelError::Malformed("a reset that was not asked for".to_owned())),
        }
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

    pub(crate) fn protocol_violation(&mut self, how: impl ToString) -> Death {
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

    pub(crate) fn kill(&self) {
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
pub(crate) fn end(pidfd: &OwnedFd) {
    let _ = pidfd_send_signal(pidfd, Signal::KILL);
}
