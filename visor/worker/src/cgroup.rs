//! A control group for each worker: limits that the kernel enforces when every other limit has been bypassed.
//!
//! ```text
//! the group the server was started in      has no other process, and is delegated to the server
//!   └─ monohull-PID                        only leaves may have processes, hence
//!        ├─ server                           supervisor and spawner
//!        ├─ worker-0                         one worker at a time: its memory and its tasks are limited
//!        └─ worker-1                         …
//! ```
//!
//! Groups are made for idle workers, ahead of requests, and reused: making one costs more than a fork. A worker is in its group
//! from its first instruction (`CLONE_INTO_CGROUP`), because moving a process makes the kernel wait for all others. A job costs
//! one write, and only if its workflow's memory differs from that of the last one in the same group.
//!
//! A server that ends removes its workers' groups. It can move out of its own group, to remove that too, only where the parent
//! group is the root. The next server removes what remains, as it does after a server that was killed. `monohull run` does
//! the same for its one worker.

use super::error::ProcessError;
use monohull_abi::layout::{CARRIER_MAX, CELL_COUNT};
use monohull_report::escape::shown;
use monohull_sys::fork::{Fork, OnlyThread, ThreadIdAddress, exit_now};
use monohull_workflow::Plan;
use monohull_workflow::plan::MountSource;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{WaitStatus, waitpid};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The controllers that limit what a worker takes.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];
/// The prefix of the name of a server's group; the process id follows.
const FAMILY: &str = "monohull-";
const SERVER: &str = "server";
/// The most tasks of a worker: its carriers, and as many again for threads that the C library may start.
const TASKS: u64 = 2 * CARRIER_MAX as u64;
/// What a worker may take besides what its functions may: libos modules and their state, page tables, carriers' stacks,
/// and the kernel's own memory for it.
const SLACK: u64 = 128 << 20;
/// What the visor keeps of an instance until its report is sent: some 500 bytes without what it prints.
const INSTANCE_BYTES: u64 = 1024;

/// Whether workers get groups of their own (`--cgroup`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum CgroupMode {
    /// Where the host permits; otherwise reports have the reason
    #[default]
    Auto,
    /// Workers stay in the group of their server
    Never,
    /// Refuse to start without
    Require,
}

/// The control groups of workers.
#[derive(Clone, Debug)]
pub enum Membership {
    /// Each in one of its own.
    Own(Arc<Groups>),
    /// All in that of their server, for this reason.
    Shared(String),
}

/// Why there are no groups for workers.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// There is no hierarchy of version 2.
    #[error("cgroup v2 is not mounted")]
    NoHierarchy,
    /// The parent group does not delegate a controller.
    #[error(
        "controllers {missing:?} are not available in {}/cgroup.controllers: they are mounted as cgroup v1, or the parent cgroup \
         does not delegate them",
        shown(folder)
    )]
    NoController {
        /// The group the server is in.
        folder: PathBuf,
        /// Those of [`CONTROLLERS`] that it lacks.
        missing: Vec<&'static str>,
    },
    /// The group has other processes.
    #[error(
        "cgroup {} contains other processes, and cgroup v2 enables no controllers for the children of such a group \
         (no-internal-process rule): start the server in a cgroup of its own (systemd: `Delegate=yes`)",
        shown(.0)
    )]
    Crowded(PathBuf),
    /// A file of the hierarchy cannot be used.
    #[error("{what} {}: {source}", shown(path))]
    Host {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// The host's answer.
        source: io::Error,
    },
    /// `CLONE_INTO_CGROUP` does not work.
    #[error("no process can be forked into a cgroup: {0}")]
    Fork(io::Error),
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> GroupError {
    move |source| GroupError::Host { what, path: path.to_owned(), source }
}

impl Membership {
    /// Sets groups up, as far as the mode asks for and the host permits. Moves this process, which must have one thread and no
    /// children.
    pub fn set_up(mode: CgroupMode) -> Result<Membership, ProcessError> {
        match (mode, || Groups::found()) {
            (CgroupMode::Never, _) => Ok(Membership::Shared("--cgroup never".to_owned())),
            (CgroupMode::Auto, found) => {
                Ok(found().map_or_else(|why| Membership::Shared(why.to_string()), Membership::Own))
            }
            (CgroupMode::Require, found) => match found() {
                Ok(groups) => Ok(Membership::Own(groups)),
                Err(why) => {
                    Err(ProcessError::Refused(format!("workers would have no control group of their own: {why}")))
                }
            },
        }
    }

