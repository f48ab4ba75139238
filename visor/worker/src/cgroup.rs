//! A control group for each worker: what the kernel holds a process to when every other limit has been got round.
//!
//! ```text
//! the group the server was started in      holds nobody but the server, and was given to it
//!   └─ monohull-PID                        only leaves may hold processes, hence
//!        ├─ server                           supervisor and spawner
//!        ├─ worker-0                         one worker at a time: its memory and its tasks are limited
//!        └─ worker-1                         …
//! ```
//!
//! Groups are made for idle workers, before anybody waits for them, and used again: making one costs more than a fork. A worker is
//! born in its group (`CLONE_INTO_CGROUP`), because moving a process makes the kernel wait for all others. What a job
//! costs is one write, and only if its workflow's memory differs from that of the last one in the same group.
//!
//! A server that ends takes its workers' groups away. Its own it can only leave where the group above is the root; that, and all
//! that a killed server leaves, the next one removes. `monohull run` does all this for the one worker it has.

use super::ProcessError;
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
/// What the group of a server is called, before its process id.
const FAMILY: &str = "monohull-";
const SERVER: &str = "server";
/// Most tasks of a worker: its carriers, and as many again for what the C library or a successor of this code may start.
const TASKS: u64 = 2 * CARRIER_MAX as u64;
/// What a worker may take besides what its functions may: libos modules and their state, page tables, carriers' stacks,
/// and the kernel's own memory for it.
const SLACK: u64 = 128 << 20;
/// What the visor keeps of an instance until its report is sent: some 500 bytes without what it prints.
const INSTANCE_BYTES: u64 = 1024;

/// Whether workers get groups of their own (`--cgroup`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum CgroupMode {
    /// Where the host permits; otherwise it is told why not
    #[default]
    Auto,
    /// They stay in the group of their server
    Never,
    /// Refuse to start without
    Require,
}

/// The groups workers are in.
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
    /// control groups of version 2 are not mounted
    #[error("control groups of version 2 are not mounted")]
    NoHierarchy,
    /// {folder} cannot give the controllers {missing:?}: version 1 has them, or whoever is above keeps them
    #[error("{folder} cannot give the controllers {missing:?}: version 1 has them, or whoever is above keeps them")]
    NoController {
        /// The group the server is in.
        folder: PathBuf,
        /// Those of [`CONTROLLERS`] that it lacks.
        missing: Vec<&'static str>,
    },
    /// {0} holds other processes too, and a group that holds any can have none below it that are limited
    #[error("{0} holds other processes too, and a group that holds any can have none below it that are limited")]
    Crowded(PathBuf),
    /// {what} {path}: {source}
    #[error("{what} {path}: {source}")]
    Host {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// The host's answer.
        source: io::Error,
    },
    /// no process can be born in a group: {0}
    #[error("no process can be born in a group: {0}")]
    Birth(io::Error),
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> GroupError {
    move |source| GroupError::Host { what, path: path.to_owned(), source }
}

impl Membership {
    /// As wished, as far as the host permits. Moves this process, which must have one thread and no children.
    pub fn arrange(wish: CgroupMode) -> Result<Membership, ProcessError> {
        match (wish, || Groups::found()) {
            (CgroupMode::Never, _) => Ok(Membership::Shared("--cgroup never".to_owned())),
            (CgroupMode::Auto, found) => {
                Ok(found().map_or_else(|why| Membership::Shared(why.to_string()), Membership::Own))
            }
            (CgroupMode::Require, found) => match found() {
                Ok(groups) => Ok(Membership::Own(groups)),
                Err(why) => Err(ProcessError::Refused(format!("it would have no control group of its own: {why}"))),
            },
        }
    }

    /// In words: `own`, or `none` and why.
    pub fn describe(&self) -> String {
        match self {
            Membership::Own(_) => "own".to_owned(),
            Membership::Shared(why) => format!("none: {why}"),
        }
    }

    /// Takes all groups of workers away, and the workers with them.
    pub fn end(&self) {
        if let Membership::Own(groups) = self {
            groups.end();
        }
    }

    /// A group for one more worker, if each has its own.
    pub(super) fn worker_cgroup(&self) -> io::Result<Option<WorkerCgroup>> {
        match self {
            Membership::Own(groups) => groups.worker_cgroup().map(Some),
            Membership::Shared(_) => Ok(None),
        }
    }
}

