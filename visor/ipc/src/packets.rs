//! Packets between a worker and a broker of its own: one packet is one message, with a descriptor attached where one is
//! given.
//!
//! A broker is a thread of the process above the worker, which does what the worker has no right to and hands over what
//! comes of it. What a worker sends is read as what it may be: words of somebody hostile.

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, send, sendmsg,
    socketpair,
};
use serde::{Serialize, de::DeserializeOwned};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Mutex;

/// The broker's end of a new socket, and the worker's.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?)
}

/// Sends a message without anything attached. Plain `send`, because that is all a worker may do.
pub fn say(socket: &OwnedFd, message: &impl Serialize) -> io::Result<()> {
    let bytes = encode(message)?;
    loop {
        match send(socket.as_raw_fd(), &bytes, MsgFlags::MSG_NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Sends a message with a descriptor.
pub fn give(socket: &OwnedFd, message: &impl Serialize, attached: BorrowedFd<'_>) -> io::Result<()> {
    let bytes = encode(message)?;
    let attached = [attached.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&attached)];
    loop {
        match sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(&bytes)], &rights, MsgFlags::MSG_NOSIGNAL, None) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
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
        let mut space = cmsg_space!([RawFd; 1]);
        let (len, attached, whole) = loop {
            let mut slices = [IoSliceMut::new(&mut self.0)];
            let flags = MsgFlags::MSG_CMSG_CLOEXEC;
            let received = match recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut space), flags) {
                Ok(received) => received,
                Err(Errno::EINTR) => continue,
                Err(Errno::ECONNRESET) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            };
            // All of them are ours now, and those that nobody wants are closed. If there was no descriptor left for what was
            // attached, it is simply not there.
            let mut attached = Vec::new();
            for message in received.cmsgs().into_iter().flatten() {
                if let ControlMessageOwned::ScmRights(raw) = message {
                    attached.extend(raw.into_iter().map(own));
                }
            }
            break (received.bytes, attached.into_iter().next(), !received.flags.contains(MsgFlags::MSG_TRUNC));
        };
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

#[allow(unsafe_code, reason = "only the kernel knows that nobody else has this descriptor")]
fn own(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows of it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::OFlag;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    use std::fs::File;
    use std::io::Read;

    #[test]
    fn what_is_attached_besides_is_closed() {
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).expect("a socket");
        let pipe = || nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).expect("a pipe");
        let ((wanted, one), (unwanted, other)) = (pipe(), pipe());
        let rights = [one.as_raw_fd(), other.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&rights)];
        sendmsg::<()>(theirs.as_raw_fd(), &[IoSlice::new(b"x")], &rights, MsgFlags::empty(), None).expect("sent");
        drop((one, other));
        let mut room = Room::new(16);
        let (bytes, attached) = room.hear(&ours).expect("heard").expect("a message");
        assert_eq!((bytes, attached.is_some()), (&b"x"[..], true));
        assert!(File::from(wanted).read(&mut [0]).is_err(), "open, and nothing in it");
        assert_eq!(File::from(unwanted).read(&mut [0]).expect("closed"), 0);
    }
}
