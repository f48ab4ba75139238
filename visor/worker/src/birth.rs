//! Forks whose child is born in a control group, for [`cgroup`](super::cgroup).

use super::word;
use nix::unistd::Pid;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// How many bytes of arguments [`born_in`] gives the kernel: more than the C library does, so that the list of system calls can
/// tell them apart. The kernel takes any length, if what it does not know is zero.
pub(super) const CLONE_BYTES: usize = 128;

/// Forks this process, which must have one thread, and whose child begins its life in a group. In the child there is
/// nothing; in its parent, its process id and a descriptor for it.
///
/// The C library's `fork` knows nothing of groups. What it does besides, for a process with one thread, is to have the
/// kernel write the child's id where it keeps that of the thread: `thread` is where.
///
/// # Safety
/// As for `fork`: there is one thread. `thread` comes from [`thread_word`], called by that thread or by the one that it is a copy of.
pub(super) unsafe fn born_in(group: BorrowedFd<'_>, thread: usize) -> io::Result<Option<(Pid, i32)>> {
    const INTO_GROUP: u64 = 0x2_0000_0000;
    let mut arguments = [0u64; CLONE_BYTES / 8];
    // `struct clone_args` of `linux/sched.h`: flags, pidfd, child_tid, parent_tid, exit_signal, five more, cgroup.
    let mut pidfd = -1i32;
    let flags = libc::CLONE_PIDFD | libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID;
    arguments[0] = INTO_GROUP | flags as u64;
    arguments[1] = &raw mut pidfd as u64;
    arguments[2] = thread as u64;
    arguments[4] = libc::SIGCHLD as u64;
    arguments[10] = group.as_raw_fd() as u64;
    // SAFETY: the kernel reads the array; the child gets a copy of all memory, stack included, and goes on here like the parent.
    // What the kernel writes in the child is an id of a thread, where the C library keeps it.
    let pid = unsafe { word::call(libc::SYS_clone3, [arguments.as_ptr() as usize, CLONE_BYTES, 0, 0])? };
    Ok((pid != 0).then(|| (Pid::from_raw(pid as i32), pidfd)))
}

/// Where the C library keeps the id of this thread: the kernel knows, because it clears that word when the thread ends.
pub(super) fn thread_word() -> io::Result<usize> {
    const PR_GET_TID_ADDRESS: libc::c_int = 40;
    let mut word: *const libc::pid_t = std::ptr::null();
    // SAFETY: the kernel writes one pointer to a live local.
    let answer = unsafe { libc::prctl(PR_GET_TID_ADDRESS, &raw mut word) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: if it is not null it is a word of the C library's for this thread, which is alive.
    if word.is_null() || unsafe { word.read() } != nix::unistd::gettid().as_raw() {
        return Err(io::Error::other("the C library keeps the thread's id elsewhere"));
    }
    Ok(word as usize)
}

/// Has a process be born in a group, and end. For [`Membership::arrange`](super::cgroup::Membership::arrange) alone, which is
/// called while there is one thread.
pub(super) fn try_birth(group: &File, thread: usize) -> io::Result<()> {
    // SAFETY: there is one thread, and the word is its own: `Membership::arrange` has asked for it just now.
    match unsafe { born_in(group.as_fd(), thread) }? {
        // SAFETY: has no preconditions, and runs nothing.
        None => unsafe { libc::_exit(0) },
        Some((child, pidfd)) => {
            nix::unistd::close(pidfd)?;
            let ended = nix::sys::wait::waitpid(child, None)?;
            match ended {
                nix::sys::wait::WaitStatus::Exited(_, 0) => Ok(()),
                other => Err(io::Error::other(format!("the first one ended as {other:?}"))),
            }
        }
    }
}
