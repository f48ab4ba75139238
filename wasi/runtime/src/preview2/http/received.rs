//! Answers as they come over a connection (RFC 9112): the head, and the content by its length, in chunks, or to the end of the connection.
//!
//! A server's bytes decide nothing but what the program reads. Heads and lines have limits; a content has none, because it is read piece by piece.

use super::super::content::{Content, Source};
use super::fields::Fields;
use super::types::ErrorCode;
use crate::errno::WasiError;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::result::Result as Answer;
use monohull_std::io::{ErrorKind, Read};
use monohull_std::net::TcpStream;
use monohull_std::sync::Mutex;
use monohull_std::time::{Duration, Instant};

/// The most bytes of a head, and fields of it.
const HEAD_MAX: usize = 64 << 10;
const FIELDS_MAX: usize = 256;
/// The most heads that are there before the answer itself (1xx).
const INTERIM_MAX: usize = 8;
/// The most bytes of the line before a chunk, or of all lines after the last one.
const LINE_MAX: usize = 4096;
const TRAILERS_MAX: usize = 16 << 10;
/// Bytes that are read together.
const AHEAD: usize = 8 << 10;

/// A connection, and what was read of it and not used yet.
pub(super) struct Connection {
    stream: TcpStream,
    ahead: Vec<u8>,
    at: usize,
}

/// What comes before the content.
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) fields: Fields,
    length: Length,
}

/// How long a content is.
#[derive(Clone, Copy)]
enum Length {
    Known(u64),
    /// Bytes that are left of a chunk, and whether there was one before.
    Chunks(u64, bool),
    ToTheEnd,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Connection {
        Connection { stream, ahead: Vec::new(), at: 0 }
    }

    fn rest(&self) -> &[u8] {
        &self.ahead[self.at..]
    }

    /// Reads what comes, behind what is there already: how much.
    fn more(&mut self) -> Answer<usize, ErrorKind> {
        self.ahead.drain(..self.at);
        self.at = 0;
        let before = self.ahead.len();
        self.ahead.resize(before + AHEAD, 0);
        let read = retried(|| self.stream.read(&mut self.ahead[before..]));
        self.ahead.truncate(before + *read.as_ref().unwrap_or(&0));
        read
    }

    /// Reads into a buffer.
    fn read(&mut self, buffer: &mut [u8]) -> Answer<usize, WasiError> {
        if self.rest().is_empty() {
            return retried(|| self.stream.read(buffer)).map_err(number);
        }
        let length = self.rest().len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.ahead[self.at..][..length]);
        self.at += length;
        Ok(length)
    }

    /// A line without its end.
    fn line(&mut self, most: usize) -> Answer<Vec<u8>, WasiError> {
        loop {
            if let Some(end) = self.rest().iter().position(|byte| *byte == b'\n') {
                let line = self.rest()[..end].to_vec();
                self.at += end + 1;
                return Ok(line.strip_suffix(b"\r").map(<[u8]>::to_vec).unwrap_or(line));
            }
            if self.rest().len() > most {
                return Err(WasiError::ILSEQ);
            }
            if self.more().map_err(number)? == 0 {
                return Err(WasiError::CONNRESET);
            }
        }
    }
}

/// Repeats what was interrupted.
fn retried(mut read: impl FnMut() -> monohull_std::io::Result<usize>) -> Answer<usize, ErrorKind> {
    loop {
        match read().map_err(|error| error.kind()) {
            Err(ErrorKind::Interrupted) => {}
            other => return other,
        }
    }
}

/// The number that a program gets of an error, of which the stream of a file has none.
fn number(error: ErrorKind) -> WasiError {
    match error {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => WasiError::TIMEDOUT,
        _ => WasiError::CONNRESET,
    }
}

/// Reads the head of an answer, within a time.
pub(super) fn head(connection: &mut Connection, time: Option<Duration>) -> Answer<Head, ErrorCode> {
    let end = time.and_then(|time| Instant::now().checked_add(time));
    for _ in 0..INTERIM_MAX {
        let length = whole_head(connection, end)?;
        let head = parsed(&connection.rest()[..length])?;
        connection.at += length;
        match head.status {
            101 => return Err(ErrorCode::HttpUpgradeFailed),
            100..200 => {}
            200..600 => return Ok(head),
            _ => break,
        }
    }
    Err(ErrorCode::HttpProtocolError)
}

/// Reads until an empty line: how long the head is.
fn whole_head(connection: &mut Connection, end: Option<Instant>) -> Answer<usize, ErrorCode> {
    let mut seen = 0;
    loop {
        let rest = connection.rest();
        // An empty line may be half read.
        let from = usize::saturating_sub(seen, 3);
        let is_end = |at: &usize| rest[*at..].starts_with(b"\n\r\n") || rest[*at..].starts_with(b"\n\n");
        if let Some(at) = (from..rest.len()).find(is_end) {
            return Ok(at + if rest[at + 1] == b'\r' { 3 } else { 2 });
        }
        seen = rest.len();
        if seen > HEAD_MAX {
            return Err(ErrorCode::HttpResponseHeaderSectionSize(Some(seen as u32)));
        }
        let left = end.map(|end| end.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1)));
        if connection.stream.set_read_timeout(left).is_err() {
            return Err(ErrorCode::ConnectionTerminated);
        }
        match connection.more() {
            Ok(0) if seen == 0 => return Err(ErrorCode::ConnectionTerminated),
            Ok(0) => return Err(ErrorCode::HttpResponseIncomplete),
            Ok(_) => {}
            Err(ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Err(ErrorCode::HttpResponseTimeout),
            Err(_) => return Err(ErrorCode::ConnectionTerminated),
        }
    }
}

