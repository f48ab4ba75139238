//! `monohull:function/slots`, the interface of `wasi/include/monohull.wit`: what modules import from the module `monohull`, for components.

use super::{Caller, State};
use crate::slots::{is_name, publish, publish_text, take, wrong_name};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::result::Result as Answer;
use monohull_std::slot::SlotError;
use wasmtime::Result;
use wasmtime::component::{Linker, WasmList};

pub(super) fn link(linker: &mut Linker<State>) -> Result<()> {
    let mut slots = linker.instance("monohull:function/slots@0.1.0")?;
    slots.func_wrap("take", |_: Caller<'_>, (name,): (String,)| {
        Ok((named(&name, |name| take(name, true))
            .map(|taken| taken.map_or_else(Vec::new, |taken| taken.bytes().to_vec())),))
    })?;
    slots.func_wrap("try-take", |_: Caller<'_>, (name,): (String,)| {
        Ok((named(&name, |name| take(name, false)).map(|taken| taken.map(|taken| taken.bytes().to_vec())),))
    })?;
    slots.func_wrap("publish", |caller: Caller<'_>, (name, bytes): (String, WasmList<u8>)| {
        Ok((named(&name, |name| publish(name, bytes.as_le_slice(&caller))),))
    })?;
    slots.func_wrap("publish-text", |_: Caller<'_>, (name, text): (String, String)| {
        Ok((named(&name, |name| publish_text(name, &text)),))
    })?;
    slots.func_wrap("instance-index", |_: Caller<'_>, (): ()| Ok((monohull_std::instance().index as u32,)))?;
    slots.func_wrap("instance-count", |_: Caller<'_>, (): ()| Ok((monohull_std::instance().count as u32,)))
}

/// Does something with the slot of this name; errors are texts.
fn named<T>(name: &str, run: impl FnOnce(&str) -> Answer<T, SlotError>) -> Answer<T, String> {
    if !is_name(name) {
        return Err(wrong_name(name.len()));
    }
    run(name).map_err(|error| error.to_string())
}
