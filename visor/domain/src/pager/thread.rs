//! The thread that fills pages as they are touched.
//!
//! A carrier that touches a missing page waits in the kernel, wherever it is: in user code, or in the middle of a hostcall that
//! copies from there with a file system's lock held. So this thread takes only the table's lock, which is never held while a
//! cell is touched, and a mapping's own, and calls no module.
//!
//! ```text
//!   carrier                               pager thread
//!   touches a page ──▶ kernel ─ message ─▶ table: which mapping ─▶ its lock ─▶ UFFDIO_COPY from where the bytes lie
//!   goes on        ◀────────── wakes ◀─────────────────────────────────────────┘
//!                                          cannot be read: the range loses its rights ─▶ wakes: the carrier faults again,
//!                                          for good, and the instance ends with a report
//! ```
//!
//! The kernel reads the bytes, so that this thread touches no memory that might be missing. (The signal handler runs on
//! carriers only; with keys in force a signal on any other thread ends the process.)
//!
//! It never waits for a carrier, so a carrier that waits for it always goes on; for memory of a checkpoint it waits for the process that has the
//! file, which waits for none of this one. If it ends by a panic, all pages that are still
//! missing lose their rights first.

use super::MappingTable;
use super::faults::Faults;
use crate::threads;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Bytes of its stack.
const STACK: usize = 128 * 1024;

/// The thread, and how it is stopped.
#[derive(Debug)]
pub(super) struct PagerThread {
    pub(super) faults: Arc<Faults>,
    epoll: Arc<OwnedFd>,
    /// An eventfd that is always readable: arming it stops the thread.
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl PagerThread {
    /// Starts it.
    pub(super) fn start(table: Arc<MappingTable>, epoll: OwnedFd) -> io::Result<PagerThread> {
        let faults = Arc::new(Faults::new()?);
        // SAFETY: no preconditions; the result is checked.
        let stop = unsafe { owned(libc::eventfd(1, libc::EFD_CLOEXEC))? };
        control(&epoll, libc::EPOLL_CTL_ADD, faults.as_fd().as_raw_fd(), libc::EPOLLIN)?;
        control(&epoll, libc::EPOLL_CTL_ADD, stop.as_raw_fd(), 0)?;
        let epoll = Arc::new(epoll);
        let (serving, polling, stop_fd) = (faults.clone(), epoll.clone(), stop.as_raw_fd());
        let thread = threads::spawn("monohull-fill".into(), Some(STACK), move || {
            let _exit = FailAllOnExit { table: &table, faults: &serving };
            serve(&table, &serving, &polling, stop_fd);
        })?;
        Ok(PagerThread { faults, epoll, stop, thread: Some(thread) })
    }
}

impl Drop for PagerThread {
    fn drop(&mut self) {
        // `stop` stays open and added until the thread has ended, so this cannot fail.
        let _ = control(&self.epoll, libc::EPOLL_CTL_MOD, self.stop.as_raw_fd(), libc::EPOLLIN);
        if let Some(thread) = self.thread.take() {
            // If it has panicked, the hook has printed that.
            let _ = thread.join();
        }
    }
}

/// Serves faults until `stop` is armed, or the descriptor fails.
fn serve(table: &MappingTable, faults: &Faults, epoll: &OwnedFd, stop: RawFd) {
    loop {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
        // SAFETY: the array has this length; null for no limit of time, and for no change of the mask.
        let count = unsafe {
            let (time, mask) = (std::ptr::null(), std::ptr::null());
            libc::epoll_pwait2(epoll.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, time, mask)
        };
        if count < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
        let events = &events[..count.max(0) as usize];
        if events.iter().any(|event| event.u64 == stop as u64) {
            return;
        }
        if events.is_empty() {
            continue;
        }
        let Ok(batch) = faults.take() else { return };
        for address in batch.addresses() {
            table.serve_fault(faults, address);
        }
    }
}

/// When the thread ends no fault is served any more.
struct FailAllOnExit<'t> {
    table: &'t MappingTable,
    faults: &'t Faults,
}

impl Drop for FailAllOnExit<'_> {
    fn drop(&mut self) {
        self.table.fail_all(self.faults);
    }
}

/// Sets the events of a descriptor in `epoll`.
fn control(epoll: &OwnedFd, how: i32, descriptor: RawFd, events: i32) -> io::Result<()> {
    let mut event = libc::epoll_event { events: events as u32, u64: descriptor as u64 };
    // SAFETY: both are open, and the event is readable.
    match unsafe { libc::epoll_ctl(epoll.as_raw_fd(), how, descriptor, &raw mut event) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn owned(descriptor: RawFd) -> io::Result<OwnedFd> {
    match descriptor {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: just opened, and not owned yet.
        descriptor => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
    }
}
