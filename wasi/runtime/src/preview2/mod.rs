//! WASI 0.2: the interfaces of `wasi:cli/command` and `wasi:http/proxy`, on top of hostcalls.
//!
//! A component imports interfaces by name and version and exports `wasi:cli/run`, or `wasi:http/incoming-handler`. Wasmtime moves texts,
//! lists and handles between its memory and the functions here, and checks their types when it links. What a handle of the program
//! stands for lies in a table of [`State`].
//!
//! ```text
//!   wasi:cli          cli         arguments, environment, standard streams, exit
//!   wasi:io           streams, poll, changes, readiness, connection, stdin
//!   wasi:clocks       clocks
//!   wasi:filesystem   filesystem  ──▶ crate::files, as preview 1
//!   wasi:random       random
//!   wasi:sockets      sockets     ──▶ crate::sockets, as preview 1; what the workflow does not grant is refused
//!   wasi:http         http        a request in a slot, an answer in another; requests of its own over sockets
//!   monohull:function slots       ──▶ crate::slots, as for modules
//!                     durable     events, children, effects, save points
//!                     continuations  ──▶ crate::owned_continuations, as for modules
//! ```
//!
//! Each interface is linked as version 0.2.0, which Wasmtime takes for all of 0.2: what was added later is there by its name.

mod changes;
mod cli;
mod clocks;
mod connection;
mod content;
mod continuations;
mod durable;
#[allow(unsafe_code, reason = "what Wasmtime derives implements unsafe traits")]
mod errors;
mod filesystem;
mod http;
mod poll;
mod random;
mod readiness;
mod slots;
mod sockets;
mod stdin;
mod streams;
#[allow(unsafe_code, reason = "what Wasmtime derives implements unsafe traits")]
mod types;

use crate::exit::Exit;
use crate::{exception, memory};
use core::mem::{self, ManuallyDrop};
use wasmtime::component::{
    Component, ComponentExportIndex, Instance, Linker, LinkerInstance, Resource, ResourceTable, ResourceType,
};
use wasmtime::error::Context as _;
use wasmtime::{Engine, Result, Store, StoreContextMut, bail};

/// What a command exports, and what a component exports that answers requests.
const RUN: &str = "wasi:cli/run@0.2.0";
const HANDLER: &str = "wasi:http/incoming-handler@0.2.0";

/// What the functions keep between calls.
struct State {
    /// What the program's handles stand for.
    table: ResourceTable,
    /// What it has answered a request with.
    answered: Option<http::Answered>,
}

/// The program that calls a function, and the state.
type Caller<'a> = StoreContextMut<'a, State>;

/// Runs a command until it ends, or has a component answer a request.
pub(crate) fn run(engine: &Engine, component: &Component) -> Result<()> {
    let mut linker = Linker::new(engine);
    cli::link(&mut linker)?;
    streams::link(&mut linker)?;
    poll::link(&mut linker)?;
    clocks::link(&mut linker)?;
    filesystem::link(&mut linker)?;
    random::link(&mut linker)?;
    slots::link(&mut linker)?;
    durable::link(&mut linker)?;
    continuations::link(&mut linker)?;
    sockets::link(&mut linker, engine, component)?;
    http::link(&mut linker)?;
    let ready = linker
        .instantiate_pre(component)
        .context("the component needs what Monohull does not have, or has in another version")?;
    // As with a module, what it has goes with the instance; but what was written to connections is delivered.
    let mut store = ManuallyDrop::new(Store::new(engine, State { table: ResourceTable::new(), answered: None }));
    let instance =
        ready.instantiate(&mut *store).map_err(|error| memory::explain(error, component.resources_required()));
    let ended = instance
        .and_then(|instance| call(&instance, &mut store))
        .map_err(|error| exception::explain(error, &mut store));
    drop(mem::take(&mut store.data_mut().table));
    ended
}

/// Calls what the component exports.
fn call(instance: &Instance, store: &mut Store<State>) -> Result<()> {
    if let Some(run) = function(instance, store, RUN, "run") {
        let run = instance.get_typed_func::<(), (core::result::Result<(), ()>,)>(&mut *store, run)?;
        let (ended,) = run.call(&mut *store, ())?;
        return ended.map_err(|()| Exit(1).into());
    }
    match function(instance, store, HANDLER, "handle") {
        Some(handle) => http::answer(instance, store, handle),
        None => {
            bail!("the component exports neither `{RUN}` nor `{HANDLER}`: it is no command, and answers no requests")
        }
    }
}

/// A function of an interface that the component exports.
fn function(
    instance: &Instance,
    store: &mut Store<State>,
    interface: &str,
    name: &str,
) -> Option<ComponentExportIndex> {
    let interface = instance.get_export_index(&mut *store, None, interface)?;
    instance.get_export_index(store, Some(&interface), name)
}

/// Names a kind of handles. What one stands for goes when the program drops it.
fn resource<T: Send + 'static>(interface: &mut LinkerInstance<'_, State>, name: &str) -> Result<()> {
    interface.resource(name, ResourceType::host::<T>(), |mut caller: Caller<'_>, rep| {
        caller.data_mut().table.delete(Resource::<T>::new_own(rep))?;
        Ok(())
    })
}
