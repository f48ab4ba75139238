//! Forks of a process with one thread.
//!
//! `fork(2)` copies the calling thread and all memory. What other threads were in the middle of, an allocation for one, is
//! never finished in the child, so only a process with one thread may go on to run any code there. [`OnlyThread`] is the
//! proof: the kernel is asked for the number of threads before every fork, which takes half a microsecond.
//!
//! ```text
//!  OnlyThread::new ─▶ fork                  the C library's `fork`
//!                   ├▶ fork_with_cookie     `clone`, with the cookie of `syscall_cookie`
//!                   └▶ fork_into_cgroup     `clone3`, with the cookie: the child is in a control group from the start
//!                        └─▶ in the child: Child::run ─▶ ends with the status that its main function gives
//! ```

use super::clone3;
pub use super::clone3::ThreadIdAddress;
use super::syscall_cookie::{FORK, call};
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{ForkResult, Pid, fork, getpid};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

/// Links of `/proc/self/task` besides one for each thread: its name in the folder above and its `.`. Each thread is a folder in it
/// (proc_pid_task(5)), whose `..` is one more.
const OTHER_LINKS: u64 = 2;
/// The status of a process whose main function panicked, as for any Rust program.
pub const PANICKED: i32 = 101;
/// The status of a child that its parent did not outlive.
pub const ORPHANED: i32 = 80;
/// The status of a child that could not put its descriptors in order.
pub const NOT_SET_UP: i32 = 82;

/// The process could not be shown to have one thread.
#[derive(Debug)]
pub enum ThreadsError {
    /// It has this many.
    Several(u64),
    /// The number cannot be read.
    Unknown(io::Error),
}

impl fmt::Display for ThreadsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ThreadsError::Several(count) => write!(f, "the process has {count} threads where it may have one"),
            ThreadsError::Unknown(error) => write!(f, "the threads of the process cannot be counted: {error}"),
        }
    }
}

impl std::error::Error for ThreadsError {}

impl From<ThreadsError> for io::Error {
    fn from(error: ThreadsError) -> io::Error {
        io::Error::other(error)
    }
}

/// How often other threads are looked for again before they count, and how long after each other.
const LOOKS: u32 = 1000;
const PAUSE: Duration = Duration::from_micros(200);

/// The calling thread is the only one of its process. It stays with that thread, and each use of it asks the kernel anew.
#[derive(Debug)]
pub struct OnlyThread {
    /// `/proc/self/task`, whose links the kernel counts.
    tasks: OwnedFd,
    _of_one_thread: PhantomData<*const ()>,
}

impl OnlyThread {
    /// Counts the threads of this process.
    pub fn new() -> Result<OnlyThread, ThreadsError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let tasks = open("/proc/self/task", flags, Mode::empty());
        let tasks = tasks.map_err(|errno| ThreadsError::Unknown(errno.into()))?;
        let only = OnlyThread { tasks, _of_one_thread: PhantomData };
        only.confirm()?;
        Ok(only)
    }

    /// Counts them again. One that is about to end, or has been joined, is there for a moment longer, which is waited for.
    pub fn confirm(&self) -> Result<(), ThreadsError> {
        let mut looks = 0;
        loop {
            let links = fstat(&self.tasks).map_err(|errno| ThreadsError::Unknown(errno.into()))?.st_nlink;
            match links.saturating_sub(OTHER_LINKS) {
                1 => return Ok(()),
                _ if looks < LOOKS => thread::sleep(PAUSE),
                count => return Err(ThreadsError::Several(count)),
            }
            looks += 1;
        }
    }

    /// Forks this process: [`Fork::Child`] in the copy.
    pub fn fork(&self) -> io::Result<Fork<Pid>> {
        self.confirm()?;
        let parent = getpid();
        // SAFETY: fork(2): the process has one thread, so the child may run any code.
        match unsafe { fork() }? {
            ForkResult::Child => Ok(Fork::Child(Child::of(parent))),
            ForkResult::Parent { child } => Ok(Fork::Parent(child)),
        }
    }

    /// Forks this process with the syscall cookie. In the parent there are the child's process id and a descriptor for it.
    ///
    /// The C library does not take part. What it would put right in the child concerns locks of other threads, of which there
    /// are none, and the thread id by which mutexes know their owner, for which any number serves that no other thread has.
    /// No thread gets the id of the spawner as long as it lives, and its workers do not outlive it.
    pub fn fork_with_cookie(&self) -> io::Result<Fork<(Pid, OwnedFd)>> {
        self.confirm()?;
        let (parent, mut pidfd) = (getpid(), -1i32);
        // SAFETY: clone(2): the process has one thread; without `CLONE_VM` the child has memory of its own and goes on on a
        // copy of this stack. With `CLONE_PIDFD` the kernel writes one integer.
        let pid = unsafe { call(libc::SYS_clone, [FORK as usize, 0, &raw mut pidfd as usize, 0])? };
        // SAFETY: the kernel has just written the descriptor there, in the parent.
        Ok(unsafe { Fork::of(parent, pid, pidfd) })
    }

    /// As [`OnlyThread::fork_with_cookie`], and the child is in a control group from its first instruction.
    pub fn fork_into_cgroup(
        &self,
        group: BorrowedFd<'_>,
        thread: &ThreadIdAddress,
    ) -> io::Result<Fork<(Pid, OwnedFd)>> {
        self.confirm()?;
        let (parent, mut pidfd) = (getpid(), -1i32);
        let mut arguments = clone3::arguments(group.as_raw_fd(), thread);
        arguments.pidfd(&mut pidfd);
        // SAFETY: clone(2): the process has one thread, and the child goes on on a copy of this stack. The kernel reads the
        // structure, writes one integer here, and in the child the id of its thread, where the C library keeps that.
        let pid = unsafe { call(libc::SYS_clone3, arguments.as_call())? };
        // SAFETY: the kernel has just written the descriptor there, in the parent.
        Ok(unsafe { Fork::of(parent, pid, pidfd) })
    }
}

