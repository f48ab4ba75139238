//! The spawner: a small process with one thread that forks workers and reaps them.
//!
//! A program with threads cannot fork and go on in the child, and the supervisor has many threads. So it forks the spawner at the
//! very beginning. The spawner maps what workers have in common, and then waits for requests to fork and for workers that end.

use super::cgroup::{Membership, WorkerCgroup};
use super::error::{ProcessError, host};
use super::exit_status::status;
use super::pkru_tracer::PkruTracer;
use super::protocol::{
    ControlChannel, FromSpawner, FromWorker, SpawnerChannel, SupervisorChannel, ToSpawner, WorkerChannel,
};
use super::running::IdleWorker;
use super::sandbox::{Inherit, SandboxTemplate};
use super::supervised::{Reaper, Stay, StderrTail, Worker};
use super::{Settings, process};
use monohull_ipc::Message;
use monohull_sys::fork::{Fork, Inherited, OnlyThread, ThreadIdAddress, ThreadsError};
use monohull_sys::spawner::{poll, wait_any};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

/// A handle to the spawner, with which a program with threads makes processes. The spawner and its workers end when this is
/// dropped.
#[derive(Debug)]
pub struct Spawner {
    /// One request at a time.
    control: Mutex<SpawnerChannel>,
    pidfd: OwnedFd,
    pid: i32,
    groups: Membership,
}

impl Spawner {
    /// The most processes that are made at once: each takes up to two files of a message.
    pub const FORKS_MAX: usize = 32;

    /// Forks the spawner. To be called on the main thread before the program starts any other; the spawner dies with it.
    pub fn start(settings: &Settings) -> Result<Spawner, ProcessError> {
        let only = only_thread()?;
        let (ours, theirs) = SpawnerChannel::pair().map_err(host("making a socket"))?;
        match only.fork().map_err(host("forking the spawner"))? {
            Fork::Child(child) => child.run(OwnedFd::from(theirs).into(), |control, _| {
                let control = ControlChannel::new(control);
                match process::detach_from_parent() {
                    Ok(only) => serve(&control, settings, &only),
                    Err(why) => not_started(&control, why),
                }
            }),
            Fork::Parent(child) => {
                let spawner = Spawner {
                    control: Mutex::new(ours),
                    pidfd: open_pidfd(child.as_raw()).map_err(host("opening a process"))?,
                    pid: child.as_raw(),
                    groups: settings.groups.clone(),
                };
                drop(theirs);
                let (reply, _) = reply(&spawner.lock())?;
                match reply {
                    FromSpawner::Started => Ok(spawner),
                    FromSpawner::NotStarted(why) => Err(ProcessError::Refused(why)),
                    _ => Err(ProcessError::SpawnerEnded),
                }
            }
        }
    }

    /// A new worker. Blocks until it is ready, for well under a millisecond unless the host is busy.
    pub fn idle_worker(&self) -> Result<IdleWorker, ProcessError> {
        self.starting_worker()?.wait()
    }

    /// A new worker, which makes itself ready while this process does something else.
    pub(super) fn starting_worker(&self) -> Result<StartingWorker, ProcessError> {
        self.fork(1)?.pop().ok_or(ProcessError::SpawnerEnded)
    }

