//! Queues: one thread waits for many sockets, and for events that other threads post.
//!
//! ```text
//!   QUEUE_SET ───▶ watched: socket ─▶ events, data ─┐      a watched socket becomes ready: the network wakes the queue's key
//!   QUEUE_POST ──▶ posted: data ────────────────────┤      so does a post
//!                                                   ▼
//!   QUEUE_WAIT     posted ones, then each watched socket that is ready; if there is none, parks on the queue's key
//! ```
//!
//! A socket that is closed is not watched any more: a queue does not keep it open.

use crate::Sockets;
use crate::network::{ARMED, Network};
use crate::table::Socket;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Included, Unbounded};
use monohull_abi::module::{Call, Wake};
use monohull_abi::network::{
    Found, QUEUE_EVENTS_MAX, QUEUE_POSTS_MAX, QUEUES_MAX, QueueEvent, Readiness, SOCKETS_MAX, SocketHandle, ready,
};
use monohull_abi::user::UserSlice;
use monohull_abi::{Errno, Outcome};
use monohull_module::{FutexMutex, HostRef};

/// Distinguishes the keys of queues from those of sockets.
const KEY_TAG: u64 = 0b100 << 61 | 1 << 60;

/// One queue.
pub(crate) struct Queue {
    key: u64,
    host: HostRef,
    network: Option<Arc<dyn Network>>,
    posted: FutexMutex<BTreeSet<u64>>,
    watched: FutexMutex<WatchList>,
}

#[derive(Default)]
struct WatchList {
    by_handle: BTreeMap<SocketHandle, Watched>,
    /// The last one reported: the next look begins behind it.
    last: SocketHandle,
    /// How often a socket has been set.
    changes: u64,
}

/// One socket in a queue.
struct Watched {
    socket: Weak<Socket>,
    events: u32,
    data: u64,
    /// With [`ready::EDGE`]: what has been reported, and no call on the socket has shown since that there may be more.
    reported: u32,
    /// What is known to be ready and has not been reported.
    pending: Found,
}

/// The queues of all instances, by instance and number.
#[derive(Default)]
pub(crate) struct Queues {
    by_number: BTreeMap<(u32, u64), Arc<Queue>>,
    made: u64,
}

impl Queues {
    /// The queues of an instance that has ended, or that is over.
    pub(crate) fn remove_all(&mut self, instance: u32) -> BTreeMap<(u32, u64), Arc<Queue>> {
        let mut theirs = self.by_number.split_off(&(instance, 0));
        let mut others = theirs.split_off(&(instance.saturating_add(1), 0));
        self.by_number.append(&mut others);
        theirs
    }

    /// All queues, by instance and number.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, u64, &Arc<Queue>)> {
        self.by_number.iter().map(|((instance, number), queue)| (*instance, *number, queue))
    }

    /// Makes a queue. Its number is one that the instance has not in use.
    pub(crate) fn add(&mut self, host: HostRef, network: Option<&Arc<dyn Network>>, place: (u32, u64)) -> Arc<Queue> {
        self.made += 1;
        let queue = Arc::new(Queue {
            key: KEY_TAG | self.made,
            host,
            network: network.cloned(),
            posted: FutexMutex::default(),
            watched: FutexMutex::default(),
        });
        self.by_number.insert(place, queue.clone());
        queue
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if let Some(network) = &self.network {
            network.forget_queue(self.key);
        }
        self.host.wake(self.key, u64::MAX);
    }
}

impl Queue {
    /// Watches a socket, in place of what was watched of it before; nothing if neither direction is among the events.
    fn set(self: &Arc<Queue>, socket: &Arc<Socket>, events: u32, data: u64) -> Result<(), Errno> {
        if events & ready::EDGE != 0 {
            socket.notify_also(Arc::downgrade(self));
        }
        let mut watched = self.watched.lock();
        watched.changes += 1;
        if events & (ready::READ | ready::WRITE) == 0 {
            watched.by_handle.remove(&socket.handle);
            return Ok(());
        }
        if watched.by_handle.len() >= SOCKETS_MAX && !watched.by_handle.contains_key(&socket.handle) {
            watched.by_handle.retain(|_, watched| watched.socket.strong_count() > 0);
            if watched.by_handle.len() >= SOCKETS_MAX {
                return Err(Errno::TooMany);
            }
        }
        let entry = Watched { socket: Arc::downgrade(socket), events, data, reported: 0, pending: Found::default() };
        watched.by_handle.insert(socket.handle, entry);
        Ok(())
    }

    /// A call on a socket has read or accepted something, or had less to do than it could: it may become ready once more.
    pub(crate) fn lacked(&self, socket: &Socket, readiness: Readiness) {
        let Some(network) = &self.network else { return };
        let bit = match readiness {
            Readiness::Read => ready::READ,
            Readiness::Write => ready::WRITE,
        };
        let mut list = self.watched.lock();
        let Some(watched) = list.by_handle.get_mut(&socket.handle) else { return };
        watched.reported &= !bit;
        if watched.events & bit == 0 || watched.events & ready::EDGE == 0 {
            return;
        }
        let found = network.watch(socket.handle, bit, self.key);
        if found.ready & bit != 0 {
            watched.pending = Found { ready: watched.pending.ready | bit, turn: found.turn };
        }
        let is_ready = watched.pending.ready != 0;
        drop(list);
        if is_ready {
            self.host.wake(self.key, u64::MAX);
        }
    }

