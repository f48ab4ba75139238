//! What the three streams say of themselves: what Wasmtime says of pipes, so that C libraries take none for a terminal.

use super::support::{CHECKS, Function, printed};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};

/// Prints what `fd_fdstat_get` and then `fd_filestat_get` say of descriptors 0, 1 and 2, in letters: `a` is 0, `p` is 15. It imports nothing but WASI.
const PROGRAM: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_fdstat_get" (func $fdstat (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_filestat_get" (func $filestat (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (func $letter (param $nibble i32) (result i32) (i32.add (local.get $nibble) (i32.const 97)))
    (func (export "_start") (local $fd i32) (local $at i32)
        (loop $each
            (if (call $fdstat (local.get $fd) (i32.add (i32.const 64) (i32.mul (local.get $fd) (i32.const 24)))) (then unreachable))
            (if (call $filestat (local.get $fd) (i32.add (i32.const 136) (i32.mul (local.get $fd) (i32.const 64)))) (then unreachable))
            (local.set $fd (i32.add (local.get $fd) (i32.const 1)))
            (br_if $each (i32.lt_u (local.get $fd) (i32.const 3))))
        (local.set $at (i32.const 64))
        (loop $each
            (i32.store8 offset=896 (i32.mul (local.get $at) (i32.const 2))
                (call $letter (i32.shr_u (i32.load8_u (local.get $at)) (i32.const 4))))
            (i32.store8 offset=897 (i32.mul (local.get $at) (i32.const 2))
                (call $letter (i32.and (i32.load8_u (local.get $at)) (i32.const 15))))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br_if $each (i32.lt_u (local.get $at) (i32.const 328))))
        (i32.store8 (i32.const 1552) (i32.const 10))
        (i32.store (i32.const 16) (i32.const 1024))
        (i32.store (i32.const 20) (i32.const 529))
        (drop (call $write (i32.const 1) (i32.const 16) (i32.const 1) (i32.const 24)))))"#;

/// The same program in Wasmtime, with the streams of the process.
const IN_WASMTIME: &str = "\
import sys
from wasmtime import Engine, Linker, Module, Store, WasiConfig
engine = Engine()
store, linker, wasi = Store(engine), Linker(engine), WasiConfig()
wasi.inherit_stdin(), wasi.inherit_stdout(), wasi.inherit_stderr()
store.set_wasi(wasi)
linker.define_wasi()
linker.instantiate(store, Module(engine, sys.argv[1])).exports(store)['_start'](store)
";

fn said(options: &[&str]) -> String {
    let report = Function::built(PROGRAM, options).run(json!({}), json!({}));
    assert_eq!(report["status"], "done", "{report:#}");
    printed(&report).concat()
}

/// The bytes that letters stand for.
fn bytes(letters: &str) -> Vec<u8> {
    letters.as_bytes().chunks(2).map(|pair| ((pair[0] - b'a') << 4) | (pair[1] - b'a')).collect()
}

#[test]
fn streams_are_no_terminals() {
    for options in CHECKS {
        let said = bytes(&said(options));
        let (fdstats, filestats) = said.split_at(72);
        // Reading; writing, and the same of what is opened beneath, which is nothing.
        for (fdstat, right) in fdstats.chunks(24).zip([2, 64, 64]) {
            let mut expected = [0; 24];
            (expected[8], expected[16]) = (right, right);
            assert_eq!(fdstat, expected);
        }
        assert_eq!(filestats, [0; 192]);
    }
}

#[test]
fn streams_are_what_pipes_are_to_wasmtime() {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/wasmtime/fetched");
    let mut python = Command::new("python3");
    python.args(["-c", IN_WASMTIME, PROGRAM]).env("PYTHONPATH", fetched).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said(&[]), String::from_utf8_lossy(&output.stdout).trim_end());
}
