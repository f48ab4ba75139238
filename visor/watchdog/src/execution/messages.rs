//! Messages to and from the process of an invocation, so that neither side can make the other wait.

use tokio::task::yield_now;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

use crate::execution::arrivals::Arrivals;
use monohull_worker::Post;

/// Reads the messages of a worker. A worker that sends without pause would otherwise occupy a thread that serves and escape its
/// deadline, because its next message is always ready: so each message after the first yields to other tasks.
pub(crate) struct MessageReader {
    pub(crate) latest: Instant,
    pub(crate) received: bool,
}

impl MessageReader {
    pub(crate) async fn next<T>(&mut self, next: impl Future<Output = T>) -> Result<T, Elapsed> {
        let next = async {
            if std::mem::replace(&mut self.received, true) {
                yield_now().await;
            }
            next.await
        };
        timeout_at(self.latest, next).await
    }
}

/// Brings a leg the events that arrive while it runs.
pub(crate) struct Postman {
    pub(crate) post: Option<Post>,
    pub(crate) arrivals: Option<Arrivals>,
}

impl Postman {
    /// Waits for what the process says next, and brings it events meanwhile. At most those of one message are on their way.
    pub(crate) async fn deliver_until<T>(&mut self, next: impl Future<Output = T>) -> T {
        let Postman { post: Some(post), arrivals: Some(arrivals) } = self else { return next.await };
        tokio::pin!(next);
        loop {
            let events = tokio::select! {
                biased;
                said = &mut next => return said,
                events = arrivals.next(), if post.is_free() => events,
            };
            match post.send(&events) {
                Ok(true) => {
                    arrivals.given(&events);
                    continue;
                }
                // It has ended, as a rule: the mailbox has them.
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "events wait"),
            }
            arrivals.not_given();
            return next.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::ready;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    /// Each message is ready before it is read, as with a process that sends faster than it is read.
    #[tokio::test]
    async fn a_worker_that_sends_without_pause_blocks_no_task_and_misses_no_deadline() {
        let turns = Arc::new(AtomicU32::new(0));
        let others = turns.clone();
        let other = tokio::spawn(async move {
            loop {
                others.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        });
        let mut reader = MessageReader { latest: Instant::now() + Duration::from_secs(3600), received: false };
        for _ in 0..100 {
            reader.next(ready(())).await.expect("there is time");
        }
        let turns = turns.load(Ordering::Relaxed);
        assert!(turns >= 99, "other tasks ran {turns} times during 100 messages");
        other.abort();
        reader.latest = Instant::now();
        let mut cut_off = false;
        for _ in 0..1_000_000 {
            cut_off = cut_off || reader.next(ready(())).await.is_err();
        }
        assert!(cut_off, "the deadline ends the reading, although messages are ready");
    }
}
