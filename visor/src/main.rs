//! The `monohull` program; everything it does is in the library, where tests reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    monohull::cli::main()
}
