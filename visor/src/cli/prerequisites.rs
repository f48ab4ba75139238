//! What building functions takes besides Monohull, by language: `doctor` reports it, and `new` says what is missing.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cargo;
use super::cc;
use super::languages::Lang;
use super::python;
use monohull_report::escape::shown;
use monohull_workflow::Target;

/// The target of WebAssembly programs in Rust.
const WASM_TARGET: &str = "wasm32-wasip1";

/// Something that functions of a language are built with, or run in.
pub(super) struct Prerequisite {
    pub(super) name: &'static str,
    /// Of which functions: the language, and whether they are WebAssembly programs.
    of: &'static [(Lang, bool)],
    find: fn() -> Result<String, String>,
    /// What cannot be done without it.
    pub(super) without: &'static str,
    pub(super) remedy: &'static str,
}

/// All of them.
pub(super) const ALL: [Prerequisite; 7] = [
    Prerequisite {
        name: "cargo",
        of: &[(Lang::Rust, false), (Lang::Rust, true)],
        find: || program(&cargo::program()),
        without: "functions in Rust cannot be built",
        remedy: "install Rust (https://rustup.rs)",
    },
    Prerequisite {
        name: "C compiler",
        of: &[(Lang::Rust, false), (Lang::C, false)],
        find: || program(&cc::compiler("MONOHULL_CC", "cc")),
        without: "functions in C cannot be built, and no crate over Rust's own std can be linked",
        remedy: "install gcc or clang, or name one in MONOHULL_CC",
    },
    Prerequisite {
        name: "Rust's target wasm32-wasip1",
        of: &[(Lang::Rust, true)],
        find: wasm_target,
        without: "functions in Rust cannot be built as WebAssembly",
        remedy: "rustup target add wasm32-wasip1",
    },
    Prerequisite {
        name: "clang and wasi-libc",
        of: &[(Lang::C, true)],
        find: wasi_libc,
        without: "functions in C cannot be built as WebAssembly",
        remedy: "install clang, lld and wasi-libc",
    },
    Prerequisite {
        name: "go",
        of: &[(Lang::Go, false), (Lang::Go, true)],
        find: || program("go".as_ref()),
        without: "functions in Go cannot be built",
        remedy: "install Go 1.21 or newer (https://go.dev)",
    },
    Prerequisite {
        name: "Python",
        of: &[(Lang::Python, false)],
        find: || python::interpreter(Target::Native),
        without: "functions in Python cannot run natively",
        remedy: "cargo xtask build --python",
    },
    Prerequisite {
        name: "Python for WebAssembly",
        of: &[(Lang::Python, true)],
        find: || python::interpreter(Target::Wasi),
        without: "functions in Python cannot run as WebAssembly",
        remedy: "cargo xtask build --python-wasi",
    },
];

impl Prerequisite {
    /// Where it is, or what is not there.
    pub(super) fn find(&self) -> Result<String, String> {
        (self.find)()
    }
}

/// What is missing for functions of a language: a line for each.
pub(super) fn missing(lang: Lang, wasi: bool) -> Vec<String> {
    let needed = ALL.iter().filter(|needed| needed.of.contains(&(lang, wasi)));
    let line = |needed: &Prerequisite| {
        let why = needed.find().err()?;
        Some(format!("{}: {why}; {}; {}", needed.name, needed.without, needed.remedy))
    };
    needed.filter_map(line).collect()
}

/// A program on the path, or at a path of its own.
fn program(name: &OsStr) -> Result<String, String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&folders).map(|folder| folder.join(name)).collect();
    if Path::new(name).components().count() > 1 {
        places = vec![name.into()];
    }
    let found = places.into_iter().find(|place| place.is_file());
    found.map(|place| shown(&place).to_string()).ok_or_else(|| "not found".to_owned())
}

/// What a compiler prints when it is asked where something is.
fn asked(program: &OsStr, arguments: &[&str]) -> Option<PathBuf> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(text.trim_end())).filter(|path| path.is_absolute() && path.exists())
}

fn wasm_target() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let found = asked(&rustc, &["--print", "target-libdir", "--target", WASM_TARGET]);
    found.map(|folder| shown(&folder).to_string()).ok_or_else(|| "not found".to_owned())
}

fn wasi_libc() -> Result<String, String> {
    let clang = program("clang".as_ref()).map_err(|_| "clang was not found".to_owned())?;
    let libc = asked("clang".as_ref(), &["--target=wasm32-wasi", "-print-file-name=libc.a"]);
    libc.map(|libc| format!("{clang}, {}", shown(&libc))).ok_or_else(|| "wasi-libc was not found".to_owned())
}
