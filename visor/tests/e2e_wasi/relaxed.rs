//! Relaxed instructions on vectors, which may give one of several results: here it is the same one in every way of compiling, at every level, and in
//! Wasmtime where it is told to be deterministic.

use super::support::{compiled, run_document, words_of};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Instructions, and what they are given: numbers for which processors differ.
const CASES: [(&str, &[&str]); 20] = [
    // A multiplication and an addition, rounded once: 1 + 2^-23 squared, less 1 + 2^-22, is 2^-46.
    (
        "f32x4.relaxed_madd",
        &["f32x4 0x1.000002p+0 3 inf 0", "f32x4 0x1.000002p+0 5 0 -0", "f32x4 -0x1.000004p+0 7 1 0"],
    ),
    ("f32x4.relaxed_nmadd", &["f32x4 0x1.000002p+0 3 1 0", "f32x4 0x1.000002p+0 5 2 4", "f32x4 0x1.000004p+0 7 1 -0"]),
    (
        "f64x2.relaxed_madd",
        &["f64x2 0x1.0000000000001p+0 3", "f64x2 0x1.0000000000001p+0 5", "f64x2 -0x1.0000000000002p+0 7"],
    ),
    (
        "f64x2.relaxed_nmadd",
        &["f64x2 0x1.0000000000001p+0 3", "f64x2 0x1.0000000000001p+0 5", "f64x2 0x1.0000000000002p+0 7"],
    ),
    ("f32x4.relaxed_min", &["f32x4 0 -0 nan 1", "f32x4 -0 0 1 2"]),
    ("f32x4.relaxed_max", &["f32x4 0 -0 1 1", "f32x4 -0 0 nan 2"]),
    ("f64x2.relaxed_min", &["f64x2 -0 1", "f64x2 0 2"]),
    ("f64x2.relaxed_max", &["f64x2 -0 1", "f64x2 0 2"]),
    (
        "i8x16.relaxed_swizzle",
        &["i8x16 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", "i8x16 0 15 16 31 64 127 128 143 144 255 1 2 3 4 5 6"],
    ),
    ("i32x4.relaxed_trunc_f32x4_s", &["f32x4 1.9 -1.9 3e10 nan"]),
    ("i32x4.relaxed_trunc_f32x4_u", &["f32x4 1.9 -1.9 3e10 nan"]),
    ("i32x4.relaxed_trunc_f64x2_s_zero", &["f64x2 -3e10 nan"]),
    ("i32x4.relaxed_trunc_f64x2_u_zero", &["f64x2 5e9 -1"]),
    ("i8x16.relaxed_laneselect", &["i32x4 -1 -1 -1 -1", "i32x4 0 0 0 0", "i32x4 0x01800f7f 0x80808080 1 0"]),
    ("i16x8.relaxed_laneselect", &["i32x4 -1 -1 -1 -1", "i32x4 0 0 0 0", "i32x4 0x01800f7f 0x80808080 1 0"]),
    ("i32x4.relaxed_laneselect", &["i32x4 -1 -1 -1 -1", "i32x4 0 0 0 0", "i32x4 0x01800f7f 0x80808080 1 0"]),
    ("i64x2.relaxed_laneselect", &["i32x4 -1 -1 -1 -1", "i32x4 0 0 0 0", "i32x4 0x01800f7f 0x80808080 1 0"]),
    ("i16x8.relaxed_q15mulr_s", &["i16x8 -32768 1 2 3 4 5 6 7", "i16x8 -32768 1 2 3 4 5 6 7"]),
    ("i16x8.relaxed_dot_i8x16_i7x16_s", &["i32x4 0x80808080 -1 0x7f7f7f7f 1", "i32x4 0x7f7f7f7f -1 0x80808080 0x81"]),
    (
        "i32x4.relaxed_dot_i8x16_i7x16_add_s",
        &["i32x4 0x80808080 -1 0x7f7f7f7f 1", "i32x4 0x7f7f7f7f -1 0x80808080 0x81", "i32x4 1 2 3 4"],
    ),
];

