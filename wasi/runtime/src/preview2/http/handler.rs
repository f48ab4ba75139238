//! `wasi:http/outgoing-handler`, which sends a component's requests, and the answers to them.

use super::super::changes::Change;
use super::super::poll::Pollable;
use super::super::types::StreamFailure;
use super::super::{Caller, State, resource};
use super::bodies::IncomingBody;
use super::exchange::{Exchange, Order, Received};
use super::fields::Fields;
use super::requests::{OutgoingRequest, RequestOptions};
use super::types::ErrorCode;
use crate::errno::WasiError;
use alloc::sync::Arc;
use core::result::Result as Answer;
use wasmtime::Result;
use wasmtime::component::{LinkerInstance, Resource};

/// An answer that has come, and its content until that is asked for.
struct IncomingResponse {
    received: Received,
    is_consumed: bool,
}

/// An answer that may not have come yet.
struct FutureIncomingResponse(Arc<Exchange>);

/// Answers to requests of the component.
pub(super) fn link_types(types: &mut LinkerInstance<'_, State>) -> Result<()> {
    resource::<IncomingResponse>(types, "incoming-response")?;
    types.func_wrap(
        "[method]incoming-response.status",
        |caller: Caller<'_>, (this,): (Resource<IncomingResponse>,)| {
            Ok((caller.data().table.get(&this)?.received.status,))
        },
    )?;
    types.func_wrap(
        "[method]incoming-response.headers",
        |mut caller: Caller<'_>, (this,): (Resource<IncomingResponse>,)| -> Result<(Resource<Fields>,)> {
            let table = &mut caller.data_mut().table;
            let fields = table.get(&this)?.received.fields.clone();
            Ok((table.push(fields)?,))
        },
    )?;
    types.func_wrap(
        "[method]incoming-response.consume",
        |mut caller: Caller<'_>, (this,): (Resource<IncomingResponse>,)| {
            let table = &mut caller.data_mut().table;
            let response = table.get_mut(&this)?;
            if core::mem::replace(&mut response.is_consumed, true) {
                return Ok((Err(()),));
            }
            let body = IncomingBody(Some(response.received.content.clone()));
            Ok((Ok(table.push(body)?),))
        },
    )?;
    resource::<FutureIncomingResponse>(types, "future-incoming-response")?;
    types.func_wrap(
        "[method]future-incoming-response.subscribe",
        |mut caller: Caller<'_>, (this,): (Resource<FutureIncomingResponse>,)| {
            let table = &mut caller.data_mut().table;
            let exchange = table.get(&this)?.0.clone();
            Ok((table.push(Pollable::Change(exchange))?,))
        },
    )?;
    /// Nothing yet; that it was taken before; the answer, or why there is none.
    type Given = Option<Answer<Answer<Resource<IncomingResponse>, ErrorCode>, ()>>;
    types.func_wrap(
        "[method]future-incoming-response.get",
        |mut caller: Caller<'_>, (this,): (Resource<FutureIncomingResponse>,)| -> Result<(Given,)> {
            let table = &mut caller.data_mut().table;
            let exchange = table.get(&this)?.0.clone();
            if !exchange.has_come() {
                return Ok((None,));
            }
            Ok((Some(match exchange.take() {
                None => Err(()),
                Some(Ok(received)) => Ok(Ok(table.push(IncomingResponse { received, is_consumed: false })?)),
                Some(Err(code)) => Ok(Err(code)),
            }),))
        },
    )?;
    types.func_wrap("http-error-code", |caller: Caller<'_>, (this,): (Resource<StreamFailure>,)| {
        // No file fails in these ways.
        Ok((match caller.data().table.get(&this)?.0 {
            WasiError::TIMEDOUT => Some(ErrorCode::ConnectionReadTimeout),
            WasiError::CONNRESET => Some(ErrorCode::HttpResponseIncomplete),
            WasiError::ILSEQ => Some(ErrorCode::HttpProtocolError),
            _ => None,
        },))
    })
}

/// Sends requests.
pub(super) fn link(handler: &mut LinkerInstance<'_, State>) -> Result<()> {
    handler.func_wrap(
        "handle",
        |mut caller: Caller<'_>, (request, options): (Resource<OutgoingRequest>, Option<Resource<RequestOptions>>)| {
            let table = &mut caller.data_mut().table;
            let request = table.delete(request)?;
            let times = match options {
                Some(options) => table.delete(options)?,
                None => RequestOptions::default(),
            };
            Ok((match Order::of(request, times).and_then(Exchange::begin) {
                Ok(exchange) => Ok(table.push(FutureIncomingResponse(exchange))?),
                Err(code) => Err(code),
            },))
        },
    )
}
