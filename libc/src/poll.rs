//! `poll`: which of some descriptors are ready, and waiting until one is.
//!
//! ```text
//!   look at all ──▶ none is ready ──▶ a queue: sockets are set in it, pipes and event counters post to it
//!        ▲                                │ QUEUE_WAIT
//!        └────────────────────────────────┘ returns when one may be ready
//! ```
//!
//! Files and streams are always ready. A connection that is made without waiting is ready when it is made or has failed; of a
//! failed one `POLLERR` and `POLLHUP` are reported as well. If all queues of the instance are in use, waiting is looking again
//! with pauses that grow from 50 µs to 1 ms.

use crate::clocks::{self, Timespec};
use crate::descriptors::{self, Kind};
use crate::errno::{Answer, EINVAL};
use crate::host;
use crate::local::{self, Local, found};
use crate::queue::Queue;
use crate::refuse::{Missing, refuse};
use crate::sockets::{self, Connection, Socket};
use alloc::sync::Arc;
use alloc::vec::Vec;
use monohull_abi::network::{QueueEvent, ready};
use monohull_abi::number;

const IN: i16 = found::IN as i16;
const OUT: i16 = found::OUT as i16;
const ERROR: i16 = found::ERROR as i16;
const HANG_UP: i16 = found::HANG_UP as i16;
/// What is reported without being asked for.
const ALWAYS: i16 = ERROR | HANG_UP;
pub(crate) const INVALID: i16 = 0x20;
/// The first and the longest pause, in nanoseconds.
const PAUSE: (u64, u64) = (50_000, 1_000_000);

/// `struct pollfd`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Wish {
    pub(crate) descriptor: i32,
    pub(crate) events: i16,
    pub(crate) found: i16,
}

impl Wish {
    /// Whether what is found of it can change by itself.
    fn can_change(&self) -> bool {
        self.descriptor >= 0 && matches!(descriptors::get(self.descriptor as u64), Ok(Kind::Socket(_) | Kind::Local(_)))
    }
}

fn look(wish: &Wish) -> i16 {
    match descriptors::get(wish.descriptor as u64) {
        Err(_) => INVALID,
        Ok(Kind::Socket(at)) => sockets::get(at).map_or(INVALID, |socket| look_at_socket(&socket, wish.events)),
        Ok(Kind::Local(at)) => local::get(at).map_or(INVALID, |local| local.look() as i16 & (wish.events | ALWAYS)),
        Ok(Kind::Epoll(_)) => refuse(Missing::Nested, INVALID.into()) as i16,
        Ok(_) => wish.events & (IN | OUT),
    }
}

fn look_at_socket(socket: &Socket, events: i16) -> i16 {
    match sockets::connection(socket) {
        Connection::Started => 0,
        Connection::Failed(error) => events & (IN | OUT) | HANG_UP | if error < 0 { ERROR } else { 0 },
        Connection::Settled | Connection::Made => {
            let wanted = of_poll(events);
            let found = match socket.number() {
                // As on Linux before a stream is connected or listens.
                None => return events & OUT | if socket.is_stream() { HANG_UP } else { 0 },
                Some(_) if wanted == 0 => 0,
                Some(open) => sockets::ready_now(open, wanted).unwrap_or_else(|| {
                    let readable = wanted & ready::READ != 0 && sockets::readable(socket).unwrap_or(true);
                    wanted & ready::WRITE | if readable { ready::READ } else { 0 }
                }),
            };
            (if found & ready::READ != 0 { IN } else { 0 }) | if found & ready::WRITE != 0 { OUT } else { 0 }
        }
    }
}

/// What a queue is asked for.
fn of_poll(events: i16) -> u32 {
    (if events & IN != 0 { ready::READ } else { 0 }) | if events & OUT != 0 { ready::WRITE } else { 0 }
}

/// What some wishes wait in.
struct Waiting {
    queue: Queue,
    /// What posts to the queue.
    locals: Vec<Arc<Local>>,
    /// What the queue reports, by its place here, and whether it is a connection that is being made.
    sockets: Vec<(Arc<Socket>, bool)>,
}

