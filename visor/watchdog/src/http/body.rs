//! Bodies: of requests as they arrive, of answers as they leave.
//!
//! A small body stays in memory. A larger one goes into a memory file as it arrives, chunk by chunk, and that file is
//! what the workflow's process is given: the body is never in this process's memory as a whole. Results come and go the
//! same way.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_ENCODING, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use nix::sys::memfd::{MFdFlags, memfd_create};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout_at};

use crate::http::error::Refusal;
use crate::settings::Pace;
use crate::task_tracker::Guard;
use monohull_worker::Data;

/// What is larger is kept in a memory file: making one costs more than copying this much.
pub(crate) const SMALL: u64 = 64 << 10;
/// How much of a file is read at a time.
const CHUNK: u64 = 64 << 10;

/// Bytes that came from outside: a request's body, or a result.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Small(Bytes),
    Large(Large),
}

/// Bytes in a memory file.
#[derive(Clone, Debug)]
pub(crate) struct Large {
    pub(crate) file: Arc<File>,
    pub(crate) len: u64,
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Content::Small(bytes) => bytes.len() as u64,
            Content::Large(large) => large.len,
        }
    }

    /// All of it in memory: for what has to be looked at as a whole.
    pub(crate) fn read(&self) -> io::Result<Bytes> {
        match self {
            Content::Small(bytes) => Ok(bytes.clone()),
            Content::Large(large) => {
                let mut bytes = vec![0; large.len as usize];
                large.file.read_exact_at(&mut bytes, 0)?;
                Ok(bytes.into())
            }
        }
    }

    /// Writes all of it, a part at a time.
    pub(crate) fn write_to(&self, to: &mut dyn Write) -> io::Result<()> {
        let large = match self {
            Content::Small(bytes) => return to.write_all(bytes),
            Content::Large(large) => large,
        };
        let mut chunk = vec![0; CHUNK.min(large.len) as usize];
        let mut at = 0;
        while at < large.len {
            let part = &mut chunk[..CHUNK.min(large.len - at) as usize];
            large.file.read_exact_at(part, at)?;
            to.write_all(part)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// A copy of these bytes.
    pub(crate) fn of_bytes(bytes: &[u8]) -> io::Result<Content> {
        if bytes.len() as u64 <= SMALL {
            return Ok(Content::Small(Bytes::copy_from_slice(bytes)));
        }
        let mut file = memory_file()?;
        file.write_all(bytes)?;
        Ok(Content::Large(Large { file: Arc::new(file), len: bytes.len() as u64 }))
    }

    /// What a workflow's process left in an output slot. Its files are sealed, so their length stays.
    pub(crate) fn of_output(data: Data) -> io::Result<Content> {
        let file = match data {
            Data::Bytes(bytes) => return Ok(Content::Small(bytes.into())),
            Data::File(file) => File::from(file),
        };
        let len = file.metadata()?.len();
        let content = Content::Large(Large { file: Arc::new(file), len });
        if len <= SMALL { Ok(Content::Small(content.read()?)) } else { Ok(content) }
    }

    /// The same for an input slot.
    pub(crate) fn into_input(self) -> io::Result<Data> {
        match self {
            Content::Small(bytes) => Ok(Data::Bytes(bytes.into())),
            Content::Large(large) => match Arc::try_unwrap(large.file) {
                Ok(file) => Ok(Data::File(file.into())),
                Err(shared) => shared.try_clone().map(|file| Data::File(file.into())),
            },
        }
    }
}

/// The memory that all large bodies together may take: of requests that arrive, wait, or run.
pub(crate) struct Budget {
    room: Arc<Semaphore>,
    /// All of it.
    bytes: u64,
}

impl Budget {
    /// So many bytes.
    pub(crate) fn new(bytes: u64) -> Budget {
        let permits = (bytes / SMALL).min(Semaphore::MAX_PERMITS as u64);
        Budget { room: Arc::new(Semaphore::new(permits as usize)), bytes: permits * SMALL }
    }
}

/// A body that has arrived.
pub(crate) struct Received {
    pub(crate) content: Content,
    /// Its part of the budget, to be kept as long as the content is somewhere.
    pub(crate) hold: Hold,
}

/// A part of the budget.
#[derive(Default)]
pub(crate) struct Hold(Option<OwnedSemaphorePermit>);

impl Hold {
    /// Makes it cover so many bytes.
    fn cover(&mut self, bytes: u64, budget: &Budget) -> Result<(), Refusal> {
        let has = self.0.as_ref().map_or(0, |hold| hold.num_permits() as u64);
        let lacks = u32::try_from(bytes.div_ceil(SMALL).saturating_sub(has)).unwrap_or(u32::MAX);
        if lacks == 0 {
            return Ok(());
        }
        let Ok(more) = budget.room.clone().try_acquire_many_owned(lacks) else {
            return Err(Refusal::full("bodies of other requests take all the memory there is for them", 1));
        };
        match &mut self.0 {
            Some(hold) => hold.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }
}

/// Takes in a request's body: no more than `limit` bytes of it, no slower than `pace`, and only as much as `budget` has
/// room for.
pub(crate) async fn receive(
    headers: &HeaderMap,
    mut body: Incoming,
    limit: u64,
    pace: &Pace,
    budget: &Budget,
) -> Result<Received, Refusal> {
    if let Some(coding) = headers.get_all(CONTENT_ENCODING).iter().find(|coding| *coding != "identity") {
        return Err(Refusal::unsupported(format!("Content-Encoding {coding:?} is not understood")));
    }
    let is_chunked = |coding: &&HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if let Some(coding) = headers.get_all(TRANSFER_ENCODING).iter().find(|coding| !is_chunked(coding)) {
        return Err(Refusal::unsupported(format!("Transfer-Encoding {coding:?} is not understood")));
    }
    // One that the budget never has room for need not be tried again later. Small ones do not need any.
    let limit = limit.min(budget.bytes.max(SMALL));
    let announced = body.size_hint().lower();
    if announced > limit {
        return Err(Refusal::too_large("the body", limit));
    }
    let mut intake = Intake::new(announced).map_err(no_room)?;
    let mut hold = Hold::default();
    let begin = Instant::now();
    loop {
        let pause = Instant::now() + pace.pause;
        let average = begin + pace.pause + Duration::from_secs(intake.len / pace.rate.max(1));
        let Ok(frame) = timeout_at(pause.min(average), body.frame()).await else {
            return Err(Refusal::too_slow("the body comes too slowly"));
        };
        let Some(frame) = frame else { return Ok(Received { content: intake.into_content(), hold }) };
        let frame = frame.map_err(|error| Refusal::bad_request(format!("the body cannot be read: {error}")))?;
        // Trailers carry nothing we know.
        let Ok(data) = frame.into_data() else { continue };
        if intake.len + data.len() as u64 > limit {
            return Err(Refusal::too_large("the body", limit));
        }
        if intake.len + data.len() as u64 > SMALL {
            hold.cover(intake.len + data.len() as u64, budget)?;
        }
        intake.take(data).map_err(no_room)?;
    }
}

fn no_room(error: io::Error) -> Refusal {
    Refusal::host(format!("there is no room for the body: {error}"))
}

/// A body on its way in.
struct Intake {
    len: u64,
    memory: BytesMut,
    file: Option<File>,
}

impl Intake {
    fn new(announced: u64) -> io::Result<Intake> {
        let file = if announced > SMALL { Some(memory_file()?) } else { None };
        Ok(Intake { len: 0, memory: BytesMut::with_capacity(announced.min(SMALL) as usize), file })
    }

    fn take(&mut self, data: Bytes) -> io::Result<()> {
        self.len += data.len() as u64;
        if self.file.is_none() && self.len > SMALL {
            let mut file = memory_file()?;
            file.write_all(&std::mem::take(&mut self.memory))?;
            self.file = Some(file);
        }
        match &mut self.file {
            Some(file) => file.write_all(&data),
            None => {
                self.memory.extend_from_slice(&data);
                Ok(())
            }
        }
    }

    fn into_content(self) -> Content {
        match self.file {
            Some(file) => Content::Large(Large { file: Arc::new(file), len: self.len }),
            None => Content::Small(self.memory.freeze()),
        }
    }
}

fn memory_file() -> io::Result<File> {
    let fd = memfd_create(c"monohull-body", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
    Ok(File::from(fd))
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Bytes in memory.
    Whole(Bytes),
    /// A part of a memory file that has not been sent.
    File { file: Arc<File>, at: u64, end: u64 },
    /// What somebody writes while the client reads.
    Stream(mpsc::Receiver<Bytes>),
}

/// An answer, and what is held until all of it has been given to whoever sends it.
pub(crate) struct Sent {
    answer: Answer,
    _guard: Option<Guard>,
}

impl Answer {
    /// Holds the guard until it has been sent. What follows something that goes on does not: that may go on for ever.
    pub(crate) fn sent_under(self, guard: Guard) -> Sent {
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
        };
        Poll::Ready(next.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Answer::Whole(bytes) => bytes.is_empty(),
            Answer::File { at, end, .. } => at == end,
            Answer::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Answer::File { at, end, .. } => SizeHint::with_exact(end - at),
            Answer::Stream(_) => SizeHint::default(),
        }
    }
}
