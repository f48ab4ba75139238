//! Events that a workflow has sent to other invocations, on their way from its process to the supervisor: in sealed memory.

use monohull_abi::event::{OUTBOX_BYTES, OUTBOX_EVENTS};
use monohull_domain::may_be_sent;
use monohull_ipc::ChannelError;
use monohull_ipc::sealed::{read_sealed, seal};
use monohull_report::Outgoing;
use std::io;
use std::os::fd::OwnedFd;

/// The most bytes of all of them, with their names.
const SENT_MAX: u64 = OUTBOX_BYTES as u64 + OUTBOX_EVENTS as u64 * 1024;

/// As a file, if there are some.
pub(super) fn seal_sent(sent: &[Outgoing]) -> io::Result<Option<OwnedFd>> {
    let encode = || postcard::to_extend(sent, Vec::new()).map_err(io::Error::other);
    (!sent.is_empty()).then(|| seal(&encode()?, 0)).transpose()
}

/// What a worker has sent. An event takes more memory than its bytes in the file, so they are counted first.
pub(super) fn read_sent(file: &OwnedFd) -> Result<Vec<Outgoing>, ChannelError> {
    let wrong = |what: &str| ChannelError::Malformed(format!("the events that it has sent: {what}"));
    let bytes = read_sealed(file, SENT_MAX)?;
    let unreadable = |error: postcard::Error| wrong(&error.to_string());
    let (count, mut rest) = postcard::take_from_bytes::<u64>(&bytes).map_err(unreadable)?;
    if count > OUTBOX_EVENTS as u64 {
        return Err(wrong("too many"));
    }
    let mut sent = Vec::new();
    for _ in 0..count {
        let event;
        (event, rest) = postcard::take_from_bytes::<Outgoing>(rest).map_err(unreadable)?;
        sent.push(event);
    }
    match rest.is_empty() && may_be_sent(&sent) {
        true => Ok(sent),
        false => Err(wrong("more than a workflow may send")),
    }
}
