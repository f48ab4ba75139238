//! std's error of collections that cannot get room. Only alloc makes it, so a vector is asked for what was refused.

use crate::collections::TryReserveError;
use crate::vec::Vec;
use hashbrown::TryReserveError as Refused;

/// std's error for hashbrown's.
#[cold]
pub(super) fn refused(error: Refused) -> TryReserveError {
    let bytes = match error {
        Refused::CapacityOverflow => usize::MAX,
        Refused::AllocError { layout } => layout.size(),
    };
    let ask = |bytes| Vec::<u8>::new().try_reserve_exact(bytes).err();
    // What was too much a moment ago may be there now; then only the reason is lost.
    ask(bytes).or_else(|| ask(usize::MAX)).expect("no vector has so many bytes")
}
