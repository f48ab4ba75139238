//! Queues: waiting for sockets, and for what other threads post, by `QUEUE_*`.

use crate::errno::{Answer, of_host};
use crate::host;
use monohull_abi::errno::Errno;
use monohull_abi::network::QueueEvent;
use monohull_abi::number;

/// One queue, closed when it is dropped.
pub(crate) struct Queue(u64);

impl Queue {
    /// An error if the instance has as many as it may have, or no module serves them.
    pub(crate) fn new() -> Result<Queue, Answer> {
        match host::call(number::QUEUE_NEW, []) {
            error @ ..0 => Err(error),
            queue => Ok(Queue(queue as u64)),
        }
    }

    /// What [`post`] takes.
    pub(crate) fn number(&self) -> u64 {
        self.0
    }

    /// Watches a socket for these events, in place of what was watched of it before.
    pub(crate) fn set(&self, socket: u64, events: u32, data: u64) -> Answer {
        host::call(number::QUEUE_SET, [self.0, socket, u64::from(events), data])
    }

    /// Waits until a [deadline](crate::clocks::deadline) for something to report: how many events were written.
    pub(crate) fn wait(&self, room: &mut [QueueEvent], deadline: u64) -> Answer {
        let call = [self.0, room.as_mut_ptr() as u64, room.len() as u64, deadline];
        let answer = host::call(number::QUEUE_WAIT, call);
        if answer == of_host(Errno::Deadlock.to_value()) {
            host::abort("every thread waits, and nothing is left that could wake one")
        }
        answer
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        host::call(number::QUEUE_CLOSE, [self.0]);
    }
}

/// Has the next wait in the queue of that number return. Posts carry nothing: a waiting thread looks at what it waits for.
pub(crate) fn post(queue: u64) {
    // The same data is in a queue once: there is always room for it.
    host::call(number::QUEUE_POST, [queue, 0]);
}
