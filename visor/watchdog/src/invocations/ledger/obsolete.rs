//! Checkpoints that no history names any more are removed.
//!
//! ```text
//!   commit ── opened, its name removed ─▶ clients are told
//!                      └── closed by another thread: the kernel gives back what the file has of the disk and of memory
//! ```
//!
//! To give back 200 MiB takes some 40 ms, for which no client has to wait. The name is gone before clients are told of an end: one may remove the
//! invocation and use its id for another, whose files have the same names.

use super::Ledger;
use monohull_durable::Checkpoint;
use std::fs::{File, remove_file};
use tokio::runtime::Handle;

/// Files of fewer bytes are removed as fast as another thread is told of them.
const LARGE: u64 = 1 << 20;

impl Ledger {
    pub(super) fn remove(&self, obsolete: &[Checkpoint]) {
        for Checkpoint { file, bytes } in obsolete {
            let path = self.store.checkpoints().join(file);
            let kept_open = if *bytes < LARGE { None } else { File::open(&path).ok() };
            // One that stays is removed by the next sweep.
            let _ = remove_file(&path);
            if let (Some(file), Ok(runtime)) = (kept_open, Handle::try_current()) {
                runtime.spawn_blocking(|| drop(file));
            }
        }
    }
}
