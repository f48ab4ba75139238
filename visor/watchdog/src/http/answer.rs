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
    Large { parts: Box<Answer>, _room: Room },
}

/// An answer, and a guard that is held until all of it has been sent.
pub(crate) struct Sent {
    answer: Answer,
    _guard: Option<TaskGuard>,
}

impl Answer {
    /// Holds the guard until the answer has been sent. An answer that follows a running invocation does not, as it may take
    /// arbitrarily long.
    pub(crate) fn sent_under(self, guard: TaskGuard) -> Sent {
        let goes_on = matches!(self, Answer::Stream(_));
        Sent { answer: self, _guard: (!goes_on).then_some(guard) }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.answer).poll_frame(cx)
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
            Answer::Large { parts, .. } => return Pin::new(&mut **parts).poll_frame(cx),
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
