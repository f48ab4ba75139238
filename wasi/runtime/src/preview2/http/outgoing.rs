//! `outgoing-response` and `response-outparam`, by which a component answers.

use super::super::content::Sink;
use super::super::{Caller, State, resource};
use super::RESPONSE;
use super::bodies::OutgoingBody;
use super::fields::Fields;
use super::types::ErrorCode;
use crate::slots::publish_parts;
use alloc::format;
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

pub(super) fn link(types: &mut LinkerInstance<'_, State>) -> Result<()> {
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
        let body = OutgoingBody::of_answer(sink, &response.fields);
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
