//! Events that come for a workflow while it runs: from the supervisor to the domain's inbox.
//!
//! The supervisor sends no others until these have been acknowledged, so that a worker which reads nothing blocks no sender.

use super::job::read_events;
use super::protocol::{FromWorker, SupervisorChannel, ToWorker};
use monohull_domain::Inbox;
use std::io;
use std::sync::Arc;
use std::thread::Builder;

/// Starts the thread that passes them on. It ends with the process.
pub(super) fn listen(channel: Arc<SupervisorChannel>) -> io::Result<Arc<Inbox>> {
    let inbox = Arc::new(Inbox::default());
    let own = inbox.clone();
    Builder::new().name("events".to_owned()).spawn(move || pass_on(&channel, &own))?;
    Ok(inbox)
}

fn pass_on(channel: &SupervisorChannel, inbox: &Inbox) {
    while let Ok(Some(mut packet)) = channel.receive() {
        let mut files = std::mem::take(&mut packet.files).into_iter();
        let (Ok(ToWorker::Events), Some(file)) = (packet.read(), files.next()) else { return };
        match read_events(&file) {
            Ok(events) => inbox.put(events),
            // They stay in the mailbox, and are given to the next process.
            Err(error) => tracing::warn!("events cannot be given now: {error}"),
        }
        if channel.send(&FromWorker::EventsTaken, &[]).is_err() {
            return;
        }
    }
}