/// Which of two processes this is.
#[derive(Debug)]
pub enum Fork<P> {
    /// The new one.
    Child(Child),
    /// The one that was there, and what it has of the new one.
    Parent(P),
}

impl Fork<(Pid, OwnedFd)> {
    /// From what the call returned.
    ///
    /// # Safety
    /// In the parent, where `pid` is not 0, `pidfd` is a descriptor that the kernel has made and nothing else owns.
    unsafe fn of(parent: Pid, pid: usize, pidfd: i32) -> Fork<(Pid, OwnedFd)> {
        match pid {
            0 => Fork::Child(Child::of(parent)),
            // SAFETY: the caller's promise.
            pid => Fork::Parent((Pid::from_raw(pid as i32), unsafe { OwnedFd::from_raw_fd(pidfd) })),
        }
    }
}

/// This process is the copy, and has just been made.
#[derive(Debug)]
pub struct Child {
    parent: Pid,
}

/// The descriptor that a child goes on with. If it has a second one, that is the next; all higher ones are closed.
pub const KEPT: i32 = 3;

/// What a child has of its parent's descriptors.
#[derive(Debug)]
pub struct Inherited<'p> {
    /// It is [`KEPT`] from here on.
    pub first: OwnedFd,
    /// A second one, which is not [`KEPT`] in the parent.
    pub second: Option<BorrowedFd<'p>>,
    /// Standard error leads to the first, too.
    pub stderr: bool,
}

impl From<OwnedFd> for Inherited<'_> {
    fn from(first: OwnedFd) -> Self {
        Inherited { first, second: None, stderr: false }
    }
}

impl Child {
    fn of(parent: Pid) -> Child {
        Child { parent }
    }

    /// Goes on with `main`, and ends with the status that it gives. The process dies with its parent. It has no descriptors but
    /// the standard ones and those that `main` is given. No signal is blocked.
    ///
    /// Nothing of the frames below this one runs any more, destructors included. A descriptor that `main` has captured by
    /// itself is closed.
    pub fn run(self, inherited: Inherited<'_>, main: impl FnOnce(OwnedFd, Option<OwnedFd>) -> i32) -> ! {
        let body = || match self.set_up(inherited) {
            Ok((first, second)) => main(first, second),
            Err(error) => {
                #[expect(clippy::print_stderr, reason = "the process has nothing else to report it with")]
                {
                    eprintln!("a new process cannot be set up: {error}");
                }
                NOT_SET_UP
            }
        };
        // The panic hook has written its message. Nothing of the process is used any more.
        exit_now(catch_unwind(AssertUnwindSafe(body)).unwrap_or(PANICKED))
    }

