//! `wasi:sockets`: connections, datagrams and names, over the sockets of the system.
//!
//! Nothing is decided here: what the workflow's `network` does not allow is refused by the system, and the program gets `access-denied`. In a
//! workflow without a network no socket is made.
//!
//! ```text
//!   address   what programs pass
//!   tcp       its streams are of `wasi:io`  ──▶ super::connection
//!   udp
//!   names     a thread for each look-up
//!   options, shared    what TCP and UDP have in common
//! ```

#[allow(unsafe_code, reason = "what Wasmtime derives implements unsafe traits")]
mod address;
mod names;
mod options;
mod shared;
mod tcp;
#[allow(unsafe_code, reason = "what Wasmtime derives implements unsafe traits")]
mod udp;

use super::types::StreamFailure;
use super::{Caller, State, resource};
use address::ErrorCode;
use wasmtime::component::{Component, Linker, Resource};
use wasmtime::{Engine, Result};

const PACKAGE: &str = "wasi:sockets/";

/// What the handle of a network stands for. There is one.
struct Network;

/// Gives the functions their names, for a component that imports any.
pub(super) fn link(linker: &mut Linker<State>, engine: &Engine, component: &Component) -> Result<()> {
    if !component.component_type().imports(engine).any(|(name, _)| name.starts_with(PACKAGE)) {
        return Ok(());
    }
    let mut network = linker.instance("wasi:sockets/network@0.2.0")?;
    resource::<Network>(&mut network, "network")?;
    network.func_wrap("network-error-code", |caller: Caller<'_>, (error,): (Resource<StreamFailure>,)| {
        Ok((Some(ErrorCode::from(caller.data().table.get(&error)?.0)),))
    })?;
    let mut instance = linker.instance("wasi:sockets/instance-network@0.2.0")?;
    instance.func_wrap("instance-network", |mut caller: Caller<'_>, (): ()| {
        Ok((caller.data_mut().table.push(Network)?,))
    })?;
    tcp::link(linker)?;
    udp::link(linker)?;
    names::link(linker)
}
