//! Bodies of answers.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::http::content::{CHUNK, Content};
use crate::http::transit::Room;
use crate::task_tracker::TaskGuard;

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Bytes in memory.
    Whole(Bytes),
    /// A part of a memory file that has not been sent.
    File { file: Arc<File>, at: u64, end: u64 },
    /// Bytes that are produced while the client reads.
    Stream(mpsc::Receiver<Bytes>),
    /// A large one that is not in memory as a whole, with its room among those that are sent.
    Large { room: Room, parts: Box<Answer> },
}

/// An answer, and a guard that is held until all of it has been sent.
pub(crate) struct Sent {
    answer: Answer,
    guard: Option<TaskGuard>,
}

/// The last bytes of an answer. They wait in the connection until the client has room for them.
struct Last {
    bytes: Bytes,
    _guard: TaskGuard,
}

impl AsRef<[u8]> for Last {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Answer {
    /// Holds the guard until the answer has been sent. An answer that follows a running invocation does not, as it may take
    /// arbitrarily long.
    pub(crate) fn sent_under(self, guard: TaskGuard) -> Sent {
        let goes_on = matches!(self, Answer::Stream(_));
        Sent { answer: self, guard: (!goes_on).then_some(guard) }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.answer).poll_frame(cx));
        let Some(Ok(frame)) = frame else { return Poll::Ready(frame) };
        let mut guard = if self.answer.is_end_stream() { self.guard.take() } else { None };
        let frame = frame.map_data(|bytes| match guard.take() {
            Some(guard) => Bytes::from_owner(Last { bytes, _guard: guard }),
            None => bytes,
        });
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.answer.size_hint()
    }
}

impl From<Vec<u8>> for Answer {
    fn from(bytes: Vec<u8>) -> Answer {
        Answer::Whole(bytes.into())
    }
}

impl From<Content> for Answer {
    fn from(content: Content) -> Answer {
        match content {
            Content::Small(bytes) => Answer::Whole(bytes),
            Content::Large(large) => Answer::File { file: large.file, at: 0, end: large.len },
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = match self.get_mut() {
            Answer::Whole(bytes) if bytes.is_empty() => None,
            Answer::Whole(bytes) => Some(Ok(std::mem::take(bytes))),
            Answer::File { at, end, .. } if at == end => None,
            Answer::File { file, at, end } => {
                let mut chunk = BytesMut::zeroed((*end - *at).min(CHUNK) as usize);
                // Memory files do not block.
                let read = file.read_exact_at(&mut chunk, *at);
                *at += chunk.len() as u64;
                Some(read.map(|()| chunk.freeze()))
            }
            Answer::Stream(receiver) => ready!(receiver.poll_recv(cx)).map(Ok),
            Answer::Large { parts, room } => {
                let frame = ready!(Pin::new(&mut **parts).poll_frame(cx));
                if let Some(Ok(frame)) = &frame {
                    room.took(frame.data_ref().map_or(0, Bytes::len));
                }
                return Poll::Ready(frame);
            }
        };
        Poll::Ready(next.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Answer::Whole(bytes) => bytes.is_empty(),
            Answer::File { at, end, .. } => at == end,
            Answer::Stream(_) => false,
            Answer::Large { parts, .. } => parts.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Answer::File { at, end, .. } => SizeHint::with_exact(end - at),
            Answer::Stream(_) => SizeHint::default(),
            Answer::Large { parts, .. } => parts.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task_tracker::TaskTracker;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn an_answer_is_sent_once_its_last_bytes_have_left() {
        let tracker = Arc::<TaskTracker>::default();
        let file = Arc::new(crate::http::content::memory_file().expect("a file"));
        file.set_len(CHUNK + 1).expect("it has room");
        for (answer, parts) in [
            (Answer::from(vec![b'x'; 10]), 1),
            (Answer::File { file, at: 0, end: CHUNK + 1 }, 2),
            (Answer::Whole(Bytes::new()), 0),
        ] {
            let mut sent = answer.sent_under(tracker.track());
            let mut waiting = Vec::new();
            while let Some(frame) = sent.frame().await {
                waiting.push(frame.expect("bytes").into_data().expect("bytes"));
            }
            assert_eq!(waiting.len(), parts);
            drop(sent);
            assert_eq!(tracker.counts().0, usize::from(parts > 0), "{parts} are in the connection");
            drop(waiting.pop());
            assert_eq!(tracker.counts().0, 0);
        }
    }
}
