//! The calls on queues: those of the caller, those of other instances, and unused numbers; and what a queue reports of a socket.

use super::sockets::{Network, connection};
use super::{Cases, HERE, MAX, MIN, Own, keep, room};
use crate::neighbour::QUEUE as THEIRS;
use monohull_abi::Errno::{Again, BadDescriptor, Fault, Invalid};
use monohull_abi::network::{QueueEvent, SocketOption, ready};
use monohull_abi::number::*;
use monohull_trampoline::user::hostcall;

const READ: u64 = ready::READ as u64;
const EDGE: u64 = ready::EDGE as u64;
const EVENT: u64 = size_of::<QueueEvent>() as u64;
/// A deadline that has passed, in ns.
const PAST: u64 = 1;

pub(super) fn all(cases: &mut Cases<'_>, own: &Own, network: Network) {
    let queue = hostcall(QUEUE_NEW, [0; 6]) as u64;
    let (socket, other) = connection(network);
    let out = keep([QueueEvent::default(); 64]);
    let (set, wait) = (|events| [queue, socket, events, 7], |deadline| [queue, out, 64, deadline]);

    for wrong in [THEIRS, queue + 100, 1 << 32 | queue, MIN, MAX] {
        let what = if wrong == THEIRS { "a queue of another instance" } else { "a queue that does not exist" };
        cases.refused(what, QUEUE_SET, &[wrong, socket, READ, 7], BadDescriptor);
        cases.refused(what, QUEUE_WAIT, &[wrong, out, 64, 0], BadDescriptor);
        cases.refused(what, QUEUE_POST, &[wrong, 7], BadDescriptor);
        cases.refused(what, QUEUE_CLOSE, &[wrong], BadDescriptor);
        let what = if wrong == THEIRS { "a socket far out" } else { "a socket that does not exist" };
        let wrong = if wrong == queue { socket + 100 } else { wrong };
        cases.refused(what, QUEUE_SET, &[queue, wrong.max(1000), READ, 7], BadDescriptor);
    }
    for events in [1 << 4, u64::from(u32::MAX), 1 << 32 | READ, MIN, MAX] {
        cases.refused("no such events", QUEUE_SET, &set(events), Invalid);
    }
    cases.refused("no room for an event", QUEUE_WAIT, &[queue, out, 0, 0], Invalid);
    cases.bad("room", QUEUE_WAIT, &[queue, HERE, 1, 0], room(EVENT, 8));
    cases.bad("very much room", QUEUE_WAIT, &[queue, HERE, MAX, 0], room(64 * EVENT, 8));
    cases.add("nothing to report", QUEUE_WAIT, &wait(0), 0);
    cases.add("nothing to report before the deadline", QUEUE_WAIT, &wait(PAST), 0);

    cases.add("posts an event", QUEUE_POST, &[queue, MAX], 0);
    // What cannot be written is still there.
    cases.refused("no memory for an event", QUEUE_WAIT, &[queue, 8, 1, 0], Fault);
    cases.add("the event", QUEUE_WAIT, &wait(MAX), 1);
    cases.add("the event is gone", QUEUE_WAIT, &wait(0), 0);

    cases.add("watches a socket", QUEUE_SET, &set(READ), 0);
    cases.add("bytes wait in it", QUEUE_WAIT, &wait(MAX), 1);
    cases.add("bytes wait in it still", QUEUE_WAIT, &wait(MAX), 1);
    cases.add("watches its edges", QUEUE_SET, &set(READ | EDGE), 0);
    cases.add("bytes wait, and are new to the queue", QUEUE_WAIT, &wait(MAX), 1);
    cases.add("and are not any more", QUEUE_WAIT, &wait(PAST), 0);
    cases.add("does not wait", SOCKET_SET_OPTION, &[socket, SocketOption::NonBlocking as u64, 1], 0);
    cases.add("reads all", SOCKET_RECV, &[socket, own.bytes, 512, 0], 16);
    cases.refused("there is no more", SOCKET_RECV, &[socket, own.bytes, 512, 0], Again);
    cases.add("nothing new", QUEUE_WAIT, &wait(PAST), 0);
    if let Some(other) = other {
        cases.add("more bytes", SOCKET_SEND, &[other, own.name, 16], 16);
        cases.add("more bytes, which are new", QUEUE_WAIT, &wait(MAX), 1);
        cases.add("more bytes, which are old", QUEUE_WAIT, &wait(PAST), 0);
        cases.add("reads those", SOCKET_RECV, &[socket, own.bytes, 512, 0], 16);
        cases.add("the other end", SOCKET_CLOSE, &[other], 0);
        cases.add("the end is something to read", QUEUE_WAIT, &wait(MAX), 1);
    }
    cases.add("its own", SOCKET_CLOSE, &[socket], 0);
    cases.refused("a socket that is closed", QUEUE_SET, &set(READ), BadDescriptor);
    cases.add("a socket that is closed is not watched", QUEUE_WAIT, &wait(PAST), 0);
    cases.add("its own", QUEUE_CLOSE, &[queue], 0);
    cases.refused("one that it has closed", QUEUE_CLOSE, &[queue], BadDescriptor);
    cases.refused("one that it has closed", QUEUE_WAIT, &wait(0), BadDescriptor);
}
