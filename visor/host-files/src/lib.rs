//! Directories of the host that a workflow may use, and how it gets to them.
//!
//! ```text
//!   worker                                            supervisor, or `monohull run`
//!   open("a/b") ─────────── Open ───────────────────▶ openat2 beneath the granted directory
//!                ◀───────── Opened + the descriptor ─
//!   read, write, size: the worker's own, straight to the kernel
//! ```
//!
//! A worker's sandbox lets it open nothing. It asks its broker, a thread of the process above, which has one descriptor for
//! each granted directory and resolves every path beneath it: no symbolic link is followed, no other mount entered, and
//! `..` is refused before the kernel sees it. So even a function that has brought its worker under its control gets files
//! of the granted directory and nothing else.
//!
//! What a granted directory has in it is the operator's choice: a hard link in it to a file elsewhere is a file in it.
//!
//! ```
//! use monohull_host_files::Directory;
//! use std::path::Path;
//!
//! assert!(Directory::open(Path::new("/usr"), false).is_ok());
//! // Files of processes are refused: memory can be read through them.
//! assert!(Directory::open(Path::new("/proc"), false).is_err());
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

mod beneath;
mod broker;
mod client;
pub mod input;
mod wire;

pub use beneath::Directory;
pub use beneath::known_of;
pub use broker::start;
pub use client::Client;
pub use wire::Known;
