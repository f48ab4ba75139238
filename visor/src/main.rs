//! The `monohull` program; everything it does is in the library, where tests reach it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

#[cfg(feature = "weaken")]
compile_error!("`weaken` is for the program `monohull-weakened` alone: build that with `--bin monohull-weakened`");

fn main() -> ExitCode {
    monohull::cli::main()
}