    /// As reports have it: `own`, or `none` and the reason.
    pub fn describe(&self) -> String {
        match self {
            Membership::Own(_) => "own".to_owned(),
            Membership::Shared(why) => format!("none: {why}"),
        }
    }

    /// Removes all groups of workers, and kills the workers in them.
    pub fn end(&self) {
        if let Membership::Own(groups) = self {
            groups.end();
        }
    }

    /// A group for one more worker, if each has a group of its own.
    pub(super) fn worker_cgroup(&self) -> io::Result<Option<WorkerCgroup>> {
        match self {
            Membership::Own(groups) => groups.worker_cgroup().map(Some),
            Membership::Shared(_) => Ok(None),
        }
    }
}

/// The group of this process, if [`Membership::set_up`] could use it. Changes nothing.
pub fn probe() -> Result<PathBuf, GroupError> {
    let folder = own_group().ok_or(GroupError::NoHierarchy)?;
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).map_err(failed("reading", &path))
    };
    let given = read("cgroup.controllers")?;
    let missing = |name: &&str| !given.split_whitespace().any(|given| given == *name);
    let missing: Vec<_> = CONTROLLERS.into_iter().filter(missing).collect();
    if !missing.is_empty() {
        return Err(GroupError::NoController { folder, missing });
    }
    // The root may have processes and limited children; it is the one group without a type.
    let is_root = !folder.join("cgroup.type").exists();
    let own = std::process::id().to_string();
    if !is_root && read("cgroup.procs")?.lines().any(|pid| pid != own) {
        return Err(GroupError::Crowded(folder));
    }
    let list = folder.join("cgroup.subtree_control");
    OpenOptions::new().write(true).open(&list).map_err(failed("writing to", &list))?;
    Ok(folder)
}

/// The folder of this process's group.
fn own_group() -> Option<PathBuf> {
    let groups = fs::read("/proc/self/cgroup").ok()?;
    let own = groups.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"0::"))?;
    // Fields: number, parent, device, root, mount point, …, "-", kind, …
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    mounts.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let (root, point) = (fields.nth(3)?, fields.next()?);
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        let path = Path::new(OsStr::from_bytes(own)).strip_prefix(OsStr::from_bytes(root)).ok()?;
        (kind == b"cgroup2").then(|| Path::new(OsStr::from_bytes(point)).join(path))
    })
}

/// The most memory that this process may have by the limits of its group and of those above, if there are any.
pub fn memory_limit() -> Option<u64> {
    least_limit(&own_group()?)
}

/// The least limit of a group and of those above.
fn least_limit(group: &Path) -> Option<u64> {
    let limit = |folder: &Path| fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse::<u64>().ok();
    group.ancestors().filter_map(limit).min()
}

/// The memory of the host.
pub fn memory_of_host() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    total.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The memory that all functions of a workflow may use together, and what it costs to run them.
fn memory_of(plan: &Plan) -> u64 {
    let mut instances: Vec<(u64, u64)> =
        plan.steps.iter().map(|step| (step.memory.saturating_add(step.stack), step.instances.most().into())).collect();
    // At most as many run at once as there are cells: those that may use the most.
    instances.sort_unstable_by_key(|(each, _)| std::cmp::Reverse(*each));
    let reports = plan.instances().saturating_mul(INSTANCE_BYTES);
    let (mut cells, mut bytes) = (CELL_COUNT as u64, SLACK.saturating_add(plan.limits.slots).saturating_add(reports));
    for (each, count) in instances {
        let count = count.min(cells);
        cells -= count;
        bytes = bytes.saturating_add(each.saturating_mul(count));
    }
    let files = plan.files.iter().map(|mount| match mount.source {
        MountSource::Memory { size } => size,
        // Changed pages of a copy are memory; mapped pages of a file count while they are mapped.
        MountSource::Image { ref path, .. } => fs::metadata(path).map_or(0, |metadata| metadata.len()),
        MountSource::Directory { .. } | MountSource::Granted { .. } => 0,
    });
    files.fold(bytes, u64::saturating_add)
}

/// The groups of one server's workers.
#[derive(Debug)]
pub struct Groups {
    /// `…/monohull-PID`.
    folder: PathBuf,
    made: AtomicU32,
    /// Groups without a process, or whose process ends soon, the oldest first.
    free: Mutex<VecDeque<Free>>,
}

/// A group that waits for its next worker, and the last one, if that may not have ended yet.
#[derive(Debug)]
struct Free(Group, Option<Arc<OwnedFd>>);

