//! `monohull:function/durable`, an interface of `wasi/include/monohull.wit`: long waits, effects and the invocation, for components. Errors are texts.

use super::{Caller, State};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;
use core::result::Result as Answer;
use core::time::Duration;
use monohull::rt::{callback_of, step_key, step_pause, take_event};
use monohull_abi::child::CHILD_EVENT;
use monohull_std::continuation::perform;
use monohull_std::durable::{self, Answered, Checkpointed, Forked, Outcome};
use wasmtime::Result;
use wasmtime::component::{Linker, WasmList};

/// How a child has ended, the message, and the outputs with their names.
type Ended = (u8, String, Vec<(String, Vec<u8>)>);

pub(super) fn link(linker: &mut Linker<State>) -> Result<()> {
    let mut calls = linker.instance("monohull:function/durable@0.1.0")?;
    calls.func_wrap("event", |_: Caller<'_>, (names, timeout): (Vec<String>, Option<u64>)| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let taken = take_event(&names, timeout.unwrap_or(u64::MAX));
        Ok((text(taken.map(|taken| taken.map(|(which, bytes)| (which as u32, bytes)))),))
    })?;
    calls.func_wrap("send", |caller: Caller<'_>, (id, name, bytes): (String, String, WasmList<u8>)| {
        Ok((text(durable::send(&id, &name, bytes.as_le_slice(&caller))),))
    })?;
    calls.func_wrap("publish", |_: Caller<'_>, (name, what): (String, String)| {
        Ok((text(durable::publish(&name, &what)),))
    })?;
    calls.func_wrap("handed-over", |_: Caller<'_>, (name,): (String,)| Ok((durable::handed_over(&name),)))?;
    calls.func_wrap("start", |caller: Caller<'_>, (workflow, id, input): (String, String, WasmList<u8>)| {
        Ok((text(durable::start(&workflow, &id, input.as_le_slice(&caller)).map(drop)),))
    })?;
    calls.func_wrap("join", |_: Caller<'_>, (id, timeout): (String, Option<u64>)| Ok((join(&id, timeout),)))?;
    calls.func_wrap("perform", |caller: Caller<'_>, (effect, request): (String, WasmList<u8>)| {
        Ok((text(perform(&effect, request.as_le_slice(&caller)).map(|reply| reply.to_vec())),))
    })?;
    calls.func_wrap("checkpoint", |_: Caller<'_>, (label,): (String,)| {
        Ok((text(durable::checkpoint(&label).map(|came| came == Checkpointed::CameBack)),))
    })?;
    calls.func_wrap("fork", |_: Caller<'_>, (copies,): (u32,)| {
        let number = durable::fork(copies).map(|forked| match forked {
            Forked::Original(_) => 0,
            Forked::Copy(number) => number,
        });
        Ok((text(number),))
    })?;
    calls.func_wrap("step-key", |_: Caller<'_>, (name,): (String,)| Ok((step_key(&name),)))?;
    calls.func_wrap("retry", |_: Caller<'_>, (key, failures, attempts): (String, u32, u32)| {
        let again = failures < attempts;
        if again {
            step_pause(&key, failures);
        }
        Ok((again,))
    })?;
    calls.func_wrap("callback", |_: Caller<'_>, (): ()| Ok((durable::callback().token().to_string(),)))?;
    calls.func_wrap("callback-url", |_: Caller<'_>, (token,): (String,)| {
        Ok((callback_of(&token).map(|callback| callback.url()).unwrap_or_default(),))
    })?;
    calls.func_wrap("answer", |_: Caller<'_>, (token, timeout, heartbeat): (String, Option<u64>, Option<u64>)| {
        Ok((answer(&token, timeout, heartbeat),))
    })?;
    calls.func_wrap("generation", |_: Caller<'_>, (): ()| Ok((monohull_std::generation(),)))?;
    calls.func_wrap("invocation-id", |_: Caller<'_>, (): ()| Ok((durable::invocation_id(),)))?;
    calls.func_wrap("ready", |_: Caller<'_>, (): ()| Ok((monohull_std::ready(),)))
}

/// Waits for an answer.
fn answer(token: &str, timeout: Option<u64>, heartbeat: Option<u64>) -> Answer<(u8, Vec<u8>), String> {
    let callback = callback_of(token).ok_or("this is no token of a callback")?;
    let mut wait = callback.answer();
    if let Some(timeout) = timeout {
        wait = wait.timeout(Duration::from_nanos(timeout));
    }
    if let Some(heartbeat) = heartbeat {
        wait = wait.heartbeat(Duration::from_nanos(heartbeat));
    }
    Ok(match text(wait.wait())? {
        Answered::Completed(content) => (0, content),
        Answered::Rejected(why) => (1, why),
        Answered::TimedOut => (2, Vec::new()),
        Answered::Silent => (3, Vec::new()),
    })
}

/// Waits for the end of a child.
fn join(id: &str, timeout: Option<u64>) -> Answer<Option<Ended>, String> {
    let name = format!("{CHILD_EVENT}{id}");
    let Some((_, told)) = text(take_event(&[&name], timeout.unwrap_or(u64::MAX)))? else { return Ok(None) };
    let outcome = Outcome::read(&told).ok_or_else(|| format!("what was told of child `{id}` cannot be read"))?;
    Ok(Some((outcome.ending() as u8, outcome.message().to_string(), outcome.outputs().to_vec())))
}

/// Errors as texts.
fn text<T>(answer: Answer<T, impl Display>) -> Answer<T, String> {
    answer.map_err(|error| error.to_string())
}
