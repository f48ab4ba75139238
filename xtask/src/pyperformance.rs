//! What `bench programs` needs for its rows of Python: benchmarks of pyperformance as a program, and an interpreter of the host to run them
//! as well. Without the interpreter of functions (`cargo xtask build --python`) there is nothing to compare.
//!
//! ```text
//! Python's package index ── SHA-256 ─▶ target/pyperformance/program/bm_*.py, unchanged
//! bench/python/{main,pyperf}.py ─────▶ target/pyperformance/program/        ── monohull build ─▶ target/pyperformance/program.so
//! CPython, as that of functions ─ gcc ▶ target/pyperformance/python, a link
//! ```

use crate::workspace::{Workspace, root};
use crate::{Result, apt, python, shell};
use std::path::Path;
use std::process::{Command, Stdio};

/// The package, by its content.
const PACKAGE: &str =
    "pyperformance==1.14.0 --hash=sha256:94068ac2935b6952ccb5e8a302eb9cebc26e82454494bef6e53822738adf0049\n";
const WHEEL: &str = "pyperformance-1.14.0-py3-none-any.whl";
/// Which benchmarks: those that need the standard library alone.
const BENCHMARKS: [&str; 17] = [
    "chaos",
    "deepcopy",
    "deltablue",
    "fannkuch",
    "float",
    "go",
    "json_dumps",
    "json_loads",
    "logging",
    "nbody",
    "pickle",
    "pidigits",
    "raytrace",
    "regex_effbot",
    "regex_v8",
    "richards",
    "spectral_norm",
];

/// Makes what is not there yet.
pub(crate) fn ready() {
    if !root().join("target/python/python.so").exists() {
        eprintln!("there is no interpreter of Python programs, which `cargo xtask build --python` makes");
    } else if let Err(why) = prepare() {
        eprintln!("pyperformance is not to be had: {why}");
    }
}

fn prepare() -> Result {
    let folder = root().join("target/pyperformance");
    apt::make(&folder)?;
    let _held = apt::lock(&folder)?;
    let interpreter = python::of_the_host()?;
    let program = folder.join("program");
    if !program.exists() {
        fetch(&folder, &program)?;
    }
    for file in ["main.py", "pyperf.py"] {
        shell::run(Command::new("cp").arg(root().join("bench/python").join(file)).arg(&program))?;
    }
    shell::run(Command::new("ln").arg("-sfn").arg(interpreter).arg(folder.join("python")))?;
    let monohull = Workspace::load()?.target().join("release/monohull");
    shell::run(Command::new(monohull).args(["build", "--out"]).arg(&folder).arg(&program).stdout(Stdio::null()))
}

/// The benchmarks, each as a module `bm_NAME`.
fn fetch(folder: &Path, program: &Path) -> Result {
    shell::heading("fetch the benchmarks of pyperformance: about 9 MB, once");
    let new = folder.join("new");
    apt::remove(&new)?;
    apt::make(&new)?;
    apt::write(&new.join("requirements"), PACKAGE)?;
    let python = |arguments: &[&str]| {
        let mut python = Command::new("python3");
        shell::run(python.args(arguments).current_dir(&new).stdout(Stdio::null()))
    };
    let pip = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"];
    python(&[&pip[..], &["--requirement", "requirements"]].concat())?;
    python(&["-m", "zipfile", "--extract", WHEEL, "."])?;
    let modules = new.join("program");
    apt::make(&modules)?;
    for benchmark in BENCHMARKS {
        let file = new.join(format!("pyperformance/data-files/benchmarks/bm_{benchmark}/run_benchmark.py"));
        shell::run(Command::new("cp").arg(file).arg(modules.join(format!("bm_{benchmark}.py"))))?;
    }
    apt::rename(&modules, program)?;
    apt::remove(&new)
}
