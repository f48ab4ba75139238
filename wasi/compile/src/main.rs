//! Compiles a WebAssembly program ahead of time and makes a function image of it.
//!
//! ```text
//!   app.wasm ──Cranelift──▶ compiled program (an ELF file of Wasmtime's) ─┐
//!   runtime image (`wasi/runtime`) ───────────────────────────────────────┴─▶ function image
//! ```
//!
//! It is a program of its own, started by `monohull build`: a compiler reads untrusted code, and is larger than all of the visor.
//! Before the first byte of the program is looked at, the process is confined (`monohull_sandbox::computing`): what is left to it is memory and
//! time, up to a limit, and writes to its output. That output is trusted no more than any function: the checker reads the code and
//! the loader judges the file.
//!
//! ```text
//!   monohull-wasi-compile --runtime runtime.so <app.wasm >app.so
//!   monohull-wasi-compile --attach --runtime interpreter.so <program >app.so
//! ```
#![deny(unsafe_code)]

mod attachment;
mod code;
mod image;
mod lines;
mod program;
mod rewrite;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use code::VARIANTS;
use image::Parts;
use monohull_sandbox::computing::{ConfineError, Limits, confine};
use monohull_wasi_settings::{Checks, Level};

/// Compile a WebAssembly program, from standard input, into a function image, on standard output
#[derive(Debug, Parser)]
#[command(name = "monohull-wasi-compile", version)]
struct Arguments {
    /// The runtime's image
    #[arg(long, value_name = "FILE")]
    runtime: PathBuf,
    /// `--runtime` names an image that has an attachment, and standard input is more to attach: nothing is compiled
    #[arg(long)]
    attach: bool,
    /// Which of several ways of generating code: the others are for programs whose code holds forbidden bytes by accident
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    variant: usize,
    /// Check each address by instructions, instead of by pages without access
    #[arg(long)]
    explicit_checks: bool,
    /// Which instructions the code may have: a level of the x86-64 ABI
    #[arg(long, value_name = "LEVEL", value_parser = level, default_value = Level::V2.name())]
    level: Level,
    /// Most bytes of address space
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 30)]
    memory: u64,
    /// Most seconds of processor time
    #[arg(long, value_name = "NUMBER", default_value_t = 300)]
    seconds: u64,
    /// Most bytes of the image
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    output: u64,
    /// The process whose end is the end of this one; it must be its parent
    #[arg(long, value_name = "PID")]
    parent: Option<i32>,
}

/// Largest program in bytes.
const PROGRAM_MAX: u64 = 256 << 20;

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The runtime cannot be read; the host is at fault.
    #[error("{}: {source}", path.display())]
    Runtime {
        /// The file.
        path: PathBuf,
        /// What the host said.
        source: io::Error,
    },
    /// The program cannot be read; the host is at fault.
    #[error("reading the program: {0}")]
    Input(io::Error),
    /// The image cannot be written; the host is at fault.
    #[error("writing the image: {0}")]
    Output(io::Error),
    /// The process cannot be confined; the host is at fault.
    #[error("the compiler cannot be confined: {0}")]
    Confine(#[from] ConfineError),
    /// The program is too large.
    #[error("larger than {} MiB", PROGRAM_MAX >> 20)]
    TooLarge,
    /// The program is not valid WebAssembly, or uses what the runtime lacks; it is at fault.
    #[error("{0:#}")]
    Program(wasmtime::Error),
    /// The variant does not exist; the invocation is at fault.
    #[error("there is no variant {0}; the last is {last}", last = VARIANTS.len() - 1)]
    NoVariant(usize),
    /// The parts cannot be put together; Monohull is at fault.
    #[error("{}: {source}", path.display())]
    Image {
        /// The runtime.
        path: PathBuf,
        /// What is wrong with it.
        source: image::ImageError,
    },
}

fn main() -> ExitCode {
    match build(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("monohull-wasi-compile: {error}");
            ExitCode::FAILURE
        }
    }
}

fn build(arguments: Arguments) -> Result<(), Error> {
    let Arguments { runtime: path, attach, variant, explicit_checks, level, memory, seconds, output, parent } =
        arguments;
    let checks = if explicit_checks { Checks::Explicit } else { Checks::Guards };
    let variant = VARIANTS.get(variant).ok_or(Error::NoVariant(variant))?;
    let runtime = std::fs::read(&path).map_err(|source| Error::Runtime { path: path.clone(), source })?;
    let program = read_program()?;
    confine(parent, Limits { memory, seconds, output })?;
    let image = if attach {
        image::attach(&runtime, &program)
    } else {
        let compiled = code::compile(&program, variant, level, checks).map_err(Error::Program)?;
        // The program is known to be whole.
        let attachment = attachment::of_module(&program).unwrap_or_default();
        // A rewritten program's instructions are in other places than its debug information says.
        let lines = if variant.1.is_none() { lines::of_program(&program) } else { Vec::new() };
        image::link(&runtime, &Parts { program: &compiled, lines: &lines, attachment }, checks)
    };
    let image = image.map_err(|source| Error::Image { path, source })?;
    let mut output = io::stdout().lock();
    output.write_all(&image).and_then(|()| output.flush()).map_err(Error::Output)
}

fn level(name: &str) -> Result<Level, String> {
    Level::from_name(name).ok_or_else(|| "neither x86-64-v2 nor x86-64-v3".to_owned())
}

/// Standard input, as it is. Nothing looks at these bytes yet.
fn read_program() -> Result<Vec<u8>, Error> {
    let mut program = Vec::new();
    io::stdin().lock().take(PROGRAM_MAX + 1).read_to_end(&mut program).map_err(Error::Input)?;
    if program.len() as u64 > PROGRAM_MAX {
        return Err(Error::TooLarge);
    }
    Ok(program)
}
