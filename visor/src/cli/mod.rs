//! The command line: one file per verb.
//!
//! Verbs read arguments, call the library and show what came of it; they decide nothing else. Results go to standard
//! output, everything about them to standard error, so that `--json` output can be piped as it is.
#![deny(unsafe_code)]

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde::Serialize;

pub mod build;
mod check;
mod client;
mod deploy;
mod doctor;
pub mod exit;
mod image;
mod invoke;
mod isolation;
mod list;
mod logs;
mod network;
mod new;
#[allow(unsafe_code, reason = "only trying tells what the kernel can do, and no safe wrapper has these system calls")]
mod probe;
mod progress;
mod run;
mod schema;
mod serve;
mod show;
mod undeploy;
mod validate;

use crate::watchdog::log::Log;
use exit::Exit;

/// Help that ends with an example and the exit codes.
macro_rules! concat_help {
    ($($example:literal),+) => {
        format!(concat!("Example:\n", $("  ", $example, "\n",)+ "\n{}"), crate::cli::exit::HELP)
    };
}
use concat_help;

/// Serverless workflows in one address space.
#[derive(Debug, Parser)]
#[command(name = "monohull", version, after_help = concat_help!("monohull run workflows/word-count.json --input text=book.txt --output counts=counts.txt"))]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::Run),
    Serve(Box<serve::Serve>),
    Deploy(deploy::Deploy),
    Undeploy(undeploy::Undeploy),
    Invoke(invoke::Invoke),
    List(list::List),
    Logs(logs::Logs),
    Validate(validate::Validate),
    Network(network::Network),
    New(new::New),
    Build(build::Build),
    Check(check::Check),
    Image(image::Image),
    Doctor(doctor::Doctor),
    Schema(schema::Schema),
}

/// Runs the program with the process's arguments.
pub fn main() -> ExitCode {
    crate::weaken::begin();
    let verb = Cli::parse().verb;
    log(&verb);
    let exit = match verb {
        Verb::Run(verb) => verb.run(),
        Verb::Serve(verb) => verb.run(),
        Verb::Deploy(verb) => verb.run(),
        Verb::Undeploy(verb) => verb.run(),
        Verb::Invoke(verb) => verb.run(),
        Verb::List(verb) => verb.run(),
        Verb::Logs(verb) => verb.run(),
        Verb::Validate(verb) => verb.run(),
        Verb::Network(verb) => verb.run(),
        Verb::New(verb) => verb.run(),
        Verb::Build(verb) => verb.run(),
        Verb::Check(verb) => return verb.run(),
        Verb::Image(verb) => return verb.run(),
        Verb::Doctor(verb) => verb.run(),
        Verb::Schema(verb) => verb.run(),
    };
    exit.into()
}

/// Sends messages of the library to standard error; RUST_LOG chooses which.
fn log(verb: &Verb) {
    // A server tells what it does; elsewhere the results are what counts.
    let (usual, json) = match verb {
        Verb::Serve(serve) => ("info", serve.log == serve::Log::Json),
        _ => ("error", false),
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(usual));
    // What cannot be written is lost, and nobody is told of that where it cannot be written.
    let messages = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Log).log_internal_errors(false);
    let messages = messages.with_ansi(std::io::stderr().is_terminal());
    if json {
        messages.json().flatten_event(true).init();
    } else {
        messages.init();
    }
}

/// Tells an error and who is at fault, and gives the exit code.
fn fail(exit: Exit, error: &dyn Display) -> Exit {
    // Standard error may lead nowhere.
    let _ = writeln!(std::io::stderr(), "monohull: {error}");
    exit
}

/// Prints one JSON document. A reader that has gone away is not our failure.
fn print_json(document: &impl Serialize) {
    // Not as one text: a report may be long.
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let written = serde_json::to_writer_pretty(&mut out, document).map_err(std::io::Error::from);
    let _ = written.and_then(|()| writeln!(out)).and_then(|()| out.flush());
}

/// Prints to standard output; unlike `print!` it does not panic when nobody reads any more.
fn print(text: &str) {
    print_bytes(text.as_bytes());
}

/// The same for what need not be text, or not as a whole.
fn print_bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}
