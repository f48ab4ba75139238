//! A disk that becomes read-only under a program that has files open there, and writable again.
//!
//! Linux makes one read-only that fails (`errors=remount-ro`), and refuses to do it by hand while a file is open for writing. So the program's
//! system calls are answered as if it had: the kernel asks a thread of the test about each that may change something below a folder (seccomp's
//! notifications), and that says `EROFS`, or lets the kernel make the call.
//!
//! ```text
//!   program ── write, openat, rename … ─▶ kernel ── notification ─▶ thread: below the folder, and read-only? EROFS : make it
//! ```

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::{File, read_link};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// What a call changes, by its arguments.
#[derive(Clone, Copy)]
enum Changes {
    /// The file of the descriptor in this one.
    File(usize),
    /// The path in this one.
    Path(usize),
    /// The path in the second, from the folder in the first on.
    PathAt(usize, usize),
    /// The same, if it is opened for writing by the flags in the third.
    Opened(usize, usize, usize),
}
use Changes::{File as OfFile, Opened, Path as OfPath, PathAt};

/// Calls that a disk which is read-only refuses.
const CALLS: [(i64, Changes); 27] = [
    (libc::SYS_write, OfFile(0)),
    (libc::SYS_pwrite64, OfFile(0)),
    (libc::SYS_writev, OfFile(0)),
    (libc::SYS_pwritev, OfFile(0)),
    (libc::SYS_pwritev2, OfFile(0)),
    (libc::SYS_sendfile, OfFile(0)),
    (libc::SYS_copy_file_range, OfFile(2)),
    (libc::SYS_ftruncate, OfFile(0)),
    (libc::SYS_fallocate, OfFile(0)),
    (libc::SYS_fchmod, OfFile(0)),
    (libc::SYS_fsync, OfFile(0)),
    (libc::SYS_fdatasync, OfFile(0)),
    (libc::SYS_openat, Opened(0, 1, 2)),
    (libc::SYS_mkdir, OfPath(0)),
    (libc::SYS_mkdirat, PathAt(0, 1)),
    (libc::SYS_rmdir, OfPath(0)),
    (libc::SYS_unlink, OfPath(0)),
    (libc::SYS_unlinkat, PathAt(0, 1)),
    (libc::SYS_rename, OfPath(0)),
    (libc::SYS_renameat, PathAt(0, 1)),
    (libc::SYS_renameat2, PathAt(0, 1)),
    (libc::SYS_link, OfPath(1)),
    (libc::SYS_linkat, PathAt(2, 3)),
    (libc::SYS_symlink, OfPath(1)),
    (libc::SYS_symlinkat, PathAt(1, 2)),
    (libc::SYS_chmod, OfPath(0)),
    (libc::SYS_fchmodat, PathAt(0, 1)),
];

/// The disk of a folder, as a program sees it.
pub(crate) struct Disk(Arc<AtomicBool>);

impl Disk {
    /// What `start` gives, which starts a program. All that the program starts sees the disk as it does.
    pub(crate) fn under<T: Send>(folder: &Path, start: impl FnOnce() -> T + Send) -> (Disk, T) {
        let folder = folder.canonicalize().expect("a folder");
        let is_read_only = Arc::<AtomicBool>::default();
        let (sender, listener) = std::sync::mpsc::channel::<OwnedFd>();
        let disk = Disk(is_read_only.clone());
        // Not below the filter, by which it would wait for itself.
        thread::spawn(move || answer(&listener.recv().expect("a filter"), &folder, &is_read_only));
        let started = thread::scope(|scope| {
            let filtered = scope.spawn(|| {
                sender.send(filter().expect("a filter")).expect("it listens");
                start()
            });
            filtered.join().expect("it starts")
        });
        (disk, started)
    }

    pub(crate) fn set_read_only(&self, is_read_only: bool) {
        self.0.store(is_read_only, Ordering::SeqCst);
    }
}

/// From now on the calls of this thread, and of what it starts, are asked about here.
fn filter() -> io::Result<OwnedFd> {
    let statement = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let mut program = vec![statement((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0)];
    // One of them jumps over the others, and over the statement behind them.
    program.extend(CALLS.iter().enumerate().map(|(index, (call, _))| libc::sock_filter {
        jt: (CALLS.len() - index) as u8,
        ..statement((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, *call as u32)
    }));
    program.push(statement((libc::BPF_RET | libc::BPF_K) as u16, libc::SECCOMP_RET_ALLOW));
    program.push(statement((libc::BPF_RET | libc::BPF_K) as u16, libc::SECCOMP_RET_USER_NOTIF));
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
    nix::sys::prctl::set_no_new_privs()?;
    // SAFETY: seccomp(2) reads a program that is there.
    match unsafe { libc::syscall(libc::SYS_seccomp, i64::from(mode), flags, &raw const program) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: a new descriptor, which nothing else has.
        listener => Ok(unsafe { OwnedFd::from_raw_fd(listener as i32) }),
    }
}

/// Answers until all that is below the filter has ended.
fn answer(listener: &OwnedFd, folder: &Path, is_read_only: &AtomicBool) {
    loop {
        let mut polled = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        let arrived = poll(&mut polled, PollTimeout::NONE).is_ok();
        if arrived && !polled[0].revents().is_some_and(|events| events.contains(PollFlags::POLLIN)) {
            return;
        }
        // SAFETY: numbers alone, which may be zero, and have to be here.
        let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: seccomp_unotify(2): the kernel writes such a structure, of its own size.
        if unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut asked) } != 0 {
            // The thread that was asked about has been killed.
            continue;
        }
        let is_refused = is_read_only.load(Ordering::SeqCst) && is_below(folder, &asked);
        let (error, flags) = match is_refused {
            true => (-libc::EROFS, 0),
            false => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
        };
        let mut answer = libc::seccomp_notif_resp { id: asked.id, val: 0, error, flags };
        // SAFETY: seccomp_unotify(2): the kernel reads such a structure. The thread may have been killed, and then needs no answer.
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
    }
}

/// Whether a call changes something below a folder.
fn is_below(folder: &Path, asked: &libc::seccomp_notif) -> bool {
    let arguments = &asked.data.args;
    let link = |name: String| read_link(format!("/proc/{}/{name}", asked.pid)).unwrap_or_default();
    let file = |at: usize| match arguments[at] as i32 {
        libc::AT_FDCWD => link("cwd".to_owned()),
        number => link(format!("fd/{number}")),
    };
    let path = |at: usize| path_in(asked.pid, arguments[at]).unwrap_or_default();
    let named = CALLS.iter().find(|(call, _)| *call == i64::from(asked.data.nr));
    let changed = match named.expect("one of those").1 {
        OfFile(at) => file(at),
        OfPath(at) => link("cwd".to_owned()).join(path(at)),
        PathAt(from, at) => file(from).join(path(at)),
        Opened(from, at, flags) => {
            let for_writing = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
            if arguments[flags] as i32 & for_writing == 0 {
                return false;
            }
            file(from).join(path(at))
        }
    };
    changed.starts_with(folder)
}

/// The path at an address of a process.
fn path_in(process: u32, address: u64) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = vec![0; libc::PATH_MAX as usize];
    // The rest of the page may not be there.
    let read = File::open(format!("/proc/{process}/mem"))?.read_at(&mut bytes, address)?;
    let end = bytes[..read].iter().position(|byte| *byte == 0).unwrap_or(read);
    bytes.truncate(end);
    Ok(std::ffi::OsString::from_vec(bytes).into())
}
