//! The states of a worker: it waits for its first job, runs one, or has been reset and waits for another of the same workflow.
//!
//! ```text
//! IdleWorker ── assign ──▶ Running ── into_clean ──▶ CleanWorker
//!                             ▲                           │
//!                             └────────── assign ─────────┘
//! ```

use crate::cgroup::WorkerCgroup;
use crate::error::{ProcessError, host};
use crate::job::{self, Data, Job};
use crate::memory::{self, Gauge};
use crate::message::{Message, WorkerMessage};
use crate::packed_report::PackedReport;
use crate::post::Post;
use crate::protocol::ToWorker;
use crate::sent::short_or_sealed;
use crate::slot_memory::SlotMemory;
use crate::supervised::{Captures, Residence, Stay, Worker};
use crate::template::JobTemplate;
use monohull_domain::checkpoint::GoOn;
use monohull_engine::{Event, Ready};
use monohull_ipc::sealed::sealed_size;
use monohull_report::Sandbox;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a worker may take from its fork until it is ready. It takes well under a millisecond. An error is better than a
/// longer wait on a host that is so busy.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// A worker that waits for a job. Its process ends when this is dropped.
#[derive(Debug)]
pub struct IdleWorker {
    pub(crate) worker: Worker,
    sandbox: Sandbox,
}

impl IdleWorker {
    /// Waits until the worker is ready.
    pub(crate) fn new(mut worker: Worker) -> Result<IdleWorker, ProcessError> {
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
            Some(WorkerMessage::Message(_) | WorkerMessage::Done(..)) | None => {
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
        self.worker.suspendable = job.suspend.is_some() || matches!(job.template, JobTemplate::Make(_));
        self.worker.residence = residence_of(job);
        self.worker.captures = if job.goes_on { Captures::Next } else { Captures::Never };
        self.worker.sends = job.sends;
        self.worker.listens = job.may_listen();
        self.worker.continues = job.continuation.is_some() || !job.template.templates().is_empty();
        self.worker.rest = job.continuation.as_ref().and_then(|rest| sealed_size(&rest.memory).ok()).unwrap_or(0);
        if let Some(group) = limit_memory(&mut self.worker, job)? {
            self.sandbox.cgroup = group;
        }
        self.worker.send(job, false)?;
        Ok(Running { worker: self.worker, sandbox: Arc::new(self.sandbox), before: 0 })
    }
}

/// Readable when a message waits.
impl AsFd for IdleWorker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.worker.channel.as_fd()
    }
}

/// A worker that has served jobs of one workflow, has been reset, and waits for another one. Its process ends when this is dropped.
#[derive(Debug)]
pub struct CleanWorker {
    pub(crate) worker: Worker,
    sandbox: Arc<Sandbox>,
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

    /// The workflow that it serves, if that exists still.
    pub fn workflow(&self) -> Option<Arc<Ready>> {
        self.workflow.upgrade()
    }

    /// Which version of which workflow it serves: a number that no other has meanwhile.
    pub fn version(&self) -> usize {
        self.workflow.as_ptr().addr()
    }

    /// What tells its memory, also without this at hand. What it has for large slots counts, too.
    pub fn gauge(&self) -> Gauge {
        let slots = self.worker.memory.as_ref().map_or(0, SlotMemory::bytes);
        self.worker.gauge(slots)
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
        self.worker.continues = !job.template.templates().is_empty();
        self.worker.suspendable = job.suspend.is_some() || matches!(job.template, JobTemplate::Make(_));
        self.worker.residence = residence_of(job);
        self.worker.sends = job.sends;
        // A template may have been made since the job before.
        if let Some(group) = limit_memory(&mut self.worker, job)?
            && group != self.sandbox.cgroup
        {
            Arc::make_mut(&mut self.sandbox).cgroup = group;
        }
        self.worker.send(job, true)?;
        Ok(Running { worker: self.worker, sandbox: self.sandbox, before: self.served })
    }
}

/// Limits the memory of a worker's control group to what this job may use: a description of the group, if it has one.
fn limit_memory(worker: &mut Worker, job: &Job) -> Result<Option<String>, ProcessError> {
    let Some(cgroup) = &mut worker.cgroup else { return Ok(None) };
    // A capture on its way: as it was made, and as sealed memory.
    let copies = match job.template {
        _ if job.goes_on => 2,
        JobTemplate::Make(_) => 2,
        JobTemplate::From(_) => 1,
        JobTemplate::No => 0,
    };
    cgroup.limit(job.workflow.plan(), copies).map_err(host("limiting the memory of a process"))?;
    Ok(Some(cgroup.describe()))
}

/// Whether a worker may have another job after these outputs. Files stay charged to the control group of the process that made them, for as long as
/// a client reads them or they are remembered: its next jobs would have so much less memory.
fn may_stay_after(has_group: bool, outputs: &[(String, Data)]) -> bool {
    !has_group || outputs.iter().all(|(_, data)| matches!(data, Data::Bytes(_)))
}

/// Whether a worker may stay with a job that only waits.
fn residence_of(job: &Job) -> Residence {
    if job.may_be_resident() || job.is_confirmed() { Residence::May } else { Residence::Never }
}