impl Waiting {
    fn new(wishes: &[Wish]) -> Result<Waiting, Answer> {
        let mut waiting = Waiting { queue: Queue::new()?, locals: Vec::new(), sockets: Vec::new() };
        let mut watched: Vec<(u64, u32)> = Vec::new();
        for wish in wishes {
            match descriptors::get(wish.descriptor as u64) {
                Ok(Kind::Local(at)) => {
                    if let Ok(local) = local::get(at) {
                        local.watch(waiting.queue.number());
                        waiting.locals.push(local);
                    }
                }
                Ok(Kind::Socket(at)) => {
                    let Ok(socket) = sockets::get(at) else { continue };
                    let Some(open) = socket.number() else { continue };
                    let started = sockets::connection(&socket) == Connection::Started;
                    let events = if started { ready::WRITE } else { of_poll(wish.events) };
                    // A queue knows a socket once, by whichever descriptor.
                    match watched.iter_mut().find(|(other, _)| *other == open) {
                        Some((_, all)) => *all |= events,
                        None => {
                            watched.push((open, events));
                            waiting.sockets.push((socket, started));
                        }
                    }
                }
                _ => {}
            }
        }
        for (at, (open, events)) in watched.into_iter().enumerate() {
            waiting.queue.set(open, events, at as u64);
        }
        Ok(waiting)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        for local in &self.locals {
            local.unwatch(self.queue.number());
        }
    }
}

/// Nanoseconds until a deadline.
fn left(deadline: u64) -> u64 {
    deadline.saturating_sub(clocks::now(clocks::MONOTONIC))
}

/// Looks until one is ready or the time is over: how many are ready.
pub(crate) fn wait(wishes: &mut [Wish], nanoseconds: u64) -> Answer {
    let deadline = clocks::deadline(nanoseconds);
    let mut pause = PAUSE.0;
    let mut waiting = None;
    loop {
        let mut ready = 0;
        for wish in &mut *wishes {
            wish.found = if wish.descriptor < 0 { 0 } else { look(wish) };
            ready += i64::from(wish.found != 0);
        }
        if ready > 0 || clocks::has_passed(deadline) {
            return ready;
        }
        match &waiting {
            Some(Ok(Waiting { queue, sockets, .. })) => {
                let mut events = [QueueEvent::default(); 8];
                let answer = queue.wait(&mut events, deadline);
                if answer < 0 {
                    return answer;
                }
                let mut is_made = false;
                for event in events[..answer as usize].iter().filter(|event| event.posted == 0) {
                    // A connection that is being made is looked up only when it is known that it has been.
                    let (socket, started) = &sockets[event.data as usize];
                    sockets::found_of(socket, event.ready);
                    is_made |= started;
                }
                if is_made {
                    // Until here the queue was asked when it would be made, from here on for what is wanted of it.
                    waiting = None;
                }
            }
            Some(Err(_)) => {
                host::call(number::NANOSLEEP, [pause.min(left(deadline))]);
                pause = (pause * 2).min(PAUSE.1);
            }
            // Nothing can become ready.
            None if deadline != u64::MAX && !wishes.iter().any(Wish::can_change) => {
                host::call(number::NANOSLEEP, [left(deadline)]);
            }
            // What has changed before it was watched is found by looking once more.
            None => waiting = Some(Waiting::new(wishes)),
        }
    }
}

fn wait_for(list: u64, count: u64, nanoseconds: u64) -> Answer {
    if count > descriptors::MOST as u64 {
        return EINVAL;
    }
    if count == 0 {
        return wait(&mut [], nanoseconds);
    }
    // SAFETY: the caller's list of that many wishes, which is aligned as C has it.
    wait(unsafe { core::slice::from_raw_parts_mut(list as *mut Wish, count as usize) }, nanoseconds)
}

/// `poll(list, count, milliseconds)`.
pub(crate) fn poll([list, count, timeout, ..]: [u64; 6]) -> Answer {
    let nanoseconds = u64::try_from(timeout as i32).map_or(u64::MAX, |milliseconds| milliseconds * 1_000_000);
    wait_for(list, count, nanoseconds)
}

/// `ppoll(list, count, time, mask)`.
pub(crate) fn ppoll([list, count, time, ..]: [u64; 6]) -> Answer {
    match clocks::read(time as *const Timespec) {
        None => wait_for(list, count, u64::MAX),
        Some(Ok(nanoseconds)) => wait_for(list, count, nanoseconds),
        Some(Err(error)) => error,
    }
}
