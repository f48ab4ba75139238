//! WASI 0.2: the interfaces of `wasi:cli/command`, on top of hostcalls.
//!
//! A component imports interfaces by name and version and exports `wasi:cli/run`. Wasmtime moves texts, lists and handles between its
//! memory and the functions here, and checks their types when it links. What a handle of the program stands for lies in a table of
//! [`State`].
//!
//! ```text
//!   wasi:cli          cli         arguments, environment, standard streams, exit
//!   wasi:io           streams, poll
//!   wasi:clocks       clocks
//!   wasi:filesystem   filesystem  ──▶ crate::files, as preview 1
//!   wasi:random       random
//!   wasi:sockets      sockets     every call is refused
//!   monohull:function slots       ──▶ crate::slots, as for modules
//! ```
//!
//! Each interface is linked as version 0.2.0, which Wasmtime takes for all of 0.2: what was added later is there by its name.

mod cli;
mod clocks;
#[allow(unsafe_code, reason = "what Wasmtime derives implements unsafe traits")]
mod errors;
mod filesystem;
mod poll;
mod random;
mod slots;
mod sockets;
mod streams;
#[allow(unsafe_code, reason = "what Wasmtime derives implements unsafe traits")]
mod types;

use crate::exit::Exit;
use wasmtime::component::{Component, Instance, Linker, LinkerInstance, Resource, ResourceTable, ResourceType};
use wasmtime::error::Context as _;
use wasmtime::{Engine, Result, Store, StoreContextMut, bail};

/// What a command exports, and what a component exports that answers requests.
const RUN: &str = "wasi:cli/run@0.2.0";
const HANDLER: &str = "wasi:http/incoming-handler@0.2.0";

/// What the functions keep between calls.
struct State {
    /// What the program's handles stand for.
    table: ResourceTable,
}

/// The program that calls a function, and the state.
type Caller<'a> = StoreContextMut<'a, State>;

/// Runs a command until it ends.
pub(crate) fn run(engine: &Engine, component: &Component) -> Result<()> {
    let mut linker = Linker::new(engine);
    cli::link(&mut linker)?;
    streams::link(&mut linker)?;
    poll::link(&mut linker)?;
    clocks::link(&mut linker)?;
    filesystem::link(&mut linker)?;
    random::link(&mut linker)?;
    slots::link(&mut linker)?;
    sockets::link(&mut linker, engine, component)?;
    let ready = linker
        .instantiate_pre(component)
        .context("the component needs what Monohull does not have, or has in another version")?;
    let mut store = Store::new(engine, State { table: ResourceTable::new() });
    let instance = ready.instantiate(&mut store)?;
    let Some(function) = function(&instance, &mut store) else {
        if instance.get_export_index(&mut store, None, HANDLER).is_some() {
            bail!("the component answers HTTP requests (`wasi:http/proxy`); it is no command (`wasi:cli/command`)");
        }
        bail!("the component does not export `{RUN}`: it is no command");
    };
    let run = instance.get_typed_func::<(), (core::result::Result<(), ()>,)>(&mut store, function)?;
    let (ended,) = run.call(&mut store, ())?;
    ended.map_err(|()| Exit(1).into())
}

/// The function that a command begins with.
fn function(instance: &Instance, store: &mut Store<State>) -> Option<wasmtime::component::ComponentExportIndex> {
    let interface = instance.get_export_index(&mut *store, None, RUN)?;
    instance.get_export_index(store, Some(&interface), "run")
}

/// Names a kind of handles. What one stands for goes when the program drops it.
fn resource<T: Send + 'static>(interface: &mut LinkerInstance<'_, State>, name: &str) -> Result<()> {
    interface.resource(name, ResourceType::host::<T>(), |mut caller: Caller<'_>, rep| {
        caller.data_mut().table.delete(Resource::<T>::new_own(rep))?;
        Ok(())
    })
}
