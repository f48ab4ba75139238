//! Programs written as text, and the functions made of them.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use monohull_visor::domain::keys::support;
use monohull_visor::engine::options::folder_beside_program;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Both ways to keep a program in its memory, as options of `monohull build`.
pub(super) const CHECKS: [&[&str]; 2] = [&[], &["--explicit-checks"]];

pub(super) fn monohull(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    // What workflow files name is not compiled into the user's cache.
    command.envs(["XDG_CACHE_HOME", "XDG_CONFIG_HOME"].map(|name| (name, env!("CARGO_TARGET_TMPDIR"))));
    command.args(arguments).stdin(Stdio::null()).output().expect("monohull starts")
}

pub(super) fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A program, and the function made of it.
pub(super) struct Function {
    pub(super) folder: TempDir,
}

impl Function {
    /// Compiles a program that is written as text.
    pub(super) fn new(text: &str) -> Function {
        Function::built(text, &[])
    }

    /// The same with options of `monohull build`.
    pub(super) fn built(text: &str, options: &[&str]) -> Function {
        let folder = TempDir::new().expect("a folder");
        let program = folder.path().join("app.wasm");
        fs::write(&program, wat::parse_str(text).expect("a right program")).expect("written");
        let built = monohull(&[&["build", program.to_str().expect("UTF-8")], options].concat());
        assert!(built.status.success(), "{}", words(&built.stderr));
        assert_eq!(words(&built.stdout).trim(), folder.path().join("app.so").to_str().expect("UTF-8"));
        Function { folder }
    }

    /// Runs a workflow of one step, with more fields of the step and of the workflow.
    pub(super) fn run(&self, step: Value, workflow: Value) -> Value {
        let mut document = json!({ "name": "test", "functions": { "app": { "image": "app.so" } }, "steps": [] });
        let mut whole = json!({ "name": "app", "function": "app" });
        merge(&mut whole, step);
        document["steps"] = json!([whole]);
        merge(&mut document, workflow);
        run_document(self.folder.path(), &document)
    }

    /// Runs a program that publishes `u32`s in the slot `out`, and gives these.
    #[track_caller]
    pub(super) fn numbers(&self) -> Vec<u64> {
        let report = self.run(json!({}), json!({ "outputs": ["out"], "files": [{ "at": "/work", "memory": "1MiB" }] }));
        words_of(&report).into_iter().map(u64::from).collect()
    }
}

/// The image `app.so` in this folder that the compiler makes of a program, with options of its own. Nothing checks it.
#[track_caller]
pub(super) fn compiled(folder: &Path, program: &[u8], options: &[&str]) -> PathBuf {
    let tools = folder_beside_program("wasi").expect("built");
    let mut compiler = Command::new(tools.join("compile"));
    compiler.arg("--runtime").arg(tools.join("runtime.so")).args(options);
    let mut compiler =
        compiler.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut input = compiler.stdin.take().expect("piped");
    // It reads all before it writes anything.
    input.write_all(program).expect("read");
    drop(input);
    let done = compiler.wait_with_output().expect("waited for");
    assert!(done.status.success(), "{}", words(&done.stderr));
    let path = folder.join("app.so");
    fs::write(&path, done.stdout).expect("written");
    path
}

/// The words in the slot `out`.
#[track_caller]
pub(super) fn words_of(report: &Value) -> Vec<u32> {
    assert_eq!(report["status"], "done", "{report:#}");
    let output = &report["output"]["out"];
    let bytes = match (output["text"].as_str(), output["base64"].as_str()) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(base64)) => BASE64_STANDARD.decode(base64).expect("base64"),
        _ => panic!("no output: {report:#}"),
    };
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect()
}

pub(super) fn merge(into: &mut Value, more: Value) {
    for (name, value) in more.as_object().expect("an object") {
        into[name] = value.clone();
    }
}

pub(super) fn run_document(folder: &Path, document: &Value) -> Value {
    run_with(folder, document, &[])
}

pub(super) fn run_with(folder: &Path, document: &Value, more: &[&str]) -> Value {
    let file = folder.join("test.json");
    fs::write(&file, document.to_string()).expect("written");
    let mut arguments = vec!["run", "--json", file.to_str().expect("UTF-8")];
    arguments.extend(more);
    if support().is_available() && !arguments.contains(&"--isolation") {
        arguments.extend(["--isolation", "mpk"]);
    }
    let output = monohull(&arguments);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", words(&output.stderr)))
}

