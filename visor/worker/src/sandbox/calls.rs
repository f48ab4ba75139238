//! The system calls a worker can make once it has a job. Any other ends the process. The spawner makes some more, with a word that
//! its workers have forgotten (`process::word`).
//!
//! Functions make none at all: syscall user dispatch stops those before they come here. This list is for the case that a
//! function has brought trusted code under its control: it can then do what is on the list and nothing else. So each entry
//! has its reason, and where one of the arguments tells the use that is needed from all others, the entry says so.
//!
//! What is not here, on purpose: anything that opens a file for writing; that makes, binds or connects a socket; a process, a
//! program, a trace, a key, an asynchronous ring, a page-fault descriptor that could make the kernel wait; and any way to leave the sandbox or to change
//! who one is.

use super::super::birth::CLONE_BYTES;
use super::super::word;
use super::super::worker::LINK;
use monohull_abi::layout::{USER_BASE, USER_END};
use monohull_domain::{RWF_APPEND, faults};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};
use std::collections::BTreeMap;

/// The compiled lists.
///
/// A filter takes longer to install than a workflow to start: the kernel compiles it and tries it on every call there is. So
/// they are installed once, for the spawner and all it forks. What only the spawner may do is allowed to those who know a
/// word (`process::word`). Where filters disagree the stricter answer counts.
pub(super) struct Filters {
    /// Allows what is on the list and ends the process for the rest.
    family: BpfProgram,
    /// Answers a call for which there is another way with an error.
    polite: BpfProgram,
    /// Turns a call that a function can make into a fault of its own.
    vsyscall: BpfProgram,
}

/// Stands in a compiled list where the word belongs, which nobody but the list and its page is to hold.
const WORD: u64 = 0x5e1f_01d0_c0de_d00d;

impl Filters {
    /// Compiles the lists.
    pub(super) fn compile(traced: bool) -> Result<Filters, BackendError> {
        let (kill, allow) = (SeccompAction::KillProcess, SeccompAction::Allow);
        // The C library tries `clone3` first, whose flags lie in memory, where a filter cannot look; told that there is no
        // such call it uses `clone`. The spawner's own has a length of its own.
        let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
        let clone3 = List::from([(libc::SYS_clone3, vec![when([is_not(1, CLONE_BYTES as i32)])?])]);
        // The page at the top of the address space from which old programs ask for the time: it is in every process, and the
        // dispatch of system calls does not see what is asked there.
        let vsyscall = VSYSCALL.iter().map(|call| (*call, vec![])).collect();
        let compile = |list, otherwise, listed| {
            SeccompFilter::new(list, otherwise, listed, TargetArch::x86_64).and_then(BpfProgram::try_from)
        };
        Ok(Filters {
            family: compile(family(traced)?, kill, allow.clone())?,
            polite: compile(clone3, allow.clone(), unknown)?,
            vsyscall: compile(vsyscall, allow, SeccompAction::Trap)?,
        })
    }

    /// Puts the lists in force for this process and all it forks.
    pub(super) fn apply(mut self) -> seccompiler::Result<()> {
        apply_filter(&self.polite)?;
        apply_filter(&self.vsyscall)?;
        word::insert(self.family.iter_mut().map(|instruction| &mut instruction.k), [WORD as u32, (WORD >> 32) as u32]);
        let applied = apply_filter(&self.family);
        word::erase(self.family.iter_mut().map(|instruction| &mut instruction.k));
        applied
    }
}

/// An argument that must satisfy something: its position, how much of it counts, what. Of an `int` the kernel looks at the
/// lower half only, and the upper may be anything.
struct Argument(u8, SeccompCmpArgLen, SeccompCmpOp, u64);

fn is_not(position: u8, value: i32) -> Argument {
    Argument(position, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, u64::from(value as u32))
}

fn is(position: u8, value: i32) -> Argument {
    Argument(position, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, u64::from(value as u32))
}

/// These bits are the ones of `value`.
fn masked(position: u8, bits: i32, value: i32) -> Argument {
    let op = SeccompCmpOp::MaskedEq(u64::from(bits as u32));
    Argument(position, SeccompCmpArgLen::Dword, op, u64::from(value as u32))
}

/// A null pointer.
fn nothing(position: u8) -> Argument {
    Argument(position, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)
}

/// None of these bits is set.
fn without(position: u8, bits: i32) -> Argument {
    masked(position, bits, 0)
}

