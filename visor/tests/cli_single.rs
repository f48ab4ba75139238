//! `monohull run` with a program in place of a workflow file.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// Prints its arguments, a variable and a file, and writes another one.
const PROGRAM: &str = r#"(module
    (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "environ_get" (func $environ (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "path_open"
        (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 1000) "data/made")
    (func $print (param $at i32) (param $len i32)
        (i32.store (i32.const 0) (local.get $at)) (i32.store (i32.const 4) (local.get $len))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
    (func (export "_start")
        (drop (call $sizes (i32.const 16) (i32.const 20)))
        (drop (call $args (i32.const 100) (i32.const 2000)))
        (call $print (i32.const 2000) (i32.load (i32.const 20)))
        (drop (call $environ_sizes (i32.const 16) (i32.const 20)))
        (drop (call $environ (i32.const 100) (i32.const 3000)))
        (call $print (i32.const 3000) (i32.load (i32.const 20)))
        (i32.store (i32.const 0) (i32.const 4000)) (i32.store (i32.const 4) (i32.const 100))
        (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 24)))
        (call $print (i32.const 4000) (i32.load (i32.const 24)))
        (if (i32.eqz (call $open (i32.const 3) (i32.const 0) (i32.const 1000) (i32.const 9) (i32.const 1)
                (i64.const 64) (i64.const 0) (i32.const 0) (i32.const 28)))
            (then
                (i32.store (i32.const 0) (i32.const 4000)) (i32.store (i32.const 4) (i32.load (i32.const 24)))
                (drop (call $write (i32.load (i32.const 28)) (i32.const 0) (i32.const 1) (i32.const 8)))))))"#;

fn run(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monohull"));
    command.envs(["XDG_CACHE_HOME", "XDG_CONFIG_HOME"].map(|name| (name, env!("CARGO_TARGET_TMPDIR"))));
    command.current_dir(folder).arg("run").args(args).stdin(Stdio::null()).output().expect("monohull starts")
}

fn folder() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("app.wasm"), wat::parse_str(PROGRAM).expect("a right program")).expect("written");
    fs::create_dir(folder.path().join("host")).expect("made");
    folder
}

#[test]
fn a_program_has_what_the_command_line_grants() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("text"), "an input").expect("written");
    let granted =
        ["app.wasm", "--json", "--dir", "host::/data", "--env", "A=b=c", "--input", "stdin=text", "--", "-x", "y z"];
    let output = run(path, &granted);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    for part in ["-x\\u0000y z\\u0000", "A=b=c\\u0000", "an input"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(fs::read_to_string(path.join("host/made")).expect("it was granted"), "an input");
    // Without a grant there is nothing.
    fs::remove_file(path.join("host/made")).expect("removed");
    let output = run(path, &["app.wasm"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!path.join("host/made").exists());
}

#[test]
fn what_is_called_like_a_program_is_not_taken_for_a_workflow_file() {
    let folder = TempDir::new().expect("a folder");
    for (name, words) in [
        ("t.c", "t.c is source and no program: `monohull cc"),
        ("t.rs", "t.rs is source and no program: `monohull build`"),
        ("t.wat", "t.wat is WebAssembly as text and no program: `wat2wasm"),
        ("junk.so", "junk.so is called like an image, and it is no ELF file"),
        ("w.json", "not valid JSON"),
    ] {
        fs::write(folder.path().join(name), "int main(void) { return 0; }").expect("written");
        let output = run(folder.path(), &[name]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(words), "{name}: {said}");
    }
    for name in ["nope.wasm", "nope.js", "nope.py", "nope.so"] {
        let output = run(folder.path(), &[name]);
        let said = String::from_utf8_lossy(&output.stderr);
        let words = format!("{name} is called like a program, and there is no such file");
        assert!(output.status.code() == Some(2) && said.contains(&words), "{name}: {said}");
    }
}

#[test]
fn an_image_is_a_program() {
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/images/no-op.so");
    let output = run(Path::new("/"), &[image.to_str().expect("UTF-8"), "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let folder = folder();
    fs::write(folder.path().join("w.json"), "{}").expect("written");
    fs::write(folder.path().join("t.c"), "int main(void) { return 0; }").expect("written");
    for (args, why) in [
        (&["app.so", "--", "x"][..], "app.so is called like a program, and there is no such file"),
        (&["app.so", "--dir", "host::/data"], "app.so is called like a program, and there is no such file"),
        (&["t.c", "--", "x"], "t.c is source and no program"),
        (&["w.json", "--dir", "/tmp"], "w.json: --dir is for a program"),
        (&["w.json", "--", "x"], "w.json: an argument is for a program"),
        (&["app.wasm", "--watch"], "--watch is for workflow files"),
        (&["app.wasm", "--dir", "host"], "HOST::/GUEST"),
        (&["app.wasm", "--dir", "none::/data"], "none"),
        (&["app.wasm", "--input", "other=x"], "other"),
    ] {
        let output = run(folder.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{args:?}: {output:?}");
    }
}
