//! The list of system calls of a worker has no entry that nothing uses: a stale entry is a door without a purpose.
//!
//! Workflows run under ptrace. Each call that a process makes while it has the filter is noted. What is on the list and was not
//! seen must be in [`UNSEEN`], with the reason.

use monohull_visor::worker::allowed_calls;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Entries that the workflows here do not use, or not on every computer.
const UNSEEN: &[(i64, &str)] = &[
    (libc::SYS_pkey_mprotect, "with protection keys"),
    (libc::SYS_pkey_alloc, "with protection keys"),
    (libc::SYS_pkey_free, "with protection keys"),
    (libc::SYS_mremap, "large blocks of the allocator that grow"),
    (libc::SYS_write, "trusted code that fails"),
    (libc::SYS_fstat, "C libraries whose `fstat` does not make `newfstatat`, as that of some releases of glibc does"),
    (libc::SYS_close_range, "a server's process that is used again"),
    (libc::SYS_writev, "a TAP device, which needs rights"),
    (libc::SYS_gettimeofday, "a function that calls the vsyscall page"),
    (libc::SYS_time, "a function that calls the vsyscall page"),
    (libc::SYS_getcpu, "a function that calls the vsyscall page"),
    (libc::SYS_rt_sigreturn, "a signal that finds trusted code"),
    (libc::SYS_restart_syscall, "a wait that a signal interrupts"),
    (libc::SYS_clock_gettime, "a vDSO that cannot read the clock"),
    (libc::SYS_clock_nanosleep, "a workflow that is run again"),
    (libc::SYS_lseek, "captures of large files in memory"),
    (libc::SYS_fallocate, "holes of a disk image that are written to: its blocks are there in most file systems"),
    (libc::SYS_rseq, "a new thread of a C library that registers one"),
    (libc::SYS_getpid, "`raise` of the C library, when trusted code aborts"),
    (libc::SYS_exit_group, "a worker that ends before it is killed, which it is when its answer has been read"),
];

/// A run: the workflow's file and further arguments.
const RUNS: &[(&str, &[&str])] = &[
    ("word-count.json", &["--input", "text=../README.md"]),
    ("conformance.json", &["--input", "input=../README.md"]),
    ("network-tour.json", &["--load", "all"]),
    ("std-tour.json", &[]),
    // An answer of this size leaves as a file.
    ("echo.json", &["--input", "in=../target/images/conformance.so"]),
    ("log-analytics.json", &[]),
];

fn workflows() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows")
}

