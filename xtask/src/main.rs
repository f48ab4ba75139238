//! `cargo xtask …`: the entry point of all chores, for people and for CI.
//!
//! Every chore is a file. They build with cargo and start programs, and know nothing of Monohull's insides.
#![deny(unsafe_code)]

mod apache;
mod apt;
mod assemblyscript;
mod audit;
mod bench;
mod browser;
mod build;
mod c_programs;
mod c_suites;
mod ci;
mod circles;
mod count;
mod cxx;
mod demo;
mod durable_peers;
mod extent;
mod fat_tools;
mod flaky;
mod install;
mod libc;
mod libc_tests;
mod lint;
mod miri;
mod network;
mod nginx;
mod programs;
mod pyperformance;
mod python;
mod sandboxes;
mod sdist;
mod shell;
mod source;
mod space;
mod test;
mod tools;
mod vm;
mod wasi;
mod wasi_guests;
mod workspace;

use clap::{Parser, Subcommand};
use extent::Extent;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// What a chore ends with: an error is a sentence for the person at the terminal.
type Result<T = ()> = std::result::Result<T, String>;

/// Monohull's chores.
#[derive(Parser)]
#[command(
    bin_name = "cargo xtask",
    after_help = "Example: cargo xtask demo ~/books/*.txt\nOutput goes to target/ (or $CARGO_TARGET_DIR)."
)]
struct Options {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Builds the visor, the libc, the libos modules and all example functions.
    Build {
        /// Build the libc of C programs and of the real std alone.
        #[arg(long)]
        libc: bool,
        /// Build the libc and the C programs of other projects alone.
        #[arg(long, conflicts_with = "libc")]
        c_programs: bool,
        /// Build the libc and the workspace of published crates alone.
        #[arg(long, conflicts_with_all = ["libc", "c_programs"])]
        programs: bool,
        /// Build the interpreter of Python programs, which takes minutes the first time, and what it needs alone.
        #[arg(long, conflicts_with_all = ["libc", "c_programs", "programs"])]
        python: bool,
        /// With this package as a part of the interpreter.
        #[arg(long, requires = "python", value_name = "PACKAGE")]
        with: Vec<python::Package>,
        /// The smaller one for the tests that run each time, without OpenSSL, to `target/python-small`.
        #[arg(long, requires = "python", conflicts_with = "with")]
        small: bool,
        /// Build the interpreter of Python programs that are built for WebAssembly, which takes minutes the first time, and what it needs alone.
        #[arg(long, conflicts_with_all = ["libc", "c_programs", "programs", "python"])]
        python_wasi: bool,
        /// Build the C++ standard library, which takes minutes the first time, and what it needs alone.
        #[arg(long, conflicts_with_all = ["libc", "c_programs", "programs", "python", "python_wasi"])]
        cxx: bool,
        /// Build the tests of C libraries of musl's authors as functions, and what they need alone.
        #[arg(long, conflicts_with_all = ["libc", "c_programs", "programs", "python", "python_wasi", "cxx"])]
        libc_tests: bool,
        /// Build the test suites that C programs of other projects bring along, and what they need alone.
        #[arg(long, conflicts_with_all = ["libc", "c_programs", "programs", "python", "python_wasi", "cxx", "libc_tests"])]
        c_suites: bool,
        /// Build the compiler and the runtime of WebAssembly programs, and programs for tests, alone.
        #[arg(long, conflicts_with_all = ["libc", "c_programs", "programs", "python", "python_wasi", "cxx", "libc_tests", "c_suites"])]
        wasi: bool,
        /// Build C programs of other projects as WebAssembly programs, and what they need and are compared with alone.
        #[arg(long, conflicts_with_all = ["libc", "c_programs", "programs", "python", "python_wasi", "cxx", "libc_tests", "c_suites", "wasi"])]
        c_programs_wasi: bool,
    },
    /// Builds everything, and installs the program, its modules, manual pages and completions below a folder.
    Install {
        /// The folder, such as /usr/local or ~/.local; the program goes to its `bin`.
        prefix: PathBuf,
    },
    /// Counts the words of real texts with workflows/word-count.json, and shows where the time went.
    Demo {
        /// Texts to count; by default those that every Debian or Ubuntu machine has, and this repository's sources.
        files: Vec<PathBuf>,
        /// Texts are repeated until there are at least this many bytes.
        #[arg(long, default_value_t = demo::DEFAULT_BYTES)]
        bytes: u64,
    },
    /// Builds everything, then runs all tests. The last line says how many passed and failed.
    Test {
        /// Run the suite on processors with protection keys instead: in a virtual machine, with two kernels.
        #[arg(long, conflicts_with = "arguments")]
        keys: bool,
        /// Run the tests of networks of workflows' own instead: as root, with /dev/net/tun.
        #[arg(long, conflicts_with_all = ["arguments", "keys"])]
        network: bool,
        /// Go through all cases of tests that have many. In the virtual machine, run every test under both kernels instead of each under one
        /// of them, also those in which keys have no part, and with random addresses.
        #[arg(long, conflicts_with = "arguments")]
        full: bool,
        /// Arguments for the test programs, after `--`.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Starts a test program for cargo.
    #[command(hide = true)]
    RunTest {
        /// The program.
        program: PathBuf,
        /// Its arguments.
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        arguments: Vec<OsString>,
    },
    /// What `ci` does while tests run.
    #[command(hide = true)]
    BesideTests {
        /// As `ci` has it.
        #[arg(long)]
        full: bool,
    },
    /// Runs a command in a virtual machine with protection keys, with the repository at /monohull, and ends with its
    /// exit status.
    Vm(vm::Wish),
    /// Measures Monohull and what it is compared with, in the same run.
    Bench {
        /// Scenarios to run; all if none is named. `--list` shows them.
        #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
        arguments: Vec<String>,
    },
    /// Fetches what tests and benchmarks start besides programs of this repository; they also fetch it themselves.
    Fetch,
    /// Formatting, dependencies but for advisories, clippy and rustdoc, with warnings as errors.
    Lint,
    /// Checks dependencies: licences, sources, versions, whether they are used, and RustSec's advisories, which are on GitHub.
    Audit,
    /// Runs the tests of plain data, the scheduler above all, under Miri, which finds undefined behaviour.
    Miri,
    /// What a change must pass: lint, test, Miri, properties and a short fuzz of loader and checker, demo, every bench scenario at tiny size.
    Ci {
        /// Run all tests, and all their cases, as `test --full` does.
        #[arg(long)]
        full: bool,
    },
}

fn main() -> ExitCode {
    let chore = Options::parse().chore;
    let done = match chore {
        // Cargo starts this with a test program, in the folder of any package.
        Chore::RunTest { program, arguments } => flaky::run(&program, &arguments),
        chore => workspace::leave_other_root().and_then(|()| perform(chore)),
    };
    match done {
        Ok(status) => status,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

fn perform(chore: Chore) -> Result<ExitCode> {
    match chore {
        Chore::Build { libc: true, .. } => build::libc(),
        Chore::Build { c_programs: true, .. } => build::c_programs(),
        Chore::Build { programs: true, .. } => build::published(),
        Chore::Build { python: true, small: true, .. } => python::small(),
        Chore::Build { python: true, with, .. } => python::build(&with),
        Chore::Build { python_wasi: true, .. } => python::wasi::build(),
        Chore::Build { cxx: true, .. } => cxx::build(),
        Chore::Build { libc_tests: true, .. } => libc_tests::build(),
        Chore::Build { c_suites: true, .. } => c_suites::build(),
        Chore::Build { wasi: true, .. } => build::wasi(),
        Chore::Build { c_programs_wasi: true, .. } => build::c_programs_wasi(),
        Chore::Build { .. } => build::everything(),
        Chore::Install { prefix } => install::run(&prefix),
        Chore::Demo { files, bytes } => demo::run(&files, bytes),
        Chore::Test { keys: true, full, .. } => test::run_with_keys(Extent::new(full)),
        Chore::Test { network: true, full, .. } => test::run_network(Extent::new(full)),
        Chore::Test { arguments, full, .. } => test::run(&arguments, Extent::new(full)),
        Chore::RunTest { .. } => unreachable!("`main` does this itself"),
        Chore::BesideTests { full } => ci::beside_tests(Extent::new(full)),
        Chore::Vm(wish) => return vm::command(&wish),
        Chore::Bench { arguments } => bench::run(&arguments),
        Chore::Fetch => vm::fetch()
            .and_then(|()| browser::ready())
            .and_then(|()| libc::fetch())
            .and_then(|()| c_programs::fetch())
            .and_then(|()| fat_tools::ready())
            .and_then(|()| apache::ready())
            .and_then(|()| sandboxes::wasmtime())
            .and_then(|()| network::peers().map(drop)),
        Chore::Lint => lint::run(),
        Chore::Audit => audit::run(),
        Chore::Miri => miri::run(),
        Chore::Ci { full } => ci::run(Extent::new(full)),
    }
    .map(|()| ExitCode::SUCCESS)
}
