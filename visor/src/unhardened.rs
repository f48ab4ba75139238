//! The visor for tests that switch mitigations off; see [`monohull_visor::domain::fault_injection`]. It does not ship.

use monohull_sys::wiping_allocator::WipingAllocator;
use std::process::ExitCode;

/// A server's processes that are used again wipe what they free.
#[global_allocator]
static ALLOCATOR: WipingAllocator = WipingAllocator;

fn main() -> ExitCode {
    monohull_visor::cli::main()
}
