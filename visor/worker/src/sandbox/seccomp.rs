//! The system calls a worker can make once it has a job; any other ends the process. The spawner makes some more, with a cookie
//! that its workers have revoked ([`syscall_cookie`]).
//!
//! Functions make none at all: syscall user dispatch stops those before they come here. This list is for the case that a
//! function has brought trusted code under its control: it can then do what is on the list and nothing else. So each entry
//! has its reason, and where one of the arguments distinguishes the use that is needed from all others, the entry has a rule.
//!
//! What is not here, on purpose: anything that opens a file for writing; that makes, binds or connects a socket; a process, a
//! program, a trace, a key, an asynchronous ring, a page-fault descriptor that could make the kernel wait; and any way to leave
//! the sandbox or to change the user.

use super::super::worker::CHANNEL_FD;
use monohull_abi::layout::{CELLS_BASE, USER_BASE, USER_END, WINDOW_BASE, WINDOW_SIZE};
use monohull_domain::{RWF_APPEND, faults};
use monohull_sandbox::calls::{
    Argument, Entry, Rules, above, at_least, below, filter, is, is_not, masked, null, without,
};
use monohull_sys::{CLONE_BYTES, syscall_cookie, written_pages};
use seccompiler::{BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, apply_filter};

/// The compiled lists.
///
/// A filter takes longer to install than a workflow to start: the kernel compiles it and tries it on every call there is. So
/// they are installed once, for the spawner and all it forks. What only the spawner may do is allowed with a cookie. Where
/// filters disagree the stricter answer counts.
pub(super) struct Filters {
    /// Allows what is on the list and ends the process for the rest.
    worker: BpfProgram,
    /// Has calls fail for which there is another way.
    enosys: BpfProgram,
    /// Turns a call that a function can make into a fault of its own.
    vsyscall: BpfProgram,
}

/// Stands in a compiled list where the cookie belongs, which nothing but the list and its page is to hold.
const PLACEHOLDER: u64 = 0x5e1f_01d0_c0de_d00d;

impl Filters {
    /// Compiles the lists.
    pub(super) fn compile(traced: bool) -> Result<Filters, BackendError> {
        let (kill, allow) = (SeccompAction::KillProcess, SeccompAction::Allow);
        let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
        // What is allowed: to workers, and with the cookie.
        let tracing = if traced { TRACING } else { &[] };
        let worker = WORKER.iter().chain(SPAWNER).chain(tracing);
        Ok(Filters {
            worker: filter(worker, kill, allow.clone())?,
            enosys: filter(&ENOSYS, allow.clone(), unknown)?,
            vsyscall: filter(&VSYSCALL, allow, SeccompAction::Trap)?,
        })
    }

    /// Puts the lists in force for this process and all it forks.
    pub(super) fn apply(mut self) -> seccompiler::Result<()> {
        apply_filter(&self.enosys)?;
        apply_filter(&self.vsyscall)?;
        let halves = [PLACEHOLDER as u32, (PLACEHOLDER >> 32) as u32];
        syscall_cookie::patch(self.worker.iter_mut().map(|instruction| &mut instruction.k), halves);
        let applied = apply_filter(&self.worker);
        syscall_cookie::scrub(self.worker.iter_mut().map(|instruction| &mut instruction.k));
        applied
    }
}

/// The spawner's cookie.
const COOKIE: Argument = Argument(5, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, PLACEHOLDER);

/// The calls that a worker may make, and why.
pub fn allowed_calls() -> Vec<(i64, &'static str)> {
    WORKER.iter().map(|Entry(call, _, why)| (*call, *why)).collect()
}

const EXECUTABLE: i32 = libc::PROT_EXEC;
/// `MADV_GUARD_INSTALL` of `linux/mman.h`.
const GUARD_INSTALL: i32 = 102;
/// `MADV_COLLAPSE` of `linux/mman.h`.
const COLLAPSE: i32 = 25;
/// Flags of `openat` that a worker has no use for.
const CHANGING: i32 =
    libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND | libc::O_PATH | libc::O_DIRECTORY;
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
/// The operation in the second argument of `futex`, without its options.
const OPERATION: i32 = 0x7f;
const ARCH_SET_GS: i32 = 0x1001;
const ARCH_SET_FS: i32 = 0x1002;
const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
/// The requests that `userfaultfd` and the list of pages take: these numbers are those of no other descriptor.
const FAULT_REQUESTS: [i32; faults::REQUESTS.len() + 1] = {
    let mut requests = [written_pages::SCAN as i32; faults::REQUESTS.len() + 1];
    let mut at = 0;
    while at < faults::REQUESTS.len() {
        requests[at] = faults::REQUESTS[at] as i32;
        at += 1;
    }
    requests
};

