//! The supervisor's way to send events to a workflow while it runs.

use super::error::ProcessError;
use super::job::seal_events;
use super::protocol::{ToWorker, WorkerChannel};
use monohull_engine::Event;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether events that were sent have not been acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Unanswered(Arc<AtomicBool>);

impl Unanswered {
    /// They are now. False if there were none.
    pub(super) fn answer(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// Sends events to a workflow that runs. Its messages may be waited for meanwhile.
#[derive(Debug)]
pub struct Post {
    channel: WorkerChannel,
    unanswered: Unanswered,
}

impl Post {
    /// With a socket of its own that is the worker's.
    pub(super) fn new(channel: &WorkerChannel, unanswered: &Unanswered) -> io::Result<Post> {
        let socket = channel.as_fd().try_clone_to_owned()?;
        Ok(Post { channel: WorkerChannel::new(socket), unanswered: unanswered.clone() })
    }

    /// Whether the workflow has acknowledged what was sent before.
    pub fn is_free(&self) -> bool {
        !self.unanswered.0.load(Ordering::Relaxed)
    }

    /// Sends events, without waiting. False if that cannot be done now: those before have not been acknowledged, or the process has ended.
    pub fn send(&self, events: &[Event]) -> Result<bool, ProcessError> {
        if !self.is_free() {
            return Ok(false);
        }
        let failed = |source| ProcessError::Host { what: "passing on events", source };
        let file = seal_events(events).map_err(failed)?;
        // The answer may come before this thread goes on.
        self.unanswered.0.store(true, Ordering::Relaxed);
        let sent = match self.channel.try_send(&ToWorker::Events, &[file.as_fd()]) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            sent => sent.map_err(failed),
        };
        if !matches!(sent, Ok(true)) {
            self.unanswered.answer();
        }
        sent
    }
}