    /// What has been posted and not reported, upwards.
    pub(crate) fn posts(&self) -> Vec<u64> {
        self.posted.lock().iter().copied().collect()
    }

    /// A socket that it watches and that is open.
    pub(crate) fn a_watched_socket(&self) -> Option<Arc<Socket>> {
        self.watched.lock().by_handle.values().find_map(|watched| watched.socket.upgrade())
    }

    /// False if there is no room for one more.
    pub(crate) fn post(&self, data: u64) -> bool {
        let mut posted = self.posted.lock();
        if posted.len() >= QUEUE_POSTS_MAX && !posted.contains(&data) {
            return false;
        }
        posted.insert(data);
        true
    }

    /// What there is to report now, as much as fits; and how often a socket had been set when that was looked at.
    fn take(&self, room: &mut [QueueEvent]) -> (usize, u64) {
        let (mut count, mut changes) = (0, self.watched.lock().changes);
        {
            let mut posted = self.posted.lock();
            while count < room.len()
                && let Some(data) = posted.pop_first()
            {
                room[count] = QueueEvent { data, ready: 0, posted: 1 };
                count += 1;
            }
        }
        let Some(network) = &self.network else { return (count, changes) };
        // What has only been asked for may be ready already: asked again, once.
        for _ in 0..2 {
            if count == room.len() || self.watched.lock().by_handle.is_empty() {
                break;
            }
            network.settle(self.key);
            let (found, asked, seen) = self.look(&**network, &mut room[count..]);
            (count, changes) = (count + found, seen);
            if count > 0 || !asked {
                break;
            }
        }
        (count, changes)
    }

    /// Reports the sockets that are ready, in the order in which they became so: how many, whether some are watched only from here on, and how often one has
    /// been set.
    fn look(&self, network: &dyn Network, room: &mut [QueueEvent]) -> (usize, bool, u64) {
        let mut list = self.watched.lock();
        let last = list.last;
        let (mut count, mut asked, mut gone) = (0, false, false);
        let mut reported_last = last;
        let mut turns = [0; QUEUE_EVENTS_MAX];
        for range in [(Excluded(last), Unbounded), (Unbounded, Included(last))] {
            for (handle, watched) in list.by_handle.range_mut(range) {
                if count == room.len() {
                    break;
                }
                let Some(socket) = watched.socket.upgrade() else {
                    gone = true;
                    continue;
                };
                let wanted = watched.wanted();
                if wanted == 0 {
                    continue;
                }
                let now = network.watch(*handle, wanted, self.key);
                let before = core::mem::take(&mut watched.pending);
                // Kept open until here: what is closed now is gone.
                drop(socket);
                asked |= now.ready & ARMED != 0;
                let found = (now.ready | before.ready) & wanted;
                if found == 0 {
                    continue;
                }
                watched.note(found);
                room[count] = QueueEvent { data: watched.data, ready: found, posted: 0 };
                turns[count] = if before.ready & wanted != 0 { before.turn } else { now.turn };
                count += 1;
                move_last(&mut room[..count], &mut turns[..count]);
                reported_last = *handle;
            }
        }
        list.last = reported_last;
        if gone {
            list.by_handle.retain(|_, watched| watched.socket.strong_count() > 0);
        }
        (count, asked, list.changes)
    }

    /// Registers the call's thread until there is something to report, or was already.
    fn wait(&self, call: &mut Call, deadline: u64, changes: u64) {
        let watches = !self.watched.lock().by_handle.is_empty();
        let posted = self.posted.lock();
        match &self.network {
            Some(network) if watches => network.wait_in_queue(call, self.key, deadline),
            // Only functions can change it.
            _ => self.host.wait(call, self.key, deadline),
        }
        // Under the lock, so that a post from now on finds the waiter.
        let has_posts = !posted.is_empty();
        drop(posted);
        // A socket may have been set since it was looked.
        if has_posts || self.watched.lock().changes != changes {
            self.host.wake(self.key, u64::MAX);
        }
    }
}

/// Moves the last event before those whose turn is later.
fn move_last(events: &mut [QueueEvent], turns: &mut [u32]) {
    let Some((turn, others)) = turns.split_last() else { return };
    // The turns of events are close to each other, also where the count has begun again.
    let is_later = |other: &u32| (turn.wrapping_sub(*other) as i32) < 0;
    let at = others.iter().position(is_later).unwrap_or(others.len());
    events[at..].rotate_right(1);
    turns[at..].rotate_right(1);
}

impl Watched {
    /// What is to be looked for.
    fn wanted(&self) -> u32 {
        let reported = if self.events & ready::EDGE != 0 { self.reported } else { 0 };
        self.events & (ready::READ | ready::WRITE) & !reported
    }

