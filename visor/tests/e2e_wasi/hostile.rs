//! Programs that are attacks on the compiler.

use super::support::{monohull, words};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A number as WebAssembly has it.
pub(super) fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        bytes.push(if number == 0 { low } else { low | 0x80 });
        if number == 0 {
            return bytes;
        }
    }
}

pub(super) fn section(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind], &*leb(content.len()), content].concat()
}

/// A module whose `_start` has this code, with so many locals of type `i32`. It cannot be written as text: the assembler would be
/// what gives up.
fn module(locals: usize, code: &[u8]) -> Vec<u8> {
    let body = [&[1], &*leb(locals), &[0x7f], code, &[0x0b]].concat();
    let exports = b"\x02\x06memory\x02\x00\x06_start\x00\x00";
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, b"\x01\x60\x00\x00"),
        section(3, b"\x01\x00"),
        section(5, b"\x01\x00\x01"),
        section(7, exports),
        section(10, &[&[1], &*leb(body.len()), &*body].concat()),
    ]
    .concat()
}

/// Locals that are all alive in a loop, and change places in it. The time that registers take grows with the square of their number.
fn slow(locals: usize) -> Vec<u8> {
    let mut code = vec![0x03, 0x40];
    for local in 0..locals {
        let (one, other) = ((local * 7 + 1) % locals, (local * 13 + 5) % locals);
        code.extend([&[0x20], &*leb(local), &[0x20], &*leb(one), &[0x6a, 0x21], &*leb(other)].concat());
    }
    code.extend([0x20, 0x00, 0x0d, 0x00, 0x0b]);
    module(locals, &code)
}

/// A function of megabytes.
fn large(additions: usize) -> Vec<u8> {
    let load = [0x41, 0x00, 0x28, 0x02, 0x00, 0x21, 0x00];
    module(1, &[&load, &*[0x20, 0x00, 0x20, 0x00, 0x6a, 0x21, 0x00].repeat(additions)].concat())
}

fn nested(blocks: usize) -> Vec<u8> {
    module(1, &[[0x02, 0x40].repeat(blocks), [0x0b].repeat(blocks)].concat())
}

fn deep(operands: usize) -> Vec<u8> {
    module(1, &[[0x20, 0x00].repeat(operands), [0x6a].repeat(operands - 1), vec![0x1a]].concat())
}

fn build(folder: &Path, program: &[u8], options: &[&str]) -> (Option<i32>, String) {
    let path = folder.join("app.wasm");
    fs::write(&path, program).expect("written");
    let built = monohull(&[&["build", path.to_str().expect("UTF-8")], options].concat());
    (built.status.code(), words(&built.stderr))
}

#[test]
fn a_compiler_that_takes_too_much_is_stopped() {
    let folder = TempDir::new().expect("a folder");
    let (small, limits) = (large(10), ["--compile-time", "1s", "--compile-memory", "80MiB"]);
    // The control: these limits are enough for a program that is no attack.
    assert_eq!(build(folder.path(), &small, &limits), (Some(0), String::new()));
    fs::remove_file(folder.path().join("app.so")).expect("built");
    for (program, resource) in [(slow(20_000), "1 s of processor time"), (large(900_000), "80MiB of memory")] {
        let (code, said) = build(folder.path(), &program, &limits);
        let expected =
            format!("app.wasm cannot be compiled: it takes more than {resource}; `monohull build --compile-");
        assert!(code == Some(2) && said.contains(&expected), "{code:?} {said}");
        assert!(!folder.path().join("app.so").exists());
    }
}

#[test]
fn what_is_nested_deeply_is_compiled_or_refused() {
    let folder = TempDir::new().expect("a folder");
    for (what, program) in [("blocks", nested(100_000)), ("operands", deep(100_000)), ("locals", module(50_001, &[]))] {
        let (code, said) = build(folder.path(), &program, &[]);
        match code {
            Some(0) => assert_eq!(said, "", "{what}"),
            // A reason of the compiler's own, and not the way in which it has ended.
            _ => assert!(
                code == Some(2) && said.contains("cannot be compiled") && !said.contains("ended"),
                "{what}: {said}"
            ),
        }
    }
}

/// A field of a process in `/proc`, unless it is gone.
fn status(process: u32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").expect("mounted").filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

#[test]
fn the_compiler_is_confined_and_ends_with_its_parent() {
    let folder = TempDir::new().expect("a folder");
    let program = folder.path().join("app.wasm");
    fs::write(&program, slow(50_000)).expect("written");
    let mut building = Command::new(env!("CARGO_BIN_EXE_monohull"));
    let building = building.arg("build").arg(program).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut building = building.spawn().expect("it starts");
    let parent = building.id().to_string();
    // The list of system calls is the last thing that is put in force.
    let compiler = loop {
        assert!(
            building.try_wait().expect("a child").is_none(),
            "the program is compiled before this test finds the compiler"
        );
        let child = |process: &u32| status(*process, "PPid") == Some(parent.clone());
        if let Some(child) = processes().find(child)
            && status(child, "Seccomp").as_deref() == Some("2")
        {
            break child;
        }
        std::thread::yield_now();
    };
    for (field, expected) in
        [("NoNewPrivs", "1"), ("CapPrm", "0000000000000000"), ("CapEff", "0000000000000000"), ("Threads", "1")]
    {
        assert_eq!(status(compiler, field).as_deref(), Some(expected), "{field}");
    }
    building.kill().expect("killed");
    building.wait().expect("waited for");
    // Where nothing waits for orphans it remains as a zombie.
    while status(compiler, "State").is_some_and(|state| !state.starts_with(['Z', 'X'])) {
        std::thread::yield_now();
    }
}
