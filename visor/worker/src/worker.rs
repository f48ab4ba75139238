//! A worker: the process of one workflow domain. It lays its ground, closes itself in, waits for its job, runs it, answers and
//! ends.

use super::job::{Data, Received};
use super::link::{BODY_MAX, Link};
use super::notices::{LeftOut, Notices};
use super::opener;
use super::protocol::{Content, FromWorker, Notice, ToWorker};
use super::sandbox::Preparation;
use super::{warm, word};
use monohull_domain::ReservedDomain;
use monohull_domain::carrier::monotonic_ns;
use monohull_domain::keys;
use monohull_engine::{Border, Conditions, Source, report_without_run};
use monohull_report::escape::shown;
use monohull_report::failure::{Blame, FailureKind};
use monohull_report::{Failure, Line, OutputReport, Point, Progress, RunReport, Stream};
use monohull_workflow::plan::Input;
use nix::unistd::Pid;
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) use super::death::status::*;

/// The descriptor of a process's link with what is above it; all higher ones are closed.
pub(super) const LINK: i32 = 3;

/// The number of the null device on every Linux.
const NULL_DEVICE: u64 = libc::makedev(1, 3);

/// The longest report as JSON. What is left of a message is for the outputs that are in it, and for notes about lines.
const REPORT_MAX: usize = BODY_MAX as usize / 2;

/// The pause before an answer is sent again that there was no room for.
const CROWDED: Duration = Duration::from_millis(1);

/// The first thing after a fork: dies with `parent`, and has no more descriptors than these. Standard error goes the way of
/// the link too, if that is wanted: last words.
pub(super) fn settle(parent: Pid, link: OwnedFd, words: bool) -> Link {
    // SAFETY: plain system calls on this process alone, which has one thread. Descriptors are moved before any is
    // closed, and none that is closed is owned by a value that is used or dropped later: the process goes on with `LINK`
    // alone and ends by `_exit`.
    let steps = |link: usize| unsafe {
        word::call(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, libc::SIGKILL as usize, 0, 0])?;
        if word::call(libc::SYS_getppid, [0; 4])? != parent.as_raw() as usize {
            // It has died before that was arranged.
            leave(NOT_NEEDED);
        }
        if words {
            word::call(libc::SYS_dup2, [link, 2, 0, 0])?;
        }
        word::call(libc::SYS_dup2, [link, LINK as usize, 0, 0])?;
        word::call(libc::SYS_close_range, [LINK as usize + 1, u32::MAX as usize, 0, 0])?;
        // A worker that comes of the spawner must not inherit its mask.
        let none = 0u64;
        let mask = &raw const none as usize;
        word::call(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as usize, mask, 0, size_of_val(&none)])
    };
    if let Err(error) = steps(link.into_raw_fd() as usize) {
        eprintln!("a new process cannot be put in order: {error}");
        leave(FAILED);
    }
    // SAFETY: duplicated just above.
    Link::of(unsafe { OwnedFd::from_raw_fd(LINK) })
}

/// What the first of a family does besides, and those it forks inherit: a session without a terminal, deaf to signals that
/// ask for an end, standard input and output that lead nowhere, and nothing of the environment.
///
/// A service manager sends such a signal to all processes of a service at once. What is above decides what it means, and may
/// let a workflow finish; it takes this process with it whenever it ends.
///
/// An error is a text for people. Then the process must not be used: it could read and write what its caller can.
pub(super) fn forget_origin() -> Result<(), String> {
    let failed = |error: io::Error| format!("making a session of its own: {error}");
    // SAFETY: as in `settle`; ignoring a signal runs no code; nobody in a process that was just forked holds a string of the environment.
    unsafe {
        checked(libc::setsid()).map_err(failed)?;
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
        scrub_environment();
    }
    let null = open_null(Path::new("/dev/null"))?;
    for standard in [0, 1] {
        // SAFETY: as in `settle`; whatever 0 and 1 led to is owned by no value.
        checked(unsafe { libc::dup2(null.as_raw_fd(), standard) })
            .map_err(|error| format!("disconnecting standard input and output: {error}"))?;
    }
    Ok(())
}