/// Pages change places, and the source stays mapped.
const MOVED: i32 = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;

/// What a worker may call.
const WORKER: &[Entry<'static>] = &[
    // -- Memory ----------------------------------------------------------------------------------------------------------
    // Without huge pages that the host has set aside: they would be outside of the control group's memory.
    Entry(
        libc::SYS_mmap,
        Rules::Either(&[
            &[without(2, EXECUTABLE), without(3, libc::MAP_HUGETLB)],
            &[without(2, libc::PROT_WRITE), without(3, libc::MAP_ANONYMOUS | libc::MAP_HUGETLB)],
        ]),
        "cells, images and the arena (`domain::region`), the C library's allocator, stacks of carrier threads, modules that \
         `dlopen` maps. What is anonymous and writable never becomes code; a memory file could, but an attacker who comes \
         that far has trusted code to run already",
    ),
    Entry(libc::SYS_munmap, Rules::Any, "as for `mmap`"),
    Entry(
        libc::SYS_mprotect,
        Rules::If(&[without(2, EXECUTABLE)]),
        "as for `mmap`; the relocated data of a module becomes read-only",
    ),
    Entry(
        libc::SYS_pkey_mprotect,
        Rules::Either(&[
            &[without(2, EXECUTABLE)],
            &[at_least(0, USER_BASE), below(0, USER_END), without(2, libc::PROT_WRITE)],
        ]),
        "with keys, `domain::region` gives pages their rights and their key, those of code in cells as well",
    ),
    Entry(
        libc::SYS_pkey_alloc,
        Rules::Any,
        "a workflow that is run again takes its address space again (`domain::keys`)",
    ),
    Entry(libc::SYS_pkey_free, Rules::Any, "as for `pkey_alloc`"),
    Entry(
        libc::SYS_madvise,
        Rules::OneOf(
            2,
            &[
                libc::MADV_DONTNEED,
                libc::MADV_HUGEPAGE,
                COLLAPSE,
                GUARD_INSTALL,
                libc::MADV_POPULATE_READ,
                libc::MADV_POPULATE_WRITE,
            ],
        ),
        "memory given back by ended instances, by the allocator and with the cookie; huge pages; guard pages \
         (`domain::region`); pages put in place beforehand (`sys::prefault`, `domain::pager`)",
    ),
    Entry(libc::SYS_brk, Rules::Any, "the allocator: small blocks"),
    Entry(
        libc::SYS_mremap,
        Rules::Either(&[
            &[is(3, libc::MREMAP_MAYMOVE)],
            &[
                is(3, MOVED),
                below(2, WINDOW_SIZE),
                at_least(0, CELLS_BASE),
                below(0, USER_END),
                at_least(4, WINDOW_BASE),
                below(4, WINDOW_BASE + WINDOW_SIZE),
            ],
            &[
                is(3, MOVED),
                below(2, WINDOW_SIZE),
                at_least(0, WINDOW_BASE),
                below(0, WINDOW_BASE + WINDOW_SIZE),
                at_least(4, CELLS_BASE),
                below(4, USER_END),
            ],
        ]),
        "the allocator: large blocks that grow. Pages of cells and of the arena on their way to each other, through the window between \
         (`domain::moved_pages`)",
    ),
    // -- Files -----------------------------------------------------------------------------------------------------------
    Entry(
        libc::SYS_openat,
        Rules::If(&[is(0, libc::AT_FDCWD), without(2, CHANGING)]),
        "`dlopen` of a libos module that is not mapped yet; Landlock restricts which files these are",
    ),
    Entry(libc::SYS_read, Rules::Any, "files, sockets, signals of other carriers"),
    Entry(libc::SYS_pread64, Rules::Any, "images and inputs, at an offset (`image::map`, `domain::slot_buffers`)"),
    Entry(
        libc::SYS_fstat,
        Rules::Any,
        "the size of a module, an image or an input that is open; the spawner counts its threads (`sys::fork`)",
    ),
    Entry(libc::SYS_newfstatat, Rules::If(&[masked(3, libc::AT_EMPTY_PATH, libc::AT_EMPTY_PATH)]), "as for `fstat`"),
    Entry(libc::SYS_statx, Rules::If(&[masked(2, libc::AT_EMPTY_PATH, libc::AT_EMPTY_PATH)]), "as for `fstat`"),
    Entry(libc::SYS_close, Rules::If(&[is_not(0, CHANNEL_FD)]), "any file but the channel, see `sendmsg`"),
    Entry(
        libc::SYS_close_range,
        Rules::Either(&[&[above(0, CHANNEL_FD), is(2, 0)], &[COOKIE]]),
        "files of an earlier job in a process that is used again (`worker::reset`), but not the channel; a worker's first \
         steps",
    ),
    Entry(
        libc::SYS_write,
        Rules::If(&[is(0, 2)]),
        "standard error: panics, and faults of trusted code (`fault::signals`)",
    ),
    Entry(
        libc::SYS_memfd_create,
        Rules::If(&[without(1, libc::MFD_HUGETLB as i32)]),
        "large answers are sent as sealed memory (`ipc::sealed`); copies of memory that functions go back to \
         (`domain::rewinding`); files in memory (`domain::files`)",
    ),
    Entry(
        libc::SYS_pwrite64,
        Rules::Any,
        "as for `memfd_create`; large answers and zeros over large inputs, in memory that came with the job \
         (`worker::slot_memory`)",
    ),
    Entry(libc::SYS_ftruncate, Rules::Any, "as for `memfd_create`"),
    Entry(
        libc::SYS_fdatasync,
        Rules::Any,
        "disk images that came with the job (`domain::files`) are written to the disk, and given up at the end",
    ),
    Entry(
        libc::SYS_fallocate,
        Rules::OneOf(1, &[libc::FALLOC_FL_KEEP_SIZE, libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE]),
        "space for what is written to holes of disk images; memory of removed files is given back (`domain::files`)",
    ),
    Entry(
        libc::SYS_pwritev2,
        Rules::If(&[is(5, RWF_APPEND)]),
        "files of granted directories, which the broker has opened (`host_files`): writes to the end",
    ),
    Entry(
        libc::SYS_lseek,
        Rules::OneOf(2, &[libc::SEEK_DATA, libc::SEEK_HOLE]),
        "captures leave holes of files in memory as they are (`domain::files`)",
    ),
    Entry(libc::SYS_flock, Rules::OneOf(1, &[libc::LOCK_UN]), "a disk image that came with the job is given up"),
    Entry(
        libc::SYS_fcntl,
        Rules::OneOf(1, &[libc::F_ADD_SEALS, libc::F_GET_SEALS, libc::F_DUPFD_CLOEXEC, libc::F_GETFD]),
        "sealing; an own copy of an input's descriptor; what debug builds of std ask before each `close`",
    ),
    // -- The job and the answer ------------------------------------------------------------------------------------------
    Entry(
        libc::SYS_recvmsg,
        Rules::Any,
        "`ipc::channel`, and answers of the broker with a socket attached (`network::client`)",
    ),
    Entry(
        libc::SYS_sendmsg,
        Rules::If(&[is(0, CHANNEL_FD)]),
        "`ipc::channel`. A process has one under this number, and can send with nothing else what may have a destination; \
         nothing else can take its number, as it cannot be closed",
    ),
    // -- The network -----------------------------------------------------------------------------------------------------
    // Sockets come from the broker, which has compared their addresses with the workflow's list (`network::broker`).
    Entry(
        libc::SYS_sendto,
        Rules::If(&[null(4)]),
        "sockets (`hostcall::network`) and the broker, without a destination: that would be in memory, where a filter \
         cannot look",
    ),
    Entry(libc::SYS_recvfrom, Rules::Any, "sockets"),
    Entry(libc::SYS_accept4, Rules::Any, "sockets"),
    Entry(libc::SYS_shutdown, Rules::Any, "sockets"),
    Entry(libc::SYS_getsockname, Rules::Any, "sockets"),
    Entry(libc::SYS_getpeername, Rules::Any, "sockets"),
    Entry(libc::SYS_getsockopt, Rules::Any, "sockets"),
    Entry(
        libc::SYS_setsockopt,
        Rules::Either(&[
            &[is(1, libc::SOL_SOCKET), is(2, libc::SO_KEEPALIVE)],
            &[is(1, libc::SOL_SOCKET), is(2, libc::SO_BROADCAST)],
            &[is(1, libc::IPPROTO_TCP), is(2, libc::TCP_NODELAY)],
            &[is(1, libc::IPPROTO_TCP), is(2, libc::TCP_KEEPIDLE)],
            &[is(1, libc::IPPROTO_TCP), is(2, libc::TCP_KEEPINTVL)],
            &[is(1, libc::IPPROTO_IP), is(2, libc::IP_TTL)],
        ]),
        "options of sockets that functions set",
    ),
    Entry(
        libc::SYS_writev,
        Rules::Any,
        "frames to a device of the workflow's own (`hostcall::network`). What else a worker has open it may write to by \
         other calls, or it is sealed or for reading",
    ),
    // Through what came with the job (`domain::epoll_set`): no worker makes more of it.
    Entry(libc::SYS_eventfd2, Rules::Any, "idle carriers are woken (`domain::outside`)"),
    Entry(libc::SYS_epoll_ctl, Rules::Any, "idle carriers wait for sockets (`domain::outside`)"),
    Entry(libc::SYS_epoll_pwait2, Rules::Any, "idle carriers wait for sockets (`domain::outside`)"),
    // -- Mapped files ----------------------------------------------------------------------------------------------------
    Entry(
        libc::SYS_userfaultfd,
        Rules::If(&[is(0, faults::FLAGS as i32)]),
        "pages are filled as functions touch them (`domain::mapped`). With these flags only the faults of code wait for an \
         answer, the kernel's own never do",
    ),
    Entry(
        libc::SYS_ioctl,
        Rules::OneOf(1, &FAULT_REQUESTS),
        "what is asked of `userfaultfd` and, by captures, of the list of pages (`sys::written_pages`), and of nothing else",
    ),
    // -- Threads and signals ---------------------------------------------------------------------------------------------
    Entry(
        libc::SYS_clone,
        Rules::Either(&[&[is(0, THREAD)], &[is(0, syscall_cookie::FORK), COOKIE]]),
        "carrier threads; the spawner's workers",
    ),
    Entry(
        libc::SYS_clone3,
        Rules::Either(&[&[is_not(1, CLONE_BYTES as i32)], &[COOKIE]]),
        "the spawner's workers that are born into a control group (`sys::clone3`); any other fails, see `ENOSYS`",
    ),
    Entry(libc::SYS_gettimeofday, Rules::Any, "a fault of its function, see `VSYSCALL`"),
    Entry(libc::SYS_time, Rules::Any, "a fault of its function, see `VSYSCALL`"),
    Entry(libc::SYS_getcpu, Rules::Any, "a fault of its function, see `VSYSCALL`"),
    Entry(libc::SYS_set_robust_list, Rules::Any, "a new thread's first steps: the C library"),
    Entry(libc::SYS_rseq, Rules::Any, "a new thread's first steps; `domain::carrier` unregisters it"),
    Entry(libc::SYS_exit, Rules::Any, "a thread's last step"),
    Entry(
        libc::SYS_sched_getaffinity,
        Rules::Any,
        "a thread that starts reads its stack's bounds (std); a report of the allocator's arenas",
    ),
    Entry(
        libc::SYS_futex,
        Rules::Either(&[
            &[masked(1, OPERATION, libc::FUTEX_WAIT)],
            &[masked(1, OPERATION, libc::FUTEX_WAKE)],
            &[masked(1, OPERATION, libc::FUTEX_WAIT_BITSET)],
        ]),
        "locks and waits of std and the C library. No operation that hands locks on or moves waiters",
    ),
    Entry(
        libc::SYS_arch_prctl,
        Rules::OneOf(0, &[ARCH_SET_GS, ARCH_SET_FS]),
        "each carrier's gs (`domain::carrier`); the signal entry puts fs right, which a function may have changed \
         (`trampoline`)",
    ),
    Entry(
        libc::SYS_prctl,
        Rules::Either(&[
            &[is(0, PR_SET_SYSCALL_USER_DISPATCH)],
            &[is(0, libc::PR_SET_TSC)],
            &[is(0, libc::PR_SET_NAME)],
            &[is(0, libc::PR_SET_PDEATHSIG), COOKIE],
            &[is(0, libc::PR_SET_DUMPABLE), COOKIE],
        ]),
        "each carrier: dispatch of system calls, the time-stamp counter (`domain::carrier`), its name (std). A worker's \
         first steps (`sys::fork`, `sys::written_pages`)",
    ),
    Entry(libc::SYS_sigaltstack, Rules::Any, "each carrier's stack for signals (`domain::carrier`)"),
    Entry(libc::SYS_timer_create, Rules::Any, "each carrier's timer (`domain::carrier`)"),
    Entry(libc::SYS_timer_settime, Rules::Any, "each carrier's timer (`domain::carrier`)"),
    Entry(libc::SYS_timer_delete, Rules::Any, "each carrier's timer (`domain::carrier`)"),
    Entry(libc::SYS_rt_sigaction, Rules::Any, "handlers: `fault::signals`"),
    Entry(libc::SYS_rt_sigprocmask, Rules::Any, "masks: the C library around threads, `Carrier::recover`"),
    Entry(libc::SYS_rt_sigreturn, Rules::Any, "handlers that interrupted trusted code return"),
    Entry(libc::SYS_restart_syscall, Rules::Any, "a wait with a time limit goes on after a signal"),
    Entry(libc::SYS_getpid, Rules::Any, "the C library"),
    Entry(libc::SYS_gettid, Rules::Any, "the C library"),
    // -- Time and chance -------------------------------------------------------------------------------------------------
    Entry(libc::SYS_clock_gettime, Rules::Any, "the vDSO makes this call where it cannot read the clock itself"),
    Entry(libc::SYS_clock_nanosleep, Rules::Any, "the pause before a workflow is run again"),
    Entry(libc::SYS_getrandom, Rules::Any, "hostcall RANDOM, and the seeds of hash maps"),
    // -- The end ---------------------------------------------------------------------------------------------------------
    Entry(libc::SYS_exit_group, Rules::Any, "the process ends"),
];

