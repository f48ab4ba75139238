//! What a worker does with its job: it takes it from the channel, runs it, reports on the way, and answers.

use super::arrivals;
use super::captures::Captures;
use super::job::{Data, Given, INLINE_SLOT, Received};
use super::notices::{Notices, OmittedLines};
use super::packed_report::pack;
use super::protocol::{Content, FromWorker, Notice, SupervisorChannel, ToWorker};
use super::reply;
use super::residence::Resident;
use super::sent::seal_sent;
use super::slot_memory::SlotMemory;
use super::template::WireTemplate;
use super::wiping;
use monohull_domain::checkpoint::{Keeper, Residence, Suspended};
use monohull_domain::host_time::monotonic_ns;
use monohull_domain::{Domain, Inbox, ReservedDomain, TIME_SLICE, keys};
use monohull_engine::{Filling, HostError, Ready, RunContext, RunEnd, Source, WorkflowIo, report_without_run};
use monohull_ipc::channel::BODY_MAX;
use monohull_ipc::sealed::seal;
use monohull_ipc::{ChannelError, Recycled, Room};
use monohull_report::failure::{Blame, FailureKind};
use monohull_report::{Failure, Line, OutputReport, Point, Progress, RunReport, Stream};
use monohull_sys::fork::KEPT;
use monohull_workflow::plan::Input;
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The descriptor of a process's channel with its supervisor; all higher ones are closed.
pub(super) const CHANNEL_FD: i32 = KEPT;

/// The longest report as JSON. The rest of a message is for the outputs that are in it, and for notes about lines.
const REPORT_MAX: usize = BODY_MAX as usize / 2;

/// Waits for the job; `None` if the other end is closed. A process that serves many has room to receive in, and memory for large slots.
pub(super) fn take_job(
    channel: &Arc<SupervisorChannel>,
    room: Option<&mut Room>,
    memory: Option<&mut SlotMemory>,
) -> Result<Option<Received>, NotTaken> {
    let (mut files, mut room) = (Vec::new(), room);
    loop {
        let received = match &mut room {
            Some(room) => {
                let received = channel.receive_in(room);
                wiping::room(room);
                received
            }
            None => channel.receive(),
        };
        let Some(mut packet) = received? else { return Ok(None) };
        let message = packet.read();
        files.append(&mut packet.files);
        match message.map_err(|error| error.to_string())? {
            ToWorker::Files => {}
            ToWorker::Kept { .. } | ToWorker::Events | ToWorker::GoOn { .. } | ToWorker::Confirmed { .. } => {
                return Err("an answer to nothing has come".to_owned().into());
            }
            ToWorker::Job(wire) => {
                if wire.stay {
                    // Before anything of the job is freed, the message that brought it first of all.
                    wiping::begin()?;
                }
                return Ok(Some(Received::unpack(*wire, files, memory, channel)?));
            }
        }
    }
}

/// Why a job cannot be taken.
pub(super) struct NotTaken {
    pub(super) why: String,
    /// The host had nothing left for it.
    pub(super) is_shortage: bool,
}

impl From<String> for NotTaken {
    fn from(why: String) -> NotTaken {
        NotTaken { why, is_shortage: false }
    }
}

impl From<ChannelError> for NotTaken {
    fn from(error: ChannelError) -> NotTaken {
        let why = error.to_string();
        NotTaken { why, is_shortage: error.of_host().is_ok() }
    }
}

/// What all workers of a spawner have in common.
pub(super) struct DomainSettings {
    /// The folder with the libos modules.
    pub(super) modules: PathBuf,
    /// Whether protection keys are in force.
    pub(super) keys: bool,
    /// Whether a signal that interrupts a function ends the process.
    pub(super) silent: bool,
}

/// What a process does after its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum After {
    /// It ends.
    End,
    /// It stays for another job.
    Stay,
}

/// What is left of a run in a process that stays for another job.
pub(super) struct Left {
    pub(super) domain: Domain,
    /// The answer, if it is to be sent when all has been reset. That is one message less for both sides, where to reset takes no longer
    /// than to send one.
    pub(super) answer: Option<HeldAnswer>,
}