fn at_least(position: u8, address: u64) -> Argument {
    Argument(position, SeccompCmpArgLen::Qword, SeccompCmpOp::Ge, address)
}

fn below(position: u8, address: u64) -> Argument {
    Argument(position, SeccompCmpArgLen::Qword, SeccompCmpOp::Lt, address)
}

/// The spawner's word.
fn word() -> Argument {
    Argument(5, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, WORD)
}

/// All of these must hold.
fn when<const N: usize>(arguments: [Argument; N]) -> Result<SeccompRule, BackendError> {
    let condition = |Argument(position, len, op, value)| SeccompCondition::new(position, len, op, value);
    SeccompRule::new(arguments.into_iter().map(condition).collect::<Result<_, _>>()?)
}

/// The argument at `position` must be one of these.
fn one_of(position: u8, values: &[i32]) -> Result<Vec<SeccompRule>, BackendError> {
    values.iter().map(|value| when([is(position, *value)])).collect()
}

/// Calls and rules. An entry without rules holds for any arguments; of several rules one must hold.
type List = BTreeMap<i64, Vec<SeccompRule>>;

/// The flags of `pthread_create`: a thread, never a process.
const THREAD: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID;

/// What is allowed: to all, and to those who know the word.
fn family(traced: bool) -> Result<List, BackendError> {
    const X: i32 = libc::PROT_EXEC;
    let mut list = List::new();
    let mut allow = |call: i64, rules: Vec<SeccompRule>| assert!(list.insert(call, rules).is_none(), "{call} is there");

    // -- Memory ----------------------------------------------------------------------------------------------------------
    // (Huge pages that the host has set aside are nobody's here: they would be outside of the group's memory.)
    // Cells, images and the arena (`domain::region`), the C library's allocator, stacks of carrier threads, modules being
    // mapped by `dlopen`. What is anonymous and can be written never becomes code; a memory file could, but whoever comes that
    // far has trusted code to run already.
    allow(
        libc::SYS_mmap,
        vec![
            when([without(2, X), without(3, libc::MAP_HUGETLB)])?,
            when([without(2, libc::PROT_WRITE), without(3, libc::MAP_ANONYMOUS | libc::MAP_HUGETLB)])?,
        ],
    );
    allow(libc::SYS_munmap, vec![]);
    // As for `mmap`; the relocated data of a module becomes read-only.
    allow(libc::SYS_mprotect, vec![when([without(2, X)])?]);
    // With keys, `domain::region` gives pages their rights and their key, those of code in cells as well.
    allow(
        libc::SYS_pkey_mprotect,
        vec![when([without(2, X)])?, when([at_least(0, USER_BASE), below(0, USER_END), without(2, libc::PROT_WRITE)])?],
    );
    // A workflow that is run again lays its ground again (`domain::keys`).
    allow(libc::SYS_pkey_alloc, vec![]);
    allow(libc::SYS_pkey_free, vec![]);
    // Memory given back by ended instances and by the allocator; huge pages; guard pages (`domain::region`); pages put in
    // place beforehand (`process::warm`).
    const GUARD_INSTALL: i32 = 102;
    let advice = [libc::MADV_DONTNEED, libc::MADV_HUGEPAGE, GUARD_INSTALL, libc::MADV_POPULATE_WRITE];
    allow(libc::SYS_madvise, one_of(2, &advice)?);
    // The allocator: small blocks, and large ones that grow.
    allow(libc::SYS_brk, vec![]);
    allow(libc::SYS_mremap, vec![when([is(3, libc::MREMAP_MAYMOVE)])?]);

    // -- Files -----------------------------------------------------------------------------------------------------------
    // `dlopen` of a libos module that is not mapped yet. Which files these are is Landlock's matter.
    const CHANGING: i32 =
        libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND | libc::O_PATH | libc::O_DIRECTORY;
    allow(libc::SYS_openat, vec![when([is(0, libc::AT_FDCWD), without(2, CHANGING)])?]);
    allow(libc::SYS_read, vec![]);
    // Images and inputs, at their places (`image::map`, `orchestrator::slots`).
    allow(libc::SYS_pread64, vec![]);
    // The size of a module, an image or an input that is open.
    allow(libc::SYS_fstat, vec![]);
    allow(libc::SYS_newfstatat, vec![when([masked(3, libc::AT_EMPTY_PATH, libc::AT_EMPTY_PATH)])?]);
    allow(libc::SYS_statx, vec![when([masked(2, libc::AT_EMPTY_PATH, libc::AT_EMPTY_PATH)])?]);
    // Not the link, see below.
    allow(libc::SYS_close, vec![when([is_not(0, LINK)])?]);
    // Last words: panics, and faults of trusted code (`fault::signals`).
    allow(libc::SYS_write, vec![when([is(0, 2)])?]);
    // Large answers leave as sealed memory (`sealed`).
    allow(libc::SYS_memfd_create, vec![when([without(1, libc::MFD_HUGETLB as i32)])?]);
    allow(libc::SYS_pwrite64, vec![]);
    allow(libc::SYS_ftruncate, vec![]);
    // Disk images that came with the job (`domain::files`): written to the disk, and given up at the end.
    allow(libc::SYS_fdatasync, vec![]);
    // Room for what is written to holes of theirs.
    allow(libc::SYS_fallocate, one_of(1, &[libc::FALLOC_FL_KEEP_SIZE])?);
    // Files of granted directories, which the broker has opened (`host_files`): writes to the end.
    allow(libc::SYS_pwritev2, vec![when([is(5, RWF_APPEND)])?]);
    allow(libc::SYS_flock, one_of(1, &[libc::LOCK_UN])?);
    // Sealing; the border's own copy of an input's descriptor; what debug builds of std ask before each `close`.
    let commands = [libc::F_ADD_SEALS, libc::F_GET_SEALS, libc::F_DUPFD_CLOEXEC, libc::F_GETFD];
    allow(libc::SYS_fcntl, one_of(1, &commands)?);

    // -- The job and the answer ------------------------------------------------------------------------------------------
    // `process::link`, and the broker's answers, with a socket attached (`network::client`).
    allow(libc::SYS_recvmsg, vec![]);
    // `process::link`. A process has one under this number, and can send with nothing else what may have a destination; nor
    // can anything else take its place, as it cannot be closed.
    allow(libc::SYS_sendmsg, vec![when([is(0, LINK)])?]);

    // -- The network -----------------------------------------------------------------------------------------------------
    // Sockets come from the broker, which has compared their addresses with the workflow's list (`network::broker`). To them
    // (`hostcall::network`) and to the broker nothing can be sent with a destination: that would be in memory, where a
    // filter cannot look.
    allow(libc::SYS_sendto, vec![when([nothing(4)])?]);
    allow(libc::SYS_recvfrom, vec![]);
    allow(libc::SYS_accept4, vec![]);
    allow(libc::SYS_shutdown, vec![]);
    allow(libc::SYS_getsockname, vec![]);
    allow(libc::SYS_getpeername, vec![]);
    allow(libc::SYS_getsockopt, vec![]);
    let options = [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
        (libc::SOL_SOCKET, libc::SO_BROADCAST),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
        (libc::IPPROTO_IP, libc::IP_TTL),
    ];
    let option = |(level, name): &(i32, i32)| when([is(1, *level), is(2, *name)]);
    allow(libc::SYS_setsockopt, options.iter().map(option).collect::<Result<_, _>>()?);
    // Frames to a device of the workflow's own (`hostcall::network`). What else a worker has open it may write to by other
    // calls, or it is sealed or for reading.
    allow(libc::SYS_writev, vec![]);
    // Idle carriers listen to sockets and to each other (`domain::outside`), through what came with the job: no process of a
    // workflow's makes more of it (`domain::ears`).
    allow(libc::SYS_eventfd2, vec![]);
    allow(libc::SYS_epoll_ctl, vec![]);
    allow(libc::SYS_epoll_pwait2, vec![]);

    // -- Mapped files ----------------------------------------------------------------------------------------------------
    // Pages are filled as functions touch them (`domain::mapped`). With these flags only the faults of code wait for an answer, the
    // kernel's own never do. It is heard as sockets are.
    allow(libc::SYS_userfaultfd, vec![when([is(0, faults::FLAGS as i32)])?]);
    // What is asked of it, and of nothing else: these numbers are no other descriptor's.
    allow(libc::SYS_ioctl, one_of(1, &faults::REQUESTS.map(|request| request as i32))?);

    // -- Threads and signals ---------------------------------------------------------------------------------------------
    // Carrier threads; the spawner's workers.
    allow(libc::SYS_clone, vec![when([is(0, THREAD)])?, when([is(0, word::FORK), word()])?]);
    // The spawner's, into a control group (`process::cgroup`). Any other is refused politely, see above.
    allow(libc::SYS_clone3, vec![when([is_not(1, CLONE_BYTES as i32)])?, when([word()])?]);
    // A fault of the function that made them, see above.
    VSYSCALL.iter().for_each(|call| allow(*call, vec![]));
    // A new thread's first steps, and its last: the C library, then `domain::carrier`, which needs rseq gone.
    allow(libc::SYS_set_robust_list, vec![]);
    allow(libc::SYS_rseq, vec![]);
    allow(libc::SYS_exit, vec![]);
    // A thread that starts looks for its stack's bounds (std); a report of the allocator's arenas.
    allow(libc::SYS_sched_getaffinity, vec![]);
    // Locks and waits of std and the C library. No operation that hands locks on or moves waiters.
    const OPERATION: i32 = 0x7f;
    let operations = [libc::FUTEX_WAIT, libc::FUTEX_WAKE, libc::FUTEX_WAIT_BITSET];
    let operation = |which: &i32| when([masked(1, OPERATION, *which)]);
    allow(libc::SYS_futex, operations.iter().map(operation).collect::<Result<_, _>>()?);
    // Each carrier: gs, dispatch of system calls, the time-stamp counter, the stack for signals, its timer
    // (`domain::carrier`). Its name (std).
    const ARCH_SET_GS: i32 = 0x1001;
    // The signal entry puts fs right, which a function may have changed (`trampoline`).
    const ARCH_SET_FS: i32 = 0x1002;
    const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
    allow(libc::SYS_arch_prctl, one_of(0, &[ARCH_SET_GS, ARCH_SET_FS])?);
    let mut prctl = one_of(0, &[PR_SET_SYSCALL_USER_DISPATCH, libc::PR_SET_TSC, libc::PR_SET_NAME])?;
    // A worker's first steps (`process::worker`).
    prctl.push(when([is(0, libc::PR_SET_PDEATHSIG), word()])?);
    allow(libc::SYS_prctl, prctl);
    allow(libc::SYS_sigaltstack, vec![]);
    allow(libc::SYS_timer_create, vec![]);
    allow(libc::SYS_timer_settime, vec![]);
    allow(libc::SYS_timer_delete, vec![]);
    // Handlers and masks: the C library around threads, `fault::signals`, `Carrier::recover`.
    allow(libc::SYS_rt_sigaction, vec![]);
    allow(libc::SYS_rt_sigprocmask, vec![]);
    // Handlers that interrupted trusted code return.
    allow(libc::SYS_rt_sigreturn, vec![]);
    // A wait with a time limit goes on after a signal.
    allow(libc::SYS_restart_syscall, vec![]);
    allow(libc::SYS_getpid, vec![]);
    allow(libc::SYS_gettid, vec![]);

    // -- Time and chance -------------------------------------------------------------------------------------------------
    // Where the vDSO cannot tell the time by itself.
    allow(libc::SYS_clock_gettime, vec![]);
    // The pause before a workflow is run again.
    allow(libc::SYS_clock_nanosleep, vec![]);
    // Hostcall GETRANDOM, and the seeds of hash maps.
    allow(libc::SYS_getrandom, vec![]);

    // -- The end ---------------------------------------------------------------------------------------------------------
    allow(libc::SYS_exit_group, vec![]);

    // -- The spawner, and workers before they forget the word ------------------------------------------------------------
    let tracing = if traced { TRACING } else { &[] };
    for call in SPAWNER_ONLY.iter().chain(tracing) {
        allow(*call, vec![when([word()])?]);
    }
    Ok(list)
}

/// What can be asked of the vsyscall page.
const VSYSCALL: [i64; 3] = [libc::SYS_gettimeofday, libc::SYS_time, libc::SYS_getcpu];

/// Calls that nobody makes who waits for a job. None has six arguments.
const SPAWNER_ONLY: &[i64] = &[
    // The spawner waits for requests and ends (`process::spawner`).
    libc::SYS_poll,
    libc::SYS_wait4,
    // A worker's first steps (`process::worker`).
    libc::SYS_getppid,
    libc::SYS_dup2,
    libc::SYS_close_range,
    libc::SYS_prlimit64,
];

/// The same, where the kernel cannot report faults with keys in force (`process::opener`): the tracer's requests, and the
/// traced's stop.
const TRACING: &[i64] = &[libc::SYS_ptrace, libc::SYS_tgkill];