fn parsed(bytes: &[u8]) -> Answer<Head, ErrorCode> {
    let mut fields = vec![httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut fields);
    match head.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err(ErrorCode::HttpResponseHeaderSectionSize(None)),
        _ => return Err(ErrorCode::HttpProtocolError),
    }
    Ok(Head {
        status: head.code.unwrap_or(0),
        length: length_of(head.version, head.headers)?,
        fields: Fields::of_message(head.headers.iter().map(|field| (field.name, field.value))),
    })
}

/// How long the content is that follows a head. What could be read in two ways is refused.
fn length_of(version: Option<u8>, fields: &[httparse::Header<'_>]) -> Answer<Length, ErrorCode> {
    let values = |name: &'static str| {
        let named = fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| field.value.trim_ascii())
    };
    let mut lengths = values("content-length");
    let length = lengths.next();
    if lengths.any(|other| Some(other) != length) {
        return Err(ErrorCode::HttpProtocolError);
    }
    let mut codings = values("transfer-encoding");
    match (codings.next(), codings.next(), length) {
        (None, _, None) => Ok(Length::ToTheEnd),
        (None, _, Some(length)) => {
            let is_number = !length.is_empty() && length.iter().all(u8::is_ascii_digit);
            let number = core::str::from_utf8(length).ok().filter(|_| is_number).and_then(|length| length.parse().ok());
            number.map(Length::Known).ok_or(ErrorCode::HttpProtocolError)
        }
        (Some(coding), None, None) if coding.eq_ignore_ascii_case(b"chunked") && version == Some(1) => {
            Ok(Length::Chunks(0, false))
        }
        (Some(coding), _, None) => {
            let coding = String::from_utf8_lossy(coding).into_owned();
            Err(ErrorCode::HttpResponseTransferCoding(Some(coding)))
        }
        (Some(_), _, Some(_)) => Err(ErrorCode::HttpProtocolError),
    }
}

/// The content that follows a head, each part of which comes within a time.
pub(super) fn content(
    connection: Connection,
    head: &Head,
    is_without: bool,
    time: Option<Duration>,
) -> Answer<Source, ErrorCode> {
    if is_without || matches!(head.status, 204 | 304) || matches!(head.length, Length::Known(0)) {
        return Ok(Source::Empty);
    }
    connection.stream.set_read_timeout(time).map_err(|_| ErrorCode::ConnectionTerminated)?;
    let body = Body { connection, length: head.length, end: None };
    Ok(Source::Network(Arc::new(Mutex::new(body))))
}

/// The content of an answer.
struct Body {
    connection: Connection,
    length: Length,
    /// How it has ended.
    end: Option<Answer<usize, WasiError>>,
}

impl Content for Body {
    fn read(&mut self, buffer: &mut [u8]) -> Answer<usize, WasiError> {
        if let Some(end) = self.end {
            return end;
        }
        let read = self.part(buffer);
        if !matches!(read, Ok(1..)) {
            self.end = Some(read);
        }
        read
    }
}

impl Body {
    fn part(&mut self, buffer: &mut [u8]) -> Answer<usize, WasiError> {
        if let Length::Chunks(0, was_before) = self.length {
            let next = self.next_chunk(was_before)?;
            if next == 0 {
                return Ok(0);
            }
            self.length = Length::Chunks(next, true);
        }
        let left = match &mut self.length {
            Length::ToTheEnd => return self.connection.read(buffer),
            Length::Known(0) => return Ok(0),
            Length::Known(left) | Length::Chunks(left, _) => left,
        };
        let most = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
        match self.connection.read(&mut buffer[..most])? {
            // It should have been longer.
            0 => Err(WasiError::CONNRESET),
            read => {
                *left -= read as u64;
                Ok(read)
            }
        }
    }

    /// How long the next chunk is; 0 at the end, behind the trailers.
    fn next_chunk(&mut self, was_before: bool) -> Answer<u64, WasiError> {
        if was_before && !self.connection.line(LINE_MAX)?.is_empty() {
            return Err(WasiError::ILSEQ);
        }
        let line = self.connection.line(LINE_MAX)?;
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(WasiError::ILSEQ);
        }
        let digits = core::str::from_utf8(digits).map_err(|_| WasiError::ILSEQ)?;
        let length = u64::from_str_radix(digits, 16).map_err(|_| WasiError::ILSEQ)?;
        if length == 0 {
            self.pass_trailers()?;
        }
        Ok(length)
    }

    /// Passes over the lines up to an empty one.
    fn pass_trailers(&mut self) -> Answer<(), WasiError> {
        let mut room = TRAILERS_MAX;
        loop {
            let trailer = self.connection.line(room)?;
            if trailer.is_empty() {
                return Ok(());
            }
            room = room.checked_sub(trailer.len()).ok_or(WasiError::ILSEQ)?;
        }
    }
}
