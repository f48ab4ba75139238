//! What a worker's supervisor learns from it.

use crate::exit_status::Death;
use crate::job::Data;
use crate::packed_report::PackedReport;
use crate::protocol::{Content, Notice};
use crate::slot_memory::SlotMemory;
use monohull_domain::checkpoint::Wait;
use monohull_ipc as ipc;
use monohull_ipc::ChannelError;
use monohull_report::{Outgoing, RunReport, Sandbox};
use monohull_workflow::Plan;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// A workflow that waits.
#[derive(Debug)]
pub struct SuspendedRun {
    /// The rest of it: a sealed memfd, for [`Job::continuation`](crate::Job::continuation).
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
    /// Its process stays with it, and nothing happens there until [`Running::go_on`](crate::Running::go_on).
    pub stays: bool,
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
    /// The same of a workflow that is done, with nothing unusual in its report.
    Done {
        /// The report.
        report: PackedReport,
        /// The output slots.
        outputs: Vec<(String, Data)>,
    },
    /// The workflow only waits, as it was asked to report. Its process ends by itself now.
    Suspended(SuspendedRun),
    /// The workflow as it was a moment ago. It goes on, and sends another one after [`Running::answer`](crate::Running::answer) at the earliest.
    Captured(SuspendedRun),
    /// A workflow whose process had stayed goes on, as it was [ordered](crate::Running::go_on) to, or it cannot.
    WentOn(bool),
    /// Events that were sent with a [`Post`](crate::Post) have come, and others may be sent.
    EventsTaken,
    /// The continuation that it was to go on with is damaged, or another workflow's. Its process ends by itself now.
    Unfit {
        /// What is wrong with it, as the worker says.
        why: String,
    },
    /// The worker has written to its standard error. [`Death::stderr`] has the text.
    Stderr,
    /// The workflow had ended as done, and the process is ready for another job: [`Running::into_clean`](crate::Running::into_clean).
    Clean,
    /// The process has ended. This is the last message.
    Died(Death),
}

/// A message of a worker in any state.
pub(crate) enum WorkerMessage {
    Ready(Sandbox),
    Refused(String),
    /// A packed report, which has not been read, and the outputs.
    Done(Vec<u8>, Vec<(String, Data)>),
    Message(Message),
}

/// A continuation that has come with a message.
pub(crate) fn suspended_run(
    files: Vec<OwnedFd>,
    waits: Vec<Wait>,
    until: Option<u64>,
    (events_taken, published, sent): (Vec<u64>, BTreeMap<String, String>, Vec<Outgoing>),
) -> Result<SuspendedRun, ChannelError> {
    let not_one = |_| ChannelError::Malformed("not one continuation".to_owned());
    let [continuation] = <[OwnedFd; 1]>::try_from(files).map_err(not_one)?;
    let bytes = ipc::sealed::sealed_size(&continuation)?;
    Ok(SuspendedRun { continuation, bytes, waits, until, events_taken, published, sent, stays: false })
}

/// Accepts outputs that are the workflow's, each once, and together not larger than its slots. Files have to be sealed, so that
/// they cannot be shortened while they are read. What is in the process's memory for outputs is copied, once, and cleared there.
pub(crate) fn take_outputs(
    outputs: Vec<(String, Content)>,
    files: Vec<OwnedFd>,
    plan: &Plan,
    mut memory: Option<&mut SlotMemory>,
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
            Content::Recycled(len) => {
                let Some(memory) = memory.as_mut().filter(|_| len <= room) else {
                    return Err(wrong("an output where it has no room for one"));
                };
                let part = memory.outputs.next(len).ok_or_else(|| wrong("an output where it has no room for one"))?;
                Data::Bytes(memory.outputs.read(part)?)
            }
        };
        let size = match &data {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::File(file) => monohull_ipc::sealed::sealed_size(file)?,
        };
        room = room.checked_sub(size).ok_or_else(|| wrong("its outputs are larger than its slots"))?;
        taken.push((slot, data));
    }
    if let Some(memory) = memory {
        memory.clear_outputs()?;
    }
    match files.next() {
        None => Ok(taken),
        Some(_) => Err(wrong("it has more files than outputs")),
    }
}
