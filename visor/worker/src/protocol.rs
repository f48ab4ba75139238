//! Messages between supervisor, spawner and workers. Each goes over a [`Channel`].
//!
//! ```text
//! supervisor ── Files*, Job ──▶ worker            worker ── Ready | Refused, then Notice*, Ended | Done, (Clean) ──▶ supervisor
//!               Job ──▶ worker, after Clean       worker ── Notice*, Ended | Done, (Clean) ──▶ supervisor
//!               Kept ──▶ worker, after Captured   worker ── Captured, before another one not until Kept ──▶ supervisor
//!               Events ──▶ worker that listens    worker ── EventsTaken, before which there are no others ──▶ supervisor
//!               GoOn, Confirmed ──▶ worker that stays     worker ── Suspended, which says that it stays; WentOn ──▶ supervisor
//! supervisor ── Fork ──▶ spawner ── Forked ──▶ supervisor        spawner ── Died ──▶ supervisor
//! ```
//!
//! Standard error of a worker is the same socket: what is written there arrives as a text.
//!
//! Messages of a worker are trusted only as far as they are about the worker itself: its own report and its own output.

use super::template::WireTemplate;
use monohull_domain::checkpoint::{Lineage, Wait};
use monohull_engine::Latest;
use monohull_ipc::Channel;
use monohull_network::Addresses;
use monohull_report::{Sandbox, Stream};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The end of a worker's channel that is above the worker.
pub(super) type WorkerChannel = Channel<ToWorker, FromWorker>;
/// The worker's end.
pub(super) type SupervisorChannel = Channel<FromWorker, ToWorker>;
/// The end of the spawner's channel that is above the spawner.
pub(super) type SpawnerChannel = Channel<ToSpawner, FromSpawner>;
/// The spawner's end.
pub(super) type ControlChannel = Channel<FromSpawner, ToSpawner>;

/// Bytes in a message, or in a file that is attached to it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Content {
    /// Here.
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// In the next of the attached files.
    Attached,
    /// The next so many bytes of the memory for inputs, or for outputs, that the process has ([`SlotMemory`](super::slot_memory)).
    Recycled(u64),
}

/// The most output slots of an answer. They are compared with the workflow's later.
const OUTPUTS_MAX: usize = 1 << 16;

/// Decodes a list whose entries take many times the memory that they take in a message.
fn not_too_many<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<(String, Content)>, D::Error> {
    struct Few;
    impl<'d> Visitor<'d> for Few {
        type Value = Vec<(String, Content)>;

        fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(to, "at most {OUTPUTS_MAX} outputs")
        }

        fn visit_seq<A: SeqAccess<'d>>(self, mut from: A) -> Result<Self::Value, A::Error> {
            let mut list = Vec::new();
            while let Some(output) = from.next_element()? {
                if list.len() == OUTPUTS_MAX {
                    return Err(A::Error::invalid_length(OUTPUTS_MAX + 1, &self));
                }
                list.push(output);
            }
            Ok(list)
        }
    }
    from.deserialize_seq(Few)
}

/// To a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToWorker {
    /// Files of the job that comes next, more than fit into one message.
    Files,
    /// The job. Its files: the images, the memory for large slots, then the inputs that are attached, then those of file systems, epoll and
    /// the network.
    Job(Box<WireJob>),
    /// The answer to [`FromWorker::Captured`].
    Kept {
        /// Whether it is kept now. If not, it is as if it had not been made.
        kept: bool,
        /// Whether the next one is to have all pages, and not only those that have changed since this one.
        whole: bool,
        /// Whether events that have come since are attached.
        events: bool,
    },
    /// Events for the workflow that runs; attached.
    Events,
    /// A workflow that has stayed after [`FromWorker::Suspended`] goes on.
    GoOn {
        /// Where its run stands now.
        lineage: Lineage,
        /// Whether its time is up when it was to be.
        keeps_deadline: bool,
        /// Whether its next continuation may leave out what is as in the last one.
        may_leave: bool,
        /// Whether its mailbox is attached.
        events: bool,
        /// Otherwise the mailbox: that is short.
        #[serde(with = "serde_bytes")]
        few: Vec<u8>,
    },
    /// What became of the continuation of a workflow that stands still for this answer.
    Confirmed {
        /// Why it is not kept: then the workflow goes on. If it is kept, the process ends.
        unkept: Option<String>,
    },
}

