//! `wasi:io/streams` and `wasi:io/error`: the standard streams, files that are read or written from a position on, the contents
//! of HTTP messages, and connections.
//!
//! Any read waits for the standard input and for what a server sends, and for nothing else; every write has reached the file system when it returns. So what blocks
//! and what does not are the same for these. They differ for a connection ([`super::connection`]).

use super::connection::Connection;
use super::content::{Sink, Source};
use super::poll::Pollable;
use super::readiness::Readable;
use super::types::{StreamError, StreamFailure};
use super::{Caller, State, resource};
use crate::descriptors::{Descriptor, Device};
use crate::errno::WasiError;
use crate::files;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::result::Result as Answer;
use monohull_abi::file::AT_POSITION;
use wasmtime::component::{Linker, LinkerInstance, Resource, WasmList};
use wasmtime::{Result, ensure};

/// Most bytes that one read gives.
pub(super) const READ_MAX: u64 = 64 << 10;
/// Bytes that a stream says it takes, and most zeros that it writes.
const WRITE_MAX: u64 = 1 << 20;
/// Zeros that are written together.
const ZEROS: [u8; 4096] = [0; 4096];

/// Where bytes come from.
#[derive(Clone)]
pub(super) enum InputStream {
    /// The slot that is the standard input.
    Stdin,
    /// A file, from a position on.
    File(Arc<Descriptor>, u64),
    /// A device.
    Device(Device),
    /// The content of a message.
    Body(Source),
    /// What the peer of a connection sends.
    Connection(Arc<Connection>),
}

/// Where bytes go.
#[derive(Clone)]
pub(super) enum OutputStream {
    /// Standard output (1) or error (2).
    Output(u64),
    /// A file, from a position on.
    File(Arc<Descriptor>, u64),
    /// The end of a file.
    Append(Arc<Descriptor>),
    /// A device, which takes everything.
    Device,
    /// The content of a message.
    Body(Sink),
    /// To the peer of a connection.
    Connection(Arc<Connection>),
}

/// Why there are no bytes.
enum End {
    Failed(WasiError),
    Closed,
}

impl From<WasiError> for End {
    fn from(error: WasiError) -> End {
        End::Failed(error)
    }
}

impl InputStream {
    /// At most so many bytes. There may be none yet where the stream does not wait.
    fn read(&mut self, len: u64, waits: bool) -> Answer<Vec<u8>, End> {
        let mut buffer = vec![0; len.min(READ_MAX) as usize];
        let bytes = match self {
            _ if len == 0 => return Ok(buffer),
            InputStream::Stdin => files::read_input(&mut buffer)?,
            InputStream::File(descriptor, position) => {
                let bytes = files::read_at(descriptor.file()?, &mut buffer, *position)?;
                *position = position.saturating_add(bytes);
                bytes as usize
            }
            InputStream::Device(device) => device.read(&mut buffer),
            InputStream::Body(source) => source.read(&mut buffer)?,
            InputStream::Connection(connection) => match connection.read(&mut buffer, waits)? {
                Some(bytes) => bytes,
                None => return Ok(vec![]),
            },
        };
        buffer.truncate(bytes);
        if buffer.is_empty() { Err(End::Closed) } else { Ok(buffer) }
    }
}

impl OutputStream {
    /// How many bytes it takes.
    fn room(&self) -> Answer<u64, End> {
        match self {
            OutputStream::Connection(connection) => connection.room()?.ok_or(End::Closed),
            _ => Ok(WRITE_MAX),
        }
    }

    /// Whether it takes so many bytes; one that fails or is closed says so when it is written to.
    fn takes(&self, len: u64) -> bool {
        match self {
            OutputStream::Connection(_) => self.room().map_or(true, |room| len <= room),
            _ => true,
        }
    }

    /// All that was written is on its way. Waits for that, or does not.
    fn flush(&self, waits: bool) -> Answer<(), End> {
        match self {
            OutputStream::Connection(connection) if waits => Ok(connection.flush()?),
            _ => self.room().map(drop),
        }
    }

