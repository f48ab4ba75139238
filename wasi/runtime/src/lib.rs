//! The function image that runs a WebAssembly program.
//!
//! `monohull build app.wasm` compiles the program ahead of time and appends the compiled code to a copy of this image. The result is an
//! ordinary function image: the checker reads all of its code, the loader maps it, and everything here, Wasmtime's runtime included,
//! is user code in a cell, trusted by nothing outside of it.
//!
//! ```text
//!   | runtime: text, data | compiled program: r-- header | r-x code | r-- tables, data | heap | …   guard | linear memory | guard |
//!          │                        ▲                            └── a fault ──▶ traps
//!          └── preview1: 46 functions of WASI, monohull: slots, durable, … ──▶ hostcalls
//!              preview2: the interfaces of WASI 0.2         ──▶
//! ```
//!
//! A module imports `wasi_snapshot_preview1` and, if it wants slots, events or the like, `monohull`; its `_start` is called once. A component imports
//! interfaces of WASI 0.2, and its `wasi:cli/run` is called once, or its `wasi:http/incoming-handler`. The pages of its memories are the
//! function's, so the step's `memory` limits it.
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

mod answer;
mod arguments;
mod attachment;
mod continuation;
mod descriptors;
mod durable;
mod errno;
mod escape;
mod exception;
mod exit;
mod files;
mod guest;
mod host;
mod imports;
#[allow(unsafe_code, reason = "Wasmtime is told that what is mapped here is memory")]
mod in_place;
#[allow(unsafe_code, reason = "Wasmtime calls these by their C names")]
mod memory;
mod moves;
mod one_shot;
#[allow(unsafe_code, reason = "the buffer of a value is filled by its address")]
mod owned_continuations;
mod path;
#[allow(unsafe_code, reason = "Wasmtime calls these by their C names")]
mod platform;
mod preview1;
mod preview2;
#[allow(unsafe_code, reason = "the program's place is written into the image after linking")]
mod program;
mod ready;
mod refusal;
mod rights;
mod slot_refusal;
mod slots;
mod sockets;
mod stack;
mod trace;
#[allow(unsafe_code, reason = "the system enters it, and Wasmtime leaves it")]
mod traps;

use core::mem::ManuallyDrop;
use monohull_std::prelude::*;
use monohull_wasi_settings::Checks;
use wasmtime::{Engine, Module, Store};

use exit::Exit;
use imports::Imports;
use preview1::State;
use program::{Loaded, Program};
use trace::Told;

monohull_std::program!();

fn main() -> Result<(), Told> {
    let program = Program::of_image().map_err(|error| Told::new(&error, &[]))?;
    match run(&program) {
        Ok(()) => Ok(()),
        Err(error) => match error.downcast_ref::<Exit>() {
            Some(Exit(0)) => Ok(()),
            Some(Exit(status)) => monohull_std::process::exit(*status as i32),
            None => Err(Told::new(&error, program.lines)),
        },
    }
}

/// Loads the program and runs it.
fn run(program: &Program) -> wasmtime::Result<()> {
    let engine = platform::engine(program.checks)?;
    let loaded = program.load(&engine)?;
    if program.checks == Checks::Guards {
        traps::handle(program.code())?;
    }
    match loaded {
        Loaded::Module(module) => run_module(&engine, &module, program.attachment),
        Loaded::Component(component) => preview2::run(&engine, &component),
    }
}

/// Links what a module imports, and calls `_start`.
fn run_module(engine: &Engine, module: &Module, attachment: &'static [u8]) -> wasmtime::Result<()> {
    let mut imports = Imports::of(engine, module);
    if imports.has(slots::MODULE, "capture") {
        // Going back is refused where pages come from a file.
        memory::copy_data();
    }
    preview1::link(&mut imports)?;
    slots::link(&mut imports)?;
    attachment::link(&mut imports, attachment)?;
    stack::link(&mut imports)?;
    escape::link(&mut imports)?;
    ready::link(&mut imports)?;
    durable::link(&mut imports)?;
    continuation::link(&mut imports)?;
    one_shot::link(&mut imports)?;
    // What it has goes with the instance, all at once: to give back linear memory here takes more than a hundred system calls.
    let mut store = ManuallyDrop::new(Store::new(engine, State::new()?));
    let instance =
        imports.instantiate(&mut *store).map_err(|error| memory::explain(error, Some(module.resources_required())));
    let ended = instance.and_then(|instance| {
        let start = instance.get_typed_func::<(), ()>(&mut *store, "_start")?;
        start.call(&mut *store, ())
    });
    ended.map_err(|error| exception::explain(error, &mut store))
}
