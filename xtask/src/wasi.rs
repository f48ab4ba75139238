//! Builds what makes functions of WebAssembly programs: the compiler, and the runtime's image.
//!
//! ```text
//! target/wasi/compile       the compiler, a program of its own
//! target/wasi/runtime.so    the runtime, to which it appends a program
//! target/wasi/wasi-tour.wasm  a program in Rust (`wasi/guests/tour`), and
//! target/images/wasi-tour.so  the function that is made of it
//! target/wasi/wasi-component.wasm  the same program as a component, and
//! target/images/wasi-component.so  the function that is made of it
//! target/wasi/slots-rust.wasm  another one in Rust (`wasi/guests/slots`), which uses slots
//! target/wasi/durable-rust.wasm  another one in Rust (`wasi/guests/durable`), with the crate `monohull`
//! target/wasi/wasi-http.wasm  a component that answers HTTP requests (`wasi/guests/http`), and
//! target/images/wasi-http.so  the function that is made of it
//! target/wasi/wasi-sockets.wasm  a program with sockets as a component (`wasi/guests/sockets`), and
//! target/images/wasi-sockets.so  the function that is made of it
//! target/wasi/quickjs.wasm  the interpreter of programs in JavaScript (`wasi_guests`)
//! target/wasi/tour-c.wasm   programs in other languages, for tests
//! target/wasi/build         cargo's folder: the workspace `wasi` has its own dependencies
//! ```

use crate::build::{DEPENDENCY_FLAGS, IMAGE_FLAGS, install};
use crate::workspace::{Workspace, root};
use crate::{Result, shell, wasi_guests};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The guests in Rust: the package, what it is compiled for (preview 1 or version 0.2 of WASI), cargo's name of the program, and ours.
const GUESTS: [(&str, &str, &str, &str); 4] = [
    ("wasi-tour", "wasm32-wasip1", "wasi-tour.wasm", "wasi-tour"),
    ("wasi-tour", "wasm32-wasip2", "wasi-tour.wasm", "wasi-component"),
    ("wasi-http", "wasm32-wasip2", "wasi_http.wasm", "wasi-http"),
    ("wasi-sockets", "wasm32-wasip2", "wasi-sockets.wasm", "wasi-sockets"),
];
/// Ways to lay the runtime out, the usual one first.
const LAYOUTS: [&str; 4] = [
    "llvm-args=-align-all-functions=5",
    "llvm-args=-align-all-functions=6",
    "llvm-args=-align-all-nofallthru-blocks=4",
    "opt-level=2",
];
/// Crates that are linted, each by itself: together they would share features that some must not have.
const PACKAGES: [&str; 6] = [
    "monohull-wasi-settings",
    "monohull-wasi-runtime",
    "monohull-wasi-compile",
    "wasi-tour",
    "wasi-http",
    "wasi-sockets",
];
/// What imports functions of the runtime, which are there for WebAssembly alone: the package, and our name of the program.
const GUESTS_OF_RUNTIME: [(&str, &str); 2] = [("wasi-slots", "slots-rust"), ("wasi-durable", "durable-rust")];
const TARGET: [&str; 2] = ["--target", "wasm32-wasip1"];

/// The compiler's fuzz target, and what it begins with.
pub(crate) const FUZZER: &str = "wasi_compile";
pub(crate) const FUZZ_SEEDS: &str = "wasi/compile/fuzz/corpus";

/// Compiler, runtime, and guests.
pub(crate) fn build(workspace: &Workspace) -> Result {
    tools(workspace)?;
    guests(workspace, &root().join("target/wasi"))
}

/// The same without the one whose image is made here.
pub(crate) fn tools(workspace: &Workspace) -> Result {
    compiler(workspace)?;
    wasi_guests::build(&root().join("target/wasi"))
}

/// The compiler and the runtime.
pub(crate) fn compiler(workspace: &Workspace) -> Result {
    let (built, to) = (folder(workspace), root().join("target/wasi"));
    shell::run(
        cargo(workspace, &["build", "--release", "--quiet", "-p", "monohull-wasi-compile"]).env_remove("RUSTFLAGS"),
    )?;
    install(&built.join("release/monohull-wasi-compile"), &to.join("compile"))?;

    runtime(workspace, &to.join("runtime.so"))
}

