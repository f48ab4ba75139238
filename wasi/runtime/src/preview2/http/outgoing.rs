//! `outgoing-response` and `response-outparam`, by which a component answers; and requests of its own, which are refused.

use super::super::content::Sink;
use super::super::poll::Pollable;
use super::super::types::StreamFailure;
use super::super::{Caller, State, resource};
use super::RESPONSE;
use super::bodies::{IncomingBody, OutgoingBody};
use super::fields::Fields;
use super::types::{ErrorCode, Method, Scheme};
use crate::slots::publish_parts;
use alloc::format;
use alloc::string::String;
use core::result::Result as Answer;
use wasmtime::component::{LinkerInstance, Resource};
use wasmtime::{Result, format_err};

/// Where a component puts its answer.
pub(super) struct Outparam;

/// An answer.
pub(in crate::preview2) struct Response {
    status: u16,
    fields: Fields,
    /// If it has a content.
    content: Option<Sink>,
}

impl Response {
    /// Publishes it.
    pub(super) fn publish(self) -> Result<()> {
        let content = match &self.content {
            None => None,
            Some(sink) => Some(sink.take().ok_or_else(|| {
                format_err!("the component's `handle` returned before it had finished the answer's body (`outgoing-body.finish`)")
            })?),
        };
        let mut head = format!("HTTP/1.1 {} \r\n", self.status).into_bytes();
        for (name, value) in self.fields.entries() {
            for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        head.extend_from_slice(b"\r\n");
        publish_parts(RESPONSE, &[&head, content.as_deref().unwrap_or_default()])
            .map_err(|error| format_err!("slot `{RESPONSE}` cannot be filled: {error}"))
    }
}

/// A request of the component's own.
struct OutgoingRequest {
    method: Method,
    path: Option<String>,
    scheme: Option<Scheme>,
    authority: Option<String>,
    fields: Fields,
    has_body: bool,
}

/// How long it may take, in ns.
#[derive(Default)]
struct RequestOptions {
    connect: Option<u64>,
    first_byte: Option<u64>,
    between_bytes: Option<u64>,
}

/// What answers would be to requests of the component's own. There are none.
enum IncomingResponse {}
enum FutureIncomingResponse {}

pub(super) fn link(types: &mut LinkerInstance<'_, State>) -> Result<()> {
    responses(types)?;
    requests(types)?;
    options(types)?;
    answers(types)?;
    types.func_wrap("http-error-code", |_: Caller<'_>, (_,): (Resource<StreamFailure>,)| Ok((None::<ErrorCode>,)))
}

/// Answers of the component.
fn responses(types: &mut LinkerInstance<'_, State>) -> Result<()> {
    resource::<Response>(types, "outgoing-response")?;
    types.func_wrap("[constructor]outgoing-response", |mut caller: Caller<'_>, (fields,): (Resource<Fields>,)| {
        let table = &mut caller.data_mut().table;
        let fields = table.delete(fields)?.fixed();
        Ok((table.push(Response { status: 200, fields, content: None })?,))
    })?;
    types
        .func_wrap("[method]outgoing-response.status-code", |caller: Caller<'_>, (this,): (Resource<Response>,)| {
            Ok((caller.data().table.get(&this)?.status,))
        })?;
    types.func_wrap(
        "[method]outgoing-response.set-status-code",
        |mut caller: Caller<'_>, (this, status): (Resource<Response>, u16)| {
            let response = caller.data_mut().table.get_mut(&this)?;
            let is_right = (200..600).contains(&status);
            if is_right {
                response.status = status;
            }
            Ok((is_right.then_some(()).ok_or(()),))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-response.headers",
        |mut caller: Caller<'_>, (this,): (Resource<Response>,)| {
            let table = &mut caller.data_mut().table;
            let fields = table.get(&this)?.fields.clone();
            Ok((table.push(fields)?,))
        },
    )?;
    types.func_wrap("[method]outgoing-response.body", |mut caller: Caller<'_>, (this,): (Resource<Response>,)| {
        let table = &mut caller.data_mut().table;
        let response = table.get_mut(&this)?;
        if response.content.is_some() {
            return Ok((Err(()),));
        }
        let sink = response.content.insert(Sink::default()).clone();
        let body = OutgoingBody::new(sink, &response.fields);
        Ok((Ok(table.push(body)?),))
    })?;

    resource::<Outparam>(types, "response-outparam")?;
    types.func_wrap(
        "[static]response-outparam.set",
        |mut caller: Caller<'_>, (this, response): (Resource<Outparam>, Answer<Resource<Response>, ErrorCode>)| {
            let state = caller.data_mut();
            state.table.delete(this)?;
            state.answered = Some(match response {
                Ok(response) => Ok(state.table.delete(response)?),
                Err(code) => Err(code),
            });
            Ok(())
        },
    )
}

