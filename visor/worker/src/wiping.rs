//! Freed memory of a process that stays for another job is wiped, from before the first one's job is unpacked.

use monohull_domain::fault_injection::{self, Mitigation};
use monohull_sys::wiping_allocator;

/// From here on freed memory is wiped.
pub(super) fn begin() -> Result<(), String> {
    if fault_injection::disabled(Mitigation::ResetHeap) {
        return Ok(());
    }
    wiping_allocator::begin().map_err(|_| "this program's allocator does not wipe what is freed".to_owned())
}
