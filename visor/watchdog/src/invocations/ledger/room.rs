//! How many more invocations there may be.
//!
//! Those that have not ended are counted by looking at each, which takes milliseconds if they are many. So they are not counted for each that is
//! started: since the last count there can be no more new ones than rows that were changed since, all of them by one connection. They are counted again
//! when that could be too many.

use std::sync::{Arc, Mutex, PoisonError};

use monohull_durable::{MetaError, Sqlite};

use super::{Ledger, meta_kept};
use crate::http::error::ApiError;

/// The last count.
#[derive(Clone, Default, Debug)]
pub(super) struct Room(Arc<Mutex<Option<Counted>>>);

/// Those that had not ended at some time.
#[derive(Clone, Copy, Debug)]
struct Counted {
    living: u64,
    /// Rows that had been changed then.
    changed: u64,
}

impl Ledger {
    /// Whether so many more may be started now, of which at most `most` may be there.
    pub(crate) fn has_room(&self, more: u64, most: u64) -> Result<bool, ApiError> {
        self.has_room_in(&self.meta(), more, most)
    }

    /// The same; this is the connection by which they are started, so that no others come in between.
    pub(crate) fn has_room_in(&self, meta: &Sqlite, more: u64, most: u64) -> Result<bool, ApiError> {
        self.room.is_there(meta, more, most).map_err(meta_kept)
    }

    /// How many more may be started.
    pub(crate) fn room(&self, most: u64) -> Result<u64, ApiError> {
        Ok(most.saturating_sub(self.room.count(&self.meta()).map_err(meta_kept)?))
    }
}

impl Room {
    /// Whether so many more may be started now by this connection.
    pub(super) fn is_there(&self, meta: &Sqlite, more: u64, most: u64) -> Result<bool, MetaError> {
        let counted = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = counted.and_then(|counted| Some((counted.living, meta.changed().checked_sub(counted.changed)?)));
        if since.is_some_and(|(living, changed)| living.saturating_add(changed).saturating_add(more) <= most) {
            return Ok(true);
        }
        Ok(self.count(meta)?.saturating_add(more) <= most)
    }

    fn count(&self, meta: &Sqlite) -> Result<u64, MetaError> {
        let counted = Counted { living: meta.living()?, changed: meta.changed() };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(counted);
        Ok(counted.living)
    }
}
