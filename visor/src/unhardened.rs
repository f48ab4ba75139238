//! The visor for tests that switch mitigations off; see [`monohull_visor::domain::fault_injection`]. It does not ship.

use std::process::ExitCode;

fn main() -> ExitCode {
    monohull_visor::cli::main()
}
