//! What is removed of a ledger because it is old, more than is kept, or named by nothing any more; and how much there is. Both look at many rows,
//! and are done for a small part of the time.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use monohull_durable::{Bounds, MetaError, StoreError, Tally};

use super::{Ledger, now};
use crate::invocations::stored::Start;
use crate::settings::Keep;

/// After files were removed so many times as long passes until the next time: it takes as long as there are rows.
const REST: u32 = 20;
/// Files are not removed so soon after the start: nothing can be added meanwhile, and something may be due.
const FIRST_SWEEP: Duration = Duration::from_secs(5);

/// The last removal of files that nothing names.
pub(super) struct Swept {
    at: Instant,
    took: Duration,
}

impl Swept {
    /// At the start of a server.
    pub(super) fn at_start() -> Swept {
        Swept { at: Instant::now(), took: FIRST_SWEEP / REST }
    }
}

impl Ledger {
    /// Forgets what is more than is kept, and removes the files that nothing names any more.
    pub(crate) fn forget(&self, keep: &Keep) -> Result<(), StoreError> {
        let age = u64::try_from(keep.time.as_nanos()).unwrap_or(u64::MAX);
        let bounds = Bounds { number: keep.number, bytes: keep.bytes, ended_after: now().saturating_sub(age) };
        // To look at all that have ended takes a while: only if there are more of them, or the first is too old.
        let has_ended = self.has_ended.swap(false, Ordering::Relaxed);
        let forgotten = || -> Result<usize, MetaError> {
            let mut meta = self.meta();
            let is_old = meta.first_end()?.is_some_and(|end| end < bounds.ended_after);
            if has_ended || is_old { meta.forget(bounds) } else { Ok(0) }
        };
        let removed = forgotten().inspect_err(|_| self.has_ended.store(true, Ordering::Relaxed))?;
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if removed > 0 || has_ended {
            self.may_be_unnamed();
        }
        if swept.at.elapsed() < REST * swept.took || !self.unnamed.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let begin = Instant::now();
        let came = self.sweep();
        if !matches!(came, Ok(Some(_))) {
            self.may_be_unnamed();
        }
        *swept = Swept { at: Instant::now(), took: begin.elapsed() };
        came.map(drop)
    }

    /// There may be files that nothing names any more: [`Ledger::forget`] removes them.
    pub(crate) fn may_be_unnamed(&self) {
        self.unnamed.store(true, Ordering::Relaxed);
    }

    /// How much there is. It is counted anew if that takes a small part of the time since the last count.
    pub(crate) fn tally(&self) -> Result<Tally, StoreError> {
        let mut known = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, took, tally)) = &*known
            && at.elapsed() < REST * *took
        {
            return Ok(tally.clone());
        }
        let begin = Instant::now();
        // With a connection of its own, as below.
        let tally = self.store.meta()?.tally(now())?;
        *known = Some((Instant::now(), begin.elapsed(), tally.clone()));
        Ok(tally)
    }

    /// Removes the files that nothing names any more. `None` while some are being added, or an export reads some.
    fn sweep(&self) -> Result<Option<usize>, StoreError> {
        // With a connection of its own: many rows may be read, and others go on meanwhile.
        let meta = self.store.meta()?;
        self.store.try_sweep(&meta, Start::files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::state_folder::StateFolder;
    use std::fs;
    use tempfile::TempDir;

    const KEEP: Keep = Keep { number: 10, bytes: 1 << 20, time: Duration::from_secs(3600) };

    /// A ledger that has rested enough, in which nothing has ended.
    fn ledger() -> (TempDir, Ledger) {
        let folder = TempDir::new().expect("a folder");
        let state = StateFolder::take(folder.path()).expect("a state folder");
        let ledger = Ledger::open(&state, None).expect("a new one");
        rest(&ledger);
        ledger.forget(&KEEP).expect("looked at");
        rest(&ledger);
        (folder, ledger)
    }

    fn rest(ledger: &Ledger) {
        ledger.swept.lock().expect("nothing panicked").took = Duration::ZERO;
    }

    #[test]
    fn files_that_cannot_be_removed_while_others_are_added_are_removed_later() {
        let (_folder, ledger) = ledger();
        let file = ledger.store().file(&[7; 32]);
        fs::write(&file, "named by nothing").expect("written");
        let adding = ledger.adding().expect("begun");
        ledger.may_be_unnamed();
        ledger.forget(&KEEP).expect("looked at");
        assert!(file.exists(), "a row may name it yet");
        drop(adding);
        rest(&ledger);
        ledger.forget(&KEEP).expect("looked at");
        assert!(!file.exists(), "no other end is needed");
        // Nothing is looked at again without a reason.
        fs::write(&file, "named by nothing").expect("written");
        rest(&ledger);
        ledger.forget(&KEEP).expect("looked at");
        assert!(file.exists());
    }
}
