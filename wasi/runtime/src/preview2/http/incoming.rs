//! `incoming-request`: what a component is asked.

use super::super::{Caller, State, resource};
use super::bodies::IncomingBody;
use super::message::Request;
use wasmtime::Result;
use wasmtime::component::{LinkerInstance, Resource};

/// The request, and whether its content is still to be read.
pub(super) struct IncomingRequest {
    request: Request,
    is_consumed: bool,
}

impl IncomingRequest {
    /// The request in the slot.
    pub(super) fn from_slot() -> Result<IncomingRequest> {
        Ok(IncomingRequest { request: Request::from_slot()?, is_consumed: false })
    }
}

type This = (Resource<IncomingRequest>,);

pub(super) fn link(types: &mut LinkerInstance<'_, State>) -> Result<()> {
    resource::<IncomingRequest>(types, "incoming-request")?;
    types.func_wrap("[method]incoming-request.method", |caller: Caller<'_>, (this,): This| {
        Ok((caller.data().table.get(&this)?.request.method.clone(),))
    })?;
    types.func_wrap("[method]incoming-request.path-with-query", |caller: Caller<'_>, (this,): This| {
        Ok((caller.data().table.get(&this)?.request.path.clone(),))
    })?;
    types.func_wrap("[method]incoming-request.scheme", |caller: Caller<'_>, (this,): This| {
        Ok((Some(caller.data().table.get(&this)?.request.scheme.clone()),))
    })?;
    types.func_wrap("[method]incoming-request.authority", |caller: Caller<'_>, (this,): This| {
        Ok((caller.data().table.get(&this)?.request.authority.clone(),))
    })?;
    types.func_wrap("[method]incoming-request.headers", |mut caller: Caller<'_>, (this,): This| {
        let table = &mut caller.data_mut().table;
        let fields = table.get(&this)?.request.fields.clone();
        Ok((table.push(fields)?,))
    })?;
    types.func_wrap("[method]incoming-request.consume", |mut caller: Caller<'_>, (this,): This| {
        let table = &mut caller.data_mut().table;
        let request = table.get_mut(&this)?;
        if core::mem::replace(&mut request.is_consumed, true) {
            return Ok((Err(()),));
        }
        let body = IncomingBody(Some(request.request.content.clone()));
        Ok((Ok(table.push(body)?),))
    })
}