/// An answer that has not been sent.
pub(super) struct HeldAnswer {
    report: Vec<u8>,
    outputs: Vec<(String, Content)>,
}

impl HeldAnswer {
    /// Sends it, and says whether the process is ready for another job.
    pub(super) fn send(self, channel: &SupervisorChannel, clean: bool) -> io::Result<()> {
        let HeldAnswer { report, outputs } = self;
        reply::send(channel, &FromWorker::Done { report, outputs, clean }, &[])
    }
}

/// Runs a workflow and answers; `answered` is called while its domain is still there. What is left, if the process stays for another job.
pub(super) fn run(
    channel: Arc<SupervisorChannel>,
    address_space: ReservedDomain,
    settings: &DomainSettings,
    (workflow, memory): (&Ready, Option<&mut SlotMemory>),
    job: Received,
    answered: impl FnOnce(After),
) -> io::Result<Option<Left>> {
    let Received { inputs, resources, wire, .. } = job;
    let notices = Arc::new(Notices::new(channel.clone()));
    let reporter =
        Arc::new(Reporter { channel, notices, lines: wire.lines, progress: wire.progress, points: Mutex::default() });
    reporter.point("dispatched", wire.dispatched_ns);
    let captures = if wire.goes_on { Some(Captures::start(reporter.channel.clone())?) } else { None };
    let (inbox, resident) = listen(&reporter, wire.listens, wire.resident || wire.confirmed, wire.confirmed)?;
    let context = RunContext {
        modules: settings.modules.clone(),
        keys: settings.keys,
        time_slice: (!settings.silent).then_some(TIME_SLICE),
        load_all: wire.load_all,
        requested_ns: wire.requested_ns,
        dispatched_ns: Some(wire.dispatched_ns),
        latest: wire.latest,
        suspend: wire.suspend_ns.map(Duration::from_nanos),
        halt: wire.halt_ns.map(Duration::from_nanos),
        skip_time: wire.skip_time,
        invocation: wire.invocation.into(),
        handed_over: wire.handed_over.into(),
        public_url: wire.public_url.into(),
        keeper: captures.clone().map(|captures| captures as Arc<dyn Keeper>),
        residence: resident.clone().map(|resident| resident as Arc<dyn Residence>),
        inbox,
        sends: wire.sends,
        published: wire.published,
    };
    let has_template = matches!(wire.template, WireTemplate::Attached(_));
    let outputs = RefCell::default();
    let (inputs_in, outputs_in) = memory.map(|memory| (&mut memory.inputs, &mut memory.outputs)).unzip();
    let mut workflow_io = Slots { inputs, once: wire.resident, inputs_in, outputs: &outputs, outputs_in };
    let close = || captures.iter().for_each(|captures| captures.close());
    let answer = |end| {
        close();
        let (after, held) = match end {
            RunEnd::Report(report) => {
                let has_stayed = resident.as_ref().is_some_and(|resident| resident.has_stayed());
                let stays = wire.stay && !has_stayed && report.is_without_failure();
                let held = reporter.answer(*report, outputs.take(), stays)?;
                (if stays { After::Stay } else { After::End }, held)
            }
            RunEnd::Suspended(suspended) => {
                reporter.answer_suspended(*suspended, &wire.template)?;
                (After::End, None)
            }
            RunEnd::HandedOver => {
                reporter.send(&FromWorker::WentOn { goes_on: false }, &[])?;
                (After::End, None)
            }
        };
        answered(after);
        Ok::<_, io::Error>((after, held))
    };
    let ran = workflow.run_on(address_space, &context, resources, &mut workflow_io, reporter.clone(), answer);
    let error = match ran {
        Ok((answered, domain)) => {
            let (after, mut answer) = answered?;
            if let Some(held) = answer.take_if(|_| !domain.is_small()) {
                held.send(&reporter.channel, false)?;
            }
            return Ok((after == After::Stay).then_some(Left { domain, answer }));
        }
        Err(error) => error,
    };
    close();
    // A run can always do without a template.
    let is_templates = has_template && matches!(error, HostError::Restore(_));
    if error.is_continuations() || is_templates {
        reporter.notices.finish();
        reporter.send(&FromWorker::Unfit { why: error.to_string() }, &[])?;
        return Ok(None);
    }
    let failure = Failure::blamed(FailureKind::Process, Blame::Host, error.to_string());
    let isolation = keys::isolation(context.keys);
    reporter.answer(report_without_run(workflow.plan(), isolation, wire.requested_ns, failure), Vec::new(), false)?;
    Ok(None)
}

