//! `wasi:sockets`: programs import it with their C library, whether or not they use it. Nothing is ever opened.
//!
//! What is linked follows from what the component imports: a function that can fail says `access-denied`. One that cannot fail belongs
//! to a socket, and there are none.

use super::{Caller, State, resource};
use alloc::boxed::Box;
use alloc::format;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker, Resource, Type, Val};
use wasmtime::{Engine, Result, bail};

const PACKAGE: &str = "wasi:sockets/";
/// Kinds of handles, by the interface that each belongs to.
const KINDS: [(&str, &str); 6] = [
    ("network", "network"),
    ("tcp", "tcp-socket"),
    ("udp", "udp-socket"),
    ("udp", "incoming-datagram-stream"),
    ("udp", "outgoing-datagram-stream"),
    ("ip-name-lookup", "resolve-address-stream"),
];

/// What a handle stands for.
struct Nothing;

pub(super) fn link(linker: &mut Linker<State>, engine: &Engine, component: &Component) -> Result<()> {
    for (full, import) in component.component_type().imports(engine) {
        let Some((interface, version)) = full.strip_prefix(PACKAGE).and_then(|rest| rest.split_once('@')) else {
            continue;
        };
        let ComponentItem::ComponentInstance(instance) = import.ty else { continue };
        // Another version is another interface.
        if !version.starts_with("0.2.") {
            continue;
        }
        let mut linked = linker.instance(full)?;
        for (name, export) in instance.exports(engine) {
            match export.ty {
                ComponentItem::Resource(_) if KINDS.contains(&(interface, name)) => {
                    resource::<Nothing>(&mut linked, name)?;
                }
                // It takes nothing and cannot fail: a network by which nothing can be reached.
                ComponentItem::ComponentFunc(_) if name == "instance-network" => {
                    linked.func_wrap(name, |mut caller: Caller<'_>, (): ()| -> Result<(Resource<Nothing>,)> {
                        Ok((caller.data_mut().table.push(Nothing)?,))
                    })?;
                }
                ComponentItem::ComponentFunc(function) => {
                    let can_fail = function.results().any(|result| matches!(result, Type::Result(_)));
                    let called = format!("{full}#{name}");
                    linked.func_new(name, move |_, _, _, results| match results {
                        [result] if can_fail => {
                            *result = Val::Result(Err(Some(Box::new(Val::Enum("access-denied".into())))));
                            Ok(())
                        }
                        _ => bail!("`{called}` was called: there are no sockets"),
                    })?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}
