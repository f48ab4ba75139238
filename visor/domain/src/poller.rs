//! What happens outside the domain: kernel sockets and devices become ready.
//!
//! There is no thread for it. An idle carrier *polls*: it waits in `epoll_pwait2` instead of on the condition variable, and
//! handles the events itself. Working carriers check for events now and then.
//!
//! ```text
//!   handler: would wait ─▶ wait(key) ─▶ arm(socket) ─┐            armed after the wait is registered, so a socket
//!                                                     ▼            that became ready in between raises its event at once
//!   idle carrier: epoll_pwait2 ◀── waker (eventfd): there is work
//!        └─▶ wake(key of the socket) ─▶ the handler runs again
//! ```
//!
//! Frames of a device raise an event only while a thread waits for frames. Functions that do not wait move frames with each
//! call; a carrier woken for those frames would only contend with the sender.
//!
//! Sockets are added when they are made, and armed for one event each time a thread waits: a socket without waiters
//! costs nothing, and waiting cannot fail for lack of kernel memory.

use super::host_time::monotonic_ns;
use super::sched::wait_key;
use monohull_abi::network::{Found, Readiness, WATCHED_NOW, ready};
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// What the waker's events carry; no descriptor has this number.
const WAKER: u64 = u64::MAX;
/// Stands for a key when frames have arrived: the module that takes them is polled, and wakes the threads that wait for them.
pub(super) const FRAMES: u64 = u64::MAX;
/// Events taken from the kernel at once.
const EVENTS_AT_ONCE: usize = 64;

/// The epoll instance of a domain's carriers.
pub(super) struct Poller {
    epoll: OwnedFd,
    /// An eventfd that is always readable: arming it raises its event.
    waker: OwnedFd,
    /// For which events each descriptor is armed.
    armed: Mutex<HashMap<RawFd, Armed>>,
    /// How many descriptors have become ready for queues. The kernel gives its events in the order in which they came.
    turns: AtomicU32,
    /// Queues one of whose descriptors has raised an event since they were settled.
    due: Mutex<HashSet<u64>>,
    /// The device that frames come from, or -1.
    device: AtomicI32,
    /// Frames have been taken from it.
    taken: AtomicBool,
}

/// What is known of one descriptor.
#[derive(Default)]
struct Armed {
    /// For which events it is armed.
    events: u32,
    /// The queues that watch it.
    queues: Vec<u64>,
    /// Of what they watch, what it has become and none has taken yet.
    fired: Found,
}

/// Events taken from the kernel.
pub(super) struct Events {
    events: [libc::epoll_event; EVENTS_AT_ONCE],
    count: usize,
}

impl Poller {
    /// Makes the waker, and adds it to this epoll instance.
    pub(super) fn new(epoll: OwnedFd) -> io::Result<Poller> {
        // SAFETY: no preconditions; the result is checked.
        let waker = unsafe { owned(libc::eventfd(1, libc::EFD_CLOEXEC))? };
        let poller = Poller {
            epoll,
            waker,
            armed: Mutex::default(),
            turns: AtomicU32::new(0),
            due: Mutex::default(),
            device: AtomicI32::new(-1),
            taken: AtomicBool::new(false),
        };
        poller.control(libc::EPOLL_CTL_ADD, poller.waker.as_raw_fd(), libc::EPOLLONESHOT as u32, WAKER)?;
        Ok(poller)
    }

    /// Makes room for a descriptor.
    pub(super) fn add(&self, descriptor: RawFd) -> io::Result<()> {
        let nothing = libc::EPOLLONESHOT as u32;
        self.control(libc::EPOLL_CTL_ADD, descriptor, nothing, descriptor as u64)?;
        self.armed.lock().expect("armed").insert(descriptor, Armed { events: nothing, ..Armed::default() });
        Ok(())
    }

    /// Makes room for the device that frames come from, and arms it.
    pub(super) fn add_device(&self, device: RawFd) -> io::Result<()> {
        self.add(device)?;
        self.device.store(device, Ordering::Relaxed);
        self.arm_device()
    }

    /// Raises one event when frames have arrived.
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

    /// Raises one event when the descriptor is ready. Call it after the wait has been registered.
    pub(super) fn arm(&self, descriptor: RawFd, readiness: Readiness) -> io::Result<()> {
        let mut armed = self.armed.lock().expect("armed");
        let entry = armed.get_mut(&descriptor).ok_or(io::ErrorKind::NotFound)?;
        entry.events |= event_of(readiness);
        self.control(libc::EPOLL_CTL_MOD, descriptor, entry.events, descriptor as u64)
    }

