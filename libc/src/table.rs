//! The table: which function answers a system call, and through it which hostcall.
//!
//! | system calls | become | limits |
//! | --- | --- | --- |
//! | `open`, `openat`, `creat` | `FILE_OPEN` | no modes; no `O_TMPFILE`; `/dev/null`, `zero`, `random`, `urandom`, `stdin`, `stdout`, `stderr` are known by name |
//! | `read`, `write`, `pread64`, `pwrite64`, `readv`, `writev`, `preadv2`, `pwritev2` and their kin | `FILE_READ` …, `STDIO_WRITE`, `SOCKET_RECV`, `SOCKET_SEND`, the slot of the standard input | all that is asked for, up to 2 GiB; descriptor 0 takes its slot at the first read |
//! | `stat`, `lstat`, `fstat`, `newfstatat`, `statx`, `access` | `FILE_STAT`, `FILE_FSTAT` | no owners; modes are 755, 644, and without `w` on read-only mounts |
//! | `getdents64` | `FILE_GETDENTS` | without `.` and `..` |
//! | `mkdir`, `rmdir`, `unlink`, `rename`, `truncate`, `fsync`, `chdir`, `getcwd` and their kin | the hostcall of that name | `renameat2` without flags |
//! | `utimensat` | `FILE_SET_TIMES` | file systems keep times as exactly as they can |
//! | `chmod`, `chown`, `flock`, `fadvise64`, `umask` | nothing: accepted | owners, modes and locks do not exist |
//! | `symlink`, `link` | refused | `readlink` answers `EINVAL` for what exists |
//! | `dup`, `fcntl`, `close`, `close_range` | `FILE_DUP`, `FILE_FLAGS`, `FILE_CLOSE`, `SOCKET_CLOSE` | 1024 descriptors; record locks are accepted; `O_CLOEXEC` means nothing |
//! | `pipe2`, `socketpair`, `eventfd2` | memory, `FUTEX_WAIT`, `FUTEX_WAKE` | from thread to thread of the instance; 64 KiB in a pipe; pairs are streams of `AF_UNIX`; closing the other end answers `EPIPE`, without a signal |
//! | `poll`, `ppoll`, `select`, `pselect6` | `QUEUE_*`: waits for sockets, and for posts of pipes and event counters | the end of a socket's stream is only `POLLIN`; where nothing can become ready it is `NANOSLEEP`; if all 64 queues are in use it looks again with pauses, and a listening socket counts as ready |
//! | `epoll_create1`, `epoll_ctl`, `epoll_wait`, `epoll_pwait` | `QUEUE_*` | at most 63; sockets, pipes, pairs, event counters; an epoll descriptor is not watched itself; the end of a socket is `EPOLLIN`, without `EPOLLRDHUP`; masks of signals are ignored |
//! | `socket`, `bind`, `listen`, `connect`, `accept4`, `sendto`, `recvfrom`, … | `TCP_LISTEN`, `TCP_CONNECT`, `TCP_ACCEPT`, `UDP_BIND`, `SOCKET_*` | TCP and UDP over IPv4 and IPv6; a second `connect` never waits; a stream that is bound to any port listens from when its port is asked for; no control messages |
//! | `mmap`, `munmap`, `mremap`, `msync` | `MAP` and `UNMAP` from 1 MiB on, `HEAP_GROW`; `FILE_MMAP`, `FILE_MUNMAP`; `FILE_PREAD`, `FILE_PWRITE` for shared mappings of files | not executable; `MAP_FIXED` over own anonymous mappings only; shared within the instance, other instances see a store when it is written back |
//! | `mprotect`, `madvise` | `PROTECT`, `DISCARD`; `FILE_MADVISE` | anonymous mappings from 1 MiB on are protected, and dropped; elsewhere protection does not change, and `MADV_DONTNEED` zeroes, but for parts of files |
//! | `brk` | refused | `malloc` is this crate's |
//! | `futex` | `FUTEX_WAIT`, `FUTEX_WAKE` | requeueing wakes; no priority inheritance |
//! | `clone` of a thread | `THREAD_SPAWN` | through `pthread_create`; the stack is Monohull's, its size the workflow's `limits` |
//! | `exit` | `THREAD_EXIT` | |
//! | `exit_group` | `STDIO_FLUSH`, `EXIT` | |
//! | `clock_gettime`, `gettimeofday`, `time`, `times` | `CLOCK_GETTIME` | clocks of processor time read as the monotonic one |
//! | `nanosleep`, `clock_nanosleep` | `NANOSLEEP` | |
//! | `getrandom` | `GETRANDOM` | |
//! | `sched_yield`, `sched_getaffinity` | `THREAD_YIELD`, `GET_INFO` | |
//! | `getpid`, `getuid`, … | nothing: 1 and 0 | |
//! | `rt_sigaction`, `rt_sigprocmask`, `sigaltstack` | nothing: accepted | no handler is ever called |
//! | `kill`, `tkill`, `tgkill` | `ABORT` for `SIGABRT` to itself | signal 0 is answered; otherwise refused |
//! | `fork`, `vfork`, `clone` of a process, `execve` | refused | |
//! | `inotify_init`, `timer_create`, `setitimer`, `io_uring_setup` | refused | |
//! | all others | refused with their number | |
//!
//! "Refused" is one line on the standard error, once an instance, and an error number.