/// Workflows that write to a granted directory and to a disk image, on two carriers, with a deadline; and one that maps a file whose pages are copied when
/// they are touched.
fn use_files(folder: &Path) -> [PathBuf; 3] {
    let (granted, image) = (folder.join("granted"), folder.join("disk.img"));
    std::fs::create_dir(&granted).expect("a folder");
    let mut create = Command::new(env!("CARGO_BIN_EXE_monohull"));
    let created = create.args(["image", "create", "--size", "64MiB"]).arg(&image).output().expect("monohull starts");
    assert!(created.status.success(), "{created:?}");
    let document = |name: &str, mount: Value| {
        let path = folder.join(name);
        let function = workflows().join("../target/images/file-tour.so");
        let document = json!({
            "name": "tour",
            "functions": { "tour": { "image": function } },
            "steps": [
                { "name": "a", "function": "tour", "env": { "TOUR": "/tour" }, "timeout": "60s" },
                { "name": "b", "function": "tour", "env": { "TOUR": "/memory" }, "timeout": "60s" },
            ],
            "files": [mount, { "at": "/memory", "memory": "64MiB" }],
            "limits": { "carriers": 2 },
        });
        std::fs::write(&path, document.to_string()).expect("written");
        path
    };
    let mapped = folder.join("mapped.json");
    let (data, probe) = (folder.join("data"), workflows().join("../target/images/mmap-probe.so"));
    std::fs::create_dir(&data).expect("a folder");
    // As the function makes it.
    let byte = |place: u64| (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    std::fs::write(data.join("big"), (0..(5 << 20) + 1234).map(byte).collect::<Vec<_>>()).expect("written");
    let map = json!({
        "name": "mapped",
        "functions": { "map": { "image": probe } },
        "steps": [{ "name": "map", "function": "map", "args": { "how": "read", "folder": "/data" } }],
        "files": [{ "at": "/data", "directory": data }],
    });
    std::fs::write(&mapped, map.to_string()).expect("written");
    [
        document("granted.json", json!({ "at": "/tour", "directory": granted, "access": "write" })),
        document("image.json", json!({ "at": "/tour", "image": image, "access": "write" })),
        mapped,
    ]
}

/// The calls that processes with the filter make in this run.
#[allow(clippy::zombie_processes, reason = "the loop waits for it, and for all that it starts")]
fn calls_of(file: &Path, arguments: &[&str]) -> BTreeSet<i64> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    // With keys, some kernels need a tracer of their own.
    command.args(["run", "--isolation", "process"]).arg(file).args(arguments).current_dir(workflows());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: one system call between fork and exec; it takes no lock and no memory.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let program = command.spawn().expect("monohull starts");
    let program = Pid::from_raw(program.id() as i32);
    assert!(matches!(waitpid(program, None), Ok(WaitStatus::Stopped(_, Signal::SIGTRAP))), "it stops at its start");
    let children = Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_TRACEFORK | Options::PTRACE_O_TRACEVFORK;
    ptrace::setoptions(program, children | Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL)
        .expect("options");
    ptrace::syscall(program, None).expect("it goes on");
    let mut seen = BTreeSet::new();
    // Threads that have the filter.
    let mut filtered = BTreeSet::new();
    loop {
        let mut status = 0;
        // SAFETY: it writes to the status alone.
        let stopped = unsafe { libc::waitpid(-1, &mut status, libc::__WALL) };
        let signal = match WaitStatus::from_raw(Pid::from_raw(stopped), status) {
            Ok(WaitStatus::PtraceSyscall(thread)) => {
                let has_filter = filtered.contains(&thread) || has_filter(thread);
                if has_filter {
                    filtered.insert(thread);
                    seen.extend(entered(thread));
                }
                (thread, None)
            }
            Ok(WaitStatus::Stopped(thread, signal)) => {
                // A new thread or process begins with a stop of the tracer's.
                (thread, Some(signal).filter(|signal| *signal != Signal::SIGSTOP))
            }
            Ok(WaitStatus::PtraceEvent(thread, ..)) => (thread, None),
            Ok(WaitStatus::Exited(ended, status)) if ended == program => {
                assert_eq!(status, 0, "{}", file.display());
                return seen;
            }
            Ok(WaitStatus::Signaled(ended, signal, _)) if ended == program => panic!("{}: {signal}", file.display()),
            Ok(_) => continue,
            // A signal that has no name: a carrier's timer.
            Err(_) => {
                let (none, signal) = (std::ptr::null_mut::<u8>(), libc::WSTOPSIG(status));
                // SAFETY: the thread is stopped, and goes on with its signal; no memory is touched.
                unsafe { libc::ptrace(libc::PTRACE_SYSCALL, stopped, none, signal as usize) };
                continue;
            }
        };
        // The thread may have been killed meanwhile.
        let _ = ptrace::syscall(signal.0, signal.1);
    }
}

/// The call that a thread enters. Until the call has a result, `rax` holds this error.
fn entered(thread: Pid) -> Option<i64> {
    let registers = ptrace::getregs(thread).ok()?;
    (registers.rax as i64 == -i64::from(libc::ENOSYS)).then_some(registers.orig_rax as i64)
}

/// Whether a thread has a filter of system calls.
fn has_filter(thread: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
}

#[test]
fn no_entry_of_the_list_is_stale() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut seen: BTreeSet<i64> =
        RUNS.iter().flat_map(|(file, arguments)| calls_of(Path::new(file), arguments)).collect();
    seen.extend(use_files(folder.path()).iter().flat_map(|file| calls_of(file, &[])));
    assert!(seen.contains(&libc::SYS_recvmsg), "a worker receives its job: {seen:?}");
    let listed = allowed_calls();
    let stale: Vec<_> = listed
        .iter()
        .filter(|(call, _)| !seen.contains(call) && !UNSEEN.iter().any(|(known, _)| known == call))
        .collect();
    assert!(stale.is_empty(), "on the list, and not used: {stale:#?}");
    for (call, why) in UNSEEN {
        assert!(listed.iter().any(|(known, _)| known == call), "call {call} ({why}) is not on the list");
    }
}
