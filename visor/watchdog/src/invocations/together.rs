//! Transactions of the ledger that wait for the disk together.
//!
//! ```text
//!   one thread has the database, and waits for the disk        others bring their transactions, and wait for the database
//!   the first of those does all that were brought in one, waits for the disk, and tells the others
//! ```

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use monohull_durable::{MetaError, Sqlite};

/// A transaction. It may be done once more if the disk has failed.
type Work = Box<dyn FnMut(&mut Sqlite) + Send>;

/// Transactions that are queued.
#[derive(Default)]
pub(crate) struct Together(Mutex<Vec<Brought>>);

struct Brought {
    work: Work,
    /// Is given it back if it was not done.
    done: Sender<Option<Work>>,
}

impl Together {
    /// Does a transaction, and with it those that are queued. Returns when the disk has it.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        meta: &Mutex<Sqlite>,
        mut work: impl FnMut(&mut Sqlite) -> Result<T, MetaError> + Send + 'static,
    ) -> Result<T, MetaError> {
        let came = Arc::new(Mutex::new(None));
        let to = came.clone();
        let work: Work = Box::new(move |meta| *lock(&to) = Some(work(meta)));
        let (done, told) = channel();
        lock(&self.0).push(Brought { work, done });
        let mut meta = lock(meta);
        let undone = match told.try_recv() {
            Ok(undone) => undone,
            Err(TryRecvError::Empty) => self.lead(&mut meta, &told),
            // The thread that did it has panicked.
            Err(TryRecvError::Disconnected) => return Err(MetaError::Undone),
        };
        if let Some(mut work) = undone {
            work(&mut meta);
        }
        drop(meta);
        lock(&came).take().unwrap_or(Err(MetaError::Undone))
    }

    /// Does all that were brought; the caller's own, if it was not done.
    fn lead(&self, meta: &mut Sqlite, own: &Receiver<Option<Work>>) -> Option<Work> {
        let brought = std::mem::take(&mut *lock(&self.0));
        let (mut works, tell): (Vec<Work>, Vec<_>) = brought.into_iter().map(|it| (it.work, it.done)).unzip();
        // A single one needs no transaction around its own.
        let is_done = match works.as_mut_slice() {
            [work] => {
                work(meta);
                true
            }
            works => meta.together(works).inspect_err(|error| tracing::warn!(%error, "one by one")).is_ok(),
        };
        for (work, tell) in works.into_iter().zip(tell) {
            // A thread that does not wait any more needs no answer.
            let _ = tell.send((!is_done).then_some(work));
        }
        own.try_recv().ok().flatten()
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
