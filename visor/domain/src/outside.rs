//! What happens outside the domain: kernel sockets and devices become ready.
//!
//! There is no thread for it. An idle carrier *listens*: it waits in the kernel instead of on the scheduler's condition,
//! and what it hears it serves itself. Busy carriers look now and then.
//!
//! ```text
//!   handler: would wait ─▶ wait(key) ─▶ arm(socket) ─┐            armed after the wait is registered, so a socket
//!                                                     ▼            that became ready in between is told at once
//!   idle carrier: epoll_pwait2 ◀── bell (eventfd): there is work for you
//!        └─▶ wake(key of the socket) ─▶ the handler runs again
//! ```
//!
//! Frames of a device are told of only while somebody waits. Functions that do not wait move frames themselves with each call, and
//! a carrier that was woken for those would only be in the way of whoever sends them.
//!
//! Sockets are entered when they are made, and armed for one event each time somebody waits: one that nobody waits for
//! costs nothing, and waiting cannot fail for want of kernel memory.

use super::carrier::monotonic_ns;
use super::sched::wait_key;
use monohull_abi::network::Readiness;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

/// What the bell's events carry; no descriptor has this number.
const BELL: u64 = u64::MAX;
/// Stands for a key when frames have arrived: the module that takes them is polled, and wakes whom they concern.
pub(super) const FRAMES: u64 = u64::MAX;
/// Events taken from the kernel at once.
const EVENTS_AT_ONCE: usize = 64;

/// The carriers' ear.
pub(super) struct Outside {
    epoll: OwnedFd,
    /// Always readable; to arm it is to ring it.
    bell: OwnedFd,
    /// For which events each descriptor is armed.
    armed: Mutex<HashMap<RawFd, u32>>,
    /// The device that frames come from, or -1.
    device: AtomicI32,
    /// Frames have been taken from it.
    taken: AtomicBool,
}

/// What has been heard.
pub(super) struct Heard {
    events: [libc::epoll_event; EVENTS_AT_ONCE],
    count: usize,
}

impl Outside {
    /// Asks the kernel for what it takes besides.
    pub(super) fn new(epoll: OwnedFd) -> io::Result<Outside> {
        // SAFETY: no preconditions; the result is checked.
        let bell = unsafe { owned(libc::eventfd(1, libc::EFD_CLOEXEC))? };
        let outside =
            Outside { epoll, bell, armed: Mutex::default(), device: AtomicI32::new(-1), taken: AtomicBool::new(false) };
        outside.control(libc::EPOLL_CTL_ADD, outside.bell.as_raw_fd(), libc::EPOLLONESHOT as u32, BELL)?;
        Ok(outside)
    }

    /// Makes room for a descriptor.
    pub(super) fn enter(&self, descriptor: RawFd) -> io::Result<()> {
        let nothing = libc::EPOLLONESHOT as u32;
        self.control(libc::EPOLL_CTL_ADD, descriptor, nothing, descriptor as u64)?;
        self.armed.lock().expect("armed").insert(descriptor, nothing);
        Ok(())
    }

    /// Makes room for the device that frames come from, and arms it.
    pub(super) fn enter_device(&self, device: RawFd) -> io::Result<()> {
        self.enter(device)?;
        self.device.store(device, Ordering::Relaxed);
        self.arm_device()
    }

    /// Tells whoever listens, once, when frames have arrived.
    pub(super) fn arm_device(&self) -> io::Result<()> {
        self.arm(self.device.load(Ordering::Relaxed), Readiness::Read)
    }

    /// A frame has been taken from the device.
    pub(super) fn frame_taken(&self) {
        self.taken.store(true, Ordering::Relaxed);
    }

    /// Whether any has been since this was asked before.
    pub(super) fn frames_taken(&self) -> bool {
        self.taken.swap(false, Ordering::Relaxed)
    }

    /// Tells whoever listens, once, when the descriptor is ready. Call it after the wait has been registered.
    pub(super) fn arm(&self, descriptor: RawFd, readiness: Readiness) -> io::Result<()> {
        let event = match readiness {
            Readiness::Read => libc::EPOLLIN | libc::EPOLLRDHUP,
            Readiness::Write => libc::EPOLLOUT,
        } as u32;
        let mut armed = self.armed.lock().expect("armed");
        let entry = armed.get_mut(&descriptor).ok_or(io::ErrorKind::NotFound)?;
        *entry |= event;
        self.control(libc::EPOLL_CTL_MOD, descriptor, *entry, descriptor as u64)
    }

    /// The descriptor is about to be closed.
    pub(super) fn forget(&self, descriptor: RawFd) {
        if self.armed.lock().expect("armed").remove(&descriptor).is_some() {
            // Nothing depends on it: the kernel forgets a descriptor that is closed.
            let _ = self.control(libc::EPOLL_CTL_DEL, descriptor, 0, 0);
        }
    }

    /// Whoever listens looks up.
    pub(super) fn ring(&self) {
        let once = (libc::EPOLLIN | libc::EPOLLONESHOT) as u32;
        // The bell stays where it is until the domain ends, so nothing is wrong with this.
        let _ = self.control(libc::EPOLL_CTL_MOD, self.bell.as_raw_fd(), once, BELL);
    }

