//! Answers to the supervisor that come with files.

use super::captured::{seal_continuation, seal_template};
use super::protocol::{FromWorker, SupervisorChannel};
use super::sent::short_or_sealed_sent;
use monohull_domain::checkpoint::Suspended;
use monohull_ipc::channel::is_shortage;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// The pause before an answer is sent again for which the kernel had no room.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// Sends an answer, however long that takes. An error is one that stays: the supervisor has ended, or this process has no descriptor left.
pub(super) fn send(channel: &SupervisorChannel, answer: &FromWorker, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    loop {
        match channel.send(answer, files) {
            // Others have what is missing, such as as many descriptors in flight as the kernel permits a user; the workflow's deadline ends
            // the wait.
            Err(error) if is_of_others(&error) => std::thread::sleep(RETRY_PAUSE),
            sent => return sent,
        }
    }
}

/// Whether an answer may be sent once other processes need less of the host.
fn is_of_others(error: &io::Error) -> bool {
    is_shortage(error) && error.raw_os_error() != Some(libc::EMFILE)
}

/// The answer of a workflow that only waits, and its files: the rest of it, and what it sends to others. Whether its process `stays`.
pub(super) fn suspended(suspended: Suspended, stays: bool) -> io::Result<(FromWorker, Vec<OwnedFd>)> {
    let Suspended { continuation, waits, until, events_taken, published, sent, .. } = suspended;
    let (few, attached) = short_or_sealed_sent(&sent)?;
    let file = seal_continuation(continuation)?;
    let sent = attached.is_some();
    let answer = FromWorker::Suspended { waits, until, events_taken, published, sent, few, stays };
    Ok((answer, [file].into_iter().chain(attached).collect()))
}

/// The answer of a domain that has made a template, and the template.
pub(super) fn template(suspended: Suspended) -> io::Result<(FromWorker, Vec<OwnedFd>)> {
    let Suspended { continuation, waits, until, .. } = suspended;
    let file = seal_template(continuation)?;
    let (events_taken, published) = Default::default();
    let answer =
        FromWorker::Suspended { waits, until, events_taken, published, sent: false, few: Vec::new(), stays: false };
    Ok((answer, vec![file]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_waits_for_what_others_have_and_for_nothing_else() {
        let of = io::Error::from_raw_os_error;
        for errno in [libc::ETOOMANYREFS, libc::ENOBUFS, libc::ENOMEM, libc::ENFILE] {
            assert!(is_of_others(&of(errno)), "{}", of(errno));
        }
        for errno in [libc::EMFILE, libc::EPIPE, libc::ECONNREFUSED, libc::EBADF] {
            assert!(!is_of_others(&of(errno)), "{}", of(errno));
        }
    }
}
