//! What a server looks after every few seconds: what it remembers for a time alone, processes that have stayed for long, and memory that it
//! does not use any more.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use monohull_sys::arenas;
use tokio::task::spawn_blocking;
use tokio::time::interval;

use crate::invocations::ledger::now;
use crate::service::Watchdog;

/// How often.
pub(crate) const SWEEP: Duration = Duration::from_secs(5);

/// Memory that was freed and that the allocator still has: after many invocations at once it is tens of megabytes.
#[derive(Default)]
struct Freed {
    /// What had happened until the last look: tasks that had begun, and processes that stayed with invocations.
    seen: [u64; 2],
    is_owed: bool,
}

impl Freed {
    /// True at the first look since which nothing has happened, if something has before the last.
    fn is_due(&mut self, now: [u64; 2]) -> bool {
        let is_at_rest = now == std::mem::replace(&mut self.seen, now);
        let was_owed = std::mem::replace(&mut self.is_owed, !is_at_rest);
        is_at_rest && was_owed
    }
}

impl Watchdog {
    pub(crate) async fn sweep(self: &Arc<Self>) -> Infallible {
        let mut ticks = interval(SWEEP);
        let mut freed = Freed::default();
        loop {
            ticks.tick().await;
            self.history.sweep();
            let watchdog = self.clone();
            let forgotten = spawn_blocking(move || watchdog.ledger.forget(&watchdog.settings.keep_durable)).await;
            if let Ok(Err(error)) = forgotten {
                tracing::warn!(%error, "old invocations could not be removed");
            }
            self.kept.sweep();
            let watchdog = self.clone();
            let _ = spawn_blocking(move || watchdog.count_ended(watchdog.residents.sweep(now()))).await;
            self.templates.sweep();
            if freed.is_due([self.work.counts().1 as u64, self.residents.totals().0]) {
                let _ = spawn_blocking(arenas::give_back).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_when_the_server_has_come_to_rest() {
        let mut freed = Freed::default();
        let looks = [[0, 0], [0, 0], [7, 3], [9, 3], [9, 3], [9, 3], [9, 0], [9, 0], [9, 0]];
        let due: Vec<_> = looks.into_iter().map(|now| freed.is_due(now)).collect();
        assert_eq!(due, [false, false, false, false, true, false, false, true, false]);
    }
}
