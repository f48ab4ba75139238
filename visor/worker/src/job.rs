//! One invocation as data: all that a worker needs, and nothing about its origin.

use super::captured::{read_continuation, read_template};
use super::error::ProcessError;
use super::later_pages::asked_over;
use super::protocol::{Content, SupervisorChannel, ToWorker, WireJob, WorkerChannel};
use super::slot_memory::SlotMemory;
use super::template::JobTemplate;
use monohull_domain::EpollSet;
use monohull_domain::checkpoint::Lineage;
use monohull_domain::host_time::monotonic_ns;
use monohull_engine::mounts::Opened;
use monohull_engine::{Event, HostError, Latest, Ready, RunResources, Source};
use monohull_ipc::channel::FILES_MAX;
use monohull_ipc::later_pages::{self, GivePages};
use monohull_ipc::recycled::RECYCLED_MAX;
use monohull_ipc::sealed::{read_sealed, seal};
use monohull_network::Way;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

/// Slots up to this size are part of messages, larger ones are sealed memory. Most of a message's room is for the plan; a memfd
/// costs some 5 µs, as much as copying this much twice.
pub(super) const INLINE_SLOT: usize = 16 << 10;

/// As many bytes of all inputs, or of all outputs, go through memory that a process keeps which serves one job after the other. For more,
/// files are the better [`Data`].
pub const HELD_MAX: u64 = RECYCLED_MAX;

/// The most bytes of events.
pub(super) const EVENTS_MAX: u64 = 16 << 30;

/// What fills an input slot, or what an output slot held.
#[derive(Debug)]
pub enum Data {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A regular file's content, from its beginning; of an output, a sealed memfd.
    File(OwnedFd),
}

impl Data {
    /// How many bytes it is.
    pub fn size(&self) -> io::Result<u64> {
        match self {
            Data::Bytes(bytes) => Ok(bytes.len() as u64),
            Data::File(file) => Ok(File::from(file.try_clone()?).metadata()?.len()),
        }
    }

    /// The bytes of an output.
    pub fn into_bytes(self) -> io::Result<Vec<u8>> {
        match self {
            Data::Bytes(bytes) => Ok(bytes),
            Data::File(file) => read_sealed(&file, u64::MAX),
        }
    }

    /// All the bytes of an input, from its beginning.
    pub(super) fn whole(&self) -> io::Result<Vec<u8>> {
        match self {
            Data::Bytes(bytes) => Ok(bytes.clone()),
            Data::File(file) => {
                let file = File::from(file.try_clone()?);
                let mut bytes = vec![0; file.metadata()?.len() as usize];
                file.read_exact_at(&mut bytes, 0)?;
                Ok(bytes)
            }
        }
    }
}

impl From<Source> for Data {
    fn from(source: Source) -> Data {
        match source {
            Source::Bytes(bytes) => Data::Bytes(bytes),
            Source::File(file) => Data::File(file.into()),
        }
    }
}

/// The rest of a workflow for one that goes on with it. Several may go on with the same memory: it is sealed, and each has pages of its
/// own where it writes to them.
#[derive(Debug)]
pub struct Rest {
    /// The continuation: a sealed memfd, as [`SuspendedRun`](super::SuspendedRun) has it.
    pub memory: OwnedFd,
    /// Pages that are not in it. They are given when they are touched.
    pub later: Option<Arc<dyn GivePages>>,
    /// Those that it has not touched when it is suspended may be left out of its next continuation.
    pub may_leave: bool,
    /// Which run it is that goes on, if that is another than the continuation says.
    pub lineage: Option<Lineage>,
    /// So many ns are added to the time at which it was captured.
    pub moved: i64,
}

impl From<OwnedFd> for Rest {
    fn from(memory: OwnedFd) -> Rest {
        Rest { memory, later: None, may_leave: false, lineage: None, moved: 0 }
    }
}

