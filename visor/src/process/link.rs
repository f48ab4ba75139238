//! One end of a socket between two of our processes. A packet is a message whole, with the files that belong to it.
//!
//! ```text
//! | version | form | body …        |  + files          a small message
//! | version | form |               |  + sealed memfd with the body, then the files
//! ```
//!
//! The other end may be in the hands of somebody hostile, so whatever comes is bounded before it is looked at: its bytes,
//! its files, and the memory it names.

use crate::sealed::{read_sealed, seal};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixCredentials, recv, recvmsg,
    sendmsg, setsockopt, socketpair, sockopt,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Both ends are the same program, but one may have been forked before an upgrade.
const VERSION: u8 = 1;
const INLINE: u8 = 0;
const SPILLED: u8 = 1;
const HEADER: usize = 2;

/// Bodies longer than this travel as sealed memory. Half of what the kernel lets a socket hold by default would be
/// twice as much; a message below this costs one copy in and one out.
pub(super) const INLINE_MAX: usize = 64 << 10;
/// The longest body: a report with all its lines.
pub(super) const BODY_MAX: u64 = 64 << 20;
/// The most files of one message; the kernel takes 253.
pub(super) const FILES_MAX: usize = 200;

/// What came over a link cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    /// the socket failed: {0}
    #[error("the socket failed: {0}")]
    Socket(#[from] io::Error),
    /// a message of another version, {0}, was sent
    #[error("a message of another version, {0}, was sent")]
    Version(u8),
    /// a message that is too long, or has too many files, was sent
    #[error("a message that is too long, or has too many files, was sent")]
    TooLarge,
    /// a message that cannot be read was sent: {0}
    #[error("a message that cannot be read was sent: {0}")]
    Malformed(String),
}

impl From<Errno> for LinkError {
    fn from(errno: Errno) -> LinkError {
        LinkError::Socket(errno.into())
    }
}

/// One end.
#[derive(Debug)]
pub(super) struct Link(OwnedFd);

/// What came.
pub(super) struct Packet {
    body: Vec<u8>,
    /// Files, in the order in which they were attached.
    pub(super) files: Vec<OwnedFd>,
    /// Who sent it, if the receiving end asks for that.
    pub(super) sender: i32,
}

impl Packet {
    /// The message in it.
    pub(super) fn read<M: DeserializeOwned>(&self) -> Result<M, LinkError> {
        match postcard::take_from_bytes(&self.body) {
            Ok((message, [])) => Ok(message),
            Ok((_, rest)) => Err(LinkError::Malformed(format!("{} bytes too many", rest.len()))),
            Err(error) => Err(LinkError::Malformed(error.to_string())),
        }
    }
}

impl Link {
    /// Both ends of a new socket.
    pub(super) fn pair() -> io::Result<(Link, Link)> {
        let (one, other) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        Ok((Link(one), Link(other)))
    }

    /// The end that was passed to this process under this descriptor.
    pub(super) fn of(socket: OwnedFd) -> Link {
        Link(socket)
    }

    /// From now on the kernel says of every packet received here who sent it.
    pub(super) fn name_senders(&self) -> io::Result<()> {
        Ok(setsockopt(&self.0, sockopt::PassCred, &true)?)
    }

    /// Sends a message; waits while the other end has no room.
    pub(super) fn send(&self, message: &impl Serialize, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.send_with(message, files, MsgFlags::empty())
    }

