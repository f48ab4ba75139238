//! Memory that is not used any more is wiped in a process that stays for another job: what is freed, from before the first one's job is
//! unpacked, and room in which jobs are received.

use monohull_domain::fault_injection::{self, Mitigation};
use monohull_ipc::Room;
use monohull_sys::wiping_allocator;

/// From here on freed memory is wiped.
pub(super) fn begin() -> Result<(), String> {
    if fault_injection::disabled(Mitigation::ResetHeap) {
        return Ok(());
    }
    wiping_allocator::begin().map_err(|_| "this program's allocator does not wipe what is freed".to_owned())
}

/// Wipes the room in which a message was received, of which there is a copy.
pub(super) fn room(room: &mut Room) {
    if !fault_injection::disabled(Mitigation::ResetRoom) {
        room.wipe();
    }
}