/// All of one invocation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireJob {
    /// Whether the memory for large inputs and outputs is attached, behind the images: with a first job after which the process stays.
    pub(super) memory: bool,
    /// Input slots.
    pub(super) inputs: Vec<(String, Content)>,
    /// How many files there are for file systems; attached behind the inputs.
    pub(super) files: u32,
    /// Whether epoll instances for sockets and mapped files are attached behind those ([`EpollSet`](monohull_domain::EpollSet)).
    pub(super) epoll_set: bool,
    /// Load all libos modules at the start.
    pub(super) load_all: bool,
    /// When the invocation was requested, and when this message was sent (monotonic ns).
    pub(super) requested_ns: u64,
    /// See `requested_ns`.
    pub(super) dispatched_ns: u64,
    /// When it has to end, if that is before its own timeout.
    pub(super) latest: Option<Latest>,
    /// Send a notice of each line as it is printed.
    pub(super) lines: bool,
    /// Send notices of steps, instances and points in time as they happen.
    pub(super) progress: bool,
    /// If the workflow only waits, and for at least so many ns, it is to end with its continuation.
    pub(super) suspend_ns: Option<u64>,
    /// After so many ns it is to come to rest wherever it is, and end with its continuation.
    pub(super) halt_ns: Option<u64>,
    /// If the workflow only waits for a time, its clock is moved there.
    pub(super) skip_time: bool,
    /// The id of the invocation.
    pub(super) invocation: String,
    /// What the version before has handed over.
    pub(super) handed_over: String,
    /// What begins addresses by which clients reach the server.
    pub(super) public_url: String,
    /// Then it goes on after all, and sends [`FromWorker::Captured`], again and again.
    pub(super) goes_on: bool,
    /// If it only waits it stays, and waits for [`ToWorker::GoOn`].
    pub(super) resident: bool,
    /// If it only waits it stands still until [`ToWorker::Confirmed`].
    pub(super) confirmed: bool,
    /// Events for other invocations are passed on.
    pub(super) sends: bool,
    /// [`ToWorker::Events`] may come while it runs.
    pub(super) listens: bool,
    /// What an earlier part of the run has published.
    pub(super) published: BTreeMap<String, String>,
    /// A continuation to go on with is attached, behind the epoll instances: with this lineage, and captured so many ns later.
    pub(super) continuation: Option<(Option<Lineage>, i64)>,
    /// A socket is attached, behind the continuation, over which it is given pages that are not in that; and whether those that it has not asked for
    /// may be left out of its next continuation.
    pub(super) later: Option<bool>,
    /// Whether events are attached, behind both.
    pub(super) events: bool,
    /// What it has to do with templates.
    pub(super) template: WireTemplate,
    /// If the workflow ends as done, the process waits for another job of it.
    pub(super) stay: bool,
    /// The addresses of the workflow's device, if it has one.
    pub(super) addresses: Option<Box<Addresses>>,
    /// The workflow, packed; empty for that of the job before. It may be most of the message, so nothing comes behind it: what grows further is copied.
    #[serde(with = "serde_bytes")]
    pub(super) workflow: Vec<u8>,
}