    /// So many new workers, at least one and at most [`Self::FORKS_MAX`]. Several at once cost less than one by one.
    pub fn fork(&self, count: usize) -> Result<Vec<StartingWorker>, ProcessError> {
        let mut ends = Vec::with_capacity(count);
        for _ in 0..count.clamp(1, Spawner::FORKS_MAX) {
            let cgroup = self.groups.worker_cgroup().map_err(host("making a control group"))?;
            ends.push((worker_channel()?, cgroup));
        }
        let grouped = matches!(self.groups, Membership::Own(_));
        let mut files = Vec::with_capacity(2 * ends.len());
        for ((_, theirs), cgroup) in &ends {
            files.push(theirs.as_fd());
            files.extend(cgroup.as_ref().map(WorkerCgroup::as_fd));
        }
        let (reply, pidfds) = {
            let control = self.lock();
            let sent = control.send(&ToSpawner::Fork { grouped }, &files);
            sent.map_err(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => ProcessError::SpawnerEnded,
                _ => host("asking for a process")(error),
            })?;
            reply(&control)?
        };
        match reply {
            FromSpawner::Forked(pids, Some(errno)) if pids.is_empty() => {
                Err(host("forking a process for a workflow")(io::Error::from_raw_os_error(errno)))
            }
            FromSpawner::Forked(pids, _) if !pids.is_empty() && pids.len() == pidfds.len() => {
                let made = ends.into_iter().zip(pids.into_iter().zip(pidfds));
                let worker = |(((channel, _), cgroup), (pid, pidfd))| {
                    StartingWorker(Worker::new(channel, pidfd, pid, Reaper::Spawner(self.pid), cgroup))
                };
                Ok(made.map(worker).collect())
            }
            _ => Err(ProcessError::SpawnerEnded),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SpawnerChannel> {
        self.control.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Readable when the spawner has ended.
impl AsFd for Spawner {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        super::supervised::end(&self.pidfd);
        let _ = waitid(Id::PIDFd(self.pidfd.as_fd()), WaitPidFlag::WEXITED);
    }
}

/// A worker that is being set up. Its process ends when this is dropped.
#[derive(Debug)]
pub struct StartingWorker(Worker);

impl StartingWorker {
    /// Waits until it is ready.
    pub fn wait(self) -> Result<IdleWorker, ProcessError> {
        IdleWorker::new(self.0)
    }
}

impl StartingWorker {
    /// Forks a worker of this very process, which must have one thread. It makes itself ready while this process does something else.
    pub(super) fn fork(settings: &Settings) -> Result<StartingWorker, ProcessError> {
        let only = only_thread()?;
        let (channel, theirs) = WorkerChannel::pair().map_err(host("making a socket"))?;
        match only.fork().map_err(host("forking a process for a workflow"))? {
            Fork::Child(child) => {
                child.run(Inherited { first: theirs.into(), second: None, stderr: true }, |channel, _| {
                    let mut template = process::detach_from_parent().and_then(|only| {
                        let mut template = SandboxTemplate::new(&only, settings, Inherit::Little)?;
                        template.compact_heap(&only)?;
                        Ok(template)
                    });
                    let rules = template.as_mut().ok().and_then(|template| template.page_map_rules.take());
                    process::worker_main(channel, template.as_ref().map_err(String::clone), rules)
                })
            }
            Fork::Parent(child) => {
                drop(theirs);
                let pidfd = open_pidfd(child.as_raw()).map_err(host("opening a process"))?;
                Ok(StartingWorker(Worker::new(channel, pidfd, child.as_raw(), Reaper::Here, None)))
            }
        }
    }
}

/// The spawner's reply, and its descriptors.
fn reply(control: &SpawnerChannel) -> Result<(FromSpawner, Vec<OwnedFd>), ProcessError> {
    match control.receive() {
        Ok(Some(packet)) => match packet.read() {
            Ok(reply) => Ok((reply, packet.files)),
            Err(_) => Err(ProcessError::SpawnerEnded),
        },
        Ok(None) => Err(ProcessError::SpawnerEnded),
        // A process that was forked ends by itself, as our end of its channel is closed.
        Err(error) => Err(error.of_host().map_or(ProcessError::SpawnerEnded, host("receiving a process"))),
    }
}

/// The supervisor's end of a worker's channel, and the worker's.
fn worker_channel() -> Result<(WorkerChannel, SupervisorChannel), ProcessError> {
    let (ours, theirs) = WorkerChannel::pair().map_err(host("making a socket"))?;
    ours.name_senders().map_err(host("preparing a socket"))?;
    Ok((ours, theirs))
}

fn only_thread() -> Result<OnlyThread, ProcessError> {
    OnlyThread::new().map_err(|error| match error {
        ThreadsError::Several(count) => ProcessError::Threads(count),
        ThreadsError::Unknown(source) => host("counting threads")(source),
    })
}

/// A descriptor for a child that has not been reaped.
fn open_pidfd(pid: i32) -> io::Result<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// A worker, as its spawner has it.
struct Child {
    pid: i32,
    /// The worker's end of its channel.
    channel: SupervisorChannel,
    /// Its exit status, until that has been sent.
    status: Option<i32>,
}

/// The main function of the spawner; its exit status.
fn serve(control: &ControlChannel, settings: &Settings, only: &OnlyThread) -> i32 {
    let mut ends = SigSet::empty();
    ends.add(Signal::SIGCHLD);
    let signals = sigprocmask(SigmaskHow::SIG_BLOCK, Some(&ends), None)
        .and_then(|()| SignalFd::with_flags(&ends, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK))
        .map_err(|errno| format!("SIGCHLD cannot be received: {errno}"));
    let thread = match &settings.groups {
        Membership::Own(_) => ThreadIdAddress::of(only).map(Some),
        Membership::Shared(_) => Ok(None),
    };
    let forks = match thread {
        Ok(thread) => Forks { only, thread },
        Err(error) => return not_started(control, format!("no process can be forked into a cgroup: {error}")),
    };
    // The template puts the sandbox in force for this process too.
    let (signals, mut template) =
        match signals.and_then(|signals| Ok((signals, SandboxTemplate::new(only, settings, Inherit::Much)?))) {
            Ok(both) => both,
            Err(why) => {
                return not_started(control, why);
            }
        };
    if control.send(&FromSpawner::Started, &[]).is_err() {
        return status::NOT_NEEDED;
    }
    let mut children: Vec<Child> = Vec::new();
    let mut tracer = template.traced.then(PkruTracer::new);
    if let Err(why) = template.compact_heap(only) {
        tracing::error!("the spawner cannot arrange its memory: {why}");
        return status::FAILED;
    }
    loop {
        let mut waiting =
            vec![PollFd::new(control.as_fd(), PollFlags::POLLIN), PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        // A worker may have filled its socket before it ended: its status is sent when there is room.
        let unsent = children.iter().filter(|child| child.status.is_some());
        waiting.extend(unsent.map(|child| PollFd::new(child.channel.as_fd(), PollFlags::POLLOUT)));
        if poll(&mut waiting).is_err_and(|error| error.kind() != io::ErrorKind::Interrupted) {
            return status::FAILED;
        }
        let [asked, ended] = [0, 1].map(|index| waiting[index].any() != Some(false));
        if ended {
            // One signal for any number of workers; those that end from now on raise another.
            let _ = signals.read_signal();
        }
        reap(&mut children, &mut tracer);
        if asked {
            match control.receive() {
                Ok(Some(packet)) => {
                    if let Err(error) = fork_workers(control, packet, &template, &forks, &mut children) {
                        tracing::error!("the spawner cannot reply: {error}");
                        return status::FAILED;
                    }
                }
                Ok(None) => return status::NOT_NEEDED,
                Err(error) => {
                    let refused = error.of_host().and_then(|error| Ok(refuse(control, &error)?));
                    if let Err(error) = refused {
                        tracing::error!("the spawner cannot receive requests: {error}");
                        return status::FAILED;
                    }
                }
            }
        }
    }
}

/// Sends why there is no spawner; its exit status.
fn not_started(control: &ControlChannel, why: String) -> i32 {
    let _ = control.send(&FromSpawner::NotStarted(why), &[]);
    status::REFUSED
}

/// Reaps workers that have ended, and sends their status to the supervisor. Lets threads go on that are traced and have stopped.
fn reap(children: &mut Vec<Child>, tracer: &mut Option<PkruTracer>) {
    while let Some((pid, status)) = wait_any() {
        if let Some(tracer) = tracer {
            if libc::WIFSTOPPED(status) {
                tracer.go_on(pid, status);
                continue;
            }
            tracer.forget(pid);
        }
        // A process id may be used again once its process was reaped.
        if let Some(child) = children.iter_mut().find(|child| child.pid == pid && child.status.is_none()) {
            child.status = Some(status);
        }
    }
    children.retain(|child| match child.status {
        None => true,
        // Sent, or the other end is closed: closing the last copy of this end is the end of the channel.
        Some(status) => matches!(child.channel.try_send(&FromWorker::Died { status }, &[]), Ok(false)),
    });
}

/// Forks all workers before it replies: after each fork, every page that this process writes to is copied anew.
fn fork_workers(
    control: &ControlChannel,
    packet: Message<ToSpawner>,
    template: &SandboxTemplate,
    forks: &Forks<'_>,
    children: &mut Vec<Child>,
) -> io::Result<()> {
    let Ok(ToSpawner::Fork { grouped }) = packet.read() else {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    };
    let mut files = packet.files.into_iter();
    // On the stack, whose pages are copied in any case.
    let mut made = [const { None }; Spawner::FORKS_MAX];
    let mut refused = None;
    for entry in &mut made {
        let Some(channel) = files.next() else { break };
        let group = if grouped { files.next() } else { None };
        match forks.fork(group.as_ref()) {
            Ok(Fork::Child(child)) => {
                let second = template.page_map_rules.as_ref().map(AsFd::as_fd);
                let inherited = Inherited { first: channel, second, stderr: true };
                child.run(inherited, |channel, rules| process::worker_main(channel, Ok(template), rules))
            }
            Ok(Fork::Parent((pid, pidfd))) => *entry = Some((pid.as_raw(), pidfd, channel)),
            Err(error) => {
                refused = Some(error.raw_os_error().unwrap_or(libc::EIO));
                break;
            }
        }
    }
    let (mut pids, mut pidfds) = (Vec::new(), Vec::new());
    for (pid, pidfd, channel) in made.into_iter().flatten() {
        children.push(Child { pid, channel: SupervisorChannel::new(channel), status: None });
        pids.push(pid);
        pidfds.push(pidfd);
    }
    let answer = FromSpawner::Forked(pids, refused);
    match control.send(&answer, &pidfds.iter().map(AsFd::as_fd).collect::<Vec<_>>()) {
        // The other ends of their channels are closed then, so they end by themselves.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => refuse(control, &error),
        sent => sent,
    }
}

/// What the spawner needs to fork.
struct Forks<'o> {
    only: &'o OnlyThread,
    /// For forks into control groups, if workers have them.
    thread: Option<ThreadIdAddress>,
}

impl Forks<'_> {
    /// Forks this process, into a control group if there is one.
    fn fork(&self, group: Option<&OwnedFd>) -> io::Result<Fork<(Pid, OwnedFd)>> {
        match (group, &self.thread) {
            (Some(group), Some(thread)) => self.only.fork_into_cgroup(group.as_fd(), thread),
            (Some(_), None) => Err(Errno::EINVAL.into()),
            (None, _) => self.only.fork_with_cookie(),
        }
    }
}

/// Replies that there is no process, for this reason.
fn refuse(control: &ControlChannel, error: &io::Error) -> io::Result<()> {
    control.send(&FromSpawner::Forked(Vec::new(), Some(error.raw_os_error().unwrap_or(libc::EIO))), &[])
}

impl Worker {
    fn new(channel: WorkerChannel, pidfd: OwnedFd, pid: i32, reaper: Reaper, cgroup: Option<WorkerCgroup>) -> Worker {
        let (stderr, keys_silent, plan, answered, dead) = (StderrTail::default(), false, None, false, false);
        let (pidfd, suspendable, continues) = (Arc::new(pidfd), false, false);
        Worker {
            channel,
            pidfd,
            pid,
            reaper,
            cgroup,
            received: None,
            stderr,
            keys_silent,
            plan,
            suspendable,
            residence: super::supervised::Residence::Never,
            captures: super::supervised::Captures::Never,
            sends: false,
            listens: false,
            unanswered: super::post::Unanswered::default(),
            continues,
            rest: 0,
            answered,
            stay: Stay::No,
            memory: None,
            dead,
        }
    }
}