    /// Waits until something has happened, somebody rings, or `until` (monotonic ns).
    pub(super) fn listen(&self, until: Option<u64>) -> Heard {
        let time = until.map(|until| {
            let ns = until.saturating_sub(monotonic_ns());
            libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let mut heard = Heard { events: [libc::epoll_event { events: 0, u64: 0 }; EVENTS_AT_ONCE], count: 0 };
        // SAFETY: room for as many events as it says; a null time is for ever, a null mask changes none.
        let count = unsafe {
            let (epoll, room) = (self.epoll.as_raw_fd(), EVENTS_AT_ONCE as i32);
            libc::epoll_pwait2(epoll, heard.events.as_mut_ptr(), room, time, std::ptr::null())
        };
        // It may have been interrupted by a signal: then nothing has been heard.
        heard.count = count.max(0) as usize;
        heard
    }

    /// The keys to wake for what has been heard. Sockets with events nobody has been told of are armed again.
    pub(super) fn keys<'h>(&'h self, heard: &'h Heard) -> impl Iterator<Item = u64> + 'h {
        heard.events[..heard.count]
            .iter()
            .flat_map(|event| {
                let (descriptor, events) = (event.u64, event.events);
                if descriptor == BELL {
                    return [None, None];
                }
                let over = events & (libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0;
                let read = over || events & (libc::EPOLLIN | libc::EPOLLRDHUP) as u32 != 0;
                let write = over || events & libc::EPOLLOUT as u32 != 0;
                let descriptor = descriptor as RawFd;
                self.fired(descriptor, read, write);
                if descriptor == self.device.load(Ordering::Relaxed) {
                    return [Some(FRAMES), None];
                }
                [
                    read.then(|| wait_key::descriptor(descriptor, Readiness::Read)),
                    write.then(|| wait_key::descriptor(descriptor, Readiness::Write)),
                ]
            })
            .flatten()
    }

    /// An armed descriptor has had its event and is quiet now: armed again for what others still wait for.
    fn fired(&self, descriptor: RawFd, read: bool, write: bool) {
        let mut armed = self.armed.lock().expect("armed");
        let Some(entry) = armed.get_mut(&descriptor) else { return };
        let told =
            (if read { libc::EPOLLIN | libc::EPOLLRDHUP } else { 0 } | if write { libc::EPOLLOUT } else { 0 }) as u32;
        *entry &= !told;
        if *entry != libc::EPOLLONESHOT as u32 {
            // It was closed meanwhile, if this fails.
            let _ = self.control(libc::EPOLL_CTL_MOD, descriptor, *entry, descriptor as u64);
        }
    }

    fn control(&self, how: i32, descriptor: RawFd, events: u32, data: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: data };
        // SAFETY: the event is readable.
        match unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), how, descriptor, &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The next domain hears through the same: of a device, which stays, it is not told for this one's sake.
impl Drop for Outside {
    fn drop(&mut self) {
        for descriptor in
            self.armed.get_mut().unwrap_or_else(PoisonError::into_inner).keys().copied().collect::<Vec<_>>()
        {
            let _ = self.control(libc::EPOLL_CTL_DEL, descriptor, 0, 0);
        }
    }
}

/// A descriptor that the kernel has just made.
///
/// # Safety
/// Nobody else owns it.
unsafe fn owned(descriptor: RawFd) -> io::Result<OwnedFd> {
    match descriptor {
        // SAFETY: the caller's promise.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Ears;
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    const NONE: [u64; 0] = [];

    fn keys(outside: &Outside, until: u64) -> Vec<u64> {
        let heard = outside.listen(Some(until));
        outside.keys(&heard).collect()
    }

    #[test]
    fn each_direction_is_told_once_when_armed() {
        let outside = Outside::new(Ears::make().expect("ears").outside).expect("an ear");
        let (mut here, mut there) = UnixStream::pair().expect("a pair");
        let descriptor = here.as_raw_fd();
        let (read, write) =
            (wait_key::descriptor(descriptor, Readiness::Read), wait_key::descriptor(descriptor, Readiness::Write));
        outside.enter(descriptor).expect("entered");
        assert_eq!(keys(&outside, 0), NONE);
        outside.arm(descriptor, Readiness::Read).expect("armed");
        assert_eq!(keys(&outside, 0), NONE);
        outside.arm(descriptor, Readiness::Write).expect("armed");
        assert_eq!(keys(&outside, 0), [write]);
        assert_eq!(keys(&outside, 0), NONE, "the reader still waits, the writer does not");
        there.write_all(b"x").expect("written");
        assert_eq!(keys(&outside, u64::MAX - 1), [read]);
        assert_eq!(keys(&outside, 0), NONE, "told once, though it is not read");
        outside.arm(descriptor, Readiness::Read).expect("armed");
        assert_eq!(keys(&outside, 0), [read], "it was ready before it was armed");
        here.read_exact(&mut [0]).expect("read");
        drop(there);
        outside.arm(descriptor, Readiness::Read).expect("armed");
        assert!(keys(&outside, 0).contains(&read), "the end is something to read");
        outside.forget(descriptor);
        assert_eq!(keys(&outside, 0), NONE);
    }

    #[test]
    fn a_bell_rung_before_is_heard() {
        let outside = Outside::new(Ears::make().expect("ears").outside).expect("an ear");
        outside.ring();
        outside.ring();
        let heard = outside.listen(None);
        assert_eq!((heard.count, outside.keys(&heard).count()), (1, 0));
        assert_eq!(outside.listen(Some(0)).count, 0, "rung once, however often");
    }
}
