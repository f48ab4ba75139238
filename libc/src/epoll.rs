//! `epoll`: a list of descriptors that is kept, and waiting until one of them is ready.
//!
//! ```text
//!   epoll_ctl ──▶ a socket ─────────────────▶ QUEUE_SET, its key as the data ──┐
//!            └──▶ a pipe, an event counter ─▶ posts each change ───────────────┤
//!                                                                              ▼
//!   epoll_wait    looks at the pipes and counters; if none is ready, parks in QUEUE_WAIT
//! ```
//!
//! What is watched is a socket or an end of a pipe with all of its descriptors: it goes when the last of them is closed. Each
//! descriptor that was added has an interest of its own, with the 64 bits that are returned. A queue knows a socket once: edges
//! of a socket that several descriptors were added for are reported as edges only if all of them ask for that.

mod interest;

use crate::clocks::{self, Timespec};
use crate::descriptors::{self, CLOSE_ON_EXEC, Kind};
use crate::errno::{Answer, EFAULT, EINVAL, EMFILE, ENOENT, EPERM};
use crate::local::{self, Local};
use crate::lock::Lock;
use crate::queue::{self, Queue};
use crate::refuse::{Missing, refuse};
use crate::shared::Shared;
use crate::sockets;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use interest::{Event, Interest, Operation};
use monohull_abi::network::{QUEUE_EVENTS_MAX, QUEUES_MAX, QueueEvent};

/// One queue is left for looking at sockets, and for `poll`.
const MOST: usize = QUEUES_MAX - 1;

/// One list of interests.
struct Epoll {
    queue: Queue,
    watched: Lock<Watched>,
    /// Threads in `epoll_wait`.
    waiting: AtomicU32,
}

struct Watched {
    /// Sockets, by their places, and what is wanted of them; by the key that the queue reports.
    sockets: BTreeMap<u64, (usize, Vec<Interest>)>,
    /// Pipes and event counters. The first has not been reported for the longest time.
    locals: Vec<(Arc<Local>, Vec<Interest>)>,
    /// The next socket's key. None is used twice, so that what the queue still reports of a socket that went is known.
    key: u64,
    /// The last call had no room for sockets: they come first in the next.
    sockets_first: bool,
}

static EPOLLS: Shared<Epoll> = Shared::new();

/// `epoll_create(size)`.
pub(crate) fn create([size, ..]: [u64; 6]) -> Answer {
    if size as i32 <= 0 { EINVAL } else { create1([0; 6]) }
}

/// `epoll_create1(flags)`.
pub(crate) fn create1([flags, ..]: [u64; 6]) -> Answer {
    if u64::from(flags as u32) & !CLOSE_ON_EXEC != 0 {
        return EINVAL;
    }
    if EPOLLS.all().len() >= MOST {
        return EMFILE;
    }
    let Ok(queue) = Queue::new() else { return EMFILE };
    let watched = Watched { sockets: BTreeMap::new(), locals: Vec::new(), key: 0, sockets_first: false };
    let epoll = Epoll { queue, watched: Lock::new(watched), waiting: AtomicU32::new(0) };
    let at = EPOLLS.add(epoll);
    descriptors::table::add_from(0, Kind::Epoll(at), flags, || release(at))
}

/// Another descriptor stands for it.
pub(crate) fn retain(at: usize) -> Result<(), Answer> {
    EPOLLS.retain(at)
}

/// One descriptor less: with the last one it watches nothing any more.
pub(crate) fn release(at: usize) -> Answer {
    if let Some(epoll) = EPOLLS.release(at) {
        for (local, _) in core::mem::take(&mut epoll.watched.hold().locals) {
            local.unwatch(epoll.queue.number());
        }
    }
    0
}

/// An end of a pipe or an event counter has been closed.
pub(crate) fn forget_local(closed: &Arc<Local>) {
    for epoll in EPOLLS.all() {
        let mut watched = epoll.watched.hold();
        if let Some(at) = watched.locals.iter().position(|(local, _)| Arc::ptr_eq(local, closed)) {
            watched.locals.remove(at);
            closed.unwatch(epoll.queue.number());
        }
    }
}

