//! Page faults as messages: `userfaultfd(2)`.
//!
//! Only faults of code, `UFFD_USER_MODE_ONLY`: that needs no privilege, and the kernel itself never waits for the pager. A
//! system call on a missing page fails with `EFAULT`, so the page is filled before
//! ([`super::Pager::populate_for_syscall`]).

use super::scratch::Scratch;
use super::source::Source;
use linux_raw_sys::general::{
    UFFD_EVENT_PAGEFAULT, UFFDIO_REGISTER_MODE_MISSING, uffd_msg, uffdio_copy, uffdio_range, uffdio_zeropage,
};
use monohull_abi::layout::PAGE;
pub use monohull_sys::userfaultfd::FLAGS;
use monohull_sys::userfaultfd::{API, GROUP, REGISTER, open, register};
use rustix::ioctl::{Opcode, Setter, Updater, ioctl, opcode};
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

/// The requests that are made, as `linux/userfaultfd.h` numbers them; the sandbox allows no others.
const WAKE: Opcode = opcode::read::<uffdio_range>(GROUP, 2);
const COPY: Opcode = opcode::read_write::<uffdio_copy>(GROUP, 3);
const ZERO: Opcode = opcode::read_write::<uffdio_zeropage>(GROUP, 4);
/// All of them.
pub const REQUESTS: [Opcode; 5] = [API, REGISTER, WAKE, COPY, ZERO];

/// Faults taken from the kernel at once.
const AT_ONCE: usize = 16;

/// The `userfaultfd` descriptor of a domain.
#[derive(Debug)]
pub(super) struct Faults {
    descriptor: OwnedFd,
    scratch: Mutex<Scratch>,
}

/// Faults read from the kernel.
pub(super) struct FaultBatch {
    messages: [MaybeUninit<uffd_msg>; AT_ONCE],
    count: usize,
}

impl Faults {
    /// Opens the descriptor.
    pub(super) fn new() -> io::Result<Faults> {
        Ok(Faults { descriptor: open(0)?, scratch: Mutex::new(Scratch::new()?) })
    }

    /// From now on a touch of a missing page in this range waits until the page is filled.
    pub(super) fn watch(&self, range: Range<u64>) -> io::Result<()> {
        register(&self.descriptor, range, UFFDIO_REGISTER_MODE_MISSING)
    }

    /// Reads the faults that have not been read yet; may be empty.
    pub(super) fn take(&self) -> io::Result<FaultBatch> {
        let mut waiting = FaultBatch { messages: [const { MaybeUninit::uninit() }; AT_ONCE], count: 0 };
        let room = size_of_val(&waiting.messages);
        // SAFETY: the buffer has this size.
        let read = unsafe { libc::read(self.descriptor.as_raw_fd(), waiting.messages.as_mut_ptr().cast(), room) };
        if read < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(waiting),
                _ => Err(error),
            };
        }
        waiting.count = read as usize / size_of::<uffd_msg>();
        Ok(waiting)
    }

    /// Fills whole missing pages from `at` on with the bytes at `from`, and wakes the threads that wait for them. The kernel
    /// reads the bytes, and survives what cannot be read. Pages that are present stay as they are.
    pub(super) fn copy(&self, at: u64, from: u64, len: u64) -> io::Result<()> {
        pages_of(len, |done, len| {
            let mut copy = uffdio_copy { dst: at + done, src: from + done, len, mode: 0, copy: 0 };
            // SAFETY: it changes pages that are missing in ranges that are watched, and no others.
            let status = unsafe { ioctl(&self.descriptor, Updater::<COPY, _>::new(&mut copy)) };
            (status, copy.copy)
        })
    }

    /// Fills one missing page with what a mapping has there, which is not a page side by side.
    pub(super) fn copy_pieces(&self, at: u64, source: &Source, place: u64) -> io::Result<()> {
        let mut scratch = self.scratch.lock().expect("the page for pieces");
        let page = scratch.page(source, place)?;
        self.copy(at, page, PAGE)
    }

    /// The same as [`Faults::copy`] with zeros.
    pub(super) fn zero(&self, at: u64, len: u64) -> io::Result<()> {
        pages_of(len, |done, len| {
            let range = uffdio_range { start: at + done, len };
            let mut zero = uffdio_zeropage { range, mode: 0, zeropage: 0 };
            // SAFETY: as in `copy`.
            let status = unsafe { ioctl(&self.descriptor, Updater::<ZERO, _>::new(&mut zero)) };
            (status, zero.zeropage)
        })
    }

    /// Wakes the threads that wait for a page of this range: each tries again.
    pub(super) fn wake(&self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        // SAFETY: the request's own structure; threads that try again fault again, or not.
        let woken = unsafe { ioctl(&self.descriptor, Setter::<WAKE, _>::new(as_range(range))) };
        debug_assert!(woken.is_ok(), "whole pages of the user partition: {woken:?}");
    }
}

impl AsFd for Faults {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl FaultBatch {
    /// The addresses.
    pub(super) fn addresses(&self) -> impl Iterator<Item = u64> {
        self.messages[..self.count].iter().filter_map(|message| {
            // SAFETY: the kernel has written as many messages.
            let message = unsafe { message.assume_init() };
            // SAFETY: the event says which member of the union was written.
            let address = || unsafe { message.arg.pagefault.address };
            (u32::from(message.event) == UFFD_EVENT_PAGEFAULT).then(address)
        })
    }
}

/// Makes a request until all bytes are done. It returns how many it has done, or the error of the first that failed.
fn pages_of(len: u64, mut request: impl FnMut(u64, u64) -> (rustix::io::Result<()>, i64)) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        match request(done, len - done) {
            (Ok(()), _) => return Ok(()),
            (Err(rustix::io::Errno::AGAIN), bytes) if bytes > 0 => done += bytes as u64,
            (Err(rustix::io::Errno::AGAIN), _) => {}
            (Err(rustix::io::Errno::EXIST), _) => done += PAGE,
            (Err(error), _) => return Err(error.into()),
        }
    }
    Ok(())
}

fn as_range(range: Range<u64>) -> uffdio_range {
    uffdio_range { start: range.start, len: range.end - range.start }
}
