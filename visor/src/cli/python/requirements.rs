//! The packages that a Python program in a folder names in `requirements.txt`, as wheels.
//!
//! ```text
//!   requirements.txt ── names and versions ──▶ pip download, of the host ──▶ wheels ──▶ the user's cache, sealed
//! ```
//!
//! `pip` downloads and installs nothing; it takes wheels alone, so that nothing of a package runs on this host. Lines that name anything but a package
//! of an index are refused, because pip would build those. What a file has led to stays in the cache, so that a program is the same until the file
//! changes. A folder that has wheels of its own is taken as it is.
//!
//! What a package needs may depend on the interpreter (`tomli; python_version < "3.11"`), and pip asks its own, whatever version it is told to
//! download for. So it is started by a few lines that answer in the function's stead ([`START`]).

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use crate::cli::build::BuildError;
use crate::cli::image_cache::Entry;
use monohull_report::escape::shown;

/// The file, in the program's folder.
const FILE: &str = "requirements.txt";
/// The interpreter's version, and what its wheels are made for.
const VERSION: &str = "3.13";
/// The same with its third part (`xtask/src/python/settings.rs`).
const FULL_VERSION: &str = "3.13.5";
/// Starts pip with the environment of conditions (PEP 508) that a function has. The parts of pip that it names have been where they are for years; a pip
/// without them is an error, for it would leave packages out without a word.
const START: &str = r#"
import sys
try:
    from pip._vendor.packaging import markers
    from pip._internal.cli.main import main
    markers.default_environment
except (ImportError, AttributeError) as error:
    sys.exit(f"{error}: this pip cannot be told which Python the packages are for: version 20 or later can")
markers.default_environment = lambda: {
    "implementation_name": "cpython",
    "implementation_version": "@FULL@",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_release": "",
    "platform_system": "Linux",
    "platform_version": "",
    "python_full_version": "@FULL@",
    "python_version": "@VERSION@",
    "sys_platform": "linux",
}
sys.exit(main(sys.argv[1:]))
"#;
/// What pip begins with where it tells which packages lead to what it cannot find, of which it says nothing with `--quiet`.
const CONFLICT: &str = "The conflict is caused by:";
/// How many of these lines are shown, with that one: there is one for each version of a package.
const CONFLICT_LINES: usize = 4;
/// The most bytes of what pip says that are shown.
const SAID_MAX: usize = 2000;

/// Says that a file with something in it is not read, if this folder with wheels of its own has one.
pub(super) fn note_unread(folder: &Path) {
    let path = folder.join(FILE);
    let is_package = |line: &str| !without_comment(line).is_empty();
    if fs::read_to_string(&path).is_ok_and(|text| text.lines().any(is_package)) {
        crate::cli::output::note(format_args!(
            "{} is not read, because the folder has wheels of its own: these are the packages of the program",
            shown(&path)
        ));
    }
}

/// The wheels that the program in this folder asks for: names and contents. None if it has no such file.
pub(super) fn wheels(folder: &Path) -> Result<Vec<(String, Vec<u8>)>, BuildError> {
    let path = folder.join(FILE);
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let wrong = |why: String| BuildError::PythonProgram { path: path.clone(), why };
    let text = fs::read_to_string(&path).map_err(|source| BuildError::File { path: path.clone(), source })?;
    check(&text).map_err(wrong)?;
    if text.lines().all(|line| without_comment(line).is_empty()) {
        return Ok(Vec::new());
    }
    let hash = Sha256::new().chain_update(concat!("monohull wheels ", env!("CARGO_PKG_VERSION")));
    let hash = hash.chain_update(START).chain_update(&text);
    let entry = Entry::of("wheels", hash.finalize().into());
    if let Some(wheels) = entry.as_ref().and_then(Entry::read).and_then(|bytes| postcard::from_bytes(&bytes).ok()) {
        return Ok(wheels);
    }
    let wheels = download(&path).map_err(wrong)?;
    let bytes = postcard::to_allocvec(&wheels).map_err(|error| wrong(error.to_string()))?;
    // Without an entry they are downloaded again the next time.
    let _ = entry.map(|entry| entry.write(&bytes));
    Ok(wheels)
}