/// Calls that fail with ENOSYS, for which there is another way.
///
/// The C library tries `clone3` first, whose flags lie in memory, where a filter cannot look; it uses `clone` if there is no such
/// call. The spawner's own has a length of its own.
const ENOSYS: [Entry<'static>; 1] =
    [Entry(libc::SYS_clone3, Rules::If(&[is_not(1, CLONE_BYTES as i32)]), "the C library's")];

/// Calls that are a fault of the function that makes them.
///
/// The page at the top of the address space from which old programs ask for the time is in every process, and syscall user
/// dispatch does not see what is asked there.
const VSYSCALL: [Entry<'static>; 3] = [
    Entry(libc::SYS_gettimeofday, Rules::Any, "vsyscall page"),
    Entry(libc::SYS_time, Rules::Any, "vsyscall page"),
    Entry(libc::SYS_getcpu, Rules::Any, "vsyscall page"),
];

/// What the spawner may call besides, and its workers before they revoke the cookie. None has six arguments.
const SPAWNER: &[Entry<'static>] = &[
    Entry(libc::SYS_poll, Rules::If(&[COOKIE]), "the spawner waits for requests and ends (`worker::spawner`)"),
    Entry(libc::SYS_wait4, Rules::If(&[COOKIE]), "the spawner reaps its workers"),
    Entry(libc::SYS_getppid, Rules::If(&[COOKIE]), "a worker's first steps (`sys::fork`)"),
    Entry(libc::SYS_dup2, Rules::If(&[COOKIE]), "a worker's first steps"),
    Entry(libc::SYS_prlimit64, Rules::If(&[COOKIE]), "a worker limits itself"),
    Entry(libc::SYS_landlock_restrict_self, Rules::If(&[COOKIE]), "a worker restricts files further (`sys::landlock`)"),
];

/// The same, where the kernel cannot report faults with keys in force (`worker::pkru_tracer`).
const TRACING: &[Entry<'static>] = &[
    Entry(libc::SYS_ptrace, Rules::If(&[COOKIE]), "the tracer's requests"),
    Entry(libc::SYS_tgkill, Rules::If(&[COOKIE]), "a worker stops until it is traced"),
];
