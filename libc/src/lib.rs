//! The *personality*: what a C library below Monohull asks of Linux, answered by hostcalls.
//!
//! ```text
//!   C program, or Rust's real std                    unchanged
//!   ─────────────────────────────
//!   musl                                             its `syscall` instruction is a call of `__monohull_syscall`
//!   ─────────────────────────────
//!   this crate                                       number ─▶ table ─▶ descriptors, memory, threads, clocks, …
//!   ─────────────────────────────
//!   gate                                             hostcalls
//! ```
//!
//! All of it is a function's own code, runs with its rights, and is trusted by nothing. `cargo xtask build` makes one
//! object of it, in which only the names of `libc/musl/exports` are global, and puts that into `libmonohull_c.a` beside
//! musl's own objects. `LINKING.md` describes how a program is linked against the archive.
//!
//! [`table`] has the system calls, and `docs/programs.md` what they become and their limits. What does not exist here (processes,
//! signals, new code, …) is refused with one line on the standard error that names it ([`refuse`]).
#![no_std]
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(
    clippy::missing_safety_doc,
    clippy::not_unsafe_ptr_arg_deref,
    reason = "what C calls has C's conditions: pointers that are valid for their documented use"
)]
#![allow(unreachable_pub, reason = "what musl and programs link is public by its symbol")]

extern crate alloc;
// For its functions, which are called by their C names.
extern crate monohull as _;

mod bytes;
mod changing;
mod clocks;
mod descriptors;
mod epoll;
mod errno;
mod files;
mod futex;
mod gnu;
mod header;
mod heap;
mod host;
mod json;
mod line;
mod local;
mod lock;
mod lookup;
mod memory;
mod poll;
mod process;
mod queue;
mod refuse;
mod select;
mod shared;
mod sockets;
mod sorting;
mod standard;
mod start;
pub mod table;
mod thread_locals;
mod threads;
mod unwind;

/// The personality's own panics: a mistake in it, reported as the instance's.
#[cfg(panic = "abort")]
#[panic_handler]
fn panicked(info: &core::panic::PanicInfo<'_>) -> ! {
    host::abort(line::Line::of(format_args!("Monohull's libc: {info}")).text())
}

/// Nothing here unwinds: what core's tables name, and nothing calls.
#[cfg(panic = "abort")]
#[unsafe(no_mangle)]
pub extern "C" fn rust_eh_personality() {}

/// The same for what core's landing pads name. It is this object's own, beside the unwinder of a program that has one.
#[cfg(panic = "abort")]
#[unsafe(no_mangle)]
pub extern "C" fn _Unwind_Resume() -> ! {
    host::abort("Monohull's libc unwinds")
}