/// Requests of the component. They can be made, and are refused when they are sent.
fn requests(types: &mut LinkerInstance<'_, State>) -> Result<()> {
    type This = (Resource<OutgoingRequest>,);
    resource::<OutgoingRequest>(types, "outgoing-request")?;
    types.func_wrap("[constructor]outgoing-request", |mut caller: Caller<'_>, (fields,): (Resource<Fields>,)| {
        let table = &mut caller.data_mut().table;
        let fields = table.delete(fields)?.fixed();
        let request =
            OutgoingRequest { method: Method::Get, path: None, scheme: None, authority: None, fields, has_body: false };
        Ok((table.push(request)?,))
    })?;
    types.func_wrap("[method]outgoing-request.body", |mut caller: Caller<'_>, (this,): This| {
        let table = &mut caller.data_mut().table;
        let request = table.get_mut(&this)?;
        if core::mem::replace(&mut request.has_body, true) {
            return Ok((Err(()),));
        }
        let body = OutgoingBody::new(Sink::default(), &request.fields);
        Ok((Ok(table.push(body)?),))
    })?;
    types.func_wrap("[method]outgoing-request.headers", |mut caller: Caller<'_>, (this,): This| {
        let table = &mut caller.data_mut().table;
        let fields = table.get(&this)?.fields.clone();
        Ok((table.push(fields)?,))
    })?;
    types.func_wrap("[method]outgoing-request.method", |caller: Caller<'_>, (this,): This| {
        Ok((caller.data().table.get(&this)?.method.clone(),))
    })?;
    types.func_wrap(
        "[method]outgoing-request.set-method",
        |mut caller: Caller<'_>, (this, method): (Resource<OutgoingRequest>, Method)| {
            let request = caller.data_mut().table.get_mut(&this)?;
            if !method.is_valid() {
                return Ok((Err(()),));
            }
            request.method = method;
            Ok((Ok(()),))
        },
    )?;
    types.func_wrap("[method]outgoing-request.path-with-query", |caller: Caller<'_>, (this,): This| {
        Ok((caller.data().table.get(&this)?.path.clone(),))
    })?;
    types.func_wrap("[method]outgoing-request.scheme", |caller: Caller<'_>, (this,): This| {
        Ok((caller.data().table.get(&this)?.scheme.clone(),))
    })?;
    types.func_wrap("[method]outgoing-request.authority", |caller: Caller<'_>, (this,): This| {
        Ok((caller.data().table.get(&this)?.authority.clone(),))
    })?;
    types.func_wrap(
        "[method]outgoing-request.set-path-with-query",
        |mut caller: Caller<'_>, (this, path): (Resource<OutgoingRequest>, Option<String>)| {
            caller.data_mut().table.get_mut(&this)?.path = path;
            Ok((Ok::<(), ()>(()),))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-scheme",
        |mut caller: Caller<'_>, (this, scheme): (Resource<OutgoingRequest>, Option<Scheme>)| {
            caller.data_mut().table.get_mut(&this)?.scheme = scheme;
            Ok((Ok::<(), ()>(()),))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-authority",
        |mut caller: Caller<'_>, (this, authority): (Resource<OutgoingRequest>, Option<String>)| {
            caller.data_mut().table.get_mut(&this)?.authority = authority;
            Ok((Ok::<(), ()>(()),))
        },
    )
}