/// Opens what should be the null device. A regular file in its place would keep what is written to it.
fn open_null(path: &Path) -> Result<File, String> {
    let failed = |error: io::Error| format!("opening {}: {error}", shown(path));
    let null = File::options().read(true).write(true).open(path).map_err(failed)?;
    let metadata = null.metadata().map_err(failed)?;
    match metadata.file_type().is_char_device() && metadata.rdev() == NULL_DEVICE {
        true => Ok(null),
        false => Err(format!("{} is not the null device", shown(path))),
    }
}

fn checked(answer: i32) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Overwrites the environment: a secret in it is none of a workflow's business.
///
/// # Safety
/// No other thread exists, and nobody holds a string of the environment.
unsafe fn scrub_environment() {
    unsafe extern "C" {
        static mut environ: *mut *mut libc::c_char;
    }
    // SAFETY: the array is as `execve` or `setenv` made it: pointers to strings that may be written to, then a null.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            std::ptr::write_bytes(*entry, 0, libc::strlen(*entry));
            entry = entry.add(1);
        }
        libc::clearenv();
    }
}

/// Ends the process without anything that its parent's memory would have it do.
pub(super) fn leave(status: i32) -> ! {
    // SAFETY: has no preconditions.
    unsafe { libc::_exit(status) }
}

/// A worker's life.
pub(super) fn live(link: Link, preparation: Result<&Preparation, String>) -> ! {
    let link = Arc::new(link);
    // Never closed: what came to be called `LINK` instead could be sent to with a destination, so the sandbox forbids it.
    std::mem::forget(link.clone());
    // The panic hook has left its words on standard error. Nothing of a worker that panicked is used any more.
    let work = AssertUnwindSafe(|| work(link, preparation));
    let status = std::panic::catch_unwind(work).unwrap_or(PANICKED);
    leave(status)
}

fn work(link: Arc<Link>, preparation: Result<&Preparation, String>) -> i32 {
    let ready = preparation.and_then(|preparation| {
        // Where that is refused a fault ends the process, and its death says that this kernel cannot tell more.
        let silent = preparation.traced && opener::be_traced().is_err();
        warm::pages(&preparation.heap);
        let ground = preparation.ground().map_err(|error| error.to_string())?;
        let sandbox = preparation.close_in().map_err(|error| error.to_string())?;
        Ok((ground, sandbox, silent, preparation))
    });
    let (ground, sandbox, silent, preparation) = match ready {
        Ok(ready) => ready,
        Err(why) => {
            let _ = link.send(&FromWorker::Refused(why), &[]);
            return REFUSED;
        }
    };
    if link.send(&FromWorker::Ready { sandbox, silent }, &[]).is_err() {
        return NOT_NEEDED;
    }
    let job = match take_job(&link) {
        Ok(Some(job)) => job,
        Ok(None) => return NOT_NEEDED,
        Err(why) => {
            eprintln!("{why}");
            return FAILED;
        }
    };
    let home = Home { modules: preparation.modules.clone(), keys: preparation.keys };
    // Nobody needs what is left: the kernel takes it down faster than we could.
    match run(link, ground, home, job, || leave(DONE)) {
        Ok(()) => DONE,
        Err(error) => {
            eprintln!("the answer cannot be given: {error}");
            FAILED
        }
    }
}

/// Waits for the job; `None` if nobody is there any more to give one.
pub(super) fn take_job(link: &Link) -> Result<Option<Received>, String> {
    let mut files = Vec::new();
    loop {
        let Some(mut packet) = link.receive().map_err(|error| error.to_string())? else { return Ok(None) };
        let message = packet.read::<ToWorker>();
        files.append(&mut packet.files);
        match message.map_err(|error| error.to_string())? {
            ToWorker::Files => {}
            ToWorker::Job(wire) => return Received::unpack(wire, files).map(Some),
        }
    }
}