    /// For a queue: which of `wanted` ([`ready`]) a descriptor has become since this was asked before. What it has not, it is armed for;
    /// [`WATCHED_NOW`] is added if it was not.
    pub(super) fn watch(&self, descriptor: RawFd, wanted: u32, queue: u64) -> Found {
        let mut armed = self.armed.lock().expect("armed");
        // Closed meanwhile: it is never ready.
        let Some(entry) = armed.get_mut(&descriptor) else { return Found::default() };
        if !entry.queues.contains(&queue) {
            entry.queues.push(queue);
        }
        let found = entry.fired.ready & wanted;
        if found != 0 {
            entry.fired.ready &= !found;
            return Found { ready: found, turn: entry.fired.turn };
        }
        let directions = [(ready::READ, Readiness::Read), (ready::WRITE, Readiness::Write)];
        let events = directions.iter().filter(|(bit, _)| wanted & bit != 0).map(|(_, readiness)| event_of(*readiness));
        let events = events.fold(entry.events, |all, events| all | events);
        if entry.events == events {
            return Found::default();
        }
        entry.events = events;
        // It was closed meanwhile, if this fails.
        let _ = self.control(libc::EPOLL_CTL_MOD, descriptor, events, descriptor as u64);
        Found { ready: WATCHED_NOW, turn: 0 }
    }

    /// A queue is about to look at its descriptors: what has happened so far it sees.
    pub(super) fn settled(&self, queue: u64) {
        self.due.lock().expect("due").remove(&queue);
    }

    /// Whether anything has happened since.
    pub(super) fn is_due(&self, queue: u64) -> bool {
        self.due.lock().expect("due").contains(&queue)
    }

    /// A queue does not exist any more.
    pub(super) fn forget_queue(&self, queue: u64) {
        for entry in self.armed.lock().expect("armed").values_mut() {
            entry.queues.retain(|other| *other != queue);
        }
        self.settled(queue);
    }

    /// The descriptor is about to be closed.
    pub(super) fn remove(&self, descriptor: RawFd) {
        if self.armed.lock().expect("armed").remove(&descriptor).is_some() {
            // Nothing depends on it: the kernel forgets a descriptor that is closed.
            let _ = self.control(libc::EPOLL_CTL_DEL, descriptor, 0, 0);
        }
    }

    /// Ends the wait of the carrier that polls.
    pub(super) fn wake(&self) {
        let once = (libc::EPOLLIN | libc::EPOLLONESHOT) as u32;
        // The waker stays added until the domain ends, so this cannot fail.
        let _ = self.control(libc::EPOLL_CTL_MOD, self.waker.as_raw_fd(), once, WAKER);
    }

