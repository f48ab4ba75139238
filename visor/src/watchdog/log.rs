//! Where what is logged goes: standard error, and of a server by a thread of its own.
//!
//! A log is read by somebody else, who may stall or be gone, and its disk may be full. None of that is a reason to answer nobody:
//! lines wait in a queue, those that find no room there are dropped and counted, and what cannot be written is lost.

use std::io::{self, Stderr, Write};
use std::sync::OnceLock;

use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait to be written.
const QUEUE: usize = 10_000;

/// The queue, once there is a thread that empties it.
static QUEUED: OnceLock<NonBlocking> = OnceLock::new();

/// Writes to standard error, or to the queue.
#[derive(Clone, Copy, Debug)]
pub struct Log;

/// See [`Log`].
pub enum Writer {
    /// At once.
    Direct(Stderr),
    /// By the thread.
    Queued(NonBlocking),
}

impl<'w> MakeWriter<'w> for Log {
    type Writer = Writer;

    fn make_writer(&'w self) -> Writer {
        QUEUED.get().map_or_else(|| Writer::Direct(io::stderr()), |queue| Writer::Queued(queue.clone()))
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Writer::Direct(stderr) => stderr.write(bytes),
            Writer::Queued(queue) => queue.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Writer::Direct(stderr) => stderr.flush(),
            Writer::Queued(queue) => queue.flush(),
        }
    }
}

/// From now on a thread writes, until this is dropped, which waits a moment for what is in the queue.
pub(super) fn by_thread() -> WorkerGuard {
    let (queue, guard) =
        NonBlockingBuilder::default().buffered_lines_limit(QUEUE).lossy(true).thread_name("log").finish(io::stderr());
    // There is one server in a process.
    let _ = QUEUED.set(queue);
    guard
}

/// How many lines found no room.
pub(super) fn dropped() -> u64 {
    QUEUED.get().map_or(0, |queue| queue.error_counter().dropped_lines() as u64)
}