/// One invocation of a workflow.
#[derive(Debug)]
pub struct Job {
    /// The workflow, its images checked.
    pub workflow: Arc<Ready>,
    /// Input slots. All of the plan's must be here.
    pub inputs: Vec<(String, Data)>,
    /// What the workflow's file systems lie in, as [`mounts::open`](monohull_engine::mounts::open) gives it.
    pub files: Vec<Opened>,
    /// Load all libos modules at the start instead of each on its first call.
    pub load_all: bool,
    /// When the invocation was requested (CLOCK_MONOTONIC, ns); the report's times count from here.
    pub requested_ns: u64,
    /// When it has to end, if that is before its own timeout: what it waited for counts too.
    pub latest: Option<Latest>,
    /// If the workflow only waits, and for at least this long, it ends with its continuation
    /// ([`Message::Suspended`](super::Message::Suspended)).
    pub suspend: Option<Duration>,
    /// After so long it comes to rest wherever it is, and ends with its continuation.
    pub halt: Option<Duration>,
    /// If the workflow only waits for a time, its clock is moved there.
    pub skip_time: bool,
    /// The id of the invocation.
    pub invocation: String,
    /// What the version before has [handed over](monohull_abi::handed).
    pub handed_over: String,
    /// What begins addresses by which clients reach the server, if it is known.
    pub public_url: String,
    /// It goes on after that, and each time that so long is over again there is a [`Message::Captured`](super::Message::Captured). Each must
    /// be answered ([`Running::answer`](super::Running::answer)) before there is another one.
    pub goes_on: bool,
    /// Events that its functions send to other invocations are passed on, with its continuations and its end.
    pub sends: bool,
    /// Events may come while it runs: [`Running::post`](super::Running::post). Not for one that is captured and goes on, which gets them with
    /// the answers to its captures.
    pub listens: bool,
    /// If it only waits, its process may stay with it, and go on there: [`SuspendedRun::stays`](super::SuspendedRun::stays). Not that of a
    /// workflow with files of the host or with a network.
    pub resident: bool,
    /// If it only waits, it stands still until [`Running::confirm`](super::Running::confirm) says what became of its continuation. Not for one whose
    /// process may stay.
    pub confirmed: bool,
    /// What an earlier part of the run has published.
    pub published: BTreeMap<String, String>,
    /// What to go on with, instead of a run from the beginning.
    pub continuation: Option<Rest>,
    /// Events for functions that wait for them.
    pub events: Vec<Event>,
    /// Whether it makes a template, or instances start from some.
    pub template: JobTemplate,
    /// Whether [`Notice::Line`](super::Notice::Line) is wanted. If not, the report has all lines.
    pub lines: bool,
    /// Whether notices of steps, instances and points in time are sent as they happen. The report has all of them in any case.
    pub progress: bool,
    /// The process stays for another job of the same workflow if this one ends as done. Not for a workflow with files of the host or with
    /// a network, and not after one that goes on from a continuation: [`Job::may_stay`].
    pub stay: bool,
}

impl Job {
    /// A job that was requested now, without notices, and without files of the host.
    pub fn new(workflow: Arc<Ready>, inputs: Vec<(String, Data)>) -> Job {
        let (files, requested_ns) = (Vec::new(), monotonic_ns());
        Job {
            workflow,
            inputs,
            files,
            load_all: false,
            requested_ns,
            latest: None,
            suspend: None,
            halt: None,
            skip_time: false,
            invocation: String::new(),
            handed_over: String::new(),
            public_url: String::new(),
            goes_on: false,
            sends: false,
            listens: false,
            resident: false,
            confirmed: false,
            published: BTreeMap::new(),
            continuation: None,
            events: Vec::new(),
            template: JobTemplate::No,
            lines: false,
            progress: false,
            stay: false,
        }
    }

    /// Whether a process may serve other jobs of the workflow after this one. Connections, brokers and files of the host are the job's
    /// own: they go with its process.
    pub fn may_stay(&self) -> bool {
        let makes_template = matches!(self.template, JobTemplate::Make(_));
        let goes_on = self.halt.is_some() || self.continuation.is_some() || !self.events.is_empty();
        let once = makes_template || self.listens || goes_on;
        !once && self.files.is_empty() && self.workflow.is_self_contained()
    }

    /// Whether its process may stay when it only waits.
    pub(super) fn may_be_resident(&self) -> bool {
        let asked = self.resident && self.suspend.is_some() && !self.goes_on;
        let makes_template = matches!(self.template, JobTemplate::Make(_));
        asked && !makes_template && self.files.is_empty() && self.workflow.is_self_contained()
    }