/// A socket is about to be closed. Its queues drop it by themselves, but a call that still uses it keeps it open.
pub(crate) fn forget_socket(closed: usize, open: Option<u64>) {
    for epoll in EPOLLS.all() {
        let mut watched = epoll.watched.hold();
        let before = watched.sockets.len();
        watched.sockets.retain(|_, (at, _)| *at != closed);
        if let Some(open) = open.filter(|_| watched.sockets.len() != before) {
            epoll.queue.set(open, 0, 0);
        }
    }
}

/// A socket has got a number: from here on it can be set in queues.
pub(crate) fn opened(socket: usize) {
    for epoll in EPOLLS.all() {
        let watched = epoll.watched.hold();
        if let Some((key, (_, interests))) = watched.sockets.iter().find(|(_, (at, _))| *at == socket) {
            epoll.set(*key, socket, interests);
        }
    }
}

fn of(descriptor: u64) -> Result<Arc<Epoll>, Answer> {
    match descriptors::get(descriptor)? {
        Kind::Epoll(at) => EPOLLS.get(at),
        _ => Err(EINVAL),
    }
}

/// `epoll_ctl(epoll, operation, descriptor, event)`.
pub(crate) fn control([epoll, operation, descriptor, event, ..]: [u64; 6]) -> Answer {
    control_with(epoll, operation, descriptor, event).map_or_else(|error| error, |()| 0)
}

fn control_with(epoll: u64, operation: u64, descriptor: u64, event: u64) -> Result<(), Answer> {
    let kind = descriptors::get(epoll).and(descriptors::get(descriptor))?;
    let operation = Operation::read(operation, event)?;
    let own = of(epoll)?;
    let descriptor = descriptor as u32;
    match kind {
        _ if descriptor == epoll as u32 => Err(EINVAL),
        Kind::Socket(at) => own.control_socket(at, descriptor, operation),
        Kind::Local(at) => {
            let local = local::get(at)?;
            let done = own.control_local(&local, descriptor, operation);
            // One that another thread has closed meanwhile must not be kept open by this list.
            if !local::get(at).is_ok_and(|still| Arc::ptr_eq(&still, &local)) {
                forget_local(&local);
            }
            done
        }
        Kind::Epoll(_) => Err(refuse(Missing::Nested, EINVAL)),
        Kind::Input | Kind::Output(_) | Kind::File(_) | Kind::Null | Kind::Zero | Kind::Random | Kind::Text(_) => {
            Err(EPERM)
        }
    }
}

impl Epoll {
    fn control_socket(&self, socket: usize, descriptor: u32, operation: Operation) -> Result<(), Answer> {
        let mut watched = self.watched.hold();
        let known = watched.sockets.iter().find(|(_, (at, _))| *at == socket).map(|(key, _)| *key);
        let key = match (known, operation) {
            (Some(key), _) => key,
            (None, Operation::Add(_)) => {
                watched.key += 1;
                watched.key
            }
            (None, _) => return Err(ENOENT),
        };
        let (_, interests) = watched.sockets.entry(key).or_insert((socket, Vec::new()));
        let done = interest::change(interests, descriptor, operation);
        self.set(key, socket, interests);
        if interests.is_empty() {
            watched.sockets.remove(&key);
        }
        done
    }

    fn control_local(&self, local: &Arc<Local>, descriptor: u32, operation: Operation) -> Result<(), Answer> {
        let mut watched = self.watched.hold();
        let at = match (watched.locals.iter().position(|(known, _)| Arc::ptr_eq(known, local)), operation) {
            (Some(at), _) => at,
            (None, Operation::Add(_)) => {
                local.watch(self.queue.number());
                watched.locals.push((Arc::clone(local), Vec::new()));
                watched.locals.len() - 1
            }
            (None, _) => return Err(ENOENT),
        };
        let (_, interests) = &mut watched.locals[at];
        let done = interest::change(interests, descriptor, operation);
        if interests.is_empty() {
            watched.locals.remove(at);
            local.unwatch(self.queue.number());
        }
        drop(watched);
        // It may be ready: those that wait look at it.
        queue::post(self.queue.number());
        done
    }

    /// Has the queue watch a socket for what is wanted of it now, if the socket has a number.
    fn set(&self, key: u64, socket: usize, interests: &[Interest]) {
        if let Some(open) = sockets::number(socket) {
            self.queue.set(open, interest::wanted(interests), key);
        }
    }