fn options(types: &mut LinkerInstance<'_, State>) -> Result<()> {
    resource::<RequestOptions>(types, "request-options")?;
    types.func_wrap("[constructor]request-options", |mut caller: Caller<'_>, (): ()| {
        Ok((caller.data_mut().table.push(RequestOptions::default())?,))
    })?;
    /// The place of one of the times.
    type Place = fn(&mut RequestOptions) -> &mut Option<u64>;
    let places: [(&str, &str, Place); 3] = [
        ("[method]request-options.connect-timeout", "[method]request-options.set-connect-timeout", |options| {
            &mut options.connect
        }),
        ("[method]request-options.first-byte-timeout", "[method]request-options.set-first-byte-timeout", |options| {
            &mut options.first_byte
        }),
        (
            "[method]request-options.between-bytes-timeout",
            "[method]request-options.set-between-bytes-timeout",
            |options| &mut options.between_bytes,
        ),
    ];
    for (get, set, place) in places {
        types.func_wrap(get, move |mut caller: Caller<'_>, (this,): (Resource<RequestOptions>,)| {
            Ok((*place(caller.data_mut().table.get_mut(&this)?),))
        })?;
        types.func_wrap(
            set,
            move |mut caller: Caller<'_>, (this, time): (Resource<RequestOptions>, Option<u64>)| {
                *place(caller.data_mut().table.get_mut(&this)?) = time;
                Ok((Ok::<(), ()>(()),))
            },
        )?;
    }
    Ok(())
}

/// Answers to requests of the component.
fn answers(types: &mut LinkerInstance<'_, State>) -> Result<()> {
    resource::<IncomingResponse>(types, "incoming-response")?;
    types.func_wrap(
        "[method]incoming-response.status",
        |caller: Caller<'_>, (this,): (Resource<IncomingResponse>,)| -> Result<(u16,)> {
            match *caller.data().table.get(&this)? {}
        },
    )?;
    types.func_wrap(
        "[method]incoming-response.headers",
        |caller: Caller<'_>, (this,): (Resource<IncomingResponse>,)| -> Result<(Resource<Fields>,)> {
            match *caller.data().table.get(&this)? {}
        },
    )?;
    types.func_wrap(
        "[method]incoming-response.consume",
        |caller: Caller<'_>, (this,): (Resource<IncomingResponse>,)| -> Result<(Answer<Resource<IncomingBody>, ()>,)> {
            match *caller.data().table.get(&this)? {}
        },
    )?;
    resource::<FutureIncomingResponse>(types, "future-incoming-response")?;
    types.func_wrap(
        "[method]future-incoming-response.subscribe",
        |caller: Caller<'_>, (this,): (Resource<FutureIncomingResponse>,)| -> Result<(Resource<Pollable>,)> {
            match *caller.data().table.get(&this)? {}
        },
    )?;
    /// Nothing yet; that it was taken before; the answer, or why there is none.
    type Given = Option<Answer<Answer<Resource<IncomingResponse>, ErrorCode>, ()>>;
    types.func_wrap(
        "[method]future-incoming-response.get",
        |caller: Caller<'_>, (this,): (Resource<FutureIncomingResponse>,)| -> Result<(Given,)> {
            match *caller.data().table.get(&this)? {}
        },
    )
}

/// `wasi:http/outgoing-handler`: every request is refused.
pub(super) fn link_handler(handler: &mut LinkerInstance<'_, State>) -> Result<()> {
    handler.func_wrap(
        "handle",
        |mut caller: Caller<'_>, (request, options): (Resource<OutgoingRequest>, Option<Resource<RequestOptions>>)| {
            let table = &mut caller.data_mut().table;
            table.delete(request)?;
            if let Some(options) = options {
                table.delete(options)?;
            }
            Ok((Err::<Resource<FutureIncomingResponse>, _>(ErrorCode::HttpRequestDenied),))
        },
    )
}
