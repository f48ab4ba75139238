//! WebAssembly programs as functions, from end to end: `monohull build app.wasm`, then `monohull run`.
//!
//! Most programs here are written as text, call a function of WASI as no C library would, and publish what they got in the slot `out`.
//! The compiler and the runtime come from `cargo xtask build`; `cargo xtask test` does both.

mod accidents;
mod addresses;
mod attacks;
mod callbacks;
mod calls;
mod client_sockets;
mod component_sockets;
mod components;
mod devices;
mod durable;
mod escape;
mod exceptions;
#[path = "../support/extent.rs"]
mod extent;
mod first_memory;
#[path = "../support/full.rs"]
mod full;
mod generated;
mod go;
mod hostile;
mod http;
mod http_requests;
mod javascript;
mod lines;
#[path = "../support/memory_program.rs"]
mod memory_program;
mod moves;
#[path = "../support/neighbour.rs"]
mod neighbour;
mod one_shot;
mod pointers;
#[path = "../support/program.rs"]
mod program;
mod programs;
mod relaxed;
mod reused;
mod rights;
#[path = "../serve_support/mod.rs"]
mod serve_support;
mod sockets;
#[path = "../support/stops.rs"]
mod stops;
mod streams;
mod support;
mod synced;
mod traps;
