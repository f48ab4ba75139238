//! What a process gives up before it reads what an attacker may have written.
//!
//! ```text
//!   calls       lists of system calls as tables, a reason for each entry
//!   files       Landlock: the files that can still be opened
//!   computing   all of it for a program that only computes: the compiler of WebAssembly programs
//! ```
//!
//! Workers have a list of their own (`monohull-worker`), made with the same tables.
#![forbid(unsafe_code)]

pub mod calls;
pub mod computing;
pub mod files;
