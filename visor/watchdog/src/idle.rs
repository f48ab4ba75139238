//! The end of a server that has nothing to do (`--exit-when-idle`).
//!
//! While all invocations sleep, no process is needed: the service manager holds the socket, and starts a server at the next connection.
//! It must also start one when the next invocation is due. The server says when that is in the file `next-due` of its state folder, in
//! seconds since 1970, and ends; a unit of the service manager sets a timer by it (`visor/systemd`).
//!
//! A server that was told to end writes no such file, and one that was killed is started again by its manager.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::invocations::ledger::now;
use crate::service::Watchdog;
use crate::store::error::{StateError, at};
use crate::store::state_folder::StateFolder;
use crate::task_tracker::TaskTracker;

/// The file that says when the next server is needed.
pub(crate) const NEXT_DUE: &str = "next-due";
/// How much earlier the next server is started than something is due: it starts in less, also on a busy machine, and then waits. Rounded to
/// seconds it is up to one more.
const EARLY: Duration = Duration::from_secs(1);
/// What is due within this time, beside that which the server is to be idle for, is waited for: to end and to be started again takes a
/// while, and a server that was started early must not end before that.
const MARGIN: Duration = Duration::from_secs(3);

/// When something is due that the next server is needed for (ns since 1970), if anything is.
pub(crate) struct NextDue(Option<u64>);

impl NextDue {
    /// Writes it down. Nothing is written if nothing is due.
    fn tell(&self, folder: &StateFolder) -> Result<(), StateError> {
        let Some(due) = self.0 else {
            tracing::info!("ended: idle, and nothing is due");
            return Ok(());
        };
        let seconds = Duration::from_nanos(due).saturating_sub(EARLY).as_secs();
        let (path, part) = (path(folder), folder.path().join(format!("{NEXT_DUE}.part")));
        // It need not survive a loss of power: then a server is started anyway.
        folder.change(|| {
            fs::write(&part, format!("{seconds}\n")).and_then(|()| fs::rename(&part, &path)).map_err(at(&path))
        })?;
        tracing::info!(next_due = seconds, "ended: idle");
        Ok(())
    }

    /// Removes what an earlier server has written down.
    pub(crate) fn forget(folder: &StateFolder) -> Result<(), StateError> {
        let path = path(folder);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&path)(error)),
            _ => Ok(()),
        }
    }
}

fn path(folder: &StateFolder) -> PathBuf {
    folder.path().join(NEXT_DUE)
}

impl Watchdog {
    /// Returns when nothing has been under way for the time that is set, nothing is due soon, and the state folder says when something
    /// is. Without such a setting it never returns.
    ///
    /// Between the last look and the return the caller's thread does nothing else, and it is the only one that accepts connections: this is a part
    /// of the same future. What is claimed meanwhile has a turn, which is looked at.
    pub(crate) async fn idle(self: &Arc<Self>, connections: &Arc<TaskTracker>, folder: &StateFolder) {
        let Some(time) = self.settings.idle else { return std::future::pending().await };
        let pulse = (time / 10).clamp(Duration::from_millis(20), Duration::from_secs(1));
        let (mut seen, mut since) = (self.activity(connections), Instant::now());
        loop {
            sleep(pulse).await;
            let activity = self.activity(connections);
            if activity != seen || self.is_busy(connections) {
                (seen, since) = (activity, Instant::now());
                continue;
            }
            if since.elapsed() < time {
                continue;
            }
            let watchdog = self.clone();
            let Ok(Ok(due)) = spawn_blocking(move || watchdog.ledger.next_alarm()).await else { continue };
            let soon = now().saturating_add(u64::try_from((time + MARGIN).as_nanos()).unwrap_or(u64::MAX));
            let is_soon = due.is_some_and(|due| due < soon);
            if is_soon || activity != self.activity(connections) || self.is_busy(connections) {
                continue;
            }
            match NextDue(due).tell(folder) {
                Ok(()) => return,
                Err(error) => {
                    tracing::error!(%error, "the server does not end: it cannot say when the next one is needed");
                    since = Instant::now();
                }
            }
        }
    }

    /// Numbers that change with all that begins.
    fn activity(&self, connections: &Arc<TaskTracker>) -> [usize; 2] {
        [self.work.counts().1, connections.counts().1]
    }

    /// Whether something is under way.
    fn is_busy(&self, connections: &Arc<TaskTracker>) -> bool {
        self.work.counts().0 > 0 || connections.counts().0 > 0 || self.admission.load() != (0, 0)
    }
}