/// Whether [`Membership::arrange`] would find what it needs, without changing anything: the group this process is in.
pub fn look() -> Result<PathBuf, GroupError> {
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
    // The root may hold processes all the same; it is the one that has no type.
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
        let mut words = line.split(|byte| *byte == b' ');
        let (root, point) = (words.nth(3)?, words.next()?);
        let kind = words.skip_while(|word| *word != b"-").nth(1)?;
        let path = Path::new(OsStr::from_bytes(own)).strip_prefix(OsStr::from_bytes(root)).ok()?;
        (kind == b"cgroup2").then(|| Path::new(OsStr::from_bytes(point)).join(path))
    })
}

/// What the functions of a workflow may take together, and what it costs to run them.
fn memory_of(plan: &Plan) -> u64 {
    let mut instances: Vec<(u64, u64)> =
        plan.steps.iter().map(|step| (step.memory.saturating_add(step.stack), step.instances.most().into())).collect();
    // Not more run at once than there are cells: those that may take most.
    instances.sort_unstable_by_key(|(each, _)| std::cmp::Reverse(*each));
    let books = plan.instances().saturating_mul(INSTANCE_BYTES);
    let (mut cells, mut bytes) = (CELL_COUNT as u64, SLACK.saturating_add(plan.limits.slots).saturating_add(books));
    for (each, count) in instances {
        let count = count.min(cells);
        cells -= count;
        bytes = bytes.saturating_add(each.saturating_mul(count));
    }
    let files = plan.files.iter().map(|mount| match mount.source {
        MountSource::Memory { size } => size,
        // A copy is memory as far as it is changed; what is mapped of a file counts as long as it is.
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
    /// Those that nobody is in, or nobody will be soon: the oldest first.
    free: Mutex<VecDeque<Free>>,
}

/// A group that waits for its next worker, and the last one, if it may still be there.
#[derive(Debug)]
struct Free(Group, Option<Arc<OwnedFd>>);

/// A worker's group.
#[derive(Debug)]
struct Group {
    folder: PathBuf,
    /// The folder, for the kernel.
    directory: File,
    /// `memory.max`, and what was last written there.
    limit: (File, Option<u64>),
    /// `memory.events`, and what it said before the present worker.
    events: (File, Events),
}

/// Most bytes that may still be charged to a group that is used again: what the kernel has not given back yet.
const CHARGED_MAX: u64 = 4 << 20;
/// How many groups are looked at before a new one is made.
const LOOKED_AT: usize = 4;

/// What the kernel has counted in a group.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Events {
    /// How often memory could not be had for the group's limit.
    over: u64,
    /// How many processes were ended for want of memory, the group's or the host's.
    killed: u64,
}

/// Why the kernel ended a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OomCause {
    /// The group's memory, so many bytes, did not do.
    Own(u64),
    /// The host had no more.
    Host,
}

impl Groups {
    fn found() -> Result<Arc<Groups>, GroupError> {
        let above = look()?;
        sweep(&above);
        let folder = above.join(format!("{FAMILY}{}", std::process::id()));
        let groups = Groups { folder, made: AtomicU32::new(0), free: Mutex::default() };
        let settled = groups.settle(&above);
        if settled.is_err() {
            groups.end();
        }
        settled.map(|()| Arc::new(groups))
    }

    /// Moves this process into a leaf, has the controllers given, and tries whether a process can be born in a group.
    fn settle(&self, above: &Path) -> Result<(), GroupError> {
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
        try_birth(&group.directory).map_err(GroupError::Birth)?;
        self.free().push_back(Free(group, None));
        Ok(())
    }