/// Where events come, and where orders do.
type Arriving = (Option<Arc<Inbox>>, Option<Arc<Resident>>);

/// Where events come for a job that `listens`, and orders for one that may stand still.
fn listen(reporter: &Reporter, listens: bool, stands: bool, may_be_unkept: bool) -> io::Result<Arriving> {
    // Where none come yet, a workflow that waits for one waits in vain.
    let inbox = Arc::new(if listens { Inbox::default() } else { Inbox::closed() });
    let channel = &reporter.channel;
    match (listens, stands) {
        (false, false) => Ok((None, None)),
        (true, false) => {
            arrivals::listen(channel.clone(), inbox.clone(), |_| ())?;
            Ok((Some(inbox), None))
        }
        (_, true) => {
            let notices = reporter.notices.clone();
            let resident = Resident::new(channel.clone(), notices, inbox.clone(), may_be_unkept);
            if listens {
                resident.listen()?;
            }
            Ok((Some(inbox), Some(resident)))
        }
    }
}

/// Slots of a workflow in a worker: inputs that came with the job, outputs that go with the answer.
struct Slots<'o> {
    inputs: Vec<(String, Given)>,
    /// Each is asked for once: what has been put into its slot is not kept beside it for as long as the process stays.
    once: bool,
    /// Where large ones are.
    inputs_in: Option<&'o mut Recycled>,
    outputs: &'o RefCell<Vec<(String, Output)>>,
    /// Where large ones go, as long as there is room.
    outputs_in: Option<&'o mut Recycled>,
}

/// Where an output is.
enum Output {
    /// Here, in a message later.
    Bytes(Vec<u8>),
    /// In sealed memory.
    File(OwnedFd),
    /// In the process's memory for outputs, behind those before: so many bytes.
    Recycled(u64),
}

impl WorkflowIo for Slots<'_> {
    fn input(&mut self, input: &Input) -> Result<Filling, String> {
        let found = self.inputs.iter().position(|(slot, _)| *slot == input.slot);
        let index = found.ok_or("has no content in the job")?;
        let filling = match (&self.inputs[index].1, &mut self.inputs_in) {
            (Given::Data(Data::Bytes(bytes)), _) => Ok(Filling::Whole(Source::Bytes(bytes.clone()))),
            (Given::Data(Data::File(file)), _) => {
                let file = file.try_clone().map_err(|error| error.to_string())?;
                Ok(Filling::Whole(Source::File(File::from(file))))
            }
            (Given::Recycled(part), Some(memory)) => {
                let memory = memory.memory().map_err(|error| error.to_string())?;
                Ok(Filling::Part(memory.clone(), part.clone()))
            }
            (Given::Recycled(_), None) => Err("is in memory that the process does not have".to_owned()),
        };
        if self.once {
            self.inputs.swap_remove(index);
        }
        filling
    }

    fn output(&mut self, slot: &str, bytes: &[u8]) -> Result<OutputReport, String> {
        let output = match bytes.len() {
            ..=INLINE_SLOT => Output::Bytes(bytes.to_vec()),
            _ => self.large(bytes).map_err(|error| format!("cannot be handed over: {error}"))?,
        };
        self.outputs.borrow_mut().push((slot.to_owned(), output));
        Ok(OutputReport { bytes: bytes.len() as u64, path: None, content: None })
    }
}