/// What all workers of a spawner have in common.
pub(super) struct Home {
    /// The folder with the libos modules.
    pub(super) modules: PathBuf,
    /// Whether protection keys are in force.
    pub(super) keys: bool,
}

/// Runs a workflow and answers; `answered` is called while its domain is still there.
pub(super) fn run(
    link: Arc<Link>,
    ground: ReservedDomain,
    home: Home,
    job: Received,
    answered: impl FnOnce(),
) -> io::Result<()> {
    let Received { workflow, inputs, means, wire } = job;
    let notices = Notices::new(link.clone());
    let teller =
        Arc::new(Teller { link, notices, lines: wire.lines, progress: wire.progress, points: Mutex::default() });
    teller.point("dispatched", wire.dispatched_ns);
    let conditions = Conditions {
        modules: home.modules,
        keys: home.keys,
        load_all: wire.load_all,
        requested_ns: wire.requested_ns,
        latest_ns: wire.latest_ns,
    };
    let outputs = RefCell::default();
    let mut border = Slots { inputs, outputs: &outputs };
    let answer = |report| {
        teller.answer(report, outputs.take())?;
        answered();
        Ok(())
    };
    workflow.run_on(ground, &conditions, means, &mut border, teller.clone(), answer).unwrap_or_else(|error| {
        let failure = Failure::blamed(FailureKind::Process, Blame::Host, error.to_string());
        let isolation = keys::isolation(conditions.keys);
        teller.answer(report_without_run(workflow.plan(), isolation, wire.requested_ns, failure), Vec::new())
    })
}

/// The workflow's border in a worker: inputs as they came with the job, outputs as they leave with the answer.
struct Slots<'o> {
    inputs: Vec<(String, Data)>,
    outputs: &'o RefCell<Vec<(String, Data)>>,
}

impl Border for Slots<'_> {
    fn input(&mut self, input: &Input) -> Result<Source, String> {
        let found = self.inputs.iter().find(|(slot, _)| *slot == input.slot);
        let (_, data) = found.ok_or("was given no content")?;
        match data {
            Data::Bytes(bytes) => Ok(Source::Bytes(bytes.clone())),
            Data::File(file) => {
                file.try_clone().map(|file| Source::File(File::from(file))).map_err(|error| error.to_string())
            }
        }
    }

    fn output(&mut self, slot: &str, bytes: &[u8]) -> Result<OutputReport, String> {
        let data = Data::of(bytes).map_err(|error| format!("cannot be handed out: {error}"))?;
        self.outputs.borrow_mut().push((slot.to_owned(), data));
        Ok(OutputReport { bytes: bytes.len() as u64, path: None, content: None })
    }
}

/// The report as JSON. Of one that would be too long, the last lines of the last instances are left out, and it says so.
fn encode(mut report: RunReport, limit: usize) -> io::Result<Vec<u8>> {
    let encoded = serde_json::to_vec(&report)?;
    let mut excess = encoded.len().saturating_sub(limit);
    if excess == 0 {
        return Ok(encoded);
    }
    for instance in report.steps.iter_mut().flat_map(|step| &mut step.instances).rev() {
        let mut left_out = 0;
        while excess > 0
            && let Some(line) = instance.lines.pop()
        {
            excess = excess.saturating_sub(serde_json::to_vec(&line)?.len());
            left_out += 1;
        }
        if left_out > 0 {
            let text = format!("({left_out} more lines are left out, as the report would be too long)");
            instance.lines.push(Line { stream: Stream::Stderr, text });
        }
    }
    Ok(serde_json::to_vec(&report)?)
}