    fn set_up(self, inherited: Inherited<'_>) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
        let Inherited { first, second, stderr } = inherited;
        let (from, second) = (first.as_raw_fd() as usize, second.map(|second| second.as_raw_fd()));
        // Its number may be `KEPT` already, or it is closed below.
        std::mem::forget(first);
        if second == Some(KEPT) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: PR_SET_PDEATHSIG(2const), getppid(2), dup2(2), close_range(2), sigprocmask(2): calls that are about this
        // process alone. A mask is read; nothing else is. Descriptors are duplicated before others are closed. Those that are
        // closed belong to values in frames that never run again (see `run`).
        unsafe {
            call(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, libc::SIGKILL as usize, 0, 0])?;
            if call(libc::SYS_getppid, [0; 4])? != self.parent.as_raw() as usize {
                // The parent has died before that was in force.
                exit_now(ORPHANED);
            }
            if stderr {
                call(libc::SYS_dup2, [from, 2, 0, 0])?;
            }
            call(libc::SYS_dup2, [from, KEPT as usize, 0, 0])?;
            let mut last = KEPT;
            if let Some(second) = second {
                last += 1;
                call(libc::SYS_dup2, [second as usize, last as usize, 0, 0])?;
            }
            call(libc::SYS_close_range, [last as usize + 1, u32::MAX as usize, 0, 0])?;
            // The spawner's mask would be inherited.
            let none = 0u64;
            let mask = &raw const none as usize;
            call(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as usize, mask, 0, size_of_val(&none)])?;
            // Duplicated just above.
            Ok((OwnedFd::from_raw_fd(KEPT), second.map(|_| OwnedFd::from_raw_fd(last))))
        }
    }
}

/// Ends the process at once: no destructor, no handler of `atexit(3)`.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit(2) has no preconditions.
    unsafe { libc::_exit(status) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::wait::{WaitStatus, waitpid};
    use std::sync::mpsc;

    /// Runs `body` in a process with one thread; how that ended. The test runner has several threads.
    fn in_a_child(body: impl FnOnce() -> i32) -> WaitStatus {
        // SAFETY: the child makes system calls and allocates; `fork` sees to the allocator's locks.
        match unsafe { fork() }.expect("a process") {
            ForkResult::Child => exit_now(catch_unwind(AssertUnwindSafe(body)).unwrap_or(PANICKED)),
            ForkResult::Parent { child } => waitpid(child, None).expect("a child"),
        }
    }

    fn status(of: WaitStatus) -> i32 {
        match of {
            WaitStatus::Exited(_, status) => status,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_process_with_several_threads_is_not_forked() {
        let (stop, stopped) = mpsc::channel::<()>();
        let other = std::thread::spawn(move || stopped.recv());
        assert!(matches!(OnlyThread::new(), Err(ThreadsError::Several(count)) if count > 1));
        drop(stop);
        other.join().expect("it only waits").expect_err("nothing was sent");
        let ended = in_a_child(|| {
            let only = OnlyThread::new().expect("one thread");
            let (stop, stopped) = mpsc::channel::<()>();
            let other = std::thread::spawn(move || stopped.recv());
            let refused = only.fork().is_err() && only.fork_with_cookie().is_err();
            drop(stop);
            let _ = other.join();
            i32::from(!refused)
        });
        assert_eq!(status(ended), 0);
    }

    #[test]
    fn a_child_has_one_descriptor_and_ends_with_the_status_of_its_main_function() {
        let ended = in_a_child(|| {
            let only = OnlyThread::new().expect("one thread");
            let (ours, theirs) = std::io::pipe().expect("a pipe");
            let other = std::fs::File::open("/dev/null").expect("a file").as_raw_fd();
            match only.fork_with_cookie().expect("a process") {
                Fork::Child(child) => child.run(OwnedFd::from(theirs).into(), |kept, second| {
                    assert!(second.is_none());
                    let closed = nix::fcntl::fcntl(
                        // SAFETY: the number is only asked about.
                        unsafe { BorrowedFd::borrow_raw(other.max(KEPT + 1)) },
                        nix::fcntl::FcntlArg::F_GETFD,
                    );
                    if kept.as_raw_fd() == KEPT && closed.is_err() { 7 } else { 1 }
                }),
                Fork::Parent((pid, _pidfd)) => {
                    drop(ours);
                    status(waitpid(pid, None).expect("a child"))
                }
            }
        });
        assert_eq!(status(ended), 7);
    }

    #[test]
    fn a_panic_ends_the_child_and_nothing_below_goes_on() {
        let ended = in_a_child(|| {
            let only = OnlyThread::new().expect("one thread");
            let (_ours, theirs) = std::io::pipe().expect("a pipe");
            match only.fork().expect("a process") {
                Fork::Child(child) => child.run(OwnedFd::from(theirs).into(), |_, _| panic!("as planned")),
                Fork::Parent(pid) => status(waitpid(pid, None).expect("a child")),
            }
        });
        assert_eq!(status(ended), PANICKED);
    }
}