impl Slots<'_> {
    fn large(&mut self, bytes: &[u8]) -> io::Result<Output> {
        match self.outputs_in.as_mut().map(|memory| memory.write(bytes)).transpose()? {
            Some(true) => Ok(Output::Recycled(bytes.len() as u64)),
            Some(false) | None => seal(bytes, 0).map(Output::File),
        }
    }
}

/// The report as JSON. If it would be too long, the last lines of the last instances are replaced by a note.
fn encode(mut report: RunReport, limit: usize) -> io::Result<Vec<u8>> {
    let encoded = serde_json::to_vec(&report)?;
    let mut excess = encoded.len().saturating_sub(limit);
    if excess == 0 {
        return Ok(encoded);
    }
    for instance in report.steps.iter_mut().flat_map(|step| &mut step.instances).rev() {
        let mut omitted = 0;
        while excess > 0
            && let Some(line) = instance.lines.pop()
        {
            excess = excess.saturating_sub(serde_json::to_vec(&line)?.len());
            omitted += 1;
        }
        if omitted > 0 {
            let text = format!("({omitted} more lines are omitted, as the report would be too long)");
            instance.lines.push(Line { stream: Stream::Stderr, text });
        }
    }
    Ok(serde_json::to_vec(&report)?)
}

/// Removes from a report the lines that were sent as notices: of each instance all but the last ones, which were omitted there.
fn keep_omitted(report: &mut RunReport, mut omitted: OmittedLines) {
    report.lines_delayed = omitted.values().map(|count| *count as u64).sum();
    for step in &mut report.steps {
        for instance in &mut step.instances {
            let kept = omitted.remove(&(step.name.clone(), instance.index)).unwrap_or_default();
            instance.lines.drain(..instance.lines.len().saturating_sub(kept));
        }
    }
}

/// Sends the supervisor the notices that it has asked for, and the answer.
struct Reporter {
    channel: Arc<SupervisorChannel>,
    notices: Arc<Notices>,
    lines: bool,
    progress: bool,
    points: Mutex<Vec<Point>>,
}

impl Reporter {
    fn notify(&self, wanted: bool, notice: Notice) {
        if wanted {
            self.notices.send(notice);
        }
    }
}

impl Reporter {
    /// Sends the answer; what is to be sent later, if the answer may be held.
    fn answer(
        &self,
        mut report: RunReport,
        outputs: Vec<(String, Output)>,
        may_hold: bool,
    ) -> io::Result<Option<HeldAnswer>> {
        let mut points = std::mem::take(&mut *self.points.lock().expect("points"));
        // A run that goes on has its own from before.
        points.retain(|point| !report.timeline.iter().any(|of_run| of_run.name == point.name));
        points.append(&mut report.timeline);
        points.push(Point { name: "answered".to_owned(), at_ns: monotonic_ns() });
        points.sort_by_key(|point| point.at_ns);
        report.timeline = points;
        let omitted = self.notices.finish();
        if self.lines {
            keep_omitted(&mut report, omitted);
        }
        let mut files = Vec::new();
        let outputs = outputs.into_iter().map(|(slot, output)| match output {
            Output::Bytes(bytes) => (slot, Content::Bytes(bytes)),
            Output::Recycled(len) => (slot, Content::Recycled(len)),
            Output::File(file) => {
                files.push(file);
                (slot, Content::Attached)
            }
        });
        let outputs = outputs.collect();
        if let Some(report) = pack(&report) {
            if may_hold && files.is_empty() {
                return Ok(Some(HeldAnswer { report, outputs }));
            }
            let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
            return self.send(&FromWorker::Done { report, outputs, clean: false }, &files).map(|()| None);
        }
        let sent = seal_sent(&std::mem::take(&mut report.sent))?;
        let files: Vec<_> = files.iter().chain(&sent).map(AsFd::as_fd).collect();
        let report = encode(report, REPORT_MAX)?;
        self.send(&FromWorker::Ended { report, outputs, sent: sent.is_some() }, &files).map(|()| None)
    }

