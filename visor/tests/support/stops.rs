//! The program is killed at a stop: before or behind one of its system calls. Or one of them fails.
#![allow(dead_code, reason = "each test program uses a part")]

use crate::program::command;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Copies what is in a folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a new folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => _ = fs::copy(entry.path(), to.join(entry.file_name())).expect("copied"),
        }
    }
}

/// Starts the program to be traced by this thread. It has stopped before its first instruction.
fn begin(command: &mut Command) -> (Child, Pid) {
    // SAFETY: one system call between fork and exec; it takes no lock and no memory.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let child = command.spawn().expect("the program starts");
    let program = Pid::from_raw(child.id() as i32);
    assert!(matches!(waitpid(program, None), Ok(WaitStatus::Stopped(_, Signal::SIGTRAP))), "it stops at its start");
    (child, program)
}

/// Runs the program, and kills it at its stop of this number: one before and one behind each system call. The number of stops.
pub(crate) fn traced(folder: &Path, args: &[&str], kill_at: usize) -> usize {
    let mut command = command(folder, args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (mut child, program) = begin(&mut command);
    ptrace::setoptions(program, Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL).expect("options");
    let (mut stops, mut signal) = (0, None);
    loop {
        ptrace::syscall(program, signal).expect("it goes on");
        match waitpid(program, None).expect("it stops or ends") {
            WaitStatus::PtraceSyscall(_) if stops == kill_at => {
                kill(program, Signal::SIGKILL).expect("killed");
                let _ = child.wait();
                return stops;
            }
            WaitStatus::PtraceSyscall(_) => (stops, signal) = (stops + 1, None),
            WaitStatus::Stopped(_, other) => signal = Some(other),
            WaitStatus::Exited(_, status) => {
                assert_eq!(status, 0);
                return stops;
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Runs the program to its end, with all processes that it starts: how often they make this system call.
pub(crate) fn counted(folder: &Path, args: &[&str], call: i64) -> usize {
    let mut command = command(folder, args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (mut child, program) = begin(&mut command);
    let processes = Options::PTRACE_O_TRACEFORK | Options::PTRACE_O_TRACEVFORK | Options::PTRACE_O_TRACECLONE;
    let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL | processes;
    ptrace::setoptions(program, options).expect("options");
    ptrace::syscall(program, None).expect("it goes on");
    let mut count = 0;
    let ended = loop {
        let mut status = 0;
        // Of this thread alone: others wait for programs of theirs. There are signals that nix has no name of.
        // SAFETY: it writes a number.
        let stopped = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        assert!(stopped > 0, "{}", std::io::Error::last_os_error());
        if !libc::WIFSTOPPED(status) {
            match stopped == program.as_raw() {
                true => break status,
                false => continue,
            }
        }
        let signal = match libc::WSTOPSIG(status) {
            // A system call, before it or behind it, where there is a result instead of this.
            stop if stop == libc::SIGTRAP | 0x80 => {
                let begins = |registers: libc::user_regs_struct| {
                    registers.orig_rax as i64 == call && registers.rax as i64 == -i64::from(libc::ENOSYS)
                };
                count += usize::from(ptrace::getregs(Pid::from_raw(stopped)).is_ok_and(begins));
                0
            }
            // A new process or thread, and its start.
            libc::SIGTRAP | libc::SIGSTOP => 0,
            other => other,
        };
        // SAFETY: it is stopped; if it was killed meanwhile, this fails.
        unsafe { libc::ptrace(libc::PTRACE_SYSCALL, stopped, 0, signal) };
    };
    // There is nothing to wait for any more.
    let _ = child.wait();
    assert_eq!(ended, 0);
    count
}

/// What became of a program one of whose system calls has failed.
pub(crate) struct Failed {
    /// How many it has made that can fail.
    pub(crate) calls: usize,
    /// The number of the one that failed.
    pub(crate) call: Option<i64>,
    /// Its exit code; without one it was ended by a signal, or by this, as it hung.
    pub(crate) code: Option<i32>,
    pub(crate) errors: String,
    pub(crate) hung: bool,
}

/// Calls that fail for reasons of the host: those on files and locks, and those that make processes. Those of the socket
/// to a worker are not: a run whose worker breaks the protocol has failed. `close` is none: Linux closes a file also
/// where that fails.
const CAN_FAIL: [i64; 45] = [
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_stat,
    libc::SYS_fstat,
    libc::SYS_lstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_lseek,
    libc::SYS_getdents64,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_link,
    libc::SYS_linkat,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_rmdir,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_mmap,
    libc::SYS_memfd_create,
    libc::SYS_socketpair,
    libc::SYS_pipe2,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_vfork,
    libc::SYS_fork,
    libc::SYS_copy_file_range,
];

/// Whether a call names a file in a folder of this name.
fn names(program: Pid, registers: &libc::user_regs_struct, folder: &str) -> bool {
    let at = match registers.orig_rax as i64 {
        libc::SYS_openat | libc::SYS_newfstatat | libc::SYS_statx => registers.rsi,
        libc::SYS_mkdir => registers.rdi,
        _ => return false,
    };
    let mut path = [0; 256];
    let memory = fs::File::open(format!("/proc/{program}/mem")).expect("it is ours");
    // The rest of the page may not be there.
    let read = std::os::unix::fs::FileExt::read_at(&memory, &mut path, at).unwrap_or(0);
    let path = path[..read].split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(path).contains(folder)
}

/// Whether it is `fcntl(2)` and takes no lock. What else that does Linux does without fail: seals, flags, and giving up a lock. (If that failed, the
/// database would wait for a lock of its own until its time is over, half a minute.)
fn takes_no_lock(program: Pid, registers: &libc::user_regs_struct) -> bool {
    if registers.orig_rax as i64 != libc::SYS_fcntl {
        return false;
    }
    let mut kind = [0; size_of::<libc::c_short>()];
    let memory = fs::File::open(format!("/proc/{program}/mem")).expect("it is ours");
    let is_lock = [libc::F_SETLK, libc::F_SETLKW].contains(&(registers.rsi as i32));
    // The kind comes first in `struct flock`.
    let read = is_lock && std::os::unix::fs::FileExt::read_exact_at(&memory, &mut kind, registers.rdx).is_ok();
    !read || i32::from(libc::c_short::from_ne_bytes(kind)) == libc::F_UNLCK
}

/// Runs the program, and lets its system call of this number, from 0, fail with an error: it is not made. Counted are the calls from when it looks at the
/// state folder on, which is its last argument. Its worker processes are left alone.
pub(crate) fn failed(folder: &Path, args: &[&str], fail_at: usize, error: i32) -> Failed {
    let mut command = command(folder, args);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let (mut child, program) = begin(&mut command);
    let mut pipe = child.stderr.take().expect("piped");
    let said = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = std::io::Read::read_to_end(&mut pipe, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    ptrace::setoptions(program, Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL).expect("options");
    let (mut calls, mut call, mut signal) = (0, None, None);
    // Whether the next stop is behind a call, and whether that is the one that fails.
    let (mut behind, mut fails, mut counts) = (false, false, false);
    let state = args.last().copied().unwrap_or_default();
    let hung = watch(program);
    let code = loop {
        ptrace::syscall(program, signal).expect("it goes on");
        signal = None;
        match waitpid(program, None).expect("it stops or ends") {
            WaitStatus::PtraceSyscall(_) if behind => {
                if std::mem::take(&mut fails) {
                    let mut registers = ptrace::getregs(program).expect("registers");
                    registers.rax = i64::from(-error) as u64;
                    ptrace::setregs(program, registers).expect("registers");
                }
                behind = false;
            }
            WaitStatus::PtraceSyscall(_) => {
                let mut registers = ptrace::getregs(program).expect("registers");
                let number = registers.orig_rax as i64;
                // Mappings of files are tried, as those of the database's index are.
                let is_memory = number == libc::SYS_mmap && registers.r10 & libc::MAP_ANONYMOUS as u64 != 0;
                counts = counts || names(program, &registers, state);
                if counts && CAN_FAIL.contains(&number) && !is_memory && !takes_no_lock(program, &registers) {
                    if calls == fail_at {
                        registers.orig_rax = u64::MAX;
                        ptrace::setregs(program, registers).expect("registers");
                        (call, fails) = (Some(number), true);
                    }
                    calls += 1;
                }
                behind = true;
            }
            WaitStatus::Stopped(_, other) => signal = Some(other),
            WaitStatus::Exited(_, status) => break Some(status),
            WaitStatus::Signaled(..) => break None,
            other => panic!("{other:?}"),
        }
    };
    // There is nothing to wait for any more.
    let _ = child.wait();
    let hung = hung.end();
    // It has ended; this is about its handle alone.
    let _ = child.wait();
    Failed { calls, call, code, errors: said.join().expect("read"), hung }
}

/// Kills a program that takes as long as none should.
struct Watch {
    ended: std::sync::mpsc::Sender<()>,
    thread: std::thread::JoinHandle<bool>,
}

/// Longer than anything takes on a busy machine.
const HANGS: std::time::Duration = std::time::Duration::from_secs(120);

fn watch(program: Pid) -> Watch {
    let (ended, over) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let hangs = over.recv_timeout(HANGS) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
        hangs && kill(program, Signal::SIGKILL).is_ok()
    });
    Watch { ended, thread }
}

impl Watch {
    /// Whether it was killed.
    fn end(self) -> bool {
        drop(self.ended);
        self.thread.join().expect("it watches")
    }
}
