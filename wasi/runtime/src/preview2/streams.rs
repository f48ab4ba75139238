//! `wasi:io/streams` and `wasi:io/error`: the standard streams, files that are read or written from a position on, and the contents
//! of HTTP messages.
//!
//! A read waits for the standard input and for what a server sends, and for nothing else; every write has reached the file system when it returns. So what blocks
//! and what does not are the same here.

use super::content::{Sink, Source};
use super::poll::Pollable;
use super::types::{StreamError, StreamFailure};
use super::{Caller, State, resource};
use crate::descriptors::Descriptor;
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
    /// The content of a message.
    Body(Source),
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
    /// The content of a message.
    Body(Sink),
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
    /// At most so many bytes.
    fn read(&mut self, len: u64) -> Answer<Vec<u8>, End> {
        let mut buffer = vec![0; len.min(READ_MAX) as usize];
        let bytes = match self {
            _ if len == 0 => return Ok(buffer),
            InputStream::Stdin => files::read_input(&mut buffer)?,
            InputStream::File(descriptor, position) => {
                let bytes = files::read_at(descriptor.file()?, &mut buffer, *position)?;
                *position = position.saturating_add(bytes);
                bytes as usize
            }
            InputStream::Body(source) => source.read(&mut buffer)?,
        };
        buffer.truncate(bytes);
        if buffer.is_empty() { Err(End::Closed) } else { Ok(buffer) }
    }
}

impl OutputStream {
    /// Writes all of the bytes.
    fn write(&mut self, mut bytes: &[u8]) -> Answer<(), End> {
        while !bytes.is_empty() {
            let written = match self {
                OutputStream::Output(stream) => files::write_output(*stream, bytes)?,
                OutputStream::File(descriptor, position) => {
                    let written = files::write_at(descriptor.file()?, bytes, *position)?;
                    *position = position.saturating_add(written);
                    written
                }
                OutputStream::Append(descriptor) => append(descriptor.file()?, bytes)?,
                OutputStream::Body(sink) => match sink.write(bytes) {
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
fn append(file: u64, bytes: &[u8]) -> Answer<u64, WasiError> {
    files::set_append(file, true)?;
    let written = files::write_at(file, bytes, AT_POSITION);
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
    for name in ["[method]input-stream.read", "[method]input-stream.blocking-read"] {
        streams.func_wrap(name, |mut caller: Caller<'_>, (this, len): (Resource<InputStream>, u64)| {
            let state = caller.data_mut();
            let bytes = state.table.get_mut(&this)?.read(len);
            answer(state, bytes)
        })?;
    }
    for name in ["[method]input-stream.skip", "[method]input-stream.blocking-skip"] {
        streams.func_wrap(name, |mut caller: Caller<'_>, (this, len): (Resource<InputStream>, u64)| {
            let state = caller.data_mut();
            let bytes = state.table.get_mut(&this)?.read(len);
            answer(state, bytes.map(|bytes| bytes.len() as u64))
        })?;
    }
    streams.func_wrap("[method]input-stream.subscribe", |mut caller: Caller<'_>, (this,): (Resource<InputStream>,)| {
        let table = &mut caller.data_mut().table;
        let pollable = match table.get(&this)? {
            InputStream::Stdin => Pollable::Input,
            InputStream::File(..) | InputStream::Body(_) => Pollable::Ready,
        };
        Ok((table.push(pollable)?,))
    })
}

fn output(streams: &mut LinkerInstance<'_, State>) -> Result<()> {
    resource::<OutputStream>(streams, "output-stream")?;
    streams
        .func_wrap("[method]output-stream.check-write", |mut caller: Caller<'_>, (_,): (Resource<OutputStream>,)| {
            answer(caller.data_mut(), Ok(WRITE_MAX))
        })?;
    for name in ["[method]output-stream.write", "[method]output-stream.blocking-write-and-flush"] {
        streams.func_wrap(name, |mut caller: Caller<'_>, (this, bytes): (Resource<OutputStream>, WasmList<u8>)| {
            // The bytes lie in the program's memory, which is the caller's, as the table is.
            let mut stream = caller.data().table.get(&this)?.clone();
            let written = stream.write(bytes.as_le_slice(&caller));
            *caller.data_mut().table.get_mut(&this)? = stream;
            answer(caller.data_mut(), written)
        })?;
    }
    for name in ["[method]output-stream.write-zeroes", "[method]output-stream.blocking-write-zeroes-and-flush"] {
        streams.func_wrap(name, |mut caller: Caller<'_>, (this, len): (Resource<OutputStream>, u64)| {
            ensure!(len <= WRITE_MAX, "a stream was told to write {len} zeros, and takes {WRITE_MAX} bytes");
            let state = caller.data_mut();
            let written = state.table.get_mut(&this)?.write_zeros(len);
            answer(state, written)
        })?;
    }
    for name in ["[method]output-stream.flush", "[method]output-stream.blocking-flush"] {
        streams.func_wrap(name, |mut caller: Caller<'_>, (_,): (Resource<OutputStream>,)| {
            answer(caller.data_mut(), Ok(()))
        })?;
    }
    for name in ["[method]output-stream.splice", "[method]output-stream.blocking-splice"] {
        streams.func_wrap(
            name,
            |mut caller: Caller<'_>, (this, from, len): (Resource<OutputStream>, Resource<InputStream>, u64)| {
                let state = caller.data_mut();
                let moved = match state.table.get_mut(&from)?.read(len) {
                    Ok(bytes) => state.table.get_mut(&this)?.write(&bytes).map(|()| bytes.len() as u64),
                    Err(end) => Err(end),
                };
                answer(state, moved)
            },
        )?;
    }
    streams.func_wrap("[method]output-stream.subscribe", |mut caller: Caller<'_>, (_,): (Resource<OutputStream>,)| {
        Ok((caller.data_mut().table.push(Pollable::Ready)?,))
    })
}