use crate::errno::{Answer, ENOSYS};
use crate::{clocks, descriptors, epoll, files, futex, local, memory, poll, process, refuse, select, sockets, threads};

macro_rules! table {
    ($($number:literal $name:literal $function:path,)*) => {
        fn answer(number: i64, arguments: [u64; 6]) -> Answer {
            match number {
                $($number => $function(arguments),)*
                other => refuse::unknown(other, ENOSYS),
            }
        }

        /// The numbers and names of the system calls that are answered.
        pub const CALLS: &[(i64, &str)] = &[$(($number, $name),)*];
    };
}

/// What musl's `syscall` instruction has become.
#[unsafe(no_mangle)]
pub extern "C" fn __monohull_syscall(number: i64, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> Answer {
    answer(number, [a, b, c, d, e, f])
}

table! {
    // Files: `FILE_*`.
    0 "read" files::read,
    1 "write" files::write,
    2 "open" files::open,
    3 "close" descriptors::close,
    4 "stat" files::stat,
    5 "fstat" files::fstat,
    6 "lstat" files::stat,
    7 "poll" poll::poll,
    8 "lseek" files::lseek,
    16 "ioctl" files::ioctl,
    17 "pread64" files::pread,
    18 "pwrite64" files::pwrite,
    19 "readv" files::readv,
    20 "writev" files::writev,
    21 "access" files::access,
    32 "dup" descriptors::dup,
    33 "dup2" descriptors::dup2,
    292 "dup3" descriptors::dup3,
    72 "fcntl" descriptors::fcntl,
    73 "flock" files::accept_descriptor,
    74 "fsync" files::fsync,
    75 "fdatasync" files::fsync,
    76 "truncate" files::truncate,
    77 "ftruncate" files::ftruncate,
    79 "getcwd" files::getcwd,
    80 "chdir" files::chdir,
    81 "fchdir" files::fchdir,
    82 "rename" files::rename,
    83 "mkdir" files::mkdir,
    84 "rmdir" files::rmdir,
    85 "creat" files::creat,
    87 "unlink" files::unlink,
    89 "readlink" files::readlink,
    90 "chmod" files::accept_path,
    91 "fchmod" files::accept_descriptor,
    92 "chown" files::accept_path,
    93 "fchown" files::accept_descriptor,
    94 "lchown" files::accept_path,
    137 "statfs" files::statfs,
    138 "fstatfs" files::fstatfs,
    162 "sync" process::sync,
    217 "getdents64" files::getdents64,
    221 "fadvise64" files::accept_descriptor,
    257 "openat" files::openat,
    258 "mkdirat" files::mkdirat,
    262 "newfstatat" files::newfstatat,
    263 "unlinkat" files::unlinkat,
    264 "renameat" files::renameat,
    316 "renameat2" files::renameat2,
    267 "readlinkat" files::readlinkat,
    268 "fchmodat" files::accept_path_at,
    260 "fchownat" files::accept_path_at,
    269 "faccessat" files::faccessat,
    439 "faccessat2" files::faccessat,
    280 "utimensat" files::utimensat,
    285 "fallocate" files::fallocate,
    295 "preadv" files::preadv,
    296 "pwritev" files::pwritev,
    327 "preadv2" files::preadv2,
    328 "pwritev2" files::pwritev2,
    22 "pipe" local::pipe,
    293 "pipe2" local::pipe2,
    53 "socketpair" local::pair,
    284 "eventfd" local::eventfd,
    290 "eventfd2" local::eventfd2,
    23 "select" select::select,
    270 "pselect6" select::pselect6,
    271 "ppoll" poll::ppoll,
    213 "epoll_create" epoll::create,
    291 "epoll_create1" epoll::create1,
    233 "epoll_ctl" epoll::control,
    232 "epoll_wait" epoll::wait,
    281 "epoll_pwait" epoll::wait,
    441 "epoll_pwait2" epoll::pwait2,
    332 "statx" files::statx,
    436 "close_range" descriptors::close_range,
    88 "symlink" files::link,
    86 "link" files::link,
    266 "symlinkat" files::link,
    265 "linkat" files::link,
    326 "copy_file_range" files::copy,
    40 "sendfile" files::copy,
    275 "splice" files::copy,
    191 "getxattr" files::attributes,
    192 "lgetxattr" files::attributes,
    193 "fgetxattr" files::attributes,
    194 "listxattr" files::attributes,
    95 "umask" process::zero,
    // Memory.
    9 "mmap" memory::mmap,
    11 "munmap" memory::munmap,
    25 "mremap" memory::mremap,
    10 "mprotect" memory::mprotect,
    28 "madvise" memory::madvise,
    12 "brk" memory::brk,
    26 "msync" memory::msync,
    149 "mlock" process::no_memory,
    150 "munlock" process::zero,
    27 "mincore" process::not_here,
    324 "membarrier" process::not_here,
    319 "memfd_create" process::not_here,
    // Threads and time.
    202 "futex" futex::call,
    186 "gettid" threads::gettid,
    218 "set_tid_address" threads::set_tid_address,
    273 "set_robust_list" process::zero,
    // musl goes through its list itself when a thread ends; of a process that ends nothing is left.
    274 "get_robust_list" process::zero,
    24 "sched_yield" threads::sched_yield,
    204 "sched_getaffinity" threads::sched_getaffinity,
    203 "sched_setaffinity" process::zero,
    334 "rseq" process::not_here,
    60 "exit" process::exit,
    35 "nanosleep" clocks::nanosleep,
    230 "clock_nanosleep" clocks::clock_nanosleep,
    228 "clock_gettime" clocks::gettime,
    229 "clock_getres" clocks::getres,
    96 "gettimeofday" clocks::gettimeofday,
    201 "time" clocks::time,
    34 "pause" process::pause,
    130 "rt_sigsuspend" process::pause,
    309 "getcpu" process::not_here,
    100 "times" process::times,
    // The process.
    231 "exit_group" process::exit_group,
    39 "getpid" process::getpid,
    110 "getppid" process::zero,
    102 "getuid" process::zero,
    107 "geteuid" process::zero,
    104 "getgid" process::zero,
    108 "getegid" process::zero,
    115 "getgroups" process::zero,
    121 "getpgid" process::getpid,
    111 "getpgrp" process::getpid,
    124 "getsid" process::getpid,
    112 "setsid" process::not_permitted,
    318 "getrandom" process::getrandom,
    63 "uname" process::uname,
    99 "sysinfo" process::sysinfo,
    97 "getrlimit" process::getrlimit,
    160 "setrlimit" process::not_permitted,
    302 "prlimit64" process::prlimit64,
    98 "getrusage" process::getrusage,
    157 "prctl" process::prctl,
    140 "getpriority" process::zero,
    14 "rt_sigprocmask" process::rt_sigprocmask,
    13 "rt_sigaction" process::rt_sigaction,
    131 "sigaltstack" process::sigaltstack,
    127 "rt_sigpending" process::zero,
    62 "kill" process::kill,
    200 "tkill" process::tkill,
    234 "tgkill" process::tgkill,
    57 "fork" process::fork,
    58 "vfork" process::fork,
    56 "clone" process::fork,
    435 "clone3" process::fork,
    59 "execve" process::exec,
    322 "execveat" process::exec,
    61 "wait4" process::wait,
    247 "waitid" process::wait,
    425 "io_uring_setup" process::io_uring,
    426 "io_uring_enter" process::io_uring,
    427 "io_uring_register" process::io_uring,
    294 "inotify_init1" process::watch,
    253 "inotify_init" process::watch,
    300 "fanotify_init" process::watch,
    222 "timer_create" process::timer,
    38 "setitimer" process::timer,
    37 "alarm" process::timer,
    283 "timerfd_create" process::timer,
    165 "mount" process::not_permitted,
    161 "chroot" process::not_permitted,
    434 "pidfd_open" process::not_here,
    // Sockets: `TCP_*`, `UDP_*`, `SOCKET_*`.
    41 "socket" sockets::socket,
    49 "bind" sockets::bind,
    50 "listen" sockets::listen,
    42 "connect" sockets::connect,
    43 "accept" sockets::accept,
    288 "accept4" sockets::accept4,
    44 "sendto" sockets::sendto,
    45 "recvfrom" sockets::recvfrom,
    46 "sendmsg" sockets::sendmsg,
    47 "recvmsg" sockets::recvmsg,
    48 "shutdown" sockets::shutdown,
    51 "getsockname" sockets::getsockname,
    52 "getpeername" sockets::getpeername,
    54 "setsockopt" sockets::setsockopt,
    55 "getsockopt" sockets::getsockopt,
}