    /// Writes all of the bytes.
    fn write(&mut self, mut bytes: &[u8]) -> Answer<(), End> {
        while !bytes.is_empty() {
            let written = match self {
                OutputStream::Output(stream) => files::write_output(*stream, bytes)?,
                OutputStream::File(descriptor, position) => {
                    let written = files::write_at(descriptor, bytes, *position)?;
                    *position = position.saturating_add(written);
                    written
                }
                OutputStream::Append(descriptor) => append(descriptor, bytes)?,
                OutputStream::Device => bytes.len() as u64,
                OutputStream::Body(sink) => match sink.write(bytes) {
                    true => bytes.len() as u64,
                    false => return Err(End::Closed),
                },
                OutputStream::Connection(connection) => match connection.write(bytes)? {
                    true => bytes.len() as u64,
                    false => return Err(End::Closed),
                },
            };
            bytes = bytes.get(written as usize..).filter(|_| written > 0).ok_or(WasiError::IO)?;
        }
        Ok(())
    }

    fn write_zeros(&mut self, mut len: u64) -> Answer<(), End> {
        while len > 0 {
            let part = len.min(ZEROS.len() as u64);
            self.write(&ZEROS[..part as usize])?;
            len -= part;
        }
        Ok(())
    }
}

/// Writes to the end of a file. Other streams of the same file have positions, so it is not opened for that.
fn append(descriptor: &Descriptor, bytes: &[u8]) -> Answer<u64, WasiError> {
    let file = descriptor.file()?;
    files::set_append(file, true)?;
    let written = files::write_at(descriptor, bytes, AT_POSITION);
    files::set_append(file, false)?;
    written
}

/// A result as a program gets it.
fn answer<T>(state: &mut State, result: Answer<T, End>) -> Result<(Answer<T, StreamError>,)> {
    Ok((match result {
        Ok(value) => Ok(value),
        Err(End::Closed) => Err(StreamError::Closed),
        Err(End::Failed(error)) => Err(StreamError::Failed(state.table.push(StreamFailure(error))?)),
    },))
}

pub(super) fn link(linker: &mut Linker<State>) -> Result<()> {
    let mut error = linker.instance("wasi:io/error@0.2.0")?;
    resource::<StreamFailure>(&mut error, "error")?;
    error.func_wrap("[method]error.to-debug-string", |caller: Caller<'_>, (this,): (Resource<StreamFailure>,)| {
        Ok((caller.data().table.get(&this)?.0.to_string(),))
    })?;
    let mut streams = linker.instance("wasi:io/streams@0.2.0")?;
    input(&mut streams)?;
    output(&mut streams)
}

fn input(streams: &mut LinkerInstance<'_, State>) -> Result<()> {
    resource::<InputStream>(streams, "input-stream")?;
    for (name, waits) in [("[method]input-stream.read", false), ("[method]input-stream.blocking-read", true)] {
        streams.func_wrap(name, move |mut caller: Caller<'_>, (this, len): (Resource<InputStream>, u64)| {
            let state = caller.data_mut();
            let bytes = state.table.get_mut(&this)?.read(len, waits);
            answer(state, bytes)
        })?;
    }
    for (name, waits) in [("[method]input-stream.skip", false), ("[method]input-stream.blocking-skip", true)] {
        streams.func_wrap(name, move |mut caller: Caller<'_>, (this, len): (Resource<InputStream>, u64)| {
            let state = caller.data_mut();
            let bytes = state.table.get_mut(&this)?.read(len, waits);
            answer(state, bytes.map(|bytes| bytes.len() as u64))
        })?;
    }
    streams.func_wrap("[method]input-stream.subscribe", |mut caller: Caller<'_>, (this,): (Resource<InputStream>,)| {
        let table = &mut caller.data_mut().table;
        let pollable = match table.get(&this)? {
            InputStream::Stdin => Pollable::Input,
            InputStream::File(..) | InputStream::Device(_) | InputStream::Body(_) => Pollable::Ready,
            InputStream::Connection(connection) => {
                Pollable::Socket(Arc::new(Readable(Arc::clone(connection.socket()))))
            }
        };
        Ok((table.push(pollable)?,))
    })
}

