//! The system calls a worker can make once it has a job. Any other ends the process.
//!
//! Functions make none at all: syscall user dispatch stops those before they come here. This list is for the case that a
//! function has brought trusted code under its control: it can then do what is on the list and nothing else. So each entry
//! has its reason, and where one of the arguments tells the use that is needed from all others, the entry says so.
//!
//! What is not here, on purpose: anything that opens a file for writing, a socket, a process, a program, a trace, a key, an
//! asynchronous ring, a page-fault descriptor; and any way to leave the sandbox or to change who one is.

use super::super::worker::LINK;
use monohull_abi::layout::{USER_BASE, USER_END};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};
use std::collections::BTreeMap;

/// The compiled list.
#[derive(Clone)]
pub(super) struct Filters {
    /// Allows what is on the list and ends the process for the rest.
    list: BpfProgram,
    /// Answers calls for which there is another way with an error. Where filters disagree the stricter answer counts.
    polite: BpfProgram,
}

/// Stands in the compiled list where the process's own id belongs, which is known only after the fork.
const OWN_PID: u32 = 0x5e1f_01d0;

impl Filters {
    /// Compiles the list.
    pub(super) fn compile() -> Result<Filters, BackendError> {
        let (kill, allow) = (SeccompAction::KillProcess, SeccompAction::Allow);
        // The C library tries `clone3` first, whose flags lie in memory, where a filter cannot look; told that there is no
        // such call it uses `clone`.
        let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
        let clone3 = BTreeMap::from([(libc::SYS_clone3, vec![])]);
        let list = SeccompFilter::new(list()?, kill, allow.clone(), TargetArch::x86_64)?;
        let polite = SeccompFilter::new(clone3, allow, unknown, TargetArch::x86_64)?;
        Ok(Filters { list: list.try_into()?, polite: polite.try_into()? })
    }

    /// Puts both in force for this thread and those it starts.
    pub(super) fn apply(&self) -> seccompiler::Result<()> {
        let mut list = self.list.clone();
        for instruction in list.iter_mut().filter(|instruction| instruction.k == OWN_PID) {
            instruction.k = std::process::id();
        }
        apply_filter(&self.polite)?;
        apply_filter(&list)
    }
}

/// An argument that must satisfy something: its position, how much of it counts, what. Of an `int` the kernel looks at the
/// lower half only, and the upper may be anything.
struct Argument(u8, SeccompCmpArgLen, SeccompCmpOp, u64);

fn is(position: u8, value: i32) -> Argument {
    Argument(position, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, u64::from(value as u32))
}

/// These bits are the ones of `value`.
fn masked(position: u8, bits: i32, value: i32) -> Argument {
    let op = SeccompCmpOp::MaskedEq(u64::from(bits as u32));
    Argument(position, SeccompCmpArgLen::Dword, op, u64::from(value as u32))
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

/// All of these must hold.
fn when<const N: usize>(arguments: [Argument; N]) -> Result<SeccompRule, BackendError> {
    let condition = |Argument(position, len, op, value)| SeccompCondition::new(position, len, op, value);
    SeccompRule::new(arguments.into_iter().map(condition).collect::<Result<_, _>>()?)
}

/// The argument at `position` must be one of these.
fn one_of(position: u8, values: &[i32]) -> Result<Vec<SeccompRule>, BackendError> {
    values.iter().map(|value| when([is(position, *value)])).collect()
}

type List = BTreeMap<i64, Vec<SeccompRule>>;

/// The list. An entry without rules is allowed with any arguments; of several rules one must hold.
fn list() -> Result<List, BackendError> {
    const X: i32 = libc::PROT_EXEC;
    let mut list = List::new();
    let mut allow = |call: i64, rules: Vec<SeccompRule>| assert!(list.insert(call, rules).is_none(), "{call} is there");

    // -- Memory ----------------------------------------------------------------------------------------------------------
    // Cells, images and the arena (`domain::region`), the C library's allocator, stacks of carrier threads, modules being
    // mapped by `dlopen`. Code comes from files only, so that what is anonymous and can be written never becomes code.
    allow(
        libc::SYS_mmap,
        vec![when([without(2, X)])?, when([without(2, libc::PROT_WRITE), without(3, libc::MAP_ANONYMOUS)])?],
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
    // Memory given back by ended instances and by the allocator; huge pages; guard pages (`domain::region`).
    const GUARD_INSTALL: i32 = 102;
    allow(libc::SYS_madvise, one_of(2, &[libc::MADV_DONTNEED, libc::MADV_HUGEPAGE, GUARD_INSTALL])?);
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
    allow(libc::SYS_close, vec![]);
    // Last words: panics, and faults of trusted code (`fault::signals`).
    allow(libc::SYS_write, vec![when([is(0, 2)])?]);
    // Large answers leave as sealed memory (`sealed`).
    allow(libc::SYS_memfd_create, vec![]);
    allow(libc::SYS_pwrite64, vec![]);
    allow(libc::SYS_ftruncate, vec![]);
    // Sealing; the border's own copy of an input's descriptor; what debug builds of std ask before each `close`.
    let commands = [libc::F_ADD_SEALS, libc::F_GET_SEALS, libc::F_DUPFD_CLOEXEC, libc::F_GETFD];
    allow(libc::SYS_fcntl, one_of(1, &commands)?);

    // -- The job and the answer ------------------------------------------------------------------------------------------
    allow(libc::SYS_recvmsg, vec![when([is(0, LINK)])?]);
    allow(libc::SYS_sendmsg, vec![when([is(0, LINK)])?]);

    // -- Threads and signals ---------------------------------------------------------------------------------------------
    // Carrier threads, with exactly the flags of `pthread_create`: never a process.
    const THREAD: i32 = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_SETTLS
        | libc::CLONE_PARENT_SETTID
        | libc::CLONE_CHILD_CLEARTID;
    allow(libc::SYS_clone, vec![when([is(0, THREAD)])?]);
    // Refused politely, see above.
    allow(libc::SYS_clone3, vec![]);
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
    // `Carrier::turn_to` waits for a nudge that is on its way.
    allow(libc::SYS_sched_yield, vec![]);
    // Each carrier: gs, dispatch of system calls, the stack for signals, its timer (`domain::carrier`). Its name (std).
    const ARCH_SET_GS: i32 = 0x1001;
    // The signal entry puts fs right, which a function may have changed (`trampoline`).
    const ARCH_SET_FS: i32 = 0x1002;
    const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
    allow(libc::SYS_arch_prctl, one_of(0, &[ARCH_SET_GS, ARCH_SET_FS])?);
    allow(libc::SYS_prctl, one_of(0, &[PR_SET_SYSCALL_USER_DISPATCH, libc::PR_SET_NAME])?);
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
    // Nudges from carrier to carrier, and `abort`: to this process alone.
    allow(libc::SYS_tgkill, vec![when([is(0, OWN_PID as i32)])?]);
    allow(libc::SYS_getpid, vec![]);
    allow(libc::SYS_gettid, vec![]);

    // -- Time and chance -------------------------------------------------------------------------------------------------
    // Where the vDSO cannot tell the time by itself.
    allow(libc::SYS_clock_gettime, vec![]);
    // The pause before a workflow is run again.
    allow(libc::SYS_clock_nanosleep, vec![]);
    // Hostcall RANDOM, and the seeds of hash maps.
    allow(libc::SYS_getrandom, vec![]);

    // -- The end ---------------------------------------------------------------------------------------------------------
    allow(libc::SYS_exit_group, vec![]);
    Ok(list)
}