    fn note(&mut self, found: u32) {
        self.reported |= found;
        if self.events & ready::ONCE != 0 {
            self.events = 0;
        }
    }
}

impl Sockets {
    pub(crate) fn queue_new(&self, call: &mut Call) -> Result<u64, Errno> {
        let mut queues = self.queues.lock();
        let theirs =
            queues.by_number.range((call.instance, 0)..=(call.instance, u64::MAX)).map(|((_, number), _)| *number);
        let number = (0..).zip(theirs).find(|(free, number)| free != number).map(|(free, _)| free);
        let count = queues.by_number.range((call.instance, 0)..=(call.instance, u64::MAX)).count();
        if count >= QUEUES_MAX {
            drop(queues);
            let why = format_args!("an instance has at most {QUEUES_MAX} queues");
            return Err(self.host.explain(call, Errno::TooMany, why));
        }
        let number = number.unwrap_or(count as u64);
        queues.add(self.host, self.network.as_ref(), (call.instance, number));
        Ok(number)
    }

    pub(crate) fn queue_set(&self, call: &mut Call) -> Result<u64, Errno> {
        let [queue, socket, events, data, ..] = call.args;
        let queue = self.find_queue(call, queue)?;
        let socket = self.find(call, socket)?;
        if events & !u64::from(ready::ALL) != 0 {
            let why = format_args!("{events:#x} is not a set of events");
            return Err(self.host.explain(call, Errno::Invalid, why));
        }
        queue.set(&socket, events as u32, data).map_err(|errno| {
            self.host.explain(call, errno, format_args!("a queue watches at most {SOCKETS_MAX} sockets"))
        })?;
        // Waiting threads look again, also at this one.
        self.host.wake(queue.key, u64::MAX);
        Ok(0)
    }

    pub(crate) fn queue_post(&self, call: &mut Call) -> Result<u64, Errno> {
        let queue = self.find_queue(call, call.args[0])?;
        if !queue.post(call.args[1]) {
            let why = format_args!("{QUEUE_POSTS_MAX} posted events wait in the queue");
            return Err(self.host.explain(call, Errno::TooMany, why));
        }
        self.host.wake(queue.key, u64::MAX);
        Ok(0)
    }

    pub(crate) fn queue_close(&self, call: &mut Call) -> Result<u64, Errno> {
        let closed = self.queues.lock().by_number.remove(&(call.instance, call.args[0]));
        // Its drop wakes waiting threads, without the lock.
        closed.map(|_| 0).ok_or(Errno::BadDescriptor).map_err(|_| self.no_queue(call, call.args[0]))
    }

    /// The deadline is a time and not a duration, so that the handler can run again with nothing but its arguments.
    pub(crate) fn queue_wait(&self, call: &mut Call) -> Outcome {
        self.try_queue_wait(call).unwrap_or_else(Outcome::error)
    }

    fn try_queue_wait(&self, call: &mut Call) -> Result<Outcome, Errno> {
        let [number, out, most, deadline, ..] = call.args;
        let queue = self.find_queue(call, number)?;
        if most == 0 {
            return Err(self.host.explain(call, Errno::Invalid, format_args!("there is no room for an event")));
        }
        let mut events = [QueueEvent::default(); QUEUE_EVENTS_MAX];
        let events = &mut events[..most.min(QUEUE_EVENTS_MAX as u64) as usize];
        let refuse = |refusal: monohull_abi::user::AccessError| {
            self.host.explain(call, refusal.into(), format_args!("the room for events: {refusal}"))
        };
        let changes;
        {
            let out = UserSlice::<QueueEvent>::new(out, events.len() as u64);
            let out = out.check(self.host.raw(), call).map_err(refuse)?;
            // Before events are taken out: is there room for them?
            out.write(events).map_err(refuse)?;
            let (count, seen) = queue.take(events);
            if count > 0 {
                out.write(&events[..count]).map_err(refuse)?;
                // Another that waits sees what is still there.
                self.host.wake(queue.key, 1);
                return Ok(Outcome::ready(count as i64));
            }
            changes = seen;
        }
        match call.wake {
            Wake::TimedOut => return Ok(Outcome::ready(0)),
            Wake::Deadlock => return Err(Errno::Deadlock),
            Wake::First | Wake::Woken if deadline == 0 || deadline <= self.host.now() => return Ok(Outcome::ready(0)),
            Wake::First | Wake::Woken => {}
        }
        queue.wait(call, deadline, changes);
        Ok(Outcome::park())
    }

    fn find_queue(&self, call: &Call, number: u64) -> Result<Arc<Queue>, Errno> {
        let found = self.queues.lock().by_number.get(&(call.instance, number)).cloned();
        found.ok_or(Errno::BadDescriptor).map_err(|_| self.no_queue(call, number))
    }

    fn no_queue(&self, call: &Call, number: u64) -> Errno {
        self.host.explain(call, Errno::BadDescriptor, format_args!("the caller has no queue {number}"))
    }
}
