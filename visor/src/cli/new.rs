//! `monohull new`: a function crate that builds and runs as it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::Args;

use super::exit::Exit;
use crate::workflow::document::{Document, Function, Instances, Limits, Step};
use crate::workflow::{
    plan::{Separation, TimeStampCounter},
    quoted, shape,
};

/// Create a function crate with a workflow that runs it
#[derive(Debug, Args)]
#[command(after_help = super::concat_help!(
    "monohull new hello && cd hello && monohull build && monohull run workflow.json"
))]
pub(super) struct New {
    /// The crate's name, and the folder to create
    name: String,
    /// The folder of the crate `monohull-std` [default: the one this program was built with]
    #[arg(long = "std", value_name = "PATH")]
    shim: Option<PathBuf>,
}

/// Why a function crate cannot be created.
#[derive(Debug, thiserror::Error)]
enum NewError {
    /// the name cannot be a crate's; the invocation is at fault
    #[error("{0} is no name for a function: expected 1 to 63 letters, digits, `-` and `_`, a letter first, no keyword")]
    BadName(String),
    /// there is something of that name; the invocation is at fault
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    /// the shim is not there; the invocation is at fault
    #[error("{} is not the crate `monohull-std`; --std PATH says where it lies", .0.display())]
    NoShim(PathBuf),
    /// a file cannot be written; the host is at fault
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
}

impl New {
    pub(super) fn run(&self) -> Exit {
        match self.create() {
            Ok(()) => {
                let name = &self.name;
                super::print(&format!(
                    "Created {name}. Next:\n  cd {name} && monohull build && monohull run workflow.json\n"
                ));
                Exit::Done
            }
            Err(error @ NewError::File { .. }) => super::fail(Exit::Host, &error),
            Err(error) => super::fail(Exit::Usage, &error),
        }
    }

    fn create(&self) -> Result<(), NewError> {
        if !is_crate_name(&self.name) {
            return Err(NewError::BadName(quoted(&self.name)));
        }
        let shim = self.shim()?;
        let folder = Path::new(&self.name);
        fs::create_dir(folder).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => NewError::Exists(folder.to_path_buf()),
            _ => NewError::File { path: folder.to_path_buf(), source },
        })?;
        write(&folder.join("Cargo.toml"), &manifest(&self.name, &shim))?;
        write(&folder.join("src/lib.rs"), PROGRAM)?;
        write(&folder.join("workflow.json"), &workflow(&self.name))?;
        write(&folder.join(".gitignore"), "/target\n")?;
        copy_lock(&shim, folder)
    }

    fn shim(&self) -> Result<PathBuf, NewError> {
        let built_with = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../std-shim");
        let path = self.shim.clone().unwrap_or_else(built_with);
        match path.canonicalize() {
            Ok(found) if found.join("Cargo.toml").is_file() => Ok(found),
            _ => Err(NewError::NoShim(path)),
        }
    }
}

/// Gives the crate the versions Monohull itself was built with: they are tested, and already on this machine. Cargo
/// drops those that are not needed.
fn copy_lock(shim: &Path, folder: &Path) -> Result<(), NewError> {
    let to = folder.join("Cargo.lock");
    match fs::read_to_string(shim.join("../Cargo.lock")) {
        Ok(lock) => write(&to, &lock),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(NewError::File { path: to, source }),
    }
}

const PROGRAM: &str = r#"#![no_std]
use monohull_std::prelude::*;

#[monohull::main]
fn main() {
    println!("Hello from Monohull!");
}
"#;

fn manifest(name: &str, shim: &Path) -> String {
    // A TOML basic string is written like a JSON string.
    let shim = serde_json::Value::from(shim.to_string_lossy());
    format!(
        r#"[package]
name = "{name}"
version = "0.1.0"
edition = "2024"

[dependencies]
monohull-std = {{ path = {shim} }}

# A workspace of its own, wherever the folder lies.
[workspace]
"#
    )
}

fn workflow(name: &str) -> String {
    let image = format!("target/images/{name}.so");
    let step = Step {
        name: name.to_owned(),
        function: name.to_owned(),
        after: Vec::new(),
        instances: Instances::default(),
        args: serde_json::Map::new(),
        env: BTreeMap::new(),
        stdin: None,
        takes: None,
        fills: None,
        timeout: None,
        retry: None,
        memory: None,
        stack: None,
    };
    let document = Document {
        schema: None,
        name: name.to_owned(),
        description: None,
        functions: BTreeMap::from([(name.to_owned(), Function { image })]),
        steps: vec![step],
        inputs: Vec::new(),
        outputs: Vec::new(),
        unread: None,
        files: Vec::new(),
        limits: Limits::default(),
        network: None,
        isolation: Separation::default(),
        time_stamp_counter: TimeStampCounter::default(),
    };
    // A document of plain strings and numbers always has a JSON form.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

fn write(path: &Path, text: &str) -> Result<(), NewError> {
    let write = || {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, text)
    };
    write().map_err(|source| NewError::File { path: path.to_path_buf(), source })
}

/// Whether cargo takes this as the name of a crate, and a workflow as that of a function.
fn is_crate_name(name: &str) -> bool {
    const KEYWORDS: &[&str] = &[
        "Self",
        "abstract",
        "as",
        "async",
        "await",
        "become",
        "box",
        "break",
        "const",
        "continue",
        "crate",
        "do",
        "dyn",
        "else",
        "enum",
        "extern",
        "false",
        "final",
        "fn",
        "for",
        "gen",
        "if",
        "impl",
        "in",
        "let",
        "loop",
        "macro",
        "match",
        "mod",
        "move",
        "mut",
        "override",
        "priv",
        "pub",
        "ref",
        "return",
        "self",
        "static",
        "struct",
        "super",
        "test",
        "trait",
        "true",
        "try",
        "type",
        "typeof",
        "unsafe",
        "unsized",
        "use",
        "virtual",
        "where",
        "while",
        "yield",
        "core",
        "std",
        "alloc",
        "proc_macro",
        "proc-macro",
        "build",
        "deps",
        "examples",
        "incremental",
        "monohull-std",
        "monohull_std",
        "nul",
        "con",
        "prn",
        "aux",
    ];
    shape::is_name(name) && name.starts_with(|c: char| c.is_ascii_alphabetic()) && !KEYWORDS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow;

    #[test]
    fn the_workflow_written_is_valid() {
        let plan = workflow::load_str(Path::new("hello/workflow.json"), &workflow("hello")).expect("valid");
        assert_eq!(plan.steps.len(), 1);
        assert_eq!(plan.functions[0].image, Path::new("hello/target/images/hello.so"));
    }

    #[test]
    fn names_that_cargo_refuses_are_refused() {
        for name in ["", "-x", "1st", "a b", "a/b", "..", "fn", "test", "core", "é", "a.b"] {
            assert!(!is_crate_name(name), "{name}");
        }
        for name in ["hello", "word-count", "a_1"] {
            assert!(is_crate_name(name), "{name}");
        }
    }
}
