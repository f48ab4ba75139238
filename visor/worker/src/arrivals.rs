//! Events that come for a workflow while it runs: from the supervisor to the domain's inbox. And orders for one that stands still.
//!
//! The supervisor sends no others until these have been acknowledged, so that a worker which reads nothing blocks no sender.

use super::job::{decode_events, read_events};
use super::protocol::{FromWorker, SupervisorChannel, ToWorker};
use super::reply;
use monohull_domain::checkpoint::{GoOn, Order};
use monohull_domain::{Inbox, spawn_detached};
use std::io;
use std::sync::Arc;

/// Starts the thread that passes them on. It ends with the process.
pub(super) fn listen(
    channel: Arc<SupervisorChannel>,
    inbox: Arc<Inbox>,
    order: impl Fn(Result<Order, String>) + Send + 'static,
) -> io::Result<()> {
    spawn_detached("events", move || pass_on(&channel, &inbox, &order))
}

fn pass_on(channel: &SupervisorChannel, inbox: &Inbox, order: &dyn Fn(Result<Order, String>)) {
    while let Ok(Some(mut packet)) = channel.receive() {
        let mut files = std::mem::take(&mut packet.files).into_iter();
        match (packet.read(), files.next()) {
            (Ok(ToWorker::Events), Some(file)) => {
                match read_events(&file) {
                    Ok(events) => inbox.put(events),
                    // They stay in the mailbox, and are given to the next process.
                    Err(error) => tracing::warn!("events cannot be given now: {error}"),
                }
                if reply::send(channel, &FromWorker::EventsTaken, &[]).is_err() {
                    return;
                }
            }
            (Ok(ToWorker::GoOn { lineage, keeps_deadline, may_leave, few, .. }), file) => {
                let events = file.map_or_else(|| decode_events(&few), |file| read_events(&file));
                order(events.map(|events| Order::GoOn(GoOn { lineage, keeps_deadline, may_leave, events })));
            }
            (Ok(ToWorker::Confirmed { unkept }), _) => order(Ok(unkept.map_or(Order::End, Order::Unkept))),
            _ => return,
        }
    }
}
