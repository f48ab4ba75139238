//! Building programs with `monohull build` and `monohull cc`, and running what they make.
#![allow(dead_code, reason = "each test program uses a part")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the program in a folder, with a cache of its own.
pub(crate) fn monohull(cache: &Path, folder: &Path, args: &[&str]) -> Output {
    command(cache, folder, args).output().expect("monohull starts")
}

pub(crate) fn command(cache: &Path, folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.current_dir(folder).args(args).env("XDG_CACHE_HOME", cache);
    let folders = ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "CARGO_BUILD_BUILD_DIR"];
    let profile = ["RUSTFLAGS", "CARGO_PROFILE_RELEASE_LTO", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS"];
    for chosen in folders.iter().chain(&profile) {
        command.env_remove(chosen);
    }
    command
}

#[track_caller]
pub(crate) fn done(output: Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// The lines that a function has printed.
pub(crate) fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| Some(line.split_once("[0] | ")?.1.to_owned())).collect()
}

pub(crate) fn workflow(folder: &Path, name: &str, image: &str) {
    let step = format!(r#"{{ "name": "{name}", "function": "{name}", "args": {{ "depth": 2 }} }}"#);
    let text =
        format!(r#"{{ "name": "{name}", "functions": {{ "{name}": {{ "image": "{image}" }} }}, "steps": [{step}] }}"#);
    fs::write(folder.join("workflow.json"), text).expect("written");
}

/// Writes files into a folder.
pub(crate) fn write_all(folder: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
}
