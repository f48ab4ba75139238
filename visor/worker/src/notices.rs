//! Notices of a worker while its workflow runs. Sending one never waits for its reader.
//!
//! ```text
//! carrier ── send ─▶ socket, while it has room
//!               └──▶ queue, while it has room ─▶ socket, with the next notice or at the end
//!                       └──▶ a line that does not fit is omitted here, and stays in the report
//! ```
//!
//! A function prints on a carrier, in trusted code, where no deadline interrupts it. If the reader stops (a terminal that is
//! paused, a pager), a carrier that waited for it would wait for ever, and all functions with it.

use super::protocol::{FromWorker, Notice, SupervisorChannel};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most bytes of lines in the queue: some seconds of a function that prints a lot.
const QUEUE_MAX: usize = 1 << 20;
/// About the size of a notice without its texts.
const OVERHEAD: usize = 64;

/// Lines that were not sent: how many of the last ones, by step and instance.
pub(super) type OmittedLines = HashMap<(String, u32), usize>;

/// Sends notices to the supervisor.
pub(super) struct Notices {
    channel: Arc<SupervisorChannel>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// Notices, and the bytes of those that are lines.
    waiting: VecDeque<(FromWorker, usize)>,
    /// All of these bytes.
    bytes: usize,
    omitted: OmittedLines,
}

impl Notices {
    pub(super) fn new(channel: Arc<SupervisorChannel>) -> Notices {
        Notices { channel, queue: Mutex::default() }
    }

    /// Sends a notice or queues it. A line for which the queue has no room is omitted, and so are all later ones of the same
    /// instance, so that the lines that are sent are its first ones. Other notices are few, and are always queued.
    pub(super) fn send(&self, notice: Notice) {
        let mut queue = self.lock();
        let sent = queue.flush(|message| self.channel.try_send(message, &[]));
        let mut bytes = 0;
        if let Notice::Line { step, instance, text, .. } = &notice {
            bytes = OVERHEAD + step.len() + text.len();
            let full = queue.bytes + bytes > QUEUE_MAX;
            if full || !queue.omitted.is_empty() {
                let instance = (step.clone(), *instance);
                if full || queue.omitted.contains_key(&instance) {
                    *queue.omitted.entry(instance).or_default() += 1;
                    return;
                }
            }
        }
        let message = FromWorker::Notice(notice);
        let sent = sent.and_then(|all| if all { self.channel.try_send(&message, &[]) } else { Ok(false) });
        // After an error the supervisor has ended, and this process is about to be killed.
        if let Ok(false) = sent {
            queue.bytes += bytes;
            queue.waiting.push_back((message, bytes));
        }
    }

    /// Sends the whole queue, however long that takes, and returns what was omitted. The workflow has ended.
    pub(super) fn finish(&self) -> OmittedLines {
        let mut queue = self.lock();
        let _ = queue.flush(|message| self.channel.send(message, &[]).map(|()| true));
        std::mem::take(&mut queue.omitted)
    }

    /// The workflow has not ended after all: what was omitted is so still.
    pub(super) fn omit(&self, lines: OmittedLines) {
        self.lock().omitted = lines;
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Sends the queue, as far as `send` accepts it; whether that was all.
    fn flush(&mut self, mut send: impl FnMut(&FromWorker) -> io::Result<bool>) -> io::Result<bool> {
        while let Some((message, bytes)) = self.waiting.front() {
            if !send(message)? {
                return Ok(false);
            }
            self.bytes -= bytes;
            self.waiting.pop_front();
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::protocol::WorkerChannel;
    use super::*;
    use monohull_report::Stream;
    use std::sync::mpsc;
    use std::time::Duration;

    /// Numbers of the lines of an instance that arrive, in their order.
    fn received(channel: &WorkerChannel) -> Vec<(u32, usize)> {
        let mut lines = Vec::new();
        while let Some(packet) = channel.receive().expect("a packet") {
            match packet.read().expect("a message") {
                FromWorker::Notice(Notice::Line { instance, text, .. }) => {
                    lines.push((instance, text.trim().parse().expect("a number")));
                }
                FromWorker::Notice(Notice::StepEnded { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        lines
    }

    #[test]
    fn printing_does_not_wait_for_a_reader_that_has_stopped() {
        const LINES: usize = 20_000;
        let (ours, theirs) = WorkerChannel::pair().expect("a socket");
        let (done, printed) = mpsc::channel();
        let printer = std::thread::spawn(move || {
            let notices = Notices::new(Arc::new(theirs));
            for line in 0..LINES {
                for instance in 0..2 {
                    let text = format!("{line:>60}");
                    notices.send(Notice::Line { step: "s".to_owned(), instance, stream: Stream::Stdout, text });
                }
            }
            // There is room for this whatever was printed.
            notices.send(Notice::StepEnded { step: "s".to_owned() });
            let bytes = notices.lock().bytes;
            assert!(bytes <= QUEUE_MAX, "{bytes}");
            done.send(()).expect("it is waited for");
            notices.finish()
        });
        printed.recv_timeout(Duration::from_secs(60)).expect("printing waits for the reader");
        let lines = received(&ours);
        let omitted = printer.join().expect("it does not panic");
        for instance in 0..2 {
            let sent: Vec<_> = lines.iter().filter(|(of, _)| *of == instance).map(|(_, line)| *line).collect();
            assert!(sent.iter().copied().eq(0..sent.len()), "the first ones, in their order");
            let omitted = omitted[&("s".to_owned(), instance)];
            assert!(omitted > 0 && sent.len() + omitted == LINES, "{} sent, {omitted} omitted", sent.len());
        }
    }

    #[test]
    fn a_reader_that_goes_on_gets_every_line() {
        const LINES: usize = 2_000;
        let (ours, theirs) = WorkerChannel::pair().expect("a socket");
        let notices = Notices::new(Arc::new(theirs));
        let print = |lines: std::ops::Range<usize>| {
            for line in lines {
                let (step, text) = ("s".to_owned(), line.to_string());
                notices.send(Notice::Line { step, instance: 0, stream: Stream::Stdout, text });
            }
        };
        // More than the socket holds, and less than the queue.
        print(0..LINES);
        assert!(!notices.lock().waiting.is_empty(), "the socket holds all of it, which shows nothing");
        let reader = std::thread::spawn(move || received(&ours));
        print(LINES..2 * LINES);
        assert_eq!(notices.finish(), OmittedLines::new());
        drop(notices);
        let lines = reader.join().expect("it does not panic");
        assert!(lines.into_iter().map(|(_, line)| line).eq(0..2 * LINES));
    }
}