/// From a worker, and from the spawner about it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromWorker {
    /// It waits for a job.
    Ready {
        /// The sandbox that is in force.
        sandbox: Sandbox,
        /// Faults end the process without a report: keys are in force, and neither the kernel nor a tracer opens them.
        silent: bool,
    },
    /// It cannot take a job, for this reason.
    Refused(String),
    /// Progress or output while the workflow runs.
    Notice(Notice),
    /// The workflow has ended.
    Ended {
        /// The report as JSON: the document for people.
        #[serde(with = "serde_bytes")]
        report: Vec<u8>,
        /// The output slots; those that are not here are attached.
        #[serde(deserialize_with = "not_too_many")]
        outputs: Vec<(String, Content)>,
        /// Whether events for other invocations are attached, behind the outputs.
        sent: bool,
    },
    /// The workflow only waits. Attached: the rest of it, in sealed memory.
    Suspended {
        /// What for.
        waits: Vec<Wait>,
        /// When it has to go on (ns since 1970), unless nothing happens by itself.
        until: Option<u64>,
        /// The numbers of the events that it has taken.
        events_taken: Vec<u64>,
        /// What the workflow has published.
        published: BTreeMap<String, String>,
        /// Whether events for other invocations are attached, behind the continuation.
        sent: bool,
        /// Otherwise these, if there are some: they are short.
        #[serde(with = "serde_bytes")]
        few: Vec<u8>,
        /// Whether the process stays with it, and nothing happens there until [`ToWorker::GoOn`].
        stays: bool,
    },
    /// The answer to [`ToWorker::GoOn`] and [`ToWorker::Confirmed`].
    WentOn {
        /// Whether the workflow goes on as ordered. If not, its process is of no more use.
        goes_on: bool,
    },
    /// What [`FromWorker::Suspended`] would have, of a workflow that goes on.
    Captured {
        /// What it waited for.
        waits: Vec<Wait>,
        /// When it would have to go on.
        until: Option<u64>,
        /// The numbers of the events that it had taken since the last one that was kept.
        events_taken: Vec<u64>,
        /// What the workflow had published.
        published: BTreeMap<String, String>,
        /// Whether events for other invocations are attached, behind the continuation.
        sent: bool,
    },
    /// [`ToWorker::Events`] have come, and others may.
    EventsTaken,
    /// The continuation that came with the job cannot be gone on with.
    Unfit {
        /// What is wrong with it.
        why: String,
    },
    /// Nothing of the last job is left, and it waits for the next one.
    Clean,
    /// From the spawner alone: the process has been reaped with this status, as `waitpid` gives it.
    Died {
        /// See above.
        status: i32,
    },
    /// The workflow has ended as done, and there is nothing unusual about it.
    Done {
        /// The report, packed.
        #[serde(with = "serde_bytes")]
        report: Vec<u8>,
        /// As [`FromWorker::Ended`] has them.
        #[serde(deserialize_with = "not_too_many")]
        outputs: Vec<(String, Content)>,
        /// The same as [`FromWorker::Clean`] behind it.
        clean: bool,
    },
}

/// Progress or output of a workflow while it runs, as far as it was asked for.
#[derive(Debug, Serialize, Deserialize)]
pub enum Notice {
    /// A moment of its timeline.
    Point {
        /// What happened.
        name: String,
        /// When: CLOCK_MONOTONIC, in ns.
        at_ns: u64,
    },
    /// A function has printed a line.
    Line {
        /// The step.
        step: String,
        /// The instance.
        instance: u32,
        /// Where to.
        stream: Stream,
        /// The line without its end.
        text: String,
    },
    /// A step starts.
    StepStarted {
        /// Which.
        step: String,
        /// With so many instances.
        instances: u32,
    },
    /// An instance has ended for good.
    InstanceEnded {
        /// The step.
        step: String,
        /// The instance.
        instance: u32,
        /// Whether it succeeded.
        ok: bool,
    },
    /// A step has ended.
    StepEnded {
        /// Which.
        step: String,
    },
}

/// To the spawner.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToSpawner {
    /// Fork workers. Its files, for each: the worker's end of its channel, and its control group if each has its own.
    Fork {
        /// Whether each has its own.
        grouped: bool,
    },
}

/// From the spawner.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromSpawner {
    /// It is ready to fork.
    Started,
    /// It is not, for this reason.
    NotStarted(String),
    /// The workers' process ids; attached: a descriptor for each. If there are fewer than requested: the error of the next fork.
    Forked(Vec<i32>, Option<i32>),
}
