//! Every pointer of every function of WASI preview 1, at the end of the memory and over it. Those of calls on sockets are in `sockets`.

use super::support::{FUNCTIONS, Function, kept, program, words_of};
use serde_json::json;

/// Error numbers of WASI.
const EXIST: u64 = 20;
const FAULT: u64 = 21;
const INVAL: u64 = 28;
const NOENT: u64 = 44;
const NOTDIR: u64 = 54;
const NOTSUP: u64 = 58;
/// Bytes of the memory.
const EDGE: u32 = 65536;

/// An argument of a call.
#[derive(Clone, Copy, PartialEq)]
enum Argument {
    /// A number of 32 bits.
    Number(u32),
    /// One of 64 bits.
    Long(u64),
    /// Where so many bytes are read or written.
    Pointer(u32, u32),
}
use Argument::{Long, Number, Pointer};

/// Paths in the data: a file that is there, and one that is not.
const THERE: [Argument; 2] = [Pointer(0, 6), Number(6)];
const NOT_THERE: [Argument; 2] = [Pointer(6, 6), Number(6)];
const DATA: &str = "work/fwork/g";
/// A list of one buffer, which has 8 bytes, and one of a buffer that ends behind the memory.
const BUFFER: Argument = Pointer(256, 8);
const BUFFER_OVER_THE_END: u32 = 272;
/// Where results go.
const OUT: u32 = 512;
/// The directory that a program finds open, and the file that the program opens first.
const ROOT: Argument = Number(3);
const FILE: Argument = Number(4);

/// A call that is right, and what it returns.
fn calls() -> Vec<(&'static str, Vec<Argument>, u64)> {
    let out = |size| Pointer(OUT, size);
    let path = |before: &[Argument], path: [Argument; 2], behind: &[Argument]| [before, &path, behind].concat();
    let open = [Number(0), Long(2), Long(2), Number(0), out(4)];
    let both = [&[ROOT, Number(0)], &THERE[..], &[ROOT], &NOT_THERE].concat();
    vec![
        ("args_sizes_get", vec![out(4), Pointer(600, 4)], 0),
        // The function's name.
        ("args_get", vec![out(4), Pointer(600, 4)], 0),
        ("environ_sizes_get", vec![out(4), Pointer(600, 4)], 0),
        ("environ_get", vec![out(4), Pointer(600, 4)], 0),
        ("clock_res_get", vec![Number(0), out(8)], 0),
        ("clock_time_get", vec![Number(0), Long(0), out(8)], 0),
        ("random_get", vec![Pointer(600, 16), Number(16)], 0),
        ("poll_oneoff", vec![Pointer(320, 48), Pointer(600, 32), Number(1), out(4)], 0),
        ("fd_prestat_get", vec![ROOT, out(8)], 0),
        ("fd_prestat_dir_name", vec![ROOT, Pointer(600, 1), Number(1)], 0),
        ("fd_fdstat_get", vec![FILE, out(24)], 0),
        ("fd_filestat_get", vec![FILE, out(64)], 0),
        ("fd_write", vec![FILE, BUFFER, Number(1), out(4)], 0),
        ("fd_pwrite", vec![FILE, BUFFER, Number(1), Long(0), out(4)], 0),
        ("fd_pread", vec![FILE, BUFFER, Number(1), Long(0), out(4)], 0),
        ("fd_seek", vec![FILE, Long(0), Number(0), out(8)], 0),
        ("fd_tell", vec![FILE, out(8)], 0),
        ("fd_read", vec![FILE, BUFFER, Number(1), out(4)], 0),
        ("fd_readdir", vec![ROOT, Pointer(600, 64), Number(64), Long(0), out(4)], 0),
        ("path_create_directory", path(&[ROOT], THERE, &[]), EXIST),
        ("path_filestat_get", path(&[ROOT, Number(0)], THERE, &[out(64)]), 0),
        ("path_filestat_set_times", path(&[ROOT, Number(0)], THERE, &[Long(0), Long(0), Number(0)]), 0),
        ("path_link", both.clone(), NOTSUP),
        ("path_open", path(&[ROOT, Number(0)], THERE, &open), 0),
        // No mount has links, so nothing is written.
        ("path_readlink", path(&[ROOT], THERE, &[Number(600), Number(8), Number(OUT)]), INVAL),
        ("path_remove_directory", path(&[ROOT], THERE, &[]), NOTDIR),
        ("path_rename", [&[ROOT], &THERE[..], &[ROOT], &THERE].concat(), 0),
        ("path_symlink", [&THERE[..], &[ROOT], &NOT_THERE].concat(), NOTSUP),
        ("path_unlink_file", path(&[ROOT], NOT_THERE, &[]), NOENT),
    ]
}

