//! Programs that are started, and that end with the one that has started them.

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Starts a program. It gets SIGTERM when the thread that called this ends, and so when its process is killed (`PR_SET_PDEATHSIG`).
///
/// # Errors
///
/// Those of [`Command::spawn`], and `ESRCH` if the process has ended meanwhile.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let parent = Pid::this();
    let end_with_parent = move || {
        prctl::set_pdeathsig(Signal::SIGTERM)?;
        // If it has ended before that call there will be no signal.
        if Pid::parent() == parent { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: `fork(2)`: between it and the new program, only functions that are safe in a signal handler may be called. These are two
    // system calls, and an error of a number; nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(end_with_parent) };
    command.spawn()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    /// The thread that starts a program stands for a process that is killed: the kernel makes no difference.
    #[test]
    fn a_program_ends_with_what_started_it() {
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let (send, sent) = std::sync::mpsc::channel();
        let starts = std::thread::spawn(move || {
            let mut sleep = Command::new("sleep");
            send.send(spawn(sleep.arg("600").stdin(Stdio::null()))).expect("a receiver");
            let _ = held.recv();
        });
        let mut child = sent.recv().expect("a child").expect("sleep starts");
        assert_eq!(child.try_wait().expect("a child"), None, "it goes on as long as the thread does");
        drop(hold);
        starts.join().expect("ends");
        let status = child.wait().expect("a child");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(Signal::SIGTERM as i32), "{status}");
    }
}
