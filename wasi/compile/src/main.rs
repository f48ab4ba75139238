//! Compiles a WebAssembly program ahead of time and makes a function image of it.
//!
//! ```text
//!   app.wasm ──Cranelift──▶ compiled program (an ELF file of Wasmtime's) ─┐
//!   runtime image (`wasi/runtime`) ───────────────────────────────────────┴─▶ function image
//! ```
//!
//! It is a program of its own, started by `monohull build`: a compiler reads untrusted code, and is larger than all of the visor.
//! Its output is trusted no more than any function: the checker reads the code and the loader judges the file.
#![deny(unsafe_code)]

mod image;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use clap::Parser;
use monohull_wasi_settings::Checks;
use wasmtime::{Config, Engine, OptLevel};

/// Compile a WebAssembly program into a function image
#[derive(Debug, Parser)]
#[command(name = "monohull-wasi-compile", version)]
struct Arguments {
    /// The program: a WebAssembly module that imports WASI preview 1
    program: PathBuf,
    /// The runtime's image
    #[arg(long, value_name = "FILE")]
    runtime: PathBuf,
    /// The function image to be written
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Which of several ways of generating code: the others are for programs whose code holds forbidden bytes by accident
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    variant: usize,
    /// Check each address by instructions, instead of by pages without access
    #[arg(long)]
    explicit_checks: bool,
}

/// Ways of generating code: distances, registers and instructions differ from one to the next. Cranelift's settings, by name.
const VARIANTS: [&[(&str, &str)]; 4] = [
    &[],
    &[("log2_min_function_alignment", "6")],
    &[("bb_padding_log2_minus_one", "4")],
    &[("regalloc_algorithm", "single_pass")],
];

/// Largest program in bytes.
const PROGRAM_MAX: u64 = 256 << 20;

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// A file cannot be read or written; the host is at fault.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the host said.
        source: io::Error,
    },
    /// The program is too large.
    #[error("{}: larger than {} MiB", .0.display(), PROGRAM_MAX >> 20)]
    TooLarge(PathBuf),
    /// The program is not valid WebAssembly, or uses what the runtime lacks; it is at fault.
    #[error("{}: {why}", path.display())]
    Program {
        /// The program.
        path: PathBuf,
        /// What the compiler says.
        why: String,
    },
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
    match build(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error);
            ExitCode::FAILURE
        }
    }
}

fn say(error: &dyn Display) {
    eprintln!("monohull-wasi-compile: {error}");
}

fn build(arguments: &Arguments) -> Result<(), Error> {
    let checks = if arguments.explicit_checks { Checks::Explicit } else { Checks::Guards };
    let program = compile(&arguments.program, arguments.variant, checks)?;
    let runtime = read(&arguments.runtime)?;
    let image = image::link(&runtime, &program, checks)
        .map_err(|source| Error::Image { path: arguments.runtime.clone(), source })?;
    let file = |source| Error::File { path: arguments.output.clone(), source };
    fs::write(&arguments.output, image).map_err(file)
}

/// Compiles a module.
fn compile(path: &Path, variant: usize, checks: Checks) -> Result<Vec<u8>, Error> {
    let settings = VARIANTS.get(variant).ok_or(Error::NoVariant(variant))?;
    let wasm = read(path)?;
    let fail = |error: wasmtime::Error| Error::Program { path: path.to_owned(), why: format!("{error:#}") };
    let mut config = Config::new();
    monohull_wasi_settings::configure(&mut config, checks);
    config.cranelift_opt_level(OptLevel::Speed).target("x86_64-unknown-linux-gnu").map_err(fail)?;
    for (name, value) in *settings {
        set(&mut config, name, value);
    }
    for feature in monohull_wasi_settings::FEATURES {
        set(&mut config, feature, "true");
    }
    let engine = Engine::new(&config).map_err(fail)?;
    engine.precompile_module(&wasm).map_err(fail)
}

/// Sets one of Cranelift's settings.
#[allow(unsafe_code, reason = "Wasmtime cannot know what each setting does")]
fn set(config: &mut Config, name: &str, value: &str) {
    // SAFETY: those of `VARIANTS` change how code is laid out and not what it does; those of `FEATURES` allow instructions whose
    // presence the runtime asks the processor for before it loads the code.
    unsafe { config.cranelift_flag_set(name, value) };
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let fail = |source| Error::File { path: path.to_owned(), source };
    let len = fs::metadata(path).map_err(fail)?.len();
    if len > PROGRAM_MAX {
        return Err(Error::TooLarge(path.to_owned()));
    }
    fs::read(path).map_err(fail)
}