/// What an instance printed.
pub(super) fn printed(report: &Value) -> Vec<String> {
    let lines = report["steps"][0]["instances"][0]["lines"].as_array().expect("lines");
    lines.iter().map(|line| line["text"].as_str().expect("a text").to_owned()).collect()
}

/// Names and types of the functions of WASI preview 1 that return an error number: `i` is an `i32` and `I` an `i64`.
pub(super) const FUNCTIONS: &[(&str, &str)] = &[
    ("args_get", "ii"),
    ("args_sizes_get", "ii"),
    ("clock_res_get", "ii"),
    ("clock_time_get", "iIi"),
    ("environ_get", "ii"),
    ("environ_sizes_get", "ii"),
    ("fd_advise", "iIIi"),
    ("fd_allocate", "iII"),
    ("fd_close", "i"),
    ("fd_datasync", "i"),
    ("fd_fdstat_get", "ii"),
    ("fd_fdstat_set_flags", "ii"),
    ("fd_fdstat_set_rights", "iII"),
    ("fd_filestat_get", "ii"),
    ("fd_filestat_set_size", "iI"),
    ("fd_filestat_set_times", "iIIi"),
    ("fd_pread", "iiiIi"),
    ("fd_prestat_dir_name", "iii"),
    ("fd_prestat_get", "ii"),
    ("fd_pwrite", "iiiIi"),
    ("fd_read", "iiii"),
    ("fd_readdir", "iiiIi"),
    ("fd_renumber", "ii"),
    ("fd_seek", "iIii"),
    ("fd_sync", "i"),
    ("fd_tell", "ii"),
    ("fd_write", "iiii"),
    ("path_create_directory", "iii"),
    ("path_filestat_get", "iiiii"),
    ("path_filestat_set_times", "iiiiIIi"),
    ("path_link", "iiiiiii"),
    ("path_open", "iiiiiIIii"),
    ("path_readlink", "iiiiii"),
    ("path_remove_directory", "iii"),
    ("path_rename", "iiiiii"),
    ("path_symlink", "iiiii"),
    ("path_unlink_file", "iii"),
    ("poll_oneoff", "iiii"),
    ("proc_raise", "i"),
    ("random_get", "ii"),
    ("sched_yield", ""),
    ("sock_accept", "iii"),
    ("sock_recv", "iiiiii"),
    ("sock_send", "iiiii"),
    ("sock_shutdown", "ii"),
];

/// A program that imports all of them, has one page of memory with `data` at its start, runs `body`, and publishes the bytes from
/// 1024 on, `results` words of them.
pub(super) fn program(data: &str, body: &str, results: usize) -> String {
    let mut text = String::from("(module\n");
    for (name, types) in FUNCTIONS {
        let parameters: String = types.chars().map(|kind| if kind == 'i' { " i32" } else { " i64" }).collect();
        text += &format!(
            "(import \"wasi_snapshot_preview1\" \"{name}\" (func ${name} (param{parameters}) (result i32)))\n"
        );
    }
    text += "(import \"monohull\" \"slot_publish\" (func $publish (param i32 i32 i32 i32 i32) (result i32)))\n";
    for (name, parameters) in [
        ("lookup", "i32 i32 i32 i32 i32"),
        ("socket_address", "i32 i32 i32"),
        ("socket_connect", "i32 i32"),
        ("socket_failure", "i32"),
    ] {
        text += &format!("(import \"monohull\" \"{name}\" (func ${name} (param {parameters}) (result i32)))\n");
    }
    text +=
        &format!("(memory (export \"memory\") 1)\n(data (i32.const 0) \"{data}\")\n(data (i32.const 1000) \"out\")\n");
    text += &format!("(func (export \"_start\")\n{body}\n");
    text += &format!(
        "(call $publish (i32.const 1000) (i32.const 3) (i32.const 1024) (i32.const {}) (i32.const 0))\n",
        results * 4
    );
    // A slot that could not be filled ends the program with a trap.
    text + "if unreachable end))"
}

/// Instructions that call a function and keep what it returns as word `index` of the results.
pub(super) fn kept(index: usize, call: &str) -> String {
    format!("(i32.store (i32.const {}) {call})\n", 1024 + index * 4)
}

/// The failure of a program with one page of memory whose `_start` is this, built with these options.
#[track_caller]
pub(super) fn failure(body: &str, options: &[&str], step: Value) -> Value {
    let text = format!(
        "(module (memory (export \"memory\") 1) (func $again call $again) (func $inner {body}) (func (export \"_start\") call $inner))"
    );
    let report = Function::built(&text, options).run(step, json!({}));
    assert_eq!(report["status"], "failed", "{report:#}");
    report["error"].clone()
}