/// A worker's group.
#[derive(Debug)]
struct Group {
    folder: PathBuf,
    /// The folder, for the kernel.
    directory: File,
    /// `memory.max`, and the value that was last written to it.
    limit: (File, Option<u64>),
    /// `memory.events`, and its content before the present worker.
    events: (File, Events),
}

/// The most bytes that may still be charged to a group that is reused: memory that the kernel has not reclaimed yet.
const CHARGED_MAX: u64 = 4 << 20;
/// How many free groups are tried before a new one is made.
const TRIED_MAX: usize = 4;

/// Counters of a group.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Events {
    /// How often the group's limit was hit.
    over: u64,
    /// How many processes the OOM killer has killed, for the group's limit or the host's memory.
    killed: u64,
}

/// Why the OOM killer killed a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OomCause {
    /// The group was at its limit of so many bytes.
    Own(u64),
    /// The host had no memory left.
    Host,
}

impl Groups {
    fn found() -> Result<Arc<Groups>, GroupError> {
        let above = probe()?;
        sweep(&above);
        let folder = above.join(format!("{FAMILY}{}", std::process::id()));
        let groups = Groups { folder, made: AtomicU32::new(0), free: Mutex::default() };
        let ready = groups.enable_controllers(&above);
        if ready.is_err() {
            groups.end();
        }
        ready.map(|()| Arc::new(groups))
    }

    /// Moves this process into a leaf, enables the controllers for its siblings, and tries whether a process can be forked into
    /// a group.
    fn enable_controllers(&self, above: &Path) -> Result<(), GroupError> {
        let server = self.folder.join(SERVER);
        for folder in [&self.folder, &server] {
            fs::create_dir(folder).map_err(failed("making", folder))?;
        }
        join(&server)?;
        for folder in [above, &self.folder] {
            let list = folder.join("cgroup.subtree_control");
            let wanted = CONTROLLERS.map(|name| format!("+{name}")).join(" ");
            fs::write(&list, wanted).map_err(failed("writing to", &list))?;
        }
        let group = self.make().map_err(failed("making a group in", &self.folder))?;
        try_fork_into(&group.directory).map_err(GroupError::Fork)?;
        self.free().push_back(Free(group, None));
        Ok(())
    }

    /// A group without a process, and to which next to nothing is charged: one that was used before, or a new one. The outputs of
    /// a worker are charged to its group as long as they exist, and the next worker could use so much less.
    fn worker_cgroup(self: &Arc<Self>) -> io::Result<WorkerCgroup> {
        let mut used = None;
        for _ in 0..TRIED_MAX {
            let mut free = self.free();
            let is_empty = free.front().is_some_and(|Free(_, last)| last.as_deref().is_none_or(has_ended));
            let Some(group) = (if is_empty { free.pop_front() } else { None }) else { break };
            if group.0.charged().is_ok_and(|bytes| bytes <= CHARGED_MAX) {
                used = Some(group);
                break;
            }
            free.push_back(group);
        }
        let group = match used {
            Some(Free(mut group, _)) => {
                group.events.1 = group.events()?;
                group
            }
            None => self.make()?,
        };
        Ok(WorkerCgroup { groups: self.clone(), group: Some(group) })
    }

    fn make(&self) -> io::Result<Group> {
        let folder = self.folder.join(format!("worker-{}", self.made.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&folder)?;
        fs::write(folder.join("pids.max"), TASKS.to_string())?;
        // The OOM killer kills the whole group: a worker without one of its threads is of no use.
        fs::write(folder.join("memory.oom.group"), "1")?;
        // Swap would bypass the limit. Not every kernel accounts for it.
        match fs::write(folder.join("memory.swap.max"), "0") {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let open = |name: &str| File::open(folder.join(name));
        let limit = OpenOptions::new().write(true).open(folder.join("memory.max"))?;
        let (directory, events) = (File::open(&folder)?, open("memory.events")?);
        Ok(Group { directory, limit: (limit, None), events: (events, Events::default()), folder })
    }

    fn free(&self) -> MutexGuard<'_, VecDeque<Free>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the groups of all workers, and kills processes in them. Where this process may move back to the parent group, it
    /// does, and its own group is removed too.
    fn end(&self) {
        self.free().clear();
        for number in 0..self.made.load(Ordering::Relaxed) {
            let folder = self.folder.join(format!("worker-{number}"));
            let _ = fs::write(folder.join("cgroup.kill"), "1");
            // A process takes a moment to end. The next server removes what cannot be removed now.
            let busy = |_: &u32| fs::remove_dir(&folder).is_err_and(|error| error.kind() == ErrorKind::ResourceBusy);
            let pause = |_| std::thread::sleep(std::time::Duration::from_millis(1));
            (0..50).take_while(busy).for_each(pause);
        }
        if self.folder.parent().is_some_and(|above| join(above).is_ok()) {
            let _ = remove_family(&self.folder);
        }
    }
}

impl Group {
    /// Bytes that are charged to it.
    fn charged(&self) -> io::Result<u64> {
        let text = fs::read_to_string(self.folder.join("memory.current"))?;
        text.trim_end().parse().map_err(|_| ErrorKind::InvalidData.into())
    }

    fn events(&self) -> io::Result<Events> {
        let mut text = [0; 256];
        let len = self.events.0.read_at(&mut text, 0)?;
        Ok(Events::of(&String::from_utf8_lossy(&text[..len])))
    }
}

impl Events {
    fn of(text: &str) -> Events {
        let count = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(known, _)| *known == name).and_then(|(_, count)| count.parse().ok()).unwrap_or(0)
        };
        Events { over: count("oom"), killed: count("oom_kill") }
    }
}

