//! How many more invocations there may be.
//!
//! Those that have not ended are counted by looking at each, which takes milliseconds if they are many. So they are not counted for each that is
//! started: the ledger knows a number that they are at most, which rises with each start, and counts again when that comes to the limit.

use std::sync::atomic::Ordering::Relaxed;

use super::{Ledger, meta_kept};
use crate::http::error::ApiError;

impl Ledger {
    /// Whether so many more may be started now, of which at most `most` may be there. The caller starts them, or fewer.
    pub(crate) fn has_room(&self, more: u64, most: u64) -> Result<bool, ApiError> {
        let meta = self.meta();
        let mut there = self.living_at_most.load(Relaxed);
        if there.saturating_add(more) > most {
            there = meta.living().map_err(meta_kept)?;
        }
        let has_room = there.saturating_add(more) <= most;
        self.living_at_most.store(if has_room { there + more } else { there }, Relaxed);
        Ok(has_room)
    }

    /// How many more may be started. The caller starts any number of them.
    pub(crate) fn room(&self, most: u64) -> Result<u64, ApiError> {
        let meta = self.meta();
        self.living_at_most.store(u64::MAX, Relaxed);
        Ok(most.saturating_sub(meta.living().map_err(meta_kept)?))
    }
}