    /// Adds what is found of pipes and event counters, as far as there is room.
    fn look_at_locals(&self, out: &mut Vec<Event>, most: usize) {
        let mut watched = self.watched.hold();
        let mut behind = 0;
        for (at, (local, interests)) in watched.locals.iter_mut().enumerate() {
            // In this order: what comes in between is found and reported, and its edge once more.
            let edges = local.edges();
            let found = local.look();
            for interest in interests {
                if out.len() == most {
                    break;
                }
                if let Some(event) = interest.look(found, edges) {
                    out.push(event);
                    behind = at + 1;
                }
            }
        }
        watched.locals.rotate_left(behind);
        watched.sockets_first = out.len() == most;
    }

    /// Waits in the queue, and adds the sockets that it reports: whether something has been posted.
    fn wait_for_sockets(&self, out: &mut Vec<Event>, most: usize, deadline: u64) -> Result<bool, Answer> {
        let mut room = [QueueEvent::default(); QUEUE_EVENTS_MAX];
        let room = &mut room[..(most - out.len()).min(QUEUE_EVENTS_MAX)];
        let count = match self.queue.wait(room, deadline) {
            error @ ..0 => return Err(error),
            count => count as usize,
        };
        let mut posted = false;
        let mut watched = self.watched.hold();
        for event in &room[..count] {
            posted |= event.posted != 0;
            // One that is not watched any more is left out.
            let Some((socket, interests)) = watched.sockets.get_mut(&event.data).filter(|_| event.posted == 0) else {
                continue;
            };
            let found = sockets::found(*socket, event.ready);
            let mut once = false;
            for interest in &mut *interests {
                if out.len() == most {
                    break;
                }
                out.extend(interest.report(found));
                once |= !interest.is_armed();
            }
            if once {
                self.set(event.data, *socket, interests);
            }
        }
        Ok(posted)
    }

    fn wait(&self, most: usize, nanoseconds: u64) -> Result<Vec<Event>, Answer> {
        let deadline = clocks::deadline(nanoseconds);
        let mut found = Vec::new();
        if core::mem::take(&mut self.watched.hold().sockets_first) {
            self.wait_for_sockets(&mut found, most, 0)?;
        }
        loop {
            self.look_at_locals(&mut found, most);
            let until = if found.is_empty() { deadline } else { 0 };
            let posted = found.len() < most && self.wait_for_sockets(&mut found, most, until)?;
            if !found.is_empty() {
                // Another thread that waits looks as well: a post of which this one made nothing may be for it.
                if self.waiting.load(Ordering::Relaxed) > 1 {
                    queue::post(self.queue.number());
                }
                return Ok(found);
            }
            if !posted && clocks::has_passed(deadline) {
                return Ok(found);
            }
        }
    }
}

/// `epoll_wait(epoll, events out, most, milliseconds)`.
pub(crate) fn wait([epoll, out, most, timeout, ..]: [u64; 6]) -> Answer {
    let nanoseconds = u64::try_from(timeout as i32).map_or(u64::MAX, |milliseconds| milliseconds * 1_000_000);
    wait_for(epoll, out, most, nanoseconds)
}

/// `epoll_pwait2(epoll, events out, most, time, mask)`.
pub(crate) fn pwait2([epoll, out, most, time, ..]: [u64; 6]) -> Answer {
    match clocks::read(time as *const Timespec) {
        None => wait_for(epoll, out, most, u64::MAX),
        Some(Ok(nanoseconds)) => wait_for(epoll, out, most, nanoseconds),
        Some(Err(error)) => error,
    }
}

fn wait_for(epoll: u64, out: u64, most: u64, nanoseconds: u64) -> Answer {
    let epoll = match of(epoll) {
        Ok(epoll) => epoll,
        Err(error) => return error,
    };
    let most = match most as i32 {
        ..=0 => return EINVAL,
        most => most as usize,
    };
    if out == 0 {
        return EFAULT;
    }
    epoll.waiting.fetch_add(1, Ordering::Relaxed);
    let found = epoll.wait(most, nanoseconds);
    epoll.waiting.fetch_sub(1, Ordering::Relaxed);
    match found {
        Ok(events) => {
            for (at, event) in events.iter().enumerate() {
                // SAFETY: the caller's list of `most` events, of which there are no more.
                unsafe { (out as *mut Event).add(at).write_unaligned(*event) };
            }
            events.len() as Answer
        }
        Err(error) => error,
    }
}
