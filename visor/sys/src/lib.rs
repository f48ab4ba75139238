//! System calls that no well-kept safe wrapper has, behind functions that are safe to call.
//!
//! ```text
//!   fork             a process with one thread copies itself: `fork`, `clone` and `clone3` into a control group
//!   child            a program that ends with the one that has started it
//!   syscall_cookie   a secret argument that permits system calls which the sandbox denies to workers
//!   spawner          the calls that are made with it: waiting for children, limits, `ptrace`
//!   prefault, hugepages, libc_text    which pages a fork hands on, and at what cost
//!   interface        TAP devices and their addresses
//!   sealed_bytes     sealed memory as a slice
//!   shared_memory    memory that another process writes to as well, to copy to and from
//!   probe            what the kernel can do
//!   wiping_allocator, dead_stack, descriptors, signals    what a process that is used again leaves of an earlier use
//!   written_pages    which pages have been written to since they were looked at
//!   landlock         rules that another process has made
//!   userfaultfd, capabilities, environment, socket, watched
//! ```
//!
//! `unsafe` stands in this crate, in `domain`, where memory of functions is handled, and in `trampoline`; the other crates
//! of the visor forbid it. Each function here checks what its system call relies on, or takes a value that proves it
//! ([`fork::OnlyThread`]). The comments name the manual page or the kernel header that a reason comes from.
//!
//! ```
//! match monohull_sys::probe::seccomp() {
//!     Ok(()) => println!("this host has seccomp filters"),
//!     Err(error) => println!("workers cannot be confined: {error}"),
//! }
//! ```
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

pub mod arenas;
pub mod capabilities;
pub mod child;
mod clone3;
pub mod dead_stack;
pub mod descriptors;
pub mod environment;
pub mod fork;
pub mod hugepages;
pub mod interface;
pub mod landlock;
pub mod libc_text;
pub mod prefault;
pub mod probe;
pub mod sealed_bytes;
pub mod shared_memory;
pub mod signals;
pub mod socket;
pub mod spawner;
pub mod syscall_cookie;
pub mod userfaultfd;
#[cfg(feature = "tokio")]
pub mod watched;
pub mod wiping_allocator;
pub mod written_pages;

pub use clone3::CLONE_BYTES;