fn output(streams: &mut LinkerInstance<'_, State>) -> Result<()> {
    resource::<OutputStream>(streams, "output-stream")?;
    streams.func_wrap(
        "[method]output-stream.check-write",
        |mut caller: Caller<'_>, (this,): (Resource<OutputStream>,)| {
            let state = caller.data_mut();
            let room = state.table.get(&this)?.room();
            answer(state, room)
        },
    )?;
    for (name, waits) in
        [("[method]output-stream.write", false), ("[method]output-stream.blocking-write-and-flush", true)]
    {
        streams.func_wrap(
            name,
            move |mut caller: Caller<'_>, (this, bytes): (Resource<OutputStream>, WasmList<u8>)| {
                // The bytes lie in the program's memory, which is the caller's, as the table is.
                let mut stream = caller.data().table.get(&this)?.clone();
                let bytes = bytes.as_le_slice(&caller);
                let written = written(&mut stream, bytes.len() as u64, waits, |stream| stream.write(bytes))?;
                *caller.data_mut().table.get_mut(&this)? = stream;
                answer(caller.data_mut(), written)
            },
        )?;
    }
    for (name, waits) in
        [("[method]output-stream.write-zeroes", false), ("[method]output-stream.blocking-write-zeroes-and-flush", true)]
    {
        streams.func_wrap(name, move |mut caller: Caller<'_>, (this, len): (Resource<OutputStream>, u64)| {
            ensure!(len <= WRITE_MAX, "a stream was told to write {len} zeros, and takes {WRITE_MAX} bytes");
            let state = caller.data_mut();
            let stream = state.table.get_mut(&this)?;
            let written = written(stream, len, waits, |stream| stream.write_zeros(len))?;
            answer(state, written)
        })?;
    }
    for (name, waits) in [("[method]output-stream.flush", false), ("[method]output-stream.blocking-flush", true)] {
        streams.func_wrap(name, move |mut caller: Caller<'_>, (this,): (Resource<OutputStream>,)| {
            let state = caller.data_mut();
            let flushed = state.table.get(&this)?.flush(waits);
            answer(state, flushed)
        })?;
    }
    for (name, waits) in [("[method]output-stream.splice", false), ("[method]output-stream.blocking-splice", true)] {
        streams.func_wrap(
            name,
            move |mut caller: Caller<'_>, (this, from, len): (Resource<OutputStream>, Resource<InputStream>, u64)| {
                let state = caller.data_mut();
                let to = state.table.get(&this)?;
                let room = if waits { to.flush(true) } else { Ok(()) }.and_then(|()| to.room());
                let moved = match room {
                    Ok(room) => state.table.get_mut(&from)?.read(len.min(room), waits),
                    Err(end) => Err(end),
                };
                let moved = match moved {
                    Ok(bytes) => state.table.get_mut(&this)?.write(&bytes).map(|()| bytes.len() as u64),
                    Err(end) => Err(end),
                };
                answer(state, moved)
            },
        )?;
    }
    streams.func_wrap(
        "[method]output-stream.subscribe",
        |mut caller: Caller<'_>, (this,): (Resource<OutputStream>,)| {
            let table = &mut caller.data_mut().table;
            let pollable = match table.get(&this)? {
                OutputStream::Connection(connection) => Pollable::Socket(Arc::clone(connection) as _),
                _ => Pollable::Ready,
            };
            Ok((table.push(pollable)?,))
        },
    )
}

/// Writes so many bytes, and waits until they are on their way where the program wants that. Where it does not, the stream must have said
/// before that it takes so many.
fn written(
    stream: &mut OutputStream,
    len: u64,
    waits: bool,
    write: impl FnOnce(&mut OutputStream) -> Answer<(), End>,
) -> Result<Answer<(), End>> {
    if waits && let Err(end) = stream.flush(true) {
        return Ok(Err(end));
    }
    ensure!(stream.takes(len), "a stream was told to write {len} bytes, and does not take as many (`check-write`)");
    Ok(write(stream).and_then(|()| if waits { stream.flush(true) } else { Ok(()) }))
}