/// The runtime's image. Its code is part of every function that is made with it, so it must not hold the bytes of a forbidden
/// instruction by accident: it is laid out in another way then.
fn runtime(workspace: &Workspace, to: &Path) -> Result {
    let theirs = std::env::var("RUSTFLAGS").unwrap_or_default();
    let monohull = workspace.target().join("release/monohull");
    let built = folder(workspace).join("image/libmonohull_wasi_runtime.so");
    let mut last = String::new();
    for layout in LAYOUTS {
        let mut link = cargo(workspace, &["rustc", "--quiet", "-p", "monohull-wasi-runtime", "--lib"]);
        link.args(["--crate-type=cdylib", "--profile=image", "--"]);
        for flag in IMAGE_FLAGS.iter().chain([&layout]) {
            link.args(["-C", flag]);
        }
        shell::run(link.env("RUSTFLAGS", format!("{theirs} {DEPENDENCY_FLAGS}")))?;
        // Without that program nothing is known of the code. Each function is checked when it is made.
        let checked = if monohull.exists() {
            shell::output(Command::new(&monohull).arg("check").arg(&built))
        } else {
            Ok(vec![])
        };
        match checked {
            Ok(_) => return install(&built, to),
            Err(why) => last = why,
        }
    }
    Err(format!("the runtime holds forbidden instructions in each of {} layouts: {last}", LAYOUTS.len()))
}

/// The programs in Rust, and their images.
fn guests(workspace: &Workspace, to: &Path) -> Result {
    rust_for_guests()?;
    let images = root().join("target/images");
    for (package, target, built, name) in GUESTS {
        let mut build = cargo(workspace, &["build", "--release", "--quiet", "-p", package, "--target", target]);
        shell::run(build.env_remove("RUSTFLAGS"))?;
        let program = to.join(name).with_extension("wasm");
        install(&folder(workspace).join(target).join("release").join(built), &program)?;
        let mut monohull = Command::new(workspace.target().join("release/monohull"));
        shell::output(monohull.arg("build").arg(program).arg("--out").arg(&images))?;
    }
    GUESTS_OF_RUNTIME.iter().try_for_each(|(package, name)| {
        let mut build = cargo(workspace, &["build", "--release", "--quiet", "-p", package]);
        shell::run(build.args(TARGET).env_remove("RUSTFLAGS"))?;
        let built = folder(workspace).join("wasm32-wasip1/release").join(package).with_extension("wasm");
        install(&built, &to.join(name).with_extension("wasm"))
    })
}

/// Has rustup install std for what guests in Rust are compiled for, where it is not there.
fn rust_for_guests() -> Result {
    let installed = shell::output(Command::new("rustup").args(["target", "list", "--installed"]))?;
    let installed = String::from_utf8_lossy(&installed);
    let mut targets: Vec<&str> = GUESTS.iter().map(|(_, target, ..)| *target).collect();
    targets.dedup();
    targets.retain(|target| !installed.lines().any(|installed| installed == *target));
    if targets.is_empty() { Ok(()) } else { shell::run(Command::new("rustup").args(["target", "add"]).args(targets)) }
}

/// Formatting and clippy; warnings are errors. With the profile that all of it was built with, so that dependencies are there.
pub(crate) fn lint(workspace: &Workspace) -> Result {
    shell::heading("rustfmt and clippy of wasi");
    shell::run(&mut cargo(workspace, &["fmt", "--all", "--check"]))?;
    rust_for_guests()?;
    PACKAGES.iter().try_for_each(|package| {
        let mut clippy = cargo(workspace, &["clippy", "--quiet", "-p", package, "--release"]);
        shell::run(clippy.args(["--", "-D", "warnings"]).env_remove("RUSTFLAGS"))
    })?;
    GUESTS_OF_RUNTIME.iter().try_for_each(|(package, _)| {
        let mut clippy = cargo(workspace, &["clippy", "--quiet", "-p", package, "--release"]);
        shell::run(clippy.args(TARGET).args(["--", "-D", "warnings"]).env_remove("RUSTFLAGS"))
    })
}

/// The compiler's own tests, with the profile that it was built with.
pub(crate) fn tests(workspace: &Workspace) -> Command {
    let mut tests = cargo(workspace, &["test", "--release", "-p", "monohull-wasi-compile"]);
    tests.env_remove("RUSTFLAGS");
    tests
}

/// Builds the compiler's fuzz target. Only the crate's own code is instrumented, with these flags: Cranelift is the one that
/// the compiler has.
pub(crate) fn fuzzer(workspace: &Workspace, coverage: &str) -> Result<Command> {
    let mut build = cargo(workspace, &["rustc", "--release", "-p", "monohull-wasi-compile"]);
    build.args(["--features", "fuzz", "--bin", FUZZER, "--"]);
    shell::run(build.args(coverage.split_whitespace()).env_remove("RUSTFLAGS"))?;
    let mut fuzzer = Command::new(folder(workspace).join("release").join(FUZZER));
    fuzzer.env("MONOHULL_WASI_RUNTIME", root().join("target/wasi/runtime.so"));
    Ok(fuzzer)
}

/// Cargo on the workspace `wasi`.
fn cargo(workspace: &Workspace, arguments: &[&str]) -> Command {
    let mut command = shell::cargo(arguments.iter().copied());
    command.current_dir(root().join("wasi")).env("CARGO_TARGET_DIR", folder(workspace));
    command
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("wasi/build")
}
