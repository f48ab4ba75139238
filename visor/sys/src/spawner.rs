//! System calls that are made with the cookie of [`syscall_cookie`](super::syscall_cookie). In a process without one they are
//! ordinary calls.

use super::syscall_cookie::call;
use nix::poll::PollFd;
use std::io;

/// Waits until one of these is ready, without a time limit: `poll(2)`. A signal ends the wait with
/// [`Interrupted`](io::ErrorKind::Interrupted).
pub fn poll(files: &mut [PollFd<'_>]) -> io::Result<()> {
    let no_limit = -1isize as usize;
    // SAFETY: poll(2): the kernel reads and writes as many entries as the second argument; a `PollFd` is one (`repr(transparent)`).
    unsafe { call(libc::SYS_poll, [files.as_mut_ptr() as usize, files.len(), no_limit, 0]) }.map(drop)
}

/// A child, or a thread that is traced, whose state has changed, and its status as `waitpid` gives it. `None` if there is
/// none now, or no child at all.
pub fn wait_any() -> Option<(i32, i32)> {
    let (any, mut status) = (-1isize as usize, 0i32);
    let options = (libc::WNOHANG | libc::__WALL) as usize;
    // SAFETY: wait4(2): the kernel writes one integer, and is given no room for usage.
    let ended = unsafe { call(libc::SYS_wait4, [any, &raw mut status as usize, options, 0]) };
    match ended {
        Ok(pid) if pid > 0 => Some((pid as i32, status)),
        _ => None,
    }
}

/// Limits what this process may have of a resource (`RLIMIT_*`).
pub fn limit(resource: u32, most: u64) -> io::Result<()> {
    let limits = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: prlimit(2): 0 stands for the process itself; the kernel reads one structure, and is given no room for the old
    // one.
    unsafe { call(libc::SYS_prlimit64, [0, resource as usize, &raw const limits as usize, 0])? };
    Ok(())
}

/// Has the parent trace this thread, and stops until the parent lets it go on. An error means that it is not allowed.
pub fn be_traced() -> io::Result<()> {
    request(libc::PTRACE_TRACEME, 0, 0, 0)?;
    // SAFETY: tgkill(2) takes numbers. The thread is this one, the signal stops the process until its tracer has seen that.
    unsafe {
        let (process, thread) = (libc::getpid() as usize, libc::gettid() as usize);
        call(libc::SYS_tgkill, [process, thread, libc::SIGSTOP as usize, 0]).map(drop)
    }
}

/// A thread of another process that this one traces, and that has stopped: `ptrace(2)`. Requests about any other thread fail.
#[derive(Clone, Copy, Debug)]
pub struct Stopped(pub i32);

/// `NT_X86_XSTATE` of `linux/elf.h`: all of a thread's extended registers.
const EXTENDED_REGISTERS: usize = 0x202;

impl Stopped {
    /// Sets options (`PTRACE_O_*`).
    pub fn set_options(self, options: i32) -> io::Result<()> {
        request(libc::PTRACE_SETOPTIONS, self.0, 0, options as usize)
    }

    /// Lets it go on, with this signal or, if that is 0, with none.
    pub fn go_on(self, signal: i32) -> io::Result<()> {
        request(libc::PTRACE_CONT, self.0, 0, signal as usize)
    }

    /// Reads its extended registers; how many bytes they are.
    pub fn extended_registers(self, room: &mut [u8]) -> io::Result<usize> {
        let mut room = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        request(libc::PTRACE_GETREGSET, self.0, EXTENDED_REGISTERS, &raw mut room as usize)?;
        Ok(room.iov_len)
    }

    /// Sets them.
    pub fn set_extended_registers(self, registers: &[u8]) -> io::Result<()> {
        let mut from = libc::iovec { iov_base: registers.as_ptr().cast_mut().cast(), iov_len: registers.len() };
        request(libc::PTRACE_SETREGSET, self.0, EXTENDED_REGISTERS, &raw mut from as usize)
    }
}

/// Makes a request of `ptrace(2)`.
fn request(what: libc::c_uint, thread: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: ptrace(2): the requests of this file are about registers and options of a thread of another process. Where the
    // kernel writes to this one (`PTRACE_GETREGSET`), `data` leads to an `iovec` that names a slice.
    unsafe { call(libc::SYS_ptrace, [what as usize, thread as usize, address, data]) }.map(drop)
}
