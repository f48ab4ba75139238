//! The visor for tests that switch defences off; see [`monohull::weaken`]. It does not ship.

use std::process::ExitCode;

fn main() -> ExitCode {
    monohull::cli::main()
}
