//! What a program wants to know of a descriptor, and what of that there is to report.

use crate::errno::{Answer, EEXIST, EFAULT, EINVAL, ENOENT};
use crate::local::found;
use alloc::vec::Vec;
use monohull_abi::network::ready;

/// `EPOLLET`: reported when there is more of it, not for as long as it is there.
const EDGE: u32 = 1 << 31;
/// `EPOLLONESHOT`: reported once, and again after the next `EPOLL_CTL_MOD`.
const ONCE: u32 = 1 << 30;
/// What is reported without being asked for.
const ALWAYS: u32 = found::ERROR | found::HANG_UP;

/// `struct epoll_event`.
#[derive(Clone, Copy)]
#[repr(C, packed)]
pub(super) struct Event {
    events: u32,
    data: u64,
}

const _: () = assert!(size_of::<Event>() == 12);

/// What `epoll_ctl` is asked for.
#[derive(Clone, Copy)]
pub(super) enum Operation {
    Add(Event),
    Remove,
    Modify(Event),
}

impl Operation {
    pub(super) fn read(operation: u64, event: u64) -> Result<Operation, Answer> {
        const ADD: u32 = 1;
        const REMOVE: u32 = 2;
        const MODIFY: u32 = 3;
        let operation = operation as u32;
        if matches!(operation, ADD | MODIFY) && event == 0 {
            return Err(EFAULT);
        }
        // SAFETY: the caller's `struct epoll_event`.
        let read = || unsafe { (event as *const Event).read_unaligned() };
        match operation {
            ADD => Ok(Operation::Add(read())),
            REMOVE => Ok(Operation::Remove),
            MODIFY => Ok(Operation::Modify(read())),
            _ => Err(EINVAL),
        }
    }
}

/// The interest in one descriptor.
pub(super) struct Interest {
    descriptor: u32,
    event: Event,
    /// False once it has been reported, with [`ONCE`].
    armed: bool,
    /// With [`EDGE`]: how often there had been more to read, and more room, when it was last reported.
    edges: Option<(u32, u32)>,
    /// With [`EDGE`]: what had been reported that never ends.
    ended: u32,
}

impl Interest {
    fn new(descriptor: u32, event: Event) -> Interest {
        Interest { descriptor, event, armed: true, edges: None, ended: 0 }
    }

    pub(super) fn is_armed(&self) -> bool {
        self.armed
    }

    /// The event to return for what was found, if it is wanted.
    pub(super) fn report(&mut self, found: u32) -> Option<Event> {
        let events = found & (self.event.events | ALWAYS);
        if !self.armed || events == 0 {
            return None;
        }
        self.armed = self.event.events & ONCE == 0;
        Some(Event { events, data: self.event.data })
    }

    /// The same of a pipe or an event counter, whose edges are found here.
    pub(super) fn look(&mut self, found: u32, edges: (u32, u32)) -> Option<Event> {
        const ENDS: u32 = ALWAYS | found::READ_HANG_UP;
        let events = self.event.events;
        if events & EDGE != 0 {
            let is_new = match self.edges {
                None => true,
                Some((more, room)) => {
                    let more = events & (found::IN | found::READ_HANG_UP) != 0 && more != edges.0;
                    more || events & found::OUT != 0 && room != edges.1 || found & ENDS & !self.ended != 0
                }
            };
            if !is_new {
                return None;
            }
        }
        let reported = self.report(found)?;
        self.edges = Some(edges);
        self.ended |= found & ENDS;
        Some(reported)
    }
}

/// What a queue has to report of a socket.
pub(super) fn wanted(interests: &[Interest]) -> u32 {
    let armed = || interests.iter().filter(|interest| interest.armed);
    let all = armed().fold(0, |all, interest| all | interest.event.events);
    let read = if all & found::IN != 0 { ready::READ } else { 0 };
    let write = if all & found::OUT != 0 { ready::WRITE } else { 0 };
    let edge = armed().all(|interest| interest.event.events & EDGE != 0);
    match read | write {
        0 => 0,
        events => events | if edge { ready::EDGE } else { 0 },
    }
}

/// Carries out an operation on the interests in one socket or end of a pipe.
pub(super) fn change(interests: &mut Vec<Interest>, descriptor: u32, operation: Operation) -> Result<(), Answer> {
    let known = interests.iter().position(|interest| interest.descriptor == descriptor);
    match (operation, known) {
        (Operation::Add(event), None) => interests.push(Interest::new(descriptor, event)),
        (Operation::Add(_), Some(_)) => return Err(EEXIST),
        (Operation::Modify(event), Some(at)) => interests[at] = Interest::new(descriptor, event),
        (Operation::Remove, Some(at)) => {
            interests.remove(at);
        }
        (Operation::Modify(_) | Operation::Remove, None) => return Err(ENOENT),
    }
    Ok(())
}
