//! `wasi:cli`: what a program is started with, its standard streams, and its end.

use super::streams::{InputStream, OutputStream};
use super::{Caller, State, resource};
use crate::arguments;
use crate::exit::Exit;
use alloc::string::String;
use alloc::vec::Vec;
use core::result::Result as Answer;
use monohull_std::env;
use wasmtime::Result;
use wasmtime::component::{Linker, Resource};

/// A terminal. No stream is one, so there are none.
enum TerminalInput {}
enum TerminalOutput {}

pub(super) fn link(linker: &mut Linker<State>) -> Result<()> {
    let mut environment = linker.instance("wasi:cli/environment@0.2.0")?;
    environment
        .func_wrap("get-environment", |_: Caller<'_>, (): ()| Ok((env::vars().collect::<Vec<(String, String)>>(),)))?;
    environment.func_wrap("get-arguments", |_: Caller<'_>, (): ()| Ok((arguments::of_step(),)))?;
    // Paths without a directory are beneath the root, where the mounts are.
    environment.func_wrap("initial-cwd", |_: Caller<'_>, (): ()| Ok((None::<String>,)))?;

    let mut exit = linker.instance("wasi:cli/exit@0.2.0")?;
    exit.func_wrap("exit", |_: Caller<'_>, (status,): (Answer<(), ()>,)| -> Result<()> {
        Err(Exit(status.is_err().into()).into())
    })?;
    exit.func_wrap("exit-with-code", |_: Caller<'_>, (status,): (u8,)| -> Result<()> {
        Err(Exit(status.into()).into())
    })?;

    linker.instance("wasi:cli/stdin@0.2.0")?.func_wrap("get-stdin", |mut caller: Caller<'_>, (): ()| {
        Ok((caller.data_mut().table.push(InputStream::Stdin)?,))
    })?;
    for (interface, function, stream) in
        [("wasi:cli/stdout@0.2.0", "get-stdout", 1), ("wasi:cli/stderr@0.2.0", "get-stderr", 2)]
    {
        linker.instance(interface)?.func_wrap(function, move |mut caller: Caller<'_>, (): ()| {
            Ok((caller.data_mut().table.push(OutputStream::Output(stream))?,))
        })?;
    }

    resource::<TerminalInput>(&mut linker.instance("wasi:cli/terminal-input@0.2.0")?, "terminal-input")?;
    resource::<TerminalOutput>(&mut linker.instance("wasi:cli/terminal-output@0.2.0")?, "terminal-output")?;
    linker
        .instance("wasi:cli/terminal-stdin@0.2.0")?
        .func_wrap("get-terminal-stdin", |_: Caller<'_>, (): ()| Ok((None::<Resource<TerminalInput>>,)))?;
    for (interface, function) in [
        ("wasi:cli/terminal-stdout@0.2.0", "get-terminal-stdout"),
        ("wasi:cli/terminal-stderr@0.2.0", "get-terminal-stderr"),
    ] {
        let none = |_: Caller<'_>, (): ()| Ok((None::<Resource<TerminalOutput>>,));
        linker.instance(interface)?.func_wrap(function, none)?;
    }
    Ok(())
}
