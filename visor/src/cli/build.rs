//! `monohull build`: makes a function image out of a crate, a Python program or a WebAssembly program, and checks it.

mod error;
mod image;
mod link;
mod options;
mod package;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use monohull_checker::{Class, Finding, Report};

use super::exit::Exit;
use super::measures::{Size, Time, duration, size};
use super::wasm::{self, Level, Settings};
use link::build_image;
use monohull_report::escape::{Line, Lines, shown};
use monohull_workflow::{Checks, Target};
use package::Selection;

pub(super) use error::BuildError;
pub(super) use image::{Built, check, install};

/// Build a crate as a function image, and check it
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!("monohull build hello", "monohull build --bin server --features tls", "monohull build --package server --locked", "monohull build app.py", "monohull build --wasi app.py", "monohull build app.wasm", "monohull build app.js"))]
pub(super) struct Build {
    /// The crate's folder, a Python program (`app.py`, or a folder with `main.py` or `__main__.py`), a WebAssembly program (`app.wasm`), or one in JavaScript
    /// (`app.js`), whose interpreter is a WebAssembly program
    #[arg(default_value = ".")]
    path: PathBuf,
    /// The folder for the image [default: `images` in cargo's target folder; for a Python, WebAssembly or JavaScript program its own folder]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Of a Python program: build it for the interpreter that is a WebAssembly program, which cannot leave its memory
    #[arg(long, conflicts_with = "explicit_checks")]
    wasi: bool,
    /// Of a WebAssembly program: check each address by instructions, instead of by pages without access. For hosts where a fault
    /// ends the process: with protection keys before Linux 6.12, where tracing is refused
    #[arg(long)]
    explicit_checks: bool,
    /// Of a WebAssembly program: the level of the processors that it is compiled for [default: this host's]
    #[arg(long, value_name = "LEVEL")]
    cpu: Option<Level>,
    /// Of a WebAssembly program: how much memory its compiler may use
    #[arg(long, value_name = "SIZE", value_parser = size, default_value_t = Size(wasm::MEMORY))]
    compile_memory: Size,
    /// Of a WebAssembly program: how much processor time its compiler may take, in whole seconds
    #[arg(long, value_name = "TIME", value_parser = duration, default_value_t = Time(Duration::from_secs(wasm::SECONDS)))]
    compile_time: Time,
    #[command(flatten)]
    selection: Selection,
}

impl Build {
    pub(super) fn run(&self) -> Exit {
        let is_python = || super::python::is_program(&self.path);
        let target = if self.wasi { Target::Wasi } else { Target::Native };
        let built = match wasm::is_program(&self.path) {
            _ if self.selection.manifest_path.is_some() => {
                build_image(&self.path, self.out.as_deref(), &self.selection)
            }
            _ if self.wasi && !is_python() => Err(BuildError::NoPythonProgram(self.path.clone())),
            true => wasm::build_program(&self.path, self.out.as_deref(), self.settings()),
            false if self.explicit_checks => Err(self.no_wasm("--explicit-checks")),
            false if self.cpu.is_some() => Err(self.no_wasm("--cpu")),
            false if is_python() => super::python::build_program(&self.path, self.out.as_deref(), target),
            false => build_image(&self.path, self.out.as_deref(), &self.selection),
        };
        match built {
            Ok(built) => {
                if let Some(layout) = built.layout {
                    super::output::note(format_args!(
                        "linked again with `-C {layout}`: without, instructions hold forbidden bytes by accident"
                    ));
                }
                show_warnings(&built.refused, &built.report);
                super::output::text(format_args!("{}\n", shown(&built.path)));
                Exit::Done
            }
            Err(error) => {
                if let BuildError::Refused { report, .. }
                | BuildError::Accidents { report, .. }
                | BuildError::AccidentsInProgram { report, .. } = &error
                {
                    show_refusals("", report);
                }
                super::fail(error.exit(), &error)
            }
        }
    }

    fn no_wasm(&self, option: &'static str) -> BuildError {
        BuildError::NoWasm { path: self.path.clone(), option }
    }

    fn settings(&self) -> Settings {
        let checks = if self.explicit_checks { Checks::Explicit } else { Checks::Guards };
        let level = self.cpu.unwrap_or_else(Level::here);
        Settings { checks, level, memory: self.compile_memory.0, seconds: self.compile_time.0.as_secs().max(1) }
    }
}

/// Warnings that something can be done about: what code asks for and will not get, and system calls that stand in the source. Every image
/// holds bytes of others.
pub(super) fn show_warnings(refused: &[String], report: &Report) {
    for refused in refused {
        super::output::note(format_args!("warning: {}", Lines(refused)));
    }
    let written = |finding: &&Finding| {
        finding.kind.is_system_call()
            && finding.context.as_ref().is_some_and(|context| context.class == Class::Instruction)
    };
    for finding in report.findings.iter().filter(written) {
        show_finding("warning: ", finding);
    }
}

/// What the loader will refuse an image for.
pub(super) fn show_refusals(level: &str, report: &Report) {
    for finding in report.refusals() {
        show_finding(level, finding);
    }
}

fn show_finding(level: &str, finding: &Finding) {
    let Finding { why, remedy, .. } = finding;
    super::output::note(format_args!("{level}{}\n  why:    {why}\n  remedy: {remedy}", Line(finding)));
}