fn text(name: &str, arguments: &[Argument]) -> String {
    let arguments: String = arguments
        .iter()
        .map(|argument| match argument {
            Number(number) | Pointer(number, _) => format!("(i32.const {number}) "),
            Long(number) => format!("(i64.const {number}) "),
        })
        .collect();
    format!("(call ${name} {arguments})")
}

#[test]
fn every_pointer_at_and_over_the_end_of_the_memory_is_refused() {
    let without = ["advise", "allocate", "close", "datasync", "fdstat_set_flags", "fdstat_set_rights"];
    let without = without.into_iter().chain(["filestat_set_size", "filestat_set_times", "renumber", "sync"]);
    let without: Vec<String> = without.map(|name| format!("fd_{name}")).collect();
    let calls = calls();
    for (name, types) in FUNCTIONS {
        let is_here =
            calls.iter().filter(|(here, arguments, _)| here == name && arguments.len() == types.len()).count();
        let is_none = without.iter().any(|other| other == name) || ["proc_raise", "sched_yield"].contains(name);
        assert!(is_here == 1 || is_none || name.starts_with("sock_"), "{name}");
    }
    let mut tried = Vec::new();
    let mut add = |what: String, name: &str, arguments: &[Argument], expected| {
        tried.push((what, text(name, arguments), expected));
    };
    for (name, arguments, result) in &calls {
        add(format!("{name}, as it should be"), name, arguments, *result);
        for (place, argument) in arguments.iter().enumerate() {
            let Pointer(_, size) = *argument else { continue };
            for pointer in [EDGE - size + 1, EDGE, u32::MAX - size + 1, u32::MAX] {
                let mut arguments = arguments.clone();
                arguments[place] = Number(pointer);
                add(format!("{name}, argument {place}: {pointer:#x}"), name, &arguments, FAULT);
            }
            if (*argument, place) == (BUFFER, 1) {
                let mut arguments = arguments.clone();
                arguments[place] = Number(BUFFER_OVER_THE_END);
                add(format!("{name}, a buffer over the end"), name, &arguments, FAULT);
            }
        }
        // What is refused has changed nothing.
        add(format!("{name}, afterwards"), name, arguments, *result);
    }
    let setup = format!(
        "(call $path_open {}) drop
         (i32.store (i32.const 256) (i32.const 600)) (i32.store (i32.const 260) (i32.const 8))
         (i32.store (i32.const {BUFFER_OVER_THE_END}) (i32.const {})) (i32.store (i32.const {}) (i32.const 8))\n",
        "(i32.const 3) (i32.const 0) (i32.const 0) (i32.const 6) (i32.const 1) (i64.const 0x1fffffff) (i64.const 0x1fffffff) \
         (i32.const 0) (i32.const 512)",
        EDGE - 7,
        BUFFER_OVER_THE_END + 4,
    );
    let body: String = tried.iter().enumerate().map(|(index, (_, call, _))| kept(index, call)).collect();
    let function = Function::new(&program(DATA, &(setup + &body), tried.len()));
    let step = json!({ "env": { "A": "b" } });
    let report = function.run(step, json!({ "outputs": ["out"], "files": [{ "at": "/work", "memory": "1MiB" }] }));
    let results = words_of(&report);
    assert_eq!(results.len(), tried.len());
    for ((what, _, expected), result) in tried.iter().zip(results) {
        assert_eq!(u64::from(result), *expected, "{what}");
    }
}