    /// A group that nobody is in, and to which next to nothing is charged: one that was used before, or a new one. What a worker has
    /// handed out is its group's as long as somebody keeps it, and would be missing to the next.
    fn worker_cgroup(self: &Arc<Self>) -> io::Result<WorkerCgroup> {
        let mut used = None;
        for _ in 0..LOOKED_AT {
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
        // Half a workflow is none.
        fs::write(folder.join("memory.oom.group"), "1")?;
        // A limit that is got round by way of the swap is none. Not every kernel accounts for it.
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

    /// Removes the groups of all workers, and ends those that are still in one. Where this process may leave its own, it goes
    /// back to where it came from, and removes that too.
    fn end(&self) {
        self.free().clear();
        for number in 0..self.made.load(Ordering::Relaxed) {
            let folder = self.folder.join(format!("worker-{number}"));
            let _ = fs::write(folder.join("cgroup.kill"), "1");
            // A process takes a moment to end. What cannot be removed now the next server removes.
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

/// The group of one worker, from before its birth until it has ended.
///
/// If it is only dropped, a process may be in the group of which nothing is known, so no other worker gets the group.
#[derive(Debug)]
pub(super) struct WorkerCgroup {
    groups: Arc<Groups>,
    /// Always there, until it is freed or dropped.
    group: Option<Group>,
}

impl WorkerCgroup {
    /// Limits what is in it to what this workflow may take.
    pub(super) fn limit(&mut self, plan: &Plan) -> io::Result<()> {
        let Some(Group { limit: (file, last), .. }) = &mut self.group else { return Ok(()) };
        let bytes = memory_of(plan);
        if *last != Some(bytes) {
            file.write_at(bytes.to_string().as_bytes(), 0)?;
            *last = Some(bytes);
        }
        Ok(())
    }

    /// The folder and what is limited, in words.
    pub(super) fn describe(&self) -> String {
        let Some(group) = &self.group else { return String::new() };
        let folder = shown(&group.folder);
        match group.limit.1 {
            Some(bytes) => format!("{folder}, at most {bytes} bytes and {TASKS} tasks"),
            None => format!("{folder}, at most {TASKS} tasks"),
        }
    }

    /// Whether the kernel has ended what was in it for want of memory.
    pub(super) fn oom_cause(&self) -> Option<OomCause> {
        let group = self.group.as_ref()?;
        let (now, before) = (group.events().ok()?, group.events.1);
        match (now.killed > before.killed, now.over > before.over) {
            (true, true) => Some(OomCause::Own(group.limit.1.unwrap_or_default())),
            (true, false) => Some(OomCause::Host),
            (false, _) => None,
        }
    }

    /// What the spawner needs to put a worker in it.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.group.as_ref().expect("it is there until it is dropped").directory.as_fd()
    }

    /// Free once this process, the only one that was born in it, has ended.
    pub(super) fn free_after(mut self, worker: Arc<OwnedFd>) {
        let free = self.group.take().map(|group| Free(group, Some(worker)));
        self.groups.free().extend(free);
    }
}

impl Drop for WorkerCgroup {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            // One that a process is still in is removed when the server ends.
            let _ = fs::remove_dir(&group.folder);
        }
    }
}

/// Whether a process has ended, and is in no group any more.
fn has_ended(process: &OwnedFd) -> bool {
    poll(&mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) != Ok(0)
}

/// Moves this process.
fn join(folder: &Path) -> Result<(), GroupError> {
    let list = folder.join("cgroup.procs");
    fs::write(&list, "0").map_err(failed("moving to", &list))
}

/// Removes what servers have left that are not there any more.
fn sweep(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let server = name.to_str().and_then(|name| name.strip_prefix(FAMILY)?.parse::<u32>().ok());
        // One that is being set up has nobody in it for a moment, but a process.
        if server.is_some_and(|pid| pid == std::process::id() || !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = remove_family(&entry.path());
        }
    }
}

/// Removes the groups of a server; an error, and nothing else, while it is in there.
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

/// Has a process be born in a group, and end. This process has one thread.
fn try_birth(group: &File) -> io::Result<()> {
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

    /// A group in which no process can be, for what is decided about it.
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
    fn a_group_goes_to_the_next_worker_once_it_is_known_to_be_empty() {
        let root = tempfile::TempDir::new().expect("a folder");
        let groups =
            Arc::new(Groups { folder: root.path().to_owned(), made: AtomicU32::new(7), free: Mutex::default() });
        let used = || groups.worker_cgroup().ok().map(|leaf| leaf.describe());
        let leaf = |name: &str| WorkerCgroup { groups: groups.clone(), group: Some(group(root.path().join(name))) };
        // Outside of the control groups' file system no new group can be made, so there is one only if an old one is used again.
        groups.free().push_back(Free(group(root.path().join("free")), None));
        assert!(used().is_some_and(|found| found.contains("free")), "the positive control");
        drop(leaf("dropped"));
        assert_eq!(used(), None, "nothing is known of the process in a group that was only dropped");

        let mut worker = std::process::Command::new("sleep").arg("3600").spawn().expect("it starts");
        let pid = rustix::process::Pid::from_child(&worker);
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).expect("a descriptor");
        leaf("busy").free_after(Arc::new(pidfd));
        assert_eq!(used(), None, "its worker has not ended");
        worker.kill().expect("it runs");
        worker.wait().expect("a child");
        assert!(used().is_some_and(|found| found.contains("busy")), "its worker has ended");
    }

    #[test]
    fn what_the_kernel_counts_is_read() {
        let text = "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 1\n";
        assert_eq!(Events::of(text), Events { over: 2, killed: 3 });
        assert_eq!(Events::of("oom_kill x\n"), Events::default());
    }
}