/// The group of one worker, from before its fork until it has ended.
///
/// If it is only dropped, the group may have a process of which nothing is known, so no other worker gets the group.
#[derive(Debug)]
pub(super) struct WorkerCgroup {
    groups: Arc<Groups>,
    /// `Some` until it is freed or dropped.
    group: Option<Group>,
}

impl WorkerCgroup {
    /// Limits its processes to the memory that this workflow may use, with so many copies of it at a time.
    pub(super) fn limit(&mut self, plan: &Plan, copies: u64) -> io::Result<()> {
        let Some(Group { limit: (file, last), .. }) = &mut self.group else { return Ok(()) };
        let bytes = memory_of(plan).saturating_mul(1 + copies);
        if *last != Some(bytes) {
            file.write_at(bytes.to_string().as_bytes(), 0)?;
            *last = Some(bytes);
        }
        Ok(())
    }

    /// The folder and the limits, as reports have them.
    pub(super) fn describe(&self) -> String {
        let Some(group) = &self.group else { return String::new() };
        let folder = shown(&group.folder);
        match group.limit.1 {
            Some(bytes) => format!("{folder}, at most {bytes} bytes and {TASKS} tasks"),
            None => format!("{folder}, at most {TASKS} tasks"),
        }
    }

    /// Why the OOM killer has killed its process, if it has.
    pub(super) fn oom_cause(&self) -> Option<OomCause> {
        let group = self.group.as_ref()?;
        let (now, before) = (group.events().ok()?, group.events.1);
        match (now.killed > before.killed, now.over > before.over) {
            (true, true) => Some(OomCause::Own(group.limit.1.unwrap_or_default())),
            (true, false) => Some(OomCause::Host),
            (false, _) => None,
        }
    }

    /// The file that has the bytes of memory which its process is charged for.
    pub(super) fn account(&self) -> Option<PathBuf> {
        Some(self.group.as_ref()?.folder.join("memory.current"))
    }

    /// The folder, for `CLONE_INTO_CGROUP`.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.group.as_ref().expect("it is there until it is dropped").directory.as_fd()
    }

    /// Free once this process, the only one that was forked into it, has ended.
    pub(super) fn free_after(mut self, worker: Arc<OwnedFd>) {
        let free = self.group.take().map(|group| Free(group, Some(worker)));
        self.groups.free().extend(free);
    }
}

impl Drop for WorkerCgroup {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            // A group with a process in it is removed when the server ends.
            let _ = fs::remove_dir(&group.folder);
        }
    }
}

/// Whether a process has ended, and belongs to no group any more.
fn has_ended(process: &OwnedFd) -> bool {
    poll(&mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) != Ok(0)
}

/// Moves this process.
fn join(folder: &Path) -> Result<(), GroupError> {
    let list = folder.join("cgroup.procs");
    fs::write(&list, "0").map_err(failed("moving to", &list))
}

/// Removes the groups of servers that do not run any more.
fn sweep(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let server = name.to_str().and_then(|name| name.strip_prefix(FAMILY)?.parse::<u32>().ok());
        // A group that is being set up has no process for a moment, but its server runs.
        if server.is_some_and(|pid| pid == std::process::id() || !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = remove_family(&entry.path());
        }
    }
}

/// Removes the groups of a server; an error, and no change, while the server is in its group.
fn remove_family(folder: &Path) -> io::Result<()> {
    match fs::remove_dir(folder.join(SERVER)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_type()?.is_dir() {
            fs::remove_dir(entry.path())?;
        }
    }
    fs::remove_dir(folder)
}