/// Takes out of a report the lines that were told one by one: of each instance all but the last ones, which were left out.
fn keep_left_out(report: &mut RunReport, mut left_out: LeftOut) {
    report.lines_delayed = left_out.values().map(|count| *count as u64).sum();
    for step in &mut report.steps {
        for instance in &mut step.instances {
            let kept = left_out.remove(&(step.name.clone(), instance.index)).unwrap_or_default();
            instance.lines.drain(..instance.lines.len().saturating_sub(kept));
        }
    }
}

/// Tells the supervisor what happens, if it wants to know.
struct Teller {
    link: Arc<Link>,
    notices: Notices,
    lines: bool,
    progress: bool,
    points: Mutex<Vec<Point>>,
}

impl Teller {
    fn tell(&self, wanted: bool, notice: Notice) {
        if wanted {
            self.notices.send(notice);
        }
    }
}

impl Teller {
    /// Sends the answer.
    fn answer(&self, mut report: RunReport, outputs: Vec<(String, Data)>) -> io::Result<()> {
        let mut points = std::mem::take(&mut *self.points.lock().expect("points"));
        points.append(&mut report.timeline);
        points.push(Point { name: "answered".to_owned(), at_ns: monotonic_ns() });
        points.sort_by_key(|point| point.at_ns);
        report.timeline = points;
        let left_out = self.notices.finish();
        if self.lines {
            keep_left_out(&mut report, left_out);
        }
        let mut files = Vec::new();
        let outputs = outputs.into_iter().map(|(slot, data)| match data {
            Data::Bytes(bytes) => (slot, Content::Bytes(bytes)),
            Data::File(file) => {
                files.push(file);
                (slot, Content::Attached)
            }
        });
        let outputs = outputs.collect();
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let answer = FromWorker::Ended { report: encode(report, REPORT_MAX)?, outputs };
        loop {
            match self.link.send(&answer, &files) {
                // Others have as many descriptors on their way as the kernel lets one user have; this workflow's deadline
                // ends the wait.
                Err(error) if error.raw_os_error() == Some(libc::ETOOMANYREFS) => std::thread::sleep(CROWDED),
                sent => return sent,
            }
        }
    }
}

impl Progress for Teller {
    fn step_started(&self, step: &str, instances: u32) {
        self.tell(self.progress, Notice::StepStarted { step: step.to_owned(), instances });
    }

    fn instance_ended(&self, step: &str, index: u32, ok: bool) {
        self.tell(self.progress, Notice::InstanceEnded { step: step.to_owned(), instance: index, ok });
    }

    fn step_ended(&self, step: &str) {
        self.tell(self.progress, Notice::StepEnded { step: step.to_owned() });
    }

    fn point(&self, name: &'static str, at_ns: u64) {
        self.points.lock().expect("points").push(Point { name: name.to_owned(), at_ns });
        self.tell(self.progress, Notice::Point { name: name.to_owned(), at_ns });
    }

    fn line(&self, step: &str, index: u32, stream: Stream, text: &str) {
        let (step, text) = (step.to_owned(), text.to_owned());
        self.tell(self.lines, Notice::Line { step, instance: index, stream, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monohull_report::{InstanceReport, Status, StepReport};

    #[test]
    fn only_the_null_device_is_taken_for_it() {
        open_null(Path::new("/dev/null")).expect("the null device");
        let refused = |path: &Path| open_null(path).expect_err("not the null device");
        let folder = tempfile::TempDir::new().expect("a folder");
        let file = folder.path().join("null");
        assert!(refused(&file).contains("opening"), "there is none");
        std::fs::write(&file, "").expect("written");
        assert!(refused(&file).contains("is not the null device"));
        assert!(refused(Path::new("/dev/zero")).contains("is not the null device"));
    }

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
                instances: instances.collect(),
            }],
            modules: Vec::new(),
            output: Default::default(),
            unread: None,
            error: None,
            timeline: Vec::new(),
            mapped_files: None,
            lines_delayed: 0,
            sandbox: None,
        }
    }

    #[test]
    fn a_report_that_is_too_long_says_what_is_left_out() {
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
