//! `wasi:http`: components that answer HTTP requests (`wasi:http/proxy`), and requests of their own.
//!
//! ```text
//!   slot `request` ──▶ message ──▶ incoming-request ──▶ handle ──▶ response-outparam ──▶ message ──▶ slot `response`
//! ```
//!
//! The request is there as a whole when `handle` is called, and the answer is published as a whole when it has returned. So whatever
//! is read or written here is ready at once.
//!
//! ```text
//!   outgoing-request ──▶ handler ──▶ exchange, a thread: connect, send, head of the answer ──▶ incoming-response
//!                                                                     received, its content ──▶ incoming-body
//! ```
//!
//! A request of the component's own goes over sockets as a native function's, which reach what the workflow file grants.

mod bodies;
mod exchange;
mod fields;
mod handler;
mod incoming;
mod message;
mod outgoing;
mod received;
mod requests;
mod syntax;
#[allow(unsafe_code, reason = "what Wasmtime derives implements unsafe traits")]
mod types;

use super::State;
use incoming::IncomingRequest;
use outgoing::{Outparam, Response};
use types::ErrorCode;
use wasmtime::component::{ComponentExportIndex, Instance, Linker, Resource};
use wasmtime::{Result, Store, bail};

/// The slot that holds the request, and the one that gets the answer.
pub(super) const REQUEST: &str = "request";
pub(super) const RESPONSE: &str = "response";

/// What a component has answered with.
pub(super) type Answered = core::result::Result<Response, ErrorCode>;

pub(super) fn link(linker: &mut Linker<State>) -> Result<()> {
    let mut types = linker.instance("wasi:http/types@0.2.0")?;
    fields::link(&mut types)?;
    incoming::link(&mut types)?;
    bodies::link(&mut types)?;
    outgoing::link(&mut types)?;
    requests::link(&mut types)?;
    handler::link_types(&mut types)?;
    handler::link(&mut linker.instance("wasi:http/outgoing-handler@0.2.0")?)
}

/// Has a component answer the request, by its function `handle`.
pub(super) fn answer(instance: &Instance, store: &mut Store<State>, handle: ComponentExportIndex) -> Result<()> {
    let request = IncomingRequest::from_slot()?;
    let request = store.data_mut().table.push(request)?;
    let out = store.data_mut().table.push(Outparam)?;
    let handle = instance.get_typed_func::<(Resource<IncomingRequest>, Resource<Outparam>), ()>(&mut *store, handle)?;
    handle.call(&mut *store, (request, out))?;
    match store.data_mut().answered.take() {
        Some(Ok(response)) => response.publish(),
        Some(Err(code)) => bail!("the component answered with the error {code:?}"),
        None => bail!("the component's `handle` returned without an answer: it did not call `response-outparam.set`"),
    }
}