/// A worker with a job. Its process ends at once when this is dropped.
#[derive(Debug)]
pub struct Running {
    pub(crate) worker: Worker,
    pub(crate) sandbox: Arc<Sandbox>,
    /// How many jobs it has served before this one.
    pub(crate) before: u64,
}

impl Running {
    /// The next message, if there is one now. A worker that violates the protocol is killed and reported as dead. After
    /// [`Message::Died`] there is none.
    pub fn next_message(&mut self) -> Result<Option<Message>, ProcessError> {
        match self.worker.receive()? {
            None => Ok(None),
            Some(WorkerMessage::Message(Message::Ended { mut report, outputs })) => {
                report.sandbox = Some(Sandbox::clone(&self.sandbox));
                report.process = None;
                Ok(Some(Message::Ended { report, outputs }))
            }
            Some(WorkerMessage::Done(report, outputs)) => match PackedReport::receive(report, self.sandbox.clone()) {
                Ok(report) => Ok(Some(Message::Done { report, outputs })),
                Err(error) => Ok(Some(Message::Died(self.worker.protocol_violation(error)))),
            },
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

    /// Whether it may have another job after an answer with these outputs.
    pub fn may_stay_after(&self, outputs: &[(String, Data)]) -> bool {
        may_stay_after(self.worker.cgroup.is_some(), outputs)
    }

    /// Whether it has reset itself: after [`Message::Clean`], and after a [`Message::Done`] that says so.
    pub fn is_clean(&self) -> bool {
        matches!(self.worker.stay, Stay::Clean(_))
    }

    /// The worker when it [has reset itself](Self::is_clean); `None` at any other time, and if it has written to its standard error:
    /// whatever it says there is about something that went wrong.
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

    /// Whether its process stays with a workflow that waits, and nothing has come of it since.
    pub fn is_resident(&self) -> bool {
        self.worker.residence == Residence::Stays && self.worker.is_silent()
    }

    /// The processor time of its process so far, in ticks of 10 ms; 0 if it has ended.
    pub fn processor_ticks(&self) -> u64 {
        memory::processor_ticks(self.worker.pid)
    }

    /// Bytes of memory that its process has for itself, and that are free when it ends. 0 if it has ended.
    pub fn private_memory(&self) -> u64 {
        self.gauge().private_memory()
    }

    /// What tells that, and the processor time, also without this at hand.
    pub fn gauge(&self) -> Gauge {
        self.worker.gauge(self.worker.rest)
    }

    /// Lets a workflow go on whose process has stayed. [`Message::WentOn`] says whether it does. False if the order cannot be given: the
    /// process has ended, for one.
    pub fn go_on(&mut self, order: &GoOn) -> Result<bool, ProcessError> {
        if self.worker.residence != Residence::Stays {
            return Ok(false);
        }
        let GoOn { lineage, keeps_deadline, may_leave, events } = order;
        let encoded = job::encode_events(events).and_then(short_or_sealed);
        let (few, attached) = encoded.map_err(host("passing on events"))?;
        let files: Vec<_> = attached.iter().map(AsFd::as_fd).collect();
        let events = attached.is_some();
        let (lineage, keeps_deadline, may_leave) = (*lineage, *keeps_deadline, *may_leave);
        let order = ToWorker::GoOn { lineage, keeps_deadline, may_leave, events, few };
        let sent = match self.worker.channel.try_send(&order, &files) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => false,
            sent => sent.map_err(host("ordering a process to go on"))?,
        };
        if sent {
            self.worker.residence = Residence::Ordered;
            // From here on it is a process of this workflow's run alone, and gets the events that arrive.
            (self.worker.stay, self.worker.listens) = (Stay::No, true);
        }
        Ok(sent)
    }

    /// Tells a workflow that stands still what became of its continuation: its process ends if that is kept, and goes on if it is not. In both cases
    /// there is a [`Message::WentOn`]. False if it cannot be told: the process has ended, for one.
    pub fn confirm(&mut self, kept: Result<(), String>) -> Result<bool, ProcessError> {
        if self.worker.residence != Residence::Stays {
            return Ok(false);
        }
        match self.worker.channel.send(&ToWorker::Confirmed { unkept: kept.err() }, &[]) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            sent => {
                sent.map_err(host("answering a process that stands still"))?;
                self.worker.residence = Residence::Ordered;
                Ok(true)
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use monohull_ipc::sealed::seal;

    #[test]
    fn a_process_with_a_group_of_its_own_does_not_stay_after_outputs_that_are_charged_to_it() {
        let file = || Data::File(seal(b"x", 0).expect("memory"));
        let named = |data: Vec<Data>| data.into_iter().map(|data| ("out".to_owned(), data)).collect::<Vec<_>>();
        let of_server = named(vec![Data::Bytes(vec![0; 100])]);
        let of_process = named(vec![Data::Bytes(Vec::new()), file()]);
        let stays = [false, true]
            .map(|has_group| [&Vec::new(), &of_server, &of_process].map(|outputs| may_stay_after(has_group, outputs)));
        assert_eq!(stays, [[true; 3], [true, true, false]]);
    }
}
