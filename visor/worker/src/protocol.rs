//! What the processes say to each other. Each message is one packet of a [`Link`](super::link::Link).
//!
//! ```text
//! supervisor ── Files*, Job ──▶ worker            worker ── Ready | Refused, then Notice*, Ended ──▶ supervisor
//! supervisor ── Fork ──▶ spawner ── Forked ──▶ supervisor        spawner ── Died ──▶ supervisor
//! ```
//!
//! What a worker writes to its standard error goes the same way, as it is: its last words.
//!
//! What a worker says is believed only as far as it concerns the worker itself: its own report and its own output.
#![deny(unsafe_code)]

use monohull_network::Addresses;
use monohull_report::{Sandbox, Stream};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// Bytes in a message, or in a file that is attached to it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Content {
    /// Here.
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// In the next of the attached files.
    Attached,
}

/// The most output slots of an answer. Which ones a workflow has is looked at later.
const OUTPUTS_MAX: usize = 1 << 16;

/// A list in which each entry takes many times the memory that it takes in a message.
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
    /// What to do. Its files: the images, then the inputs that are attached, then the way to the network.
    Job(WireJob),
}

/// All of one invocation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireJob {
    /// The workflow, packed.
    #[serde(with = "serde_bytes")]
    pub(super) workflow: Vec<u8>,
    /// Input slots.
    pub(super) inputs: Vec<(String, Content)>,
    /// How many files there are that file systems lie in; attached behind the inputs.
    pub(super) files: u32,
    /// Whether what it hears of sockets and mapped files through is attached behind those ([`EpollSet`](monohull_domain::EpollSet)).
    pub(super) epoll_set: bool,
    /// Load all libos modules at the start.
    pub(super) load_all: bool,
    /// When the invocation was asked for, and when this message was sent (monotonic ns).
    pub(super) requested_ns: u64,
    /// See `requested_ns`.
    pub(super) dispatched_ns: u64,
    /// When it has to end (monotonic ns), if that is before its own timeout.
    pub(super) latest_ns: Option<u64>,
    /// Tell of lines as they are printed.
    pub(super) lines: bool,
    /// Tell of steps, instances and points in time as they happen.
    pub(super) progress: bool,
    /// The addresses of the workflow's device, if it has one.
    pub(super) addresses: Option<Box<Addresses>>,
}

/// From a worker, and from the spawner about it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromWorker {
    /// It waits for a job.
    Ready {
        /// What it has given up.
        sandbox: Sandbox,
        /// Nobody will hear of a fault in it: keys are in force, and neither the kernel nor a tracer opens them.
        silent: bool,
    },
    /// It cannot take a job, for this reason.
    Refused(String),
    /// What happens while the workflow runs.
    Notice(Notice),
    /// The workflow has ended.
    Ended {
        /// The report as JSON: the document people see.
        #[serde(with = "serde_bytes")]
        report: Vec<u8>,
        /// The output slots; those that are not here are attached.
        #[serde(deserialize_with = "not_too_many")]
        outputs: Vec<(String, Content)>,
    },
    /// From the spawner alone: the process has been reaped with this status, as `waitpid` gives it.
    Died {
        /// See above.
        status: i32,
    },
}

/// What a workflow tells of while it runs, as far as it is wanted.
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
        /// Whether it did its work.
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
    /// Fork workers. Its files, for each: the worker's end of its link, and its control group if each has its own.
    Fork {
        /// Whether each has.
        grouped: bool,
    },
}

/// From the spawner.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromSpawner {
    /// It is there to fork.
    Started,
    /// It cannot be.
    NotStarted(String),
    /// The workers' process ids; attached: a descriptor for each. Where there are fewer than were asked for: the host's
    /// answer to the next.
    Forked(Vec<i32>, Option<i32>),
}
