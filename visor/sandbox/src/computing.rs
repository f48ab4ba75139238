//! The sandbox of a program that only computes. It has read all that it needs, and has nothing left to do but to write the result to
//! a descriptor that is open.
//!
//! ```text
//!   before [`confine`]          afterwards
//!   its own arguments           memory, up to a limit
//!   its own files               processor time, up to a limit
//!   what it is to compute on    standard output and error: writes, up to a length
//! ```
//!
//! No call that is left waits for anything, so the limit of processor time is a limit of time as well. There is one thread, and the
//! end of the parent is its end.

use crate::calls::{Entry, Rules, filter, is, masked, without};
use crate::files;
use monohull_sys::{capabilities, descriptors};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpid, getppid};
use seccompiler::{SeccompAction, apply_filter};
use std::io;

/// What a program may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of its address space.
    pub memory: u64,
    /// Seconds of processor time. Then comes SIGXCPU, and a second later SIGKILL.
    pub seconds: u64,
    /// Bytes that a file it writes may have.
    pub output: u64,
}

/// Seconds of processor time between SIGXCPU and SIGKILL.
const LAST_SECONDS: u64 = 1;

/// Why a program could not be confined. The host is at fault, or a parent that has ended.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The parent is not there any more.
    #[error("process {0}, for which this works, has ended")]
    Orphan(i32),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What it was for.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The rules for files cannot be put in force.
    #[error("restricting files: {0}")]
    Files(#[from] landlock::RulesetError),
    /// The list of system calls cannot be put in force.
    #[error("putting the list of system calls in force: {0}")]
    Calls(#[from] seccompiler::Error),
}

fn failed<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> ConfineError {
    move |source| ConfineError::System { what, source: source.into() }
}

/// Gives up everything but what the module's diagram shows, and ends with `parent`, if there is one to end with. Says how much of
/// the restriction of files the kernel has put in force; no call is left that opens one in any case.
///
/// Standard input and all descriptors above standard error are closed: whatever owns one must not use it any more.
pub fn confine(parent: Option<i32>, limits: Limits) -> Result<&'static str, ConfineError> {
    if let Some(parent) = parent {
        prctl::set_pdeathsig(Signal::SIGKILL).map_err(failed("ending with the parent"))?;
        // It may have ended before.
        if getppid() != Pid::from_raw(parent) {
            return Err(ConfineError::Orphan(parent));
        }
    }
    // Where memory is short, this process goes first. Without it the kernel chooses by size alone.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let limited = [
        (Resource::RLIMIT_CORE, 0, 0),
        (Resource::RLIMIT_MEMLOCK, 0, 0),
        (Resource::RLIMIT_AS, limits.memory, limits.memory),
        (Resource::RLIMIT_CPU, limits.seconds, limits.seconds.saturating_add(LAST_SECONDS)),
        (Resource::RLIMIT_FSIZE, limits.output, limits.output),
    ];
    for (resource, soft, hard) in limited {
        setrlimit(resource, soft, hard).map_err(failed("limiting memory, time and output"))?;
    }
    prctl::set_no_new_privs().map_err(failed("giving up new privileges"))?;
    let landlock = files::restrict([])?;
    capabilities::drop_all().map_err(failed("giving up capabilities"))?;
    // Other processes of the same user can neither trace this one nor open its memory.
    prctl::set_dumpable(false).map_err(failed("making the process undumpable"))?;
    nix::unistd::close(0).map_err(failed("closing the input"))?;
    descriptors::close_from(3).map_err(failed("closing files"))?;
    setrlimit(Resource::RLIMIT_NOFILE, 0, 0).map_err(failed("limiting descriptors"))?;
    let this = getpid().as_raw();
    let aborts = [is(0, this), is(2, libc::SIGABRT)];
    let last =
        Entry(libc::SYS_tgkill, Rules::If(&aborts), "`abort`, after the message of an overflow or of an allocation");
    let filter = filter(CALLS.iter().chain([&last]), SeccompAction::KillProcess, SeccompAction::Allow);
    apply_filter(&filter.map_err(seccompiler::Error::from)?)?;
    Ok(landlock)
}

/// Of a mapping: where it may come from, and what it can never be.
const MAPPED: i32 = libc::MAP_ANONYMOUS | libc::MAP_SHARED | libc::MAP_HUGETLB;

/// What the program may still call.
const CALLS: &[Entry<'static>] = &[
    Entry(
        libc::SYS_mmap,
        Rules::If(&[without(2, libc::PROT_EXEC), masked(3, MAPPED, libc::MAP_ANONYMOUS)]),
        "the allocator: large blocks. No memory becomes code",
    ),
    Entry(libc::SYS_munmap, Rules::Any, "as for `mmap`"),
    Entry(libc::SYS_mremap, Rules::If(&[is(3, libc::MREMAP_MAYMOVE)]), "the allocator: large blocks that grow"),
    Entry(libc::SYS_mprotect, Rules::If(&[without(2, libc::PROT_EXEC)]), "the allocator: its arenas"),
    Entry(libc::SYS_brk, Rules::Any, "the allocator: small blocks"),
    Entry(libc::SYS_madvise, Rules::OneOf(2, &[libc::MADV_DONTNEED]), "the allocator gives memory back"),
    Entry(libc::SYS_write, Rules::OneOf(0, &[1, 2]), "the result, and messages"),
    Entry(
        libc::SYS_futex,
        Rules::OneOf(1, &[libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG]),
        "locks of std, never contended",
    ),
    Entry(libc::SYS_getrandom, Rules::Any, "the seeds of hash maps"),
    Entry(libc::SYS_clock_gettime, Rules::Any, "the vDSO makes this call where it cannot read the clock itself"),
    Entry(libc::SYS_rt_sigaction, Rules::Any, "std and the C library around an overflow of the stack, and `abort`"),
    Entry(libc::SYS_rt_sigprocmask, Rules::Any, "as for `rt_sigaction`"),
    Entry(libc::SYS_rt_sigreturn, Rules::Any, "as for `rt_sigaction`"),
    Entry(libc::SYS_sigaltstack, Rules::Any, "the end of the main thread"),
    Entry(libc::SYS_getpid, Rules::Any, "`abort`"),
    Entry(libc::SYS_gettid, Rules::Any, "`abort`"),
    Entry(libc::SYS_exit_group, Rules::Any, "the end"),
];
