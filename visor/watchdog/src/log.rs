//! The log: standard error, written by a thread of its own in a server.
//!
//! The reader of a log may stall or end, and its disk may be full. The server must keep answering: lines wait in a queue, lines
//! that find no room there are dropped and counted, and what cannot be written is lost.
//!
//! A message may hold text from outside, such as a header or a file's name. It is escaped here, as one line.

use std::io::{self, Stderr, Write};
use std::sync::OnceLock;

use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::MakeWriter;

use monohull_report::escape::Notation;

/// Lines that wait to be written.
const QUEUE: usize = 10_000;

/// The queue, once there is a thread that empties it.
static QUEUED: OnceLock<NonBlocking> = OnceLock::new();

/// Writes to standard error, or to the queue.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    /// Each message is a JSON object.
    pub json: bool,
}

/// See [`Log`]. A message is written to it at once, with its line end.
pub struct Writer {
    to: To,
    notation: Notation,
}

enum To {
    /// At once.
    Direct(Stderr),
    /// By the thread.
    Queued(NonBlocking),
}

impl<'w> MakeWriter<'w> for Log {
    type Writer = Writer;

    fn make_writer(&'w self) -> Writer {
        let to = QUEUED.get().map_or_else(|| To::Direct(stderr()), |queue| To::Queued(queue.clone()));
        Writer { to, notation: if self.json { Notation::Json } else { Notation::Line } }
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let line = self.notation.escape(text.strip_suffix('\n').unwrap_or(&text)) + "\n";
        match &mut self.to {
            To::Direct(stderr) => stderr.write_all(line.as_bytes())?,
            To::Queued(queue) => queue.write_all(line.as_bytes())?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Direct(stderr) => stderr.flush(),
            To::Queued(queue) => queue.flush(),
        }
    }
}

/// From now on a thread writes, until this is dropped, which waits a moment for what is in the queue.
pub(crate) fn by_thread() -> WorkerGuard {
    let (queue, guard) =
        NonBlockingBuilder::default().buffered_lines_limit(QUEUE).lossy(true).thread_name("log").finish(stderr());
    // There is one server in a process.
    let _ = QUEUED.set(queue);
    guard
}

/// How many lines found no room.
pub(crate) fn dropped() -> u64 {
    QUEUED.get().map_or(0, |queue| queue.error_counter().dropped_lines() as u64)
}

#[expect(clippy::disallowed_methods, reason = "what is written to it here is escaped")]
fn stderr() -> Stderr {
    io::stderr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_without_control_characters() {
        let (queue, guard) = NonBlocking::new(Sink);
        for (notation, expected) in
            [(Notation::Line, "a\\u{1b}[2J\\nb\\u{202e}\n"), (Notation::Json, "a\\u001b[2J\nb\\u202e\n")]
        {
            SINK.lock().expect("no test has panicked").clear();
            let mut writer = Writer { to: To::Queued(queue.clone()), notation };
            writer.write_all("a\x1b[2J\nb\u{202e}\n".as_bytes()).expect("room");
            while !SINK.lock().expect("no test has panicked").ends_with(b"\n") {
                std::thread::yield_now();
            }
            let written = SINK.lock().expect("no test has panicked").clone();
            assert_eq!(String::from_utf8(written).expect("UTF-8"), expected);
        }
        drop(guard);
    }

    static SINK: std::sync::Mutex<Vec<u8>> = std::sync::Mutex::new(Vec::new());

    /// Keeps what is written.
    struct Sink;

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            SINK.lock().expect("no test has panicked").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
