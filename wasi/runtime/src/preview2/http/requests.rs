//! `outgoing-request` and `request-options`: what a component asks of others, before it is sent.

use super::super::content::Sink;
use super::super::{Caller, State, resource};
use super::bodies::OutgoingBody;
use super::fields::Fields;
use super::syntax::{host_and_port, is_target};
use super::types::{Method, Scheme};
use alloc::string::String;
use wasmtime::Result;
use wasmtime::component::{LinkerInstance, Resource};

/// A request of the component's own.
pub(super) struct OutgoingRequest {
    pub(super) method: Method,
    pub(super) path: Option<String>,
    pub(super) scheme: Option<Scheme>,
    pub(super) authority: Option<String>,
    pub(super) fields: Fields,
    /// If it has a content.
    pub(super) content: Option<Sink>,
}

/// How long it may take, in ns.
#[derive(Clone, Copy, Default)]
pub(super) struct RequestOptions {
    pub(super) connect: Option<u64>,
    pub(super) first_byte: Option<u64>,
    pub(super) between_bytes: Option<u64>,
}

pub(super) fn link(types: &mut LinkerInstance<'_, State>) -> Result<()> {
    options(types)?;
    type This = (Resource<OutgoingRequest>,);
    resource::<OutgoingRequest>(types, "outgoing-request")?;
    types.func_wrap("[constructor]outgoing-request", |mut caller: Caller<'_>, (fields,): (Resource<Fields>,)| {
        let table = &mut caller.data_mut().table;
        let fields = table.delete(fields)?.fixed();
        let request =
            OutgoingRequest { method: Method::Get, path: None, scheme: None, authority: None, fields, content: None };
        Ok((table.push(request)?,))
    })?;
    types.func_wrap("[method]outgoing-request.body", |mut caller: Caller<'_>, (this,): This| {
        let table = &mut caller.data_mut().table;
        let request = table.get_mut(&this)?;
        if request.content.is_some() {
            return Ok((Err(()),));
        }
        let sink = request.content.insert(Sink::default()).clone();
        let body = OutgoingBody::of_request(sink, &request.fields);
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
            let request = caller.data_mut().table.get_mut(&this)?;
            if path.as_deref().is_some_and(|path| !is_target(path)) {
                return Ok((Err(()),));
            }
            request.path = path;
            Ok((Ok(()),))
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
            let request = caller.data_mut().table.get_mut(&this)?;
            if authority.as_deref().is_some_and(|authority| host_and_port(authority).is_none()) {
                return Ok((Err(()),));
            }
            request.authority = authority;
            Ok((Ok(()),))
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