/// Forks a process into a group, which ends at once. This process has one thread.
fn try_fork_into(group: &File) -> io::Result<()> {
    let only = OnlyThread::new()?;
    match only.fork_into_cgroup(group.as_fd(), &ThreadIdAddress::of(&only)?)? {
        Fork::Child(_) => exit_now(0),
        Fork::Parent((child, _pidfd)) => match waitpid(child, None)? {
            WaitStatus::Exited(_, 0) => Ok(()),
            other => Err(io::Error::other(format!("the first one ended as {other:?}"))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with the files of a group.
    fn group(folder: PathBuf) -> Group {
        let path = |name: &str| folder.join(name);
        fs::create_dir(&folder).expect("made");
        for name in ["memory.max", "memory.events", "memory.current"] {
            fs::write(path(name), "0\n").expect("written");
        }
        Group {
            directory: File::open(&folder).expect("a folder"),
            limit: (File::create(path("memory.max")).expect("a file"), None),
            events: (File::open(path("memory.events")).expect("a file"), Events::default()),
            folder,
        }
    }

    #[test]
    fn the_limit_is_the_least_of_a_group_and_of_those_above() {
        let root = tempfile::TempDir::new().expect("a folder");
        let group = root.path().join("service/server");
        fs::create_dir_all(&group).expect("made");
        assert_eq!(least_limit(&group), None);
        fs::write(group.join("memory.max"), "max\n").expect("written");
        assert_eq!(least_limit(&group), None);
        fs::write(root.path().join("memory.max"), "1000000\n").expect("written");
        assert_eq!(least_limit(&group), Some(1_000_000));
        fs::write(root.path().join("service/memory.max"), "2000000\n").expect("written");
        assert_eq!(least_limit(&group), Some(1_000_000));
        fs::write(group.join("memory.max"), "4096\n").expect("written");
        assert_eq!(least_limit(&group), Some(4096));
    }

    #[test]
    fn the_memory_of_the_host_is_known() {
        assert!(memory_of_host().is_some_and(|bytes| bytes > 64 << 20));
    }

    #[test]
    fn a_group_goes_to_the_next_worker_once_it_is_known_to_be_empty() {
        let root = tempfile::TempDir::new().expect("a folder");
        let groups =
            Arc::new(Groups { folder: root.path().to_owned(), made: AtomicU32::new(7), free: Mutex::default() });
        let used = || groups.worker_cgroup().ok().map(|cgroup| cgroup.describe());
        let cgroup = |name: &str| WorkerCgroup { groups: groups.clone(), group: Some(group(root.path().join(name))) };
        // Outside of the control groups' file system no new group can be made, so there is one only if an old one is used again.
        groups.free().push_back(Free(group(root.path().join("free")), None));
        assert!(used().is_some_and(|found| found.contains("free")), "the positive control");
        drop(cgroup("dropped"));
        assert_eq!(used(), None, "a group that was only dropped may have a process");

        let mut worker = std::process::Command::new("sleep").arg("3600").spawn().expect("it starts");
        let pid = rustix::process::Pid::from_child(&worker);
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).expect("a descriptor");
        cgroup("busy").free_after(Arc::new(pidfd));
        assert_eq!(used(), None, "its worker has not ended");
        worker.kill().expect("it runs");
        worker.wait().expect("a child");
        assert!(used().is_some_and(|found| found.contains("busy")), "its worker has ended");
    }

    #[test]
    fn what_instances_cost_besides_their_own_memory_is_in_the_limit() {
        let limit = |instances: u32| {
            let document = format!(
                r#"{{"name": "w", "functions": {{"f": {{"image": "f.so"}}}},
                    "steps": [{{"name": "s", "function": "f", "instances": {instances}}}]}}"#
            );
            let checked = monohull_workflow::check_bytes(std::path::Path::new("w.json"), document.as_bytes());
            memory_of(&checked.into_plan().expect("a good workflow"))
        };
        // No more run at once than there are cells, so the rest is what the orchestrator keeps of each.
        let cells = CELL_COUNT as u32;
        assert!(limit(cells) > limit(cells - 1) + INSTANCE_BYTES);
        assert_eq!(limit(10 * cells) - limit(cells), 9 * u64::from(cells) * INSTANCE_BYTES);
    }

    #[test]
    fn what_the_kernel_counts_is_read() {
        let text = "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 1\n";
        assert_eq!(Events::of(text), Events { over: 2, killed: 3 });
        assert_eq!(Events::of("oom_kill x\n"), Events::default());
    }
}
