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

/// So many bytes are a part of a message, and no more: memory of their own costs more.
const SHORT: usize = 4096;

/// What goes with a message: bytes that are a part of it, or a file with them.
pub(super) fn short_or_sealed(bytes: Vec<u8>) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    match bytes.len() {
        ..=SHORT => Ok((bytes, None)),
        _ => Ok((Vec::new(), Some(seal(&bytes, 0)?))),
    }
}

fn encode(sent: &[Outgoing]) -> io::Result<Vec<u8>> {
    postcard::to_extend(sent, Vec::new()).map_err(io::Error::other)
}

/// As a file, if there are some.
pub(super) fn seal_sent(sent: &[Outgoing]) -> io::Result<Option<OwnedFd>> {
    (!sent.is_empty()).then(|| seal(&encode(sent)?, 0)).transpose()
}

/// As a part of a message, if they are short, or a file. Both are empty if there are none.
pub(super) fn short_or_sealed_sent(sent: &[Outgoing]) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    if sent.is_empty() { Ok((Vec::new(), None)) } else { short_or_sealed(encode(sent)?) }
}

/// What a worker has sent, in a file.
pub(super) fn read_sent(file: &OwnedFd) -> Result<Vec<Outgoing>, ChannelError> {
    decode_sent(&read_sealed(file, SENT_MAX)?)
}

/// What a worker has sent, as a part of its message.
pub(super) fn decode_few(bytes: &[u8]) -> Result<Vec<Outgoing>, ChannelError> {
    match bytes.len() {
        0 => Ok(Vec::new()),
        1..=SHORT => decode_sent(bytes),
        _ => Err(ChannelError::Malformed("more events in a message than may be a part of it".to_owned())),
    }
}

/// What a worker has sent. An event takes more memory than its bytes, so they are counted first.
fn decode_sent(bytes: &[u8]) -> Result<Vec<Outgoing>, ChannelError> {
    let wrong = |what: &str| ChannelError::Malformed(format!("the events that it has sent: {what}"));
    let unreadable = |error: postcard::Error| wrong(&error.to_string());
    let (count, mut rest) = postcard::take_from_bytes::<u64>(bytes).map_err(unreadable)?;
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
