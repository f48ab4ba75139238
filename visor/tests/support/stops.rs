//! The program is killed at a stop: before or behind one of its system calls. Or one of them fails.
#![allow(dead_code, reason = "each test program uses a part")]

use crate::program::command;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

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

/// Runs the program, and kills it at its stop of this number: one before and one behind each system call. The number of stops.
pub(crate) fn traced(folder: &Path, args: &[&str], kill_at: usize) -> usize {
    let mut command = command(folder, args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: one system call between fork and exec; it takes no lock and no memory.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let mut child = command.spawn().expect("the program starts");
    let program = Pid::from_raw(child.id() as i32);
    assert!(matches!(waitpid(program, None), Ok(WaitStatus::Stopped(_, Signal::SIGTRAP))), "it stops at its start");
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

/// Calls by which a process goes on or ends, that do not fail, or by which it gets the memory without which it can say nothing.
const NEVER_FAIL: [i64; 11] = [
    nix::libc::SYS_brk,
    nix::libc::SYS_mprotect,
    nix::libc::SYS_munmap,
    nix::libc::SYS_sigaltstack,
    nix::libc::SYS_exit,
    nix::libc::SYS_exit_group,
    nix::libc::SYS_rt_sigreturn,
    nix::libc::SYS_arch_prctl,
    nix::libc::SYS_set_tid_address,
    nix::libc::SYS_set_robust_list,
    nix::libc::SYS_rseq,
];

/// Runs the program, and lets its system call of this number, from 0, fail with an error: it is not made. Its worker processes are left alone.
pub(crate) fn failed(folder: &Path, args: &[&str], fail_at: usize, error: i32) -> Failed {
    let mut command = command(folder, args);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    // SAFETY: one system call between fork and exec; it takes no lock and no memory.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    let mut child = command.spawn().expect("the program starts");
    let mut pipe = child.stderr.take().expect("piped");
    let said = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = std::io::Read::read_to_end(&mut pipe, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let program = Pid::from_raw(child.id() as i32);
    assert!(matches!(waitpid(program, None), Ok(WaitStatus::Stopped(_, Signal::SIGTRAP))), "it stops at its start");
    ptrace::setoptions(program, Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL).expect("options");
    let (mut calls, mut call, mut signal) = (0, None, None);
    // Whether the next stop is behind a call, and whether that is the one that fails.
    let (mut behind, mut fails) = (false, false);
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
                let is_memory = number == nix::libc::SYS_mmap && registers.r10 & nix::libc::MAP_ANONYMOUS as u64 != 0;
                if !NEVER_FAIL.contains(&number) && !is_memory {
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
