//! System calls outside the list end the process that makes them, and nothing else.
//!
//! Functions make none; what is tried here is trusted code in the hands of an attacker: a module `time` that makes any
//! system call it is asked for.

use crate::support;
use crate::watch::{endless, job, listen, one_step, run};
use crate::wrong_module::with_wrong_time;
use monohull_abi::layout::{ARENA_BASE, CELLS_BASE, INFO_BASE, WINDOW_BASE};
use monohull_abi::number;
use monohull_visor::engine::RunOptions;
use monohull_visor::report::{Blame, FailureKind, Silent};
use monohull_visor::worker::{Cause, Spawner};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

/// A test by name; the spawner's module `time` makes any system call it is asked for.
pub(crate) type Test = (&'static str, fn(&'static Spawner));

pub(crate) const TESTS: &[Test] = &[
    ("the_module_makes_system_calls_where_nothing_stops_it", the_module_makes_system_calls_where_nothing_stops_it),
    ("a_call_on_the_list_is_made", a_call_on_the_list_is_made),
    ("a_call_outside_the_list_ends_only_its_process", a_call_outside_the_list_ends_only_its_process),
    ("any_descriptor_but_the_link_can_be_closed", any_descriptor_but_the_link_can_be_closed),
    ("files_beside_the_modules_cannot_be_opened", files_beside_the_modules_cannot_be_opened),
];

/// The folder with the hostile module.
pub(crate) fn modules() -> PathBuf {
    // A spawner's workers can open the very files that were there when it started.
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| with_wrong_time("makes_system_calls"));
    FOLDER.clone()
}

/// What `/dev/userfaultfd` is asked for a userfaultfd with.
const USERFAULTFD_IOC_NEW: i64 = 0xaa00;
/// What the list of a process's pages is asked with.
const PAGEMAP_SCAN: i64 = monohull_sys::written_pages::SCAN as i64;
/// What the module replaces by the address of a path: `/proc/version`.
const PATH: i64 = 0x7061_7468;

/// A workflow in which the module is asked for this call, and that fails with the answer.
fn asking(call: i64, arguments: &[i64]) -> Value {
    let mut all = vec![call as u64];
    all.extend(arguments.iter().map(|argument| *argument as u64));
    one_step("hostcall-abuse", json!({ "role": "ask", "number": number::CLOCK_GETTIME, "arguments": all }))
}

/// What the call answered.
fn answer(spawner: &Spawner, call: i64, arguments: &[i64]) -> i64 {
    let received = run(spawner, &job(&asking(call, arguments), Vec::new()));
    first(&received.report().error.as_ref().expect("it always fails").message)
}

fn first(message: &str) -> i64 {
    let number = message.split(':').next().and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("no number: {message}"))
}

/// In a process without a sandbox: this one.
fn the_module_makes_system_calls_where_nothing_stops_it(_: &Spawner) {
    let options = RunOptions { modules: Some(modules()), ..RunOptions::default() };
    let ready = support::ready(&asking(libc::SYS_getppid, &[]));
    let report = ready.run(&options, Arc::new(Silent)).expect("a domain in this process");
    let message = report.error.expect("it always fails").message;
    assert_eq!(first(&message), i64::from(std::os::unix::process::parent_id() as i32));
}

fn a_call_on_the_list_is_made(spawner: &Spawner) {
    let worker = spawner.idle_worker().expect("an idle worker");
    let pid = worker.pid();
    let received = listen(worker.assign(&job(&asking(libc::SYS_getpid, &[]), Vec::new())).expect("a job is taken"));
    assert_eq!(first(&received.report().error.as_ref().expect("it always fails").message), i64::from(pid));
}

fn any_descriptor_but_the_link_can_be_closed(spawner: &Spawner) {
    assert_eq!(answer(spawner, libc::SYS_close, &[1]), 0);
    assert_eq!(answer(spawner, libc::SYS_close, &[900]), i64::from(-libc::EBADF));
}

