//! `monohull:function/continuations`, an interface of `wasi/include/monohull.wit`: continuations as values, for components. Errors are texts.

use super::{Caller, State, resource};
use crate::owned_continuations::{Continuation, wait};
use crate::slots::is_name;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;
use core::result::Result as Answer;
use wasmtime::Result;
use wasmtime::component::{Linker, Resource, WasmList};

/// What a handle of the program stands for.
type This = Resource<Continuation>;

pub(super) fn link(linker: &mut Linker<State>) -> Result<()> {
    let mut calls = linker.instance("monohull:function/continuations@0.1.0")?;
    resource::<Continuation>(&mut calls, "continuation")?;
    calls.func_wrap("call-cc", |_: Caller<'_>, (slot,): (String,)| Ok((call_cc(&slot),)))?;
    calls.func_wrap("[static]continuation.take", |mut caller: Caller<'_>, (slot,): (String,)| {
        let taken = named(&slot).and_then(|()| text(Continuation::take(&slot, true)));
        Ok((match taken {
            Ok(taken) => Ok(caller.data_mut().table.push(taken)?),
            Err(why) => Err(why),
        },))
    })?;
    calls.func_wrap("[method]continuation.publish", |mut caller: Caller<'_>, (this, slot): (This, String)| {
        let continuation = caller.data_mut().table.get_mut(&this)?;
        Ok((named(&slot).and_then(|()| text(continuation.publish(&slot))),))
    })?;
    calls.func_wrap("[method]continuation.resume", |mut caller: Caller<'_>, (this, value): (This, WasmList<u8>)| {
        let value = value.as_le_slice(&caller).to_vec();
        Ok((text(caller.data_mut().table.get_mut(&this)?.resume(&value)),))
    })?;
    calls.func_wrap("[static]continuation.discard", |mut caller: Caller<'_>, (this,): (This,)| {
        caller.data_mut().table.delete(this)?.discard();
        Ok(())
    })
}

/// Waits for another function, which finds the continuation in the slot.
fn call_cc(slot: &str) -> Answer<Vec<u8>, String> {
    named(slot)?;
    let (mut made, number) = text(Continuation::make())?;
    text(made.publish(slot))?;
    Ok(text(wait(number))?.to_vec())
}

fn named(slot: &str) -> Answer<(), String> {
    match is_name(slot) {
        true => Ok(()),
        false => Err(format!("a slot's name has 1 to 255 bytes, this one has {}", slot.len())),
    }
}

/// Errors as texts.
fn text<T>(answer: Answer<T, impl Display>) -> Answer<T, String> {
    answer.map_err(|error| error.to_string())
}
