//! The `monohull` program; everything it does is in the library, where tests reach it.

#![forbid(unsafe_code)]

use std::process::ExitCode;

#[cfg(feature = "unharden")]
compile_error!(
    "`unharden` is for the program `monohull-unhardened` alone: build that with `--bin monohull-unhardened`"
);

fn main() -> ExitCode {
    monohull_visor::cli::main()
}