    /// Whether it stands still until its continuation is kept.
    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed && self.suspend.is_some() && !self.goes_on && !self.may_be_resident()
    }

    /// Whether events may come while it runs.
    pub(super) fn may_listen(&self) -> bool {
        self.listens && !self.goes_on
    }

    /// Whether it has slots that may be large.
    pub(super) fn has_slots(&self) -> bool {
        let plan = self.workflow.plan();
        !plan.inputs.is_empty() || !plan.outputs.is_empty()
    }

    /// Sends the job to a worker, with the workflow and this memory unless the worker has them.
    pub(super) fn send(
        &self,
        channel: &WorkerChannel,
        has_workflow: bool,
        mut memory: Option<&mut SlotMemory>,
    ) -> Result<(), ProcessError> {
        self.template.check(&self.workflow)?;
        let failed = |source| ProcessError::Host { what: "sending a job", source };
        let images = if has_workflow { Vec::new() } else { self.workflow.distinct_images() };
        if let Some(memory) = &mut memory {
            // The worker has cleared those of the last job.
            memory.inputs.forget();
        }
        let (mut inputs, mut made) = (Vec::new(), Vec::new());
        for (slot, data) in &self.inputs {
            let (content, file) = match data {
                Data::Bytes(bytes) if bytes.len() <= INLINE_SLOT => (Content::Bytes(bytes.clone()), None),
                Data::Bytes(bytes) => {
                    let written = memory.as_mut().map(|memory| memory.inputs.write(bytes)).transpose();
                    match written.map_err(failed)? {
                        Some(true) => (Content::Recycled(bytes.len() as u64), None),
                        Some(false) | None => (Content::Attached, Some(seal(bytes, 0).map_err(failed)?)),
                    }
                }
                Data::File(_) => (Content::Attached, None),
            };
            inputs.push((slot.clone(), content));
            made.push(file);
        }
        let mut files: Vec<BorrowedFd<'_>> = images.iter().map(|image| image.sealed()).collect();
        let memory = memory.as_deref().filter(|_| !has_workflow);
        files.extend(memory.map(SlotMemory::files).into_iter().flatten());
        for ((_, data), made) in self.inputs.iter().zip(&made) {
            match (made, data) {
                (Some(file), _) | (None, Data::File(file)) => files.push(file.as_fd()),
                (None, Data::Bytes(_)) => {}
            }
        }
        // Brokers are started now, and no earlier: each ends when the other end is closed.
        let mounts = self.files.iter().map(Opened::hand_over).collect::<io::Result<Vec<_>>>().map_err(failed)?;
        files.extend(mounts.iter().map(AsFd::as_fd));
        let later = self.continuation.as_ref().and_then(|rest| rest.later.clone());
        let later = later.map(later_pages::give).transpose().map_err(failed)?;
        let epoll_set = self.workflow.epoll_set(later.is_some()).map_err(failed)?.map(EpollSet::into_files);
        files.extend(epoll_set.iter().flatten().map(AsFd::as_fd));
        files.extend(self.continuation.iter().map(|rest| rest.memory.as_fd()));
        files.extend(later.iter().map(AsFd::as_fd));
        let events = (!self.events.is_empty()).then(|| seal_events(&self.events)).transpose().map_err(failed)?;
        files.extend(events.iter().map(AsFd::as_fd));
        files.extend(self.template.templates().iter().map(|template| template.file().as_fd()));
        let network = self.workflow.plan().network.open().map_err(HostError::from)?;
        let workflow = match has_workflow {
            true => Vec::new(),
            false => self.workflow.packed().map_err(|error| failed(io::Error::other(error)))?.to_vec(),
        };
        let job = WireJob {
            memory: memory.is_some(),
            inputs,
            files: self.files.len() as u32,
            epoll_set: epoll_set.is_some(),
            load_all: self.load_all,
            requested_ns: self.requested_ns,
            dispatched_ns: monotonic_ns(),
            latest: self.latest,
            suspend_ns: self.suspend.map(|least| least.as_nanos() as u64),
            halt_ns: self.halt.map(|after| after.as_nanos() as u64),
            skip_time: self.skip_time,
            invocation: self.invocation.clone(),
            handed_over: self.handed_over.clone(),
            public_url: self.public_url.clone(),
            goes_on: self.goes_on,
            resident: self.may_be_resident(),
            confirmed: self.is_confirmed(),
            sends: self.sends,
            listens: self.may_listen(),
            published: self.published.clone(),
            continuation: self.continuation.as_ref().map(|rest| (rest.lineage, rest.moved)),
            later: later.as_ref().and(self.continuation.as_ref()).map(|rest| rest.may_leave),
            events: events.is_some(),
            lines: self.lines,
            progress: self.progress,
            template: self.template.wire(),
            stay: self.stay && self.may_stay(),
            addresses: network.addresses.clone(),
            workflow,
        };
        files.extend(network.files.iter().map(AsFd::as_fd));
        let last = files.len() - files.len().min(FILES_MAX);
        for files in files[..last].chunks(FILES_MAX) {
            channel.send(&ToWorker::Files, files).map_err(failed)?;
        }
        channel.send(&ToWorker::Job(Box::new(job)), &files[last..]).map_err(failed)
    }
}