    /// Sends a message if the other end has room for it now; false if not.
    pub(super) fn try_send(&self, message: &impl Serialize) -> io::Result<bool> {
        match self.send_with(message, &[], MsgFlags::MSG_DONTWAIT) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn send_with(&self, message: &impl Serialize, files: &[BorrowedFd<'_>], flags: MsgFlags) -> io::Result<()> {
        let encoded = postcard::to_extend(message, vec![VERSION, INLINE]);
        let mut bytes = encoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let spilled;
        let mut raw: Vec<RawFd> = Vec::with_capacity(files.len() + 1);
        if bytes.len() > HEADER + INLINE_MAX {
            spilled = seal(&bytes[HEADER..], 0)?;
            raw.push(spilled.as_raw_fd());
            bytes.truncate(HEADER);
            bytes[1] = SPILLED;
        }
        raw.extend(files.iter().map(|file| file.as_raw_fd()));
        let rights = [ControlMessage::ScmRights(&raw)];
        let attached = if raw.is_empty() { &[][..] } else { &rights[..] };
        loop {
            let flags = flags | MsgFlags::MSG_NOSIGNAL;
            match sendmsg::<()>(self.0.as_raw_fd(), &[IoSlice::new(&bytes)], attached, flags, None) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// The next packet, waiting for it; `None` when the other end is closed.
    pub(super) fn receive(&self) -> Result<Option<Packet>, LinkError> {
        self.receive_with(MsgFlags::empty())
    }

    /// The next packet if there is one now. The outer `None` means that there is none yet.
    pub(super) fn try_receive(&self) -> Result<Option<Option<Packet>>, LinkError> {
        match self.receive_with(MsgFlags::MSG_DONTWAIT) {
            Ok(packet) => Ok(Some(packet)),
            Err(LinkError::Socket(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn receive_with(&self, flags: MsgFlags) -> Result<Option<Packet>, LinkError> {
        let len = self.next_len(flags)?;
        if len > HEADER + INLINE_MAX {
            return Err(LinkError::TooLarge);
        }
        let mut bytes = vec![0; len];
        let mut space = cmsg_space!([RawFd; FILES_MAX + 1], UnixCredentials);
        let (len, whole, mut files, sender) = loop {
            let mut slices = [IoSliceMut::new(&mut bytes)];
            let flags = flags | MsgFlags::MSG_CMSG_CLOEXEC;
            let received = match recvmsg::<()>(self.0.as_raw_fd(), &mut slices, Some(&mut space), flags) {
                Ok(received) => received,
                Err(Errno::EINTR | Errno::ECONNRESET) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let (mut files, mut sender) = (Vec::new(), 0);
            for message in received.cmsgs()? {
                match message {
                    ControlMessageOwned::ScmRights(raw) => files.extend(raw.into_iter().map(own)),
                    ControlMessageOwned::ScmCredentials(credentials) => sender = credentials.pid(),
                    _ => {}
                }
            }
            let whole = !received.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC);
            break (received.bytes, whole, files, sender);
        };
        if !whole {
            return Err(LinkError::TooLarge);
        }
        bytes.truncate(len);
        match bytes[..] {
            [] => return Ok(None),
            [VERSION, INLINE, ..] => {
                bytes.drain(..HEADER);
            }
            [VERSION, SPILLED] if !files.is_empty() => bytes = read_sealed(files.remove(0), BODY_MAX)?,
            [VERSION, ..] => return Err(LinkError::Malformed("its form is unknown".to_owned())),
            [version, ..] => return Err(LinkError::Version(version)),
        }
        Ok(Some(Packet { body: bytes, files, sender }))
    }

    /// Bytes of the next packet: memory is taken for what is there, not for what could be.
    fn next_len(&self, flags: MsgFlags) -> Result<usize, LinkError> {
        loop {
            match recv(self.0.as_raw_fd(), &mut [], flags | MsgFlags::MSG_PEEK | MsgFlags::MSG_TRUNC) {
                Ok(len) => return Ok(len),
                // The other end was closed with something of ours unread. That is told once, before what it had sent.
                Err(Errno::EINTR | Errno::ECONNRESET) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Waits until a packet can be received, or the other end is closed; false if that takes longer than `limit`.
    pub(super) fn wait(&self, limit: Option<Duration>) -> io::Result<bool> {
        let timeout = limit.map_or(PollTimeout::NONE, |limit| PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX));
        loop {
            match poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], timeout) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Link> for OwnedFd {
    fn from(link: Link) -> OwnedFd {
        link.0
    }
}

fn own(file: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows of it.
    unsafe { OwnedFd::from_raw_fd(file) }
}
