//! The `monohull` program; everything it does is in the library, where tests reach it.

#![forbid(unsafe_code)]

use monohull_sys::wiping_allocator::WipingAllocator;
use std::process::ExitCode;

/// A server's processes that are used again wipe what they free.
#[global_allocator]
static ALLOCATOR: WipingAllocator = WipingAllocator;

#[cfg(feature = "unharden")]
compile_error!(
    "`unharden` is for the program `monohull-unhardened` alone: build that with `--bin monohull-unhardened`"
);

fn main() -> ExitCode {
    monohull_visor::cli::main()
}