    /// Waits until an event, [`Self::wake`], or `until` (monotonic ns).
    pub(super) fn wait(&self, until: Option<u64>) -> Events {
        let time = until.map(|until| {
            let ns = until.saturating_sub(monotonic_ns());
            libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let mut events = Events { events: [libc::epoll_event { events: 0, u64: 0 }; EVENTS_AT_ONCE], count: 0 };
        // SAFETY: the array has this length; a null time is for ever, a null mask changes none.
        let count = unsafe {
            let (epoll, room) = (self.epoll.as_raw_fd(), EVENTS_AT_ONCE as i32);
            libc::epoll_pwait2(epoll, events.events.as_mut_ptr(), room, time, std::ptr::null())
        };
        // A signal may have interrupted it: no events then.
        events.count = count.max(0) as usize;
        events
    }

    /// The keys to wake for these events. Descriptors are armed again for what threads still wait for.
    pub(super) fn keys<'h>(&'h self, events: &'h Events) -> impl Iterator<Item = u64> + 'h {
        events.events[..events.count]
            .iter()
            .map(|event| {
                let (descriptor, events) = (event.u64, event.events);
                if descriptor == WAKER {
                    return ([None, None], Vec::new());
                }
                let over = events & (libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0;
                let read = over || events & (libc::EPOLLIN | libc::EPOLLRDHUP) as u32 != 0;
                let write = over || events & libc::EPOLLOUT as u32 != 0;
                let descriptor = descriptor as RawFd;
                let queues = self.fired(descriptor, read, write);
                if descriptor == self.device.load(Ordering::Relaxed) {
                    return ([Some(FRAMES), None], queues);
                }
                let read = read.then(|| wait_key::descriptor(descriptor, Readiness::Read));
                let write = write.then(|| wait_key::descriptor(descriptor, Readiness::Write));
                ([read, write], queues)
            })
            .flat_map(|(keys, queues)| keys.into_iter().flatten().chain(queues))
    }

    /// Whether one of these events was that of [`Self::wake`].
    pub(super) fn has_wake_up(events: &Events) -> bool {
        events.events[..events.count].iter().any(|event| event.u64 == WAKER)
    }

    /// An armed descriptor has had its event and is quiet now: armed again for what others still wait for. The queues that watch it.
    fn fired(&self, descriptor: RawFd, read: bool, write: bool) -> Vec<u64> {
        let mut armed = self.armed.lock().expect("armed");
        let Some(entry) = armed.get_mut(&descriptor) else { return Vec::new() };
        let reported =
            (if read { libc::EPOLLIN | libc::EPOLLRDHUP } else { 0 } | if write { libc::EPOLLOUT } else { 0 }) as u32;
        entry.events &= !reported;
        if entry.events != libc::EPOLLONESHOT as u32 {
            // It was closed meanwhile, if this fails.
            let _ = self.control(libc::EPOLL_CTL_MOD, descriptor, entry.events, descriptor as u64);
        }
        if entry.queues.is_empty() {
            return Vec::new();
        }
        if entry.fired.ready == 0 {
            entry.fired.turn = self.turns.fetch_add(1, Ordering::Relaxed);
        }
        entry.fired.ready |= if read { ready::READ } else { 0 } | if write { ready::WRITE } else { 0 };
        self.due.lock().expect("due").extend(&entry.queues);
        entry.queues.clone()
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

/// The next domain uses the same epoll instance: what this domain has added, a device say, raises no events there.
impl Drop for Poller {
    fn drop(&mut self) {
        for descriptor in
            self.armed.get_mut().unwrap_or_else(PoisonError::into_inner).keys().copied().collect::<Vec<_>>()
        {
            let _ = self.control(libc::EPOLL_CTL_DEL, descriptor, 0, 0);
        }
    }
}

fn event_of(readiness: Readiness) -> u32 {
    match readiness {
        Readiness::Read => (libc::EPOLLIN | libc::EPOLLRDHUP) as u32,
        Readiness::Write => libc::EPOLLOUT as u32,
    }
}

/// A descriptor that the kernel has just made.
///
/// # Safety
/// Nothing else owns it.
unsafe fn owned(descriptor: RawFd) -> io::Result<OwnedFd> {
    match descriptor {
        // SAFETY: the caller's promise.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::EpollSet;
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    const NONE: [u64; 0] = [];

    fn keys(poller: &Poller, until: u64) -> Vec<u64> {
        let events = poller.wait(Some(until));
        poller.keys(&events).collect()
    }

    #[test]
    fn each_direction_raises_one_event_when_armed() {
        let poller = Poller::new(EpollSet::create().expect("epoll instances").sockets).expect("a poller");
        let (mut here, mut there) = UnixStream::pair().expect("a pair");
        let descriptor = here.as_raw_fd();
        let (read, write) =
            (wait_key::descriptor(descriptor, Readiness::Read), wait_key::descriptor(descriptor, Readiness::Write));
        poller.add(descriptor).expect("entered");
        assert_eq!(keys(&poller, 0), NONE);
        poller.arm(descriptor, Readiness::Read).expect("armed");
        assert_eq!(keys(&poller, 0), NONE);
        poller.arm(descriptor, Readiness::Write).expect("armed");
        assert_eq!(keys(&poller, 0), [write]);
        assert_eq!(keys(&poller, 0), NONE, "the reader still waits, the writer does not");
        there.write_all(b"x").expect("written");
        assert_eq!(keys(&poller, u64::MAX - 1), [read]);
        assert_eq!(keys(&poller, 0), NONE, "one event, although the byte is not read");
        poller.arm(descriptor, Readiness::Read).expect("armed");
        assert_eq!(keys(&poller, 0), [read], "it was ready before it was armed");
        here.read_exact(&mut [0]).expect("read");
        drop(there);
        poller.arm(descriptor, Readiness::Read).expect("armed");
        assert!(keys(&poller, 0).contains(&read), "the end is something to read");
        poller.remove(descriptor);
        assert_eq!(keys(&poller, 0), NONE);
    }

    #[test]
    fn what_comes_first_has_the_first_turn() {
        const QUEUE: u64 = 7;
        let poller = Poller::new(EpollSet::create().expect("epoll instances").sockets).expect("a poller");
        let mut pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().expect("a pair")).collect();
        let descriptors: Vec<_> = pairs.iter().map(|(here, _)| here.as_raw_fd()).collect();
        for descriptor in &descriptors {
            poller.add(*descriptor).expect("entered");
            assert_eq!(poller.watch(*descriptor, ready::READ, QUEUE), Found { ready: WATCHED_NOW, turn: 0 });
        }
        for at in [1, 2, 0] {
            pairs[at].1.write_all(b"x").expect("written");
        }
        assert!(keys(&poller, u64::MAX - 1).contains(&QUEUE));
        let found: Vec<_> =
            descriptors.iter().map(|descriptor| poller.watch(*descriptor, ready::READ, QUEUE)).collect();
        assert!(found.iter().all(|found| found.ready == ready::READ), "{found:?}");
        assert_eq!(found.iter().map(|found| found.turn).collect::<Vec<_>>(), [2, 0, 1]);
    }

    #[test]
    fn a_wake_up_before_the_wait_ends_it() {
        let poller = Poller::new(EpollSet::create().expect("epoll instances").sockets).expect("a poller");
        poller.wake();
        poller.wake();
        let events = poller.wait(None);
        assert_eq!((events.count, poller.keys(&events).count()), (1, 0));
        assert_eq!(poller.wait(Some(0)).count, 0, "several wake-ups are one event");
    }
}