/// Where the results lie.
const RESULTS: usize = 1024;

/// A program that publishes the results. No compiler knows them: what the instructions are given lies in the memory, and is taken from there.
fn program() -> Vec<u8> {
    let mut body = String::new();
    for (index, (instruction, given)) in CASES.iter().enumerate() {
        let given: String = given.iter().map(|vector| format!("(call $same (v128.const {vector}))")).collect();
        body += &format!("(v128.store (i32.const {}) ({instruction} {given}))\n", RESULTS + 16 * index);
    }
    let text = format!(
        r#"(module
            (import "monohull" "slot_publish" (func $publish (param i32 i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1) (data (i32.const 1000) "out")
            (func $same (param v128) (result v128)
                (v128.store (i32.const 0) (local.get 0))
                (v128.load (i32.const 0)))
            (func $results (export "results") {body})
            (func (export "_start")
                call $results
                (call $publish (i32.const 1000) (i32.const 3) (i32.const {RESULTS}) (i32.const {}) (i32.const 0))
                (if (then unreachable))))"#,
        CASES.len() * 16
    );
    wat::parse_str(text).expect("a right program")
}

/// What Wasmtime computes.
fn in_wasmtime(program: &Path) -> Vec<u32> {
    let script = format!(
        "import sys\n\
         from wasmtime import Config, Engine, Linker, Module, Store\n\
         config = Config()\n\
         config.wasm_relaxed_simd = True\n\
         config.wasm_relaxed_simd_deterministic = True\n\
         engine = Engine(config)\n\
         module = Module.from_file(engine, sys.argv[1])\n\
         store = Store(engine)\n\
         linker = Linker(engine)\n\
         linker.define_unknown_imports_as_traps(module)\n\
         exports = linker.instantiate(store, module).exports(store)\n\
         exports['results'](store)\n\
         print(exports['memory'].read(store, {RESULTS}, {}).hex())\n",
        RESULTS + CASES.len() * 16
    );
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/wasmtime/fetched");
    let mut python = Command::new("python3");
    python.args(["-c", &script]).arg(program).env("PYTHONPATH", fetched).env("PYTHONDONTWRITEBYTECODE", "1");
    let ended = python.output().expect("python3 starts");
    let hex = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "`cargo xtask test` fetches Wasmtime: {}", String::from_utf8_lossy(&ended.stderr));
    let word =
        |digits: &[u8]| u32::from_str_radix(str::from_utf8(digits).expect("digits"), 16).expect("digits").swap_bytes();
    hex.trim().as_bytes().chunks(8).map(word).collect()
}

#[test]
fn relaxed_instructions_give_the_same_results_everywhere() {
    let (folder, program) = (TempDir::new().expect("a folder"), program());
    let path = folder.path().join("app.wasm");
    std::fs::write(&path, &program).expect("written");
    let expected = in_wasmtime(&path);
    assert_eq!(expected.len(), CASES.len() * 4);
    let document = json!({
        "name": "test",
        "functions": { "app": { "image": "app.so" } },
        "outputs": ["out"],
        "steps": [{ "name": "app", "function": "app" }],
    });
    let has_v3 = std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma");
    let levels = ["x86-64-v2", "x86-64-v3"];
    for level in levels.iter().take(if has_v3 { 2 } else { 1 }) {
        for variant in 0..6 {
            compiled(folder.path(), &program, &["--level", level, "--variant", &variant.to_string()]);
            let results = words_of(&run_document(folder.path(), &document));
            let both = results.chunks(4).zip(expected.chunks(4));
            for ((instruction, _), (ours, theirs)) in CASES.iter().zip(both) {
                assert_eq!(ours, theirs, "{instruction} at {level} in variant {variant}");
            }
        }
    }
}
