//! What functions link instead of std.
//!
//! A function runs in user memory: no C library, no system calls, no thread-locals at `fs`. This crate gives it std's
//! names, types and behaviour on top of hostcalls, so that an ordinary program changes only its first line:
//!
//! ```text
//! #![no_std] monohull_std::program!();        // a program with nothing but a plain `fn main()`
//!
//! #![no_std] use monohull_std::prelude::*;    // a function with arguments from the workflow file
//! #[monohull::main]
//! fn main(count: u32, pattern: Option<String>) -> Result<(), std::io::Error> { … }
//! ```
//!
//! Or rename the dependency, `std = { package = "monohull-std", … }`: then the compiler itself takes this crate for
//! std, in every module of the program, without `#![no_std]`; the first line is `std::program!();`.
//!
//! Everything else is written as for std:
//!
//! ```no_run
//! use monohull_std::{fs, io, println, thread};
//!
//! fn count_lines(path: &str) -> io::Result<()> {
//!     let text = fs::read_to_string(path)?;
//!     let (first, second) = text.split_at(text.find("\n\n").unwrap_or(text.len()));
//!     let lines = thread::scope(|scope| {
//!         let first = scope.spawn(|| first.lines().count());
//!         first.join().expect("a panic ends the instance") + second.trim_start().lines().count()
//!     });
//!     println!("{path}: {lines} lines");
//!     Ok(())
//! }
//! ```
//!
//! Where things lie while a function runs:
//!
//! ```text
//!   image                                 heap (rt::heap)          one stack per thread
//!   | text | data | bss: first 32 KiB of heap |   grows →   |      | guard | ↓ frames | return | header (rt::header) |
//! ```
//!
//! Threads of one instance run in parallel, and what waits parks without holding a thread of the host. A panic ends
//! the whole instance (the image has no unwinder): so locks are never poisoned, and `JoinHandle::join` never sees an
//! `Err`. `docs/std.md` has all that differs, with its reason; `examples/conformance` checks that nothing else does.
#![no_std]
#![deny(unsafe_code)]
#![allow(clippy::legacy_numeric_constants, reason = "std still has the modules of the number types")]

extern crate alloc as alloc_crate;
// Unit tests run on the host, with the host's threads (`sys/host.rs`).
#[cfg(any(test, panic = "unwind"))]
extern crate std as host_std;

#[macro_use]
mod macros;
#[doc(hidden)]
pub mod rt;
mod sys;

pub mod alloc;
#[allow(unsafe_code, reason = "the processor is asked by an instruction")]
pub mod arch;
pub mod collections;
pub mod continuation;
pub mod durable;
pub mod effect;
pub mod env;
pub mod ffi;
mod float;
pub mod fs;
pub mod hash;
pub mod io;
pub mod mmap;
pub mod net;
pub mod panic;
pub mod path;
pub mod prelude;
pub mod process;
#[allow(unsafe_code, reason = "published crates link to a function here by its name")]
pub mod random;
pub mod slot;
pub mod sync;
pub mod task;
pub mod thread;
pub mod time;

pub use alloc_crate::{borrow, boxed, fmt, format, rc, slice, str, string, vec};
pub use core::{any, array, ascii, cell, char, clone, cmp, convert, default, error, f32, f64, future, hint};
pub use core::{assert, assert_eq, assert_ne, debug_assert, debug_assert_eq, debug_assert_ne, matches};
pub use core::{cfg, column, compile_error, concat, env, file, format_args, include, include_bytes, include_str, line};
pub use core::{i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize};
pub use core::{iter, marker, mem, num, ops, option, pin, primitive, ptr, result};
pub use core::{module_path, option_env, stringify, todo, unimplemented, unreachable, write, writeln};
pub use core_panic::*;

/// `panic!`, without the module of the same name: a glob gives way to our own module.
mod core_panic {
    pub use core::panic;
}

#[doc(inline)]
pub use env::{arg, try_arg};
#[doc(inline)]
pub use monohull::{Fork, Instance, Permanent, fork, generation, instance, ready};
pub use monohull_macros::{main, program};
