//! Feeds arbitrary bytes to what compiles a WebAssembly program and puts it into an image: they may be refused, but nothing panics, hangs or
//! eats memory. What is compiled can also be compiled with its constants moved out of the code, and makes an image that can be read.
//!
//! `cargo xtask ci` builds and runs it.
#![no_main]

#[path = "../src/attachment.rs"]
mod attachment;
#[path = "../src/code.rs"]
mod code;
#[path = "../src/image.rs"]
mod image;
#[path = "../src/lines/mod.rs"]
mod lines;
#[path = "../src/program.rs"]
mod program;
#[path = "../src/rewrite/mod.rs"]
mod rewrite;

use goblin::elf::Elf;
use libfuzzer_sys::fuzz_target;
use monohull_wasi_settings::lines::Lines;
use monohull_wasi_settings::{Checks, Level};
use std::sync::LazyLock;
use wasmparser::{Parser, Payload};

/// The runtime that is built beside the compiler.
static RUNTIME: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let path = std::env::var_os("MONOHULL_WASI_RUNTIME").expect("MONOHULL_WASI_RUNTIME names the runtime's image");
    std::fs::read(path).expect("readable")
});

/// Most locals of all functions of a program. Each takes the compiler time, and a few bytes declare thousands of them. What has more is slow and no
/// hang, and the compiler's limit of processor time is for that.
const LOCALS_MAX: u64 = 1000;

fn has_many_locals(program: &[u8]) -> bool {
    let bodies = Parser::new(0).parse_all(program).map_while(Result::ok).filter_map(|payload| match payload {
        Payload::CodeSectionEntry(body) => body.get_locals_reader().ok(),
        _ => None,
    });
    let groups = bodies.flat_map(|locals| locals.into_iter().map_while(Result::ok));
    groups.map(|(count, _)| u64::from(count)).sum::<u64>() > LOCALS_MAX
}

fuzz_target!(|program: &[u8]| {
    if has_many_locals(program) {
        return;
    }
    let [usual, .., all] = &code::VARIANTS;
    let compiled = code::compile(program, usual, Level::V3, Checks::Guards);
    let rewritten = code::compile(program, all, Level::V2, Checks::Explicit);
    // One that is not valid is compiled in no other way. A global that it lacks may be one that is added.
    assert!(compiled.is_err() || rewritten.is_ok(), "{:?}", rewritten.err());
    let attachment = attachment::of_module(program).unwrap_or_default();
    let table = lines::of_program(program);
    assert!(table.is_empty() || Lines::new(&table).is_some());
    for (compiled, checks) in [(compiled, Checks::Guards), (rewritten, Checks::Explicit)] {
        let Ok(compiled) = compiled else { return };
        let parts = image::Parts { program: &compiled, lines: &table, attachment };
        let linked = image::link(&RUNTIME, &parts, checks).expect("the parts are Monohull's own");
        Elf::parse(&linked).expect("an image");
        if !attachment.is_empty() {
            let longer = image::attach(&linked, program).expect("it has an attachment");
            Elf::parse(&longer).expect("an image");
        }
    }
});