/// What fills an input slot, as its worker receives it.
pub(super) enum Given {
    /// This.
    Data(Data),
    /// These bytes of the process's memory for inputs.
    Recycled(Range<u64>),
}

/// A job as its worker receives it.
pub(super) struct Received {
    /// The workflow, unless it is that of the job before.
    pub(super) workflow: Option<Ready>,
    /// The memory for large inputs and outputs, if it has come with this job.
    pub(super) memory: Option<SlotMemory>,
    pub(super) inputs: Vec<(String, Given)>,
    pub(super) resources: RunResources,
    pub(super) wire: WireJob,
}

impl Received {
    /// Puts a message's parts together again, in a process that may have memory for large slots from an earlier job. The supervisor is
    /// trusted.
    pub(super) fn unpack(
        mut wire: WireJob,
        files: Vec<OwnedFd>,
        earlier: Option<&mut SlotMemory>,
        channel: &Arc<SupervisorChannel>,
    ) -> Result<Received, String> {
        let mut files = files.into_iter();
        let packed = Some(std::mem::take(&mut wire.workflow)).filter(|packed| !packed.is_empty());
        let workflow = packed.map(|packed| Ready::unpack(&packed, &mut files)).transpose();
        let workflow = workflow.map_err(|error| format!("the job: {error}"))?;
        let mut memory = match wire.memory {
            true => match (files.next(), files.next()) {
                (Some(inputs), Some(outputs)) => Some(SlotMemory::of_files([inputs, outputs])),
                _ => return Err("the job lacks a file".to_owned()),
            },
            false => None,
        };
        let mut recycled = memory.as_mut().or(earlier);
        let mut inputs = Vec::new();
        for (slot, content) in std::mem::take(&mut wire.inputs) {
            let given = match content {
                Content::Bytes(bytes) => Given::Data(Data::Bytes(bytes)),
                Content::Attached => Given::Data(Data::File(files.next().ok_or("the job lacks a file")?)),
                Content::Recycled(len) => {
                    let part = recycled.as_mut().and_then(|memory| memory.inputs.next(len));
                    Given::Recycled(part.ok_or("the job has an input where there is no room for it")?)
                }
            };
            inputs.push((slot, given));
        }
        let mounts = (0..wire.files).map(|_| files.next().ok_or("the job lacks a file"));
        let mounts = mounts.collect::<Result<_, _>>()?;
        let epoll_set = if wire.epoll_set { Some([(); EpollSet::COUNT].map(|()| files.next())) } else { None };
        let epoll_set = match epoll_set {
            Some([Some(sockets), Some(userfaults)]) => Some(Arc::new(EpollSet::from_files([sockets, userfaults]))),
            Some(_) => return Err("the job lacks a file".to_owned()),
            None => None,
        };
        let continuation = match wire.continuation {
            Some((lineage, moved)) => {
                let memory = files.next().ok_or("the job lacks a file")?;
                let later = match wire.later {
                    Some(may_leave) => {
                        let socket = files.next().ok_or("the job lacks a file")?;
                        Some((asked_over(socket, channel.clone()), may_leave))
                    }
                    None => None,
                };
                let mut rest = read_continuation(memory, later)?;
                rest.lineage = lineage.unwrap_or(rest.lineage);
                rest.wall = rest.wall.saturating_add_signed(moved);
                Some(rest)
            }
            None => None,
        };
        let events = match wire.events {
            true => read_events(&files.next().ok_or("the job lacks a file")?)?,
            false => Vec::new(),
        };
        let template = wire.template.unpack(|| read_template(files.next().ok_or("the job lacks a file")?))?;
        // The rest are for the network.
        let network = Way { files: files.collect(), addresses: wire.addresses.take() };
        let resources = RunResources { files: mounts, network, epoll_set, continuation, events, template };
        Ok(Received { workflow, memory, inputs, resources, wire })
    }
}

pub(super) fn seal_events(events: &[Event]) -> io::Result<OwnedFd> {
    seal(&encode_events(events)?, 0)
}

pub(super) fn encode_events(events: &[Event]) -> io::Result<Vec<u8>> {
    postcard::to_extend(events, Vec::new()).map_err(io::Error::other)
}

pub(super) fn decode_events(bytes: &[u8]) -> Result<Vec<Event>, String> {
    postcard::from_bytes(bytes).map_err(|error| format!("the events cannot be read: {error}"))
}

pub(super) fn read_events(file: &OwnedFd) -> Result<Vec<Event>, String> {
    decode_events(&read_sealed(file, EVENTS_MAX).map_err(|error| format!("the events: {error}"))?)
}