/// What pip downloads for the file.
fn download(file: &Path) -> Result<Vec<(String, Vec<u8>)>, String> {
    let folder = tempfile::TempDir::new().map_err(|error| format!("no folder can be made for its wheels: {error}"))?;
    let mut pip = Command::new("python3");
    pip.arg("-c").arg(START.replace("@FULL@", FULL_VERSION).replace("@VERSION@", VERSION));
    pip.args(["download", "--no-input", "--disable-pip-version-check", "--no-cache-dir"]);
    pip.args(["--progress-bar=off", "--only-binary=:all:", "--implementation=py", "--abi=none", "--platform=any"]);
    pip.arg(format!("--python-version={VERSION}")).arg("--dest").arg(folder.path()).arg("--requirement").arg(file);
    let output = pip.stdin(Stdio::null()).output();
    let output = output
        .map_err(|error| format!("its wheels are downloaded by `python3 -m pip`, which does not start: {error}"))?;
    if !output.status.success() {
        let [said, steps] = [&output.stderr, &output.stdout].map(|bytes| String::from_utf8_lossy(bytes));
        let conflict = steps.find(CONFLICT).map_or("", |begin| &steps[begin..]);
        let conflict = conflict.lines().take_while(|line| !line.is_empty()).take(CONFLICT_LINES);
        let said: Vec<&str> = conflict.chain(said.trim().lines()).collect();
        let said: String = said.join("\n").chars().take(SAID_MAX).collect();
        return Err(format!("pip has found no wheels for it that are pure Python: {said}"));
    }
    let mut wheels = Vec::new();
    for entry in fs::read_dir(folder.path()).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path.file_name().and_then(OsStr::to_str).ok_or("pip has made a file without a name")?.to_owned();
        wheels.push((name, fs::read(&path).map_err(|error| format!("{}: {error}", shown(&path)))?));
    }
    wheels.sort();
    Ok(wheels)
}

/// Whether each line names a package of an index, or nothing.
fn check(text: &str) -> Result<(), String> {
    for (number, line) in (1..).zip(text.lines()) {
        let line = without_comment(line);
        let name = line.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c)).unwrap_or(line.len());
        let (name, rest) = line.split_at(name);
        let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        // Extras, versions and conditions. An option, an address and a path begin otherwise, or have one of these in them.
        let is_plain =
            rest.trim_start().is_empty() || rest.trim_start().starts_with(['[', '<', '>', '=', '!', '~', ';']);
        let is_plain = is_plain && !rest.contains(['@', '/', '\\']) && !rest.contains(" -");
        if !line.is_empty() && (!begins || !is_plain) {
            return Err(format!(
                "line {number} is `{line}`: only names of packages with their versions are read, as `package>=1.2`"
            ));
        }
    }
    Ok(())
}

fn without_comment(line: &str) -> &str {
    let begins = line.starts_with('#').then_some(0).or_else(|| line.find(" #"));
    line[..begins.unwrap_or(line.len())].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_pip_would_build_or_obey_are_refused() {
        let good =
            "# packages\nsix\nattrs >= 22.2 # newer\nidna==3.7\npackage[extra]~=1.0 ; python_version > '3.8'\n\n";
        assert_eq!(check(good), Ok(()));
        for line in [
            "-e .",
            "--index-url https://example.com",
            "./package",
            "../package.whl",
            "git+https://example.com/x",
            "https://example.com/x.whl",
            "six @ https://example.com/six.tar.gz",
            "six@https://example.com/six.tar.gz",
            "six --config-settings=x",
            "six==1.0 --hash=sha256:00",
            "six \\",
            "folder/six",
            ".",
            "six.whl/..",
        ] {
            let text = format!("six\n{line}\n");
            assert!(check(&text).is_err_and(|why| why.starts_with("line 2 ")), "{line}");
        }
    }
}
