//! Packets between a worker and a broker of its own: one packet is one message, with a descriptor attached where one is
//! given.
//!
//! A broker is a thread of the process above the worker, which does what the worker has no right to and hands over what
//! comes of it. What a worker sends is read as what it may be: words of somebody hostile.

use rustix::cmsg_space;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, send, sendmsg, socketpair,
};
use serde::{Serialize, de::DeserializeOwned};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Mutex;

/// The broker's end of a new socket, and the worker's.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message without anything attached. Plain `send`, because that is all a worker may do.
pub fn say(socket: &OwnedFd, message: &impl Serialize) -> io::Result<()> {
    let bytes = encode(message)?;
    retry_on_intr(|| send(socket, &bytes, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Sends a message with a descriptor.
pub fn give(socket: &OwnedFd, message: &impl Serialize, attached: BorrowedFd<'_>) -> io::Result<()> {
    let bytes = encode(message)?;
    let attached = [attached];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&attached));
    retry_on_intr(|| sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_extend(message, Vec::new()).map_err(io::Error::other)
}

/// Room for a message.
pub struct Room(Vec<u8>);

impl Room {
    /// Room for messages up to this length; longer ones are errors.
    pub fn new(longest: usize) -> Room {
        Room(vec![0; longest])
    }

    /// Waits for a message; `None` when the other end is closed. What was attached to it comes too.
    pub fn hear(&mut self, socket: &OwnedFd) -> io::Result<Option<(&[u8], Option<OwnedFd>)>> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = retry_on_intr(|| {
            recvmsg(socket, &mut [IoSliceMut::new(&mut self.0)], &mut control, RecvFlags::CMSG_CLOEXEC)
        });
        let received = match received {
            Ok(received) => received,
            Err(Errno::CONNRESET) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        // All of them are ours now, and all but the first are closed. If there was no descriptor left for what was attached, it
        // is simply not there.
        let attached = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut passed) => passed.next(),
            _ => None,
        });
        drop(control);
        let (len, whole) = (received.bytes, !received.flags.contains(ReturnFlags::TRUNC));
        match (len, whole) {
            (0, _) => Ok(None),
            (_, false) => Err(io::ErrorKind::InvalidData.into()),
            (len, true) => Ok(Some((&self.0[..len], attached))),
        }
    }
}

/// A worker's end of a broker: one question at a time.
pub struct Line {
    socket: OwnedFd,
    room: Mutex<Room>,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Line")
    }
}

impl Line {
    /// To the broker at the other end of this socket, whose answers are no longer than this.
    pub fn new(socket: OwnedFd, longest: usize) -> Line {
        Line { socket, room: Mutex::new(Room::new(longest)) }
    }

    /// Waits for the answer to a question, and what is attached to it. That the other end is closed is an error.
    pub fn ask<A: DeserializeOwned>(&self, question: &impl Serialize) -> io::Result<(A, Option<OwnedFd>)> {
        let mut room = self.room.lock().expect("nobody panics while asking");
        say(&self.socket, question)?;
        let (bytes, attached) = room.hear(&self.socket)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((decode(bytes)?, attached))
    }

    /// Says something that has no answer.
    pub fn tell(&self, message: &impl Serialize) -> io::Result<()> {
        say(&self.socket, message)
    }
}

/// The message in a packet.
pub fn decode<M: DeserializeOwned>(bytes: &[u8]) -> io::Result<M> {
    postcard::from_bytes(bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::OFlag;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_attached_besides_is_closed() {
        let (ours, theirs) = pair().expect("a socket");
        let pipe = || nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).expect("a pipe");
        let ((wanted, one), (unwanted, other)) = (pipe(), pipe());
        let both = [one.as_fd(), other.as_fd()];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&both)));
        sendmsg(&theirs, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).expect("sent");
        drop((one, other));
        let mut room = Room::new(16);
        let (bytes, attached) = room.hear(&ours).expect("heard").expect("a message");
        assert_eq!((bytes, attached.is_some()), (&b"x"[..], true));
        assert!(File::from(wanted).read(&mut [0]).is_err(), "open, and nothing in it");
        assert_eq!(File::from(unwanted).read(&mut [0]).expect("closed"), 0);
    }
}
