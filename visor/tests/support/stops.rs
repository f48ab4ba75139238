//! The program is killed at a stop: before or behind one of its system calls.
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
