//! The contents of messages: of those that have come, which are read, and of those that are made, which are written.

use super::super::content::{Sink, Source};
use super::super::poll::Pollable;
use super::super::streams::{InputStream, OutputStream};
use super::super::{Caller, State, resource};
use super::fields::Fields;
use super::types::ErrorCode;
use core::result::Result as Answer;
use wasmtime::Result;
use wasmtime::component::{LinkerInstance, Resource};

/// The content of a message that has come.
pub(super) struct IncomingBody(pub(super) Option<Source>);

/// Trailers, which no message has.
struct FutureTrailers {
    is_taken: bool,
}

/// The content of a message that is made.
pub(super) struct OutgoingBody {
    /// Until the stream is asked for.
    stream: Option<Sink>,
    sink: Sink,
    /// How long it is said to be.
    length: Option<u64>,
    /// The error if it is not.
    wrong: fn(Option<u64>) -> ErrorCode,
}

impl OutgoingBody {
    /// Of an answer with these fields.
    pub(super) fn of_answer(sink: Sink, fields: &Fields) -> OutgoingBody {
        OutgoingBody::new(sink, fields, ErrorCode::HttpResponseBodySize)
    }

    /// Of a request with these fields.
    pub(super) fn of_request(sink: Sink, fields: &Fields) -> OutgoingBody {
        OutgoingBody::new(sink, fields, ErrorCode::HttpRequestBodySize)
    }

    fn new(sink: Sink, fields: &Fields, wrong: fn(Option<u64>) -> ErrorCode) -> OutgoingBody {
        let said = fields.values("content-length").next();
        let length = said.and_then(|said| core::str::from_utf8(said).ok()?.trim().parse().ok());
        OutgoingBody { stream: Some(sink.clone()), sink, length, wrong }
    }
}

impl Drop for OutgoingBody {
    fn drop(&mut self) {
        self.sink.drop_unfinished();
    }
}

pub(super) fn link(types: &mut LinkerInstance<'_, State>) -> Result<()> {
    resource::<IncomingBody>(types, "incoming-body")?;
    types.func_wrap("[method]incoming-body.stream", |mut caller: Caller<'_>, (this,): (Resource<IncomingBody>,)| {
        let table = &mut caller.data_mut().table;
        Ok((match table.get_mut(&this)?.0.take() {
            Some(source) => Ok(table.push(InputStream::Body(source))?),
            None => Err(()),
        },))
    })?;
    types.func_wrap("[static]incoming-body.finish", |mut caller: Caller<'_>, (this,): (Resource<IncomingBody>,)| {
        let table = &mut caller.data_mut().table;
        table.delete(this)?;
        Ok((table.push(FutureTrailers { is_taken: false })?,))
    })?;

    resource::<FutureTrailers>(types, "future-trailers")?;
    types.func_wrap(
        "[method]future-trailers.subscribe",
        |mut caller: Caller<'_>, (_,): (Resource<FutureTrailers>,)| {
            Ok((caller.data_mut().table.push(Pollable::Ready)?,))
        },
    )?;
    types.func_wrap(
        "[method]future-trailers.get",
        |mut caller: Caller<'_>, (this,): (Resource<FutureTrailers>,)| {
            let trailers = caller.data_mut().table.get_mut(&this)?;
            let none: Answer<Option<Resource<Fields>>, ErrorCode> = Ok(None);
            let given = if core::mem::replace(&mut trailers.is_taken, true) { Err(()) } else { Ok(none) };
            Ok((Some(given),))
        },
    )?;

    resource::<OutgoingBody>(types, "outgoing-body")?;
    types.func_wrap("[method]outgoing-body.write", |mut caller: Caller<'_>, (this,): (Resource<OutgoingBody>,)| {
        let table = &mut caller.data_mut().table;
        Ok((match table.get_mut(&this)?.stream.take() {
            Some(sink) => Ok(table.push(OutputStream::Body(sink))?),
            None => Err(()),
        },))
    })?;
    types.func_wrap(
        "[static]outgoing-body.finish",
        |mut caller: Caller<'_>, (this, trailers): (Resource<OutgoingBody>, Option<Resource<Fields>>)| {
            let table = &mut caller.data_mut().table;
            if let Some(trailers) = trailers {
                table.delete(trailers)?;
            }
            let body = table.delete(this)?;
            let written = body.sink.len();
            if body.length.is_some_and(|length| length != written) {
                return Ok((Err((body.wrong)(Some(written))),));
            }
            body.sink.finish();
            Ok((Ok(()),))
        },
    )
}
