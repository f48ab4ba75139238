//! A program in place of a workflow file: `monohull run app.wasm -- a b` runs a workflow of one step, which has what the command line grants.
//!
//! The document is made here and is like any other, so that all else of `run` holds for it too: `--suspend`, `--state`, `--set`, `--json`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};

use super::{python, wasm};

/// The slot of the program's standard input, if it is given.
const INPUT: &str = "stdin";
/// What an image begins with.
const ELF: [u8; 4] = *b"\x7fELF";

/// What a program is given.
#[derive(Debug, Args)]
pub(super) struct Given {
    /// Of a program: grant it this directory, at this path (`HOST::GUEST`, or the same path for both), to read and to write. Without one it has no files
    #[arg(long = "dir", value_name = "HOST::GUEST", value_parser = clap::value_parser!(OsString))]
    directories: Vec<OsString>,
    /// Of a program: set a variable of its environment
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    environment: Vec<(String, String)>,
    /// Of a WebAssembly program: check each address by instructions, instead of by pages without access
    #[arg(long)]
    explicit_checks: bool,
    /// Arguments of a program
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

impl Given {
    /// The first of its options that is there, if any: a workflow file has none of them.
    pub(super) fn first(&self) -> Option<&'static str> {
        match self {
            Given { directories, .. } if !directories.is_empty() => Some("--dir"),
            Given { environment, .. } if !environment.is_empty() => Some("--env"),
            Given { explicit_checks: true, .. } => Some("--explicit-checks"),
            Given { arguments, .. } if !arguments.is_empty() => Some("an argument"),
            _ => None,
        }
    }

    /// Whether it has variables of an environment.
    pub(super) fn has_environment(&self) -> bool {
        !self.environment.is_empty()
    }

    /// The workflow of this program. `has_input`: its standard input is given.
    pub(super) fn document(&self, program: &Path, has_input: bool) -> Result<Vec<u8>, String> {
        let name = program.file_name().and_then(|name| name.to_str()).ok_or("a program's name is UTF-8")?;
        let directories =
            self.directories.iter().map(|text| directory(text.as_os_str())).collect::<Result<Vec<_>, _>>()?;
        let environment: Map<String, Value> =
            self.environment.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut step = json!({
            "name": "app",
            "function": "app",
            "args": { "argv": self.arguments },
            "env": environment,
        });
        let mut document = json!({ "name": "app", "functions": { "app": { "image": name } }, "files": directories });
        if self.explicit_checks {
            document["functions"]["app"]["checks"] = json!("explicit");
        }
        if has_input {
            step["stdin"] = json!(INPUT);
            document["inputs"] = json!([INPUT]);
        }
        document["steps"] = json!([step]);
        Ok(document.to_string().into_bytes())
    }

    /// Whether the slot is that of the standard input, the only one that there can be.
    pub(super) fn is_input(slot: &str) -> bool {
        slot.is_empty() || slot == INPUT
    }
}

/// Whether the path is a program and no workflow file, by what it is called or begins with.
pub(super) fn is_program(path: &Path) -> bool {
    let is_image = || {
        let mut start = [0; ELF.len()];
        path.is_file() && File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok()) && start == ELF
    };
    wasm::is_program(path) || path.exists() && python::is_program(path) || is_image()
}

/// What a file is that is called like a program and is none; nothing for one that may be a workflow file.
pub(super) fn looks_like_a_program(path: &Path) -> Option<&'static str> {
    let end = path.extension().and_then(OsStr::to_str)?;
    match end {
        "wasm" | "js" | "mjs" | "cjs" | "py" | "so" if !path.exists() => {
            Some("called like a program, and there is no such file")
        }
        _ if !path.is_file() => None,
        "wat" | "wast" => Some("WebAssembly as text and no program: `wat2wasm FILE` (wabt) makes one"),
        "c" => Some("source and no program: `monohull cc FILE -o IMAGE.so` makes one"),
        "cc" | "cpp" | "cxx" => Some("source and no program: `monohull c++ FILE -o IMAGE.so` makes one"),
        "rs" => Some("source and no program: `monohull build` makes one of its crate"),
        "so" => Some("called like an image, and it is no ELF file"),
        _ => None,
    }
}

/// A directory and where the program finds it.
fn directory(text: &OsStr) -> Result<Value, String> {
    const BETWEEN: &[u8] = b"::";
    let bytes = text.as_bytes();
    let at = bytes.windows(BETWEEN.len()).position(|bytes| bytes == BETWEEN);
    let (host, guest) = at.map_or((bytes, bytes), |at| (&bytes[..at], &bytes[at + BETWEEN.len()..]));
    let wrong = |why: &str| format!("--dir {}: {why}", text.to_string_lossy());
    let host = PathBuf::from(OsString::from_vec(host.to_vec()));
    let guest = std::str::from_utf8(guest).map_err(|_| wrong("where the program finds it is UTF-8"))?;
    let guest = Path::new(guest);
    if !guest.is_absolute() || guest.components().any(|part| part == Component::ParentDir) {
        return Err(wrong("the program finds it at an absolute path without `..`: HOST::/GUEST"));
    }
    // A slash at the end, which a shell writes when it completes a name, doubled ones and `.` mean nothing.
    let guest: PathBuf = guest.components().collect();
    let host = std::path::absolute(&host).map_err(|error| wrong(&error.to_string()))?;
    let host = host.to_str().ok_or_else(|| wrong("its path is UTF-8"))?;
    if !Path::new(host).is_dir() {
        return Err(wrong("there is no such directory"));
    }
    Ok(json!({ "at": guest, "directory": host, "access": "write" }))
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_a_place() {
        let json = |text: &str| directory(text.as_ref());
        let mount = json("/proc::/in").expect("a grant");
        assert_eq!((&mount["at"], &mount["directory"]), (&json!("/in"), &json!("/proc")));
        assert_eq!(json("/proc").map(|mount| mount["at"].clone()), Ok(json!("/proc")));
        assert!(json("data").is_err_and(|why| why.contains("HOST::/GUEST")));
        assert!(json("/proc::in").is_err());
        for (text, at) in [("/proc/", "/proc"), ("/proc::/in//put/./", "/in/put"), ("/proc::///", "/")] {
            assert_eq!(json(text).map(|mount| mount["at"].clone()), Ok(json!(at)), "{text}");
        }
        assert!(json("/proc::/in/../out").is_err_and(|why| why.contains("without `..`")));
        assert!(json("/none::/in").is_err_and(|why| why.contains("no such directory")));
    }
}
