//! What does not exist here is refused by name: one line on the standard error for each of them, then an error number.

use crate::errno::Answer;
use crate::host;
use crate::line::Line;
use core::sync::atomic::{AtomicU64, Ordering};

/// Which refusals have been written already, a bit for each.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Things that are refused, with the reason.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Missing {
    /// `fork`, `vfork`, `clone` of a process.
    Fork,
    /// `execve`.
    Exec,
    /// Sending a signal.
    Signal,
    /// A shared mapping of a file that overlaps another one in part.
    SharedMapping,
    /// Memory that is both data and code, or becomes code.
    Executable,
    /// `io_uring_setup` and its kin.
    IoUring,
    /// Cancelling a thread.
    Cancel,
    /// Links of any kind.
    Link,
    /// `inotify`, `fanotify`.
    Watch,
    /// An `epoll` among what another waits for.
    Nested,
    /// Timers that signal.
    Timer,
    /// Memory that moves to a place of the program's choice, or leaves its place mapped.
    Move,
    /// Sockets with a path for an address.
    UnixSocket,
    /// Descriptors in a message.
    SendDescriptor,
    /// Groups that several sockets belong to.
    Multicast,
    /// Addresses beyond those that a function has.
    Reservation,
    /// Memory for a file that has become longer while it is mapped.
    Growth,
}

impl Missing {
    const fn words(self) -> &'static str {
        match self {
            Missing::Fork => "a function is one process and cannot start another (fork, vfork, posix_spawn)",
            Missing::Exec => "a function cannot become another program (exec)",
            Missing::Signal => "there are no signals (kill, raise); a handler that is set is never called",
            Missing::SharedMapping => {
                "parts of a file that overlap, or that have no number, cannot be mapped to be written through (MAP_SHARED)"
            }
            Missing::Executable => "memory cannot be executed unless the image brought it along (PROT_EXEC)",
            Missing::IoUring => "there is no io_uring",
            Missing::Cancel => "a thread cannot be cancelled (pthread_cancel)",
            Missing::Link => "there are no symbolic or hard links",
            Missing::Watch => "files cannot be watched (inotify, fanotify)",
            Missing::Nested => "an epoll descriptor cannot itself be watched (epoll_ctl, poll)",
            Missing::Move => "memory moves where the system has room for it (MREMAP_FIXED, MREMAP_DONTUNMAP)",
            Missing::UnixSocket => "there are no Unix sockets with names (AF_UNIX); socketpair makes a pair without",
            Missing::SendDescriptor => {
                "the threads of a function have the same descriptors, which cannot be sent (sendmsg, SCM_RIGHTS)"
            }
            Missing::Multicast => "there is no multicast (setsockopt, IP_ADD_MEMBERSHIP)",
            Missing::Reservation => {
                "a reservation of memory is larger than what is left of a function's addresses, 32 GiB (mmap, PROT_NONE)"
            }
            Missing::Growth => {
                "a mapped file has become longer than the step's memory allows; its end cannot be accessed (mmap)"
            }
            Missing::Timer => "there are no timers that signal (timer_create, setitimer, alarm)",
        }
    }
}

/// Writes the line, once an instance, and answers with `error`.
#[cold]
pub(crate) fn refuse(missing: Missing, error: Answer) -> Answer {
    let bit = 1 << missing as u8;
    if WRITTEN.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        host::write(2, Line::of(format_args!("monohull: {}\n", missing.words())).text().as_bytes());
    }
    error
}

/// The names of those that programs make most often of what no row of the table serves.
const NAMES: &[(i64, &str)] = &[
    (29, "shmget"),
    (30, "shmat"),
    (31, "shmctl"),
    (64, "semget"),
    (65, "semop"),
    (66, "semctl"),
    (68, "msgget"),
    (69, "msgsnd"),
    (70, "msgrcv"),
    (71, "msgctl"),
    (101, "ptrace"),
    (133, "mknod"),
    (166, "umount2"),
    (240, "mq_open"),
    (259, "mknodat"),
    (272, "unshare"),
    (298, "perf_event_open"),
    (308, "setns"),
    (310, "process_vm_readv"),
    (317, "seccomp"),
    (321, "bpf"),
    (323, "userfaultfd"),
];

/// Writes the line for a system call that no row of the table serves.
#[cold]
pub(crate) fn unknown(number: i64, error: Answer) -> Answer {
    /// Numbers that have been written already.
    static SEEN: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
    let place = SEEN.get((number / 64) as usize);
    let bit = 1 << (number & 63);
    if place.is_none_or(|seen| seen.fetch_or(bit, Ordering::Relaxed) & bit == 0) {
        let name = NAMES.iter().find(|(of, _)| *of == number).map(|(_, name)| *name);
        let line = match name {
            Some(name) => Line::of(format_args!("monohull: there is no system call {number} ({name})\n")),
            None => Line::of(format_args!("monohull: there is no system call {number}\n")),
        };
        host::write(2, line.text().as_bytes());
    }
    error
}