fn files_beside_the_modules_cannot_be_opened(spawner: &Spawner) {
    let answer = answer(spawner, libc::SYS_openat, &[i64::from(libc::AT_FDCWD), PATH, 0, 0]);
    assert_eq!(answer, i64::from(-libc::EACCES));
}

fn a_call_outside_the_list_ends_only_its_process(spawner: &Spawner) {
    let neighbour = spawner.idle_worker().expect("an idle worker").assign(&job(&endless(), Vec::new())).expect("taken");
    for (name, call, arguments) in forbidden() {
        let received = run(spawner, &job(&asking(call, &arguments), Vec::new()));
        assert!(received.report.is_none(), "{name} was made: {:?}", received.report().error);
        let death = received.death();
        assert_eq!((&death.cause, death.blame), (&Cause::Signaled(libc::SIGSYS), Blame::Monohull), "{name}: {death:?}");
        let failure = death.failure();
        assert_eq!(failure.kind, FailureKind::Process);
        assert!(failure.message.contains("system call outside its list"), "{name}: {}", failure.message);
    }
    // The neighbour has seen nothing of it.
    neighbour.kill();
    assert_eq!(listen(neighbour).death().cause, Cause::Signaled(9));
}

/// Calls that are not on the list, or only with other arguments.
fn forbidden() -> Vec<(&'static str, i64, Vec<i64>)> {
    /// The bit of the x32 interface, whose calls have other numbers.
    const X32: i64 = 0x4000_0000;
    let here = i64::from(libc::AT_FDCWD);
    let (write, code) = (i64::from(libc::PROT_WRITE), i64::from(libc::PROT_EXEC));
    let anonymous = i64::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let int = |value: i32| i64::from(value);
    let moved = int(libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP);
    let [window, cells, arena, info] = [WINDOW_BASE, CELLS_BASE, ARENA_BASE, INFO_BASE].map(|address| address as i64);
    vec![
        ("execve", libc::SYS_execve, vec![PATH, 0, 0]),
        ("execveat", libc::SYS_execveat, vec![here, PATH, 0, 0, 0]),
        ("fork", libc::SYS_fork, vec![]),
        ("clone as a process", libc::SYS_clone, vec![int(libc::SIGCHLD), 0, 0, 0, 0]),
        ("clone into a namespace", libc::SYS_clone, vec![int(libc::CLONE_NEWUSER | libc::CLONE_VM), 0, 0, 0, 0]),
        ("unshare", libc::SYS_unshare, vec![int(libc::CLONE_NEWUSER)]),
        ("setns", libc::SYS_setns, vec![3, 0]),
        ("ptrace", libc::SYS_ptrace, vec![0, 1, 0, 0]),
        ("process_vm_readv", libc::SYS_process_vm_readv, vec![1, 0, 0, 0, 0]),
        ("process_vm_writev", libc::SYS_process_vm_writev, vec![1, 0, 0, 0, 0]),
        ("pidfd_open", libc::SYS_pidfd_open, vec![1, 0]),
        ("pidfd_getfd", libc::SYS_pidfd_getfd, vec![3, 0, 0]),
        ("kill", libc::SYS_kill, vec![1, 0]),
        ("tkill", libc::SYS_tkill, vec![1, 0]),
        ("tgkill", libc::SYS_tgkill, vec![1, 1, 0]),
        ("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo, vec![1, 0, 0]),
        ("socket", libc::SYS_socket, vec![int(libc::AF_INET), int(libc::SOCK_STREAM), 0]),
        ("socketpair", libc::SYS_socketpair, vec![int(libc::AF_UNIX), int(libc::SOCK_STREAM), 0, 0]),
        ("connect", libc::SYS_connect, vec![3, 0, 0]),
        ("bind", libc::SYS_bind, vec![3, 0, 0]),
        ("listen", libc::SYS_listen, vec![3, 0]),
        ("sendto with a destination", libc::SYS_sendto, vec![4, 0, 0, 0, PATH]),
        ("sendmmsg", libc::SYS_sendmmsg, vec![3, 0, 0, 0]),
        ("a socket's mark", libc::SYS_setsockopt, vec![4, int(libc::SOL_SOCKET), int(libc::SO_MARK), 0, 0]),
        ("a socket's device", libc::SYS_setsockopt, vec![4, int(libc::SOL_SOCKET), int(libc::SO_BINDTODEVICE), 0, 0]),
        ("sendmsg elsewhere", libc::SYS_sendmsg, vec![4, 0, 0]),
        ("close of the link, so that another socket could take its place", libc::SYS_close, vec![3]),
        ("dup3 onto the link", libc::SYS_dup3, vec![2, 3, 0]),
        ("dup", libc::SYS_dup, vec![2]),
        ("io_uring_setup", libc::SYS_io_uring_setup, vec![1, 0]),
        // With the faults of code alone (`USER_MODE_ONLY`), it is how mapped files are filled; anything else is not.
        ("userfaultfd", libc::SYS_userfaultfd, vec![0]),
        ("userfaultfd the kernel waits for", libc::SYS_userfaultfd, vec![int(libc::O_CLOEXEC | libc::O_NONBLOCK)]),
        ("ioctl of /dev/userfaultfd, a new one", libc::SYS_ioctl, vec![2, USERFAULTFD_IOC_NEW, 0]),
        ("epoll_create1", libc::SYS_epoll_create1, vec![0]),
        ("epoll_create", libc::SYS_epoll_create, vec![1]),
        ("bpf", libc::SYS_bpf, vec![0, 0, 0]),
        ("perf_event_open", libc::SYS_perf_event_open, vec![0, 0, 0, 0, 0]),
        ("keyctl", libc::SYS_keyctl, vec![0, 0, 0, 0, 0]),
        ("add_key", libc::SYS_add_key, vec![0, 0, 0, 0, 0]),
        ("open", libc::SYS_open, vec![PATH, 0, 0]),
        ("creat", libc::SYS_creat, vec![PATH, 0]),
        ("openat to write", libc::SYS_openat, vec![here, PATH, int(libc::O_RDWR), 0]),
        ("openat to create", libc::SYS_openat, vec![here, PATH, int(libc::O_CREAT), 0]),
        ("openat of a folder", libc::SYS_openat, vec![here, PATH, int(libc::O_DIRECTORY), 0]),
        ("openat below a descriptor", libc::SYS_openat, vec![3, PATH, 0, 0]),
        ("openat2", libc::SYS_openat2, vec![here, PATH, 0, 0]),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, vec![3, 0, 0]),
        ("stat of a path", libc::SYS_newfstatat, vec![here, PATH, 0, 0]),
        ("readlink", libc::SYS_readlink, vec![PATH, 0, 0]),
        ("unlink", libc::SYS_unlink, vec![0]),
        ("rename", libc::SYS_rename, vec![0, 0]),
        ("mkdir", libc::SYS_mkdir, vec![0, 0]),
        ("chmod", libc::SYS_chmod, vec![0, 0]),
        ("chdir", libc::SYS_chdir, vec![0]),
        ("chroot", libc::SYS_chroot, vec![0]),
        ("mount", libc::SYS_mount, vec![0, 0, 0, 0, 0]),
        ("write to standard output", libc::SYS_write, vec![1, 0, 0]),
        ("ioctl", libc::SYS_ioctl, vec![0, 0, 0]),
        ("fcntl to take a lease", libc::SYS_fcntl, vec![0, int(libc::F_SETLEASE), 0]),
        ("dup2", libc::SYS_dup2, vec![0, 9]),
        ("mmap of code without a file", libc::SYS_mmap, vec![0, 4096, code, anonymous, -1]),
        ("mmap of writable code", libc::SYS_mmap, vec![0, 4096, write | code, anonymous, -1]),
        ("mprotect to code", libc::SYS_mprotect, vec![0, 4096, code]),
        ("pkey_mprotect of trusted memory to code", libc::SYS_pkey_mprotect, vec![0x5000_0000, 4096, code, 0]),
        (
            "mremap to an address",
            libc::SYS_mremap,
            vec![0, 4096, 4096, int(libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED), 0],
        ),
        ("mremap of trusted memory", libc::SYS_mremap, vec![0x5000_0000, 4096, 4096, moved, window]),
        ("mremap into trusted memory", libc::SYS_mremap, vec![window, 4096, 4096, moved, 0x5000_0000]),
        ("mremap of the info page", libc::SYS_mremap, vec![info, 4096, 4096, moved, window]),
        ("mremap of very much", libc::SYS_mremap, vec![cells, 1 << 40, 1 << 40, moved, window]),
        ("mremap past the window", libc::SYS_mremap, vec![cells, 4096, 4096, moved, arena]),
        ("remap_file_pages", libc::SYS_remap_file_pages, vec![0, 0, 0, 0, 0]),
        ("memfd_secret", libc::SYS_memfd_secret, vec![0]),
        ("shmget", libc::SYS_shmget, vec![0, 4096, 0]),
        ("lseek to move a place in a file", libc::SYS_lseek, vec![0, 0, int(libc::SEEK_SET)]),
        ("fallocate to move bytes", libc::SYS_fallocate, vec![0, int(libc::FALLOC_FL_COLLAPSE_RANGE), 0, 4096]),
        ("madvise to remove", libc::SYS_madvise, vec![0, 4096, int(libc::MADV_REMOVE)]),
        ("prctl of its death signal", libc::SYS_prctl, vec![int(libc::PR_SET_PDEATHSIG), 0]),
        ("prctl to be dumpable", libc::SYS_prctl, vec![int(libc::PR_SET_DUMPABLE), 1]),
        ("landlock_restrict_self", libc::SYS_landlock_restrict_self, vec![3, 0]),
        ("ioctl of the list of pages, another one", libc::SYS_ioctl, vec![4, PAGEMAP_SCAN + 1, 0]),
        ("seccomp", libc::SYS_seccomp, vec![0, 0, 0]),
        ("arch_prctl of cpuid", libc::SYS_arch_prctl, vec![0x1012, 0]),
        ("personality", libc::SYS_personality, vec![0]),
        ("modify_ldt", libc::SYS_modify_ldt, vec![0, 0, 0]),
        ("iopl", libc::SYS_iopl, vec![3]),
        ("setuid", libc::SYS_setuid, vec![0]),
        ("capset", libc::SYS_capset, vec![0, 0]),
        ("prlimit64", libc::SYS_prlimit64, vec![0, 0, 0, 0]),
        ("setsid", libc::SYS_setsid, vec![]),
        ("wait4", libc::SYS_wait4, vec![-1, 0, 1, 0]),
        ("poll", libc::SYS_poll, vec![0, 0, 0]),
        // The channel is among them; and none is to be marked instead of closed.
        ("close_range of the channel", libc::SYS_close_range, vec![3, 200, 0]),
        ("close_range to mark files", libc::SYS_close_range, vec![100, 200, i64::from(libc::CLOSE_RANGE_CLOEXEC)]),
        ("prctl of new privileges", libc::SYS_prctl, vec![int(libc::PR_SET_NO_NEW_PRIVS), 1, 0, 0, 0]),
        ("clone as fork does it", libc::SYS_clone, vec![0x0120_0011, 0, 0, 0, 0]),
        ("clone as the spawner does it", libc::SYS_clone, vec![int(libc::CLONE_PIDFD | libc::SIGCHLD), 0, 0, 0, 0]),
        ("getppid", libc::SYS_getppid, vec![]),
        ("futex that hands on a lock", libc::SYS_futex, vec![0, int(libc::FUTEX_LOCK_PI), 0, 0, 0]),
        ("futex that moves waiters", libc::SYS_futex, vec![0, int(libc::FUTEX_REQUEUE), 0, 0, 0]),
        ("a number of the x32 interface", X32 | libc::SYS_getpid, vec![]),
        ("an unassigned number", 100_000, vec![]),
    ]
}