    /// Sends the rest of the workflow instead.
    fn answer_suspended(&self, suspended: Suspended, template: &WireTemplate) -> io::Result<()> {
        // Lines that were not sent while it ran are in the continuation, for the report.
        self.notices.finish();
        let (answer, files) = match template {
            WireTemplate::Make(_) => reply::template(suspended)?,
            WireTemplate::No | WireTemplate::Attached(_) => reply::suspended(suspended, false)?,
        };
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        self.send(&answer, &files)
    }

    fn send(&self, answer: &FromWorker, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        reply::send(&self.channel, answer, files)
    }
}

impl Progress for Reporter {
    fn step_started(&self, step: &str, instances: u32) {
        self.notify(self.progress, Notice::StepStarted { step: step.to_owned(), instances });
    }

    fn instance_ended(&self, step: &str, index: u32, ok: bool) {
        self.notify(self.progress, Notice::InstanceEnded { step: step.to_owned(), instance: index, ok });
    }

    fn step_ended(&self, step: &str) {
        self.notify(self.progress, Notice::StepEnded { step: step.to_owned() });
    }

    fn point(&self, name: &'static str, at_ns: u64) {
        self.points.lock().expect("points").push(Point { name: name.to_owned(), at_ns });
        self.notify(self.progress, Notice::Point { name: name.to_owned(), at_ns });
    }

    fn line(&self, step: &str, index: u32, stream: Stream, text: &str) {
        let (step, text) = (step.to_owned(), text.to_owned());
        self.notify(self.lines, Notice::Line { step, instance: index, stream, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monohull_report::{InstanceReport, Status, StepReport};

    fn report(lines: &[usize]) -> RunReport {
        let line = |number: usize| Line { stream: Stream::Stdout, text: format!("line \u{1} {number}") };
        let instances = lines.iter().enumerate().map(|(index, count)| InstanceReport {
            index: index as u32,
            start_us: 0,
            load_us: 0,
            run_us: 0,
            park_us: 0,
            bytes_in: 0,
            bytes_out: 0,
            attempts: 1,
            status: Status::Done,
            error: None,
            failed_attempts: Vec::new(),
            lines: (0..*count).map(line).collect(),
            start: None,
        });
        RunReport {
            workflow: "w".to_owned(),
            status: Status::Done,
            isolation: "process".to_owned(),
            isolation_note: None,
            cold_start_us: 1,
            duration_us: 1,
            steps: vec![StepReport {
                name: "s".to_owned(),
                function: "f".to_owned(),
                status: Status::Done,
                attempts: 1,
                handled: 0,
                instances: instances.collect(),
            }],
            modules: Vec::new(),
            output: Default::default(),
            unread: None,
            error: None,
            timeline: Vec::new(),
            mapped_files: None,
            lines_delayed: 0,
            suspended: None,
            not_suspended: None,
            published: Default::default(),
            told_to_end: false,
            sent: Vec::new(),
            sandbox: None,
            process: None,
            start: None,
        }
    }

    #[test]
    fn a_report_that_is_too_long_has_a_note_of_what_is_omitted() {
        let short = encode(report(&[10, 10]), 1 << 20).expect("encoded");
        assert_eq!(short, serde_json::to_vec(&report(&[10, 10])).expect("JSON"));
        let limit = 20_000;
        let cut = encode(report(&[200, 1000, 1000]), limit).expect("encoded");
        assert!((limit / 2..limit + 1000).contains(&cut.len()), "{}", cut.len());
        let cut: RunReport = serde_json::from_slice(&cut).expect("a report");
        let lines: Vec<&Vec<Line>> = cut.steps[0].instances.iter().map(|instance| &instance.lines).collect();
        assert_eq!((lines[0].len(), lines[2].len()), (200, 1));
        assert!(lines[1].len() > 10 && lines[1].len() < 1000, "{}", lines[1].len());
        assert!(lines[2][0].text.contains("1000 more lines"), "{:?}", lines[2]);
    }
}
