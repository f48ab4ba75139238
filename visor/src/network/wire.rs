//! What a worker and its broker say to each other: one packet is one message, with a socket attached where one is given.

use monohull_abi::network::DATAGRAM_MAX;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, send, sendmsg};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The longest message: a datagram and its address.
const MESSAGE_MAX: usize = DATAGRAM_MAX + 256;

/// To the broker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request<'d> {
    /// Is the network there?
    Hello,
    /// A TCP socket that listens.
    Listen(SocketAddr, u32),
    /// A TCP socket that begins to connect.
    Connect(SocketAddr),
    /// A UDP socket.
    Bind(SocketAddr),
    /// This UDP socket gets a peer.
    Associate(u32, SocketAddr),
    /// This UDP socket sends a datagram.
    Send(u32, SocketAddr, #[serde(borrow)] &'d [u8]),
    /// This UDP socket is closed.
    Close(u32),
    /// May this address be reached?
    May(SocketAddr),
    /// The addresses of a name.
    Lookup(&'d str),
}

/// From the broker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// It is done; attached is the socket, if one was asked for.
    Done,
    /// A UDP socket is attached: its number, and whether its own address is on the list.
    Bound(u32, bool),
    /// The addresses of a name.
    Addresses(Vec<IpAddr>),
    /// It was refused, with this number of [`monohull_abi::Errno`].
    Refused(i32),
    /// There is no network, for this reason.
    Failed(String),
}

/// Sends a message without anything attached. Plain `send`, because that is all a worker may do.
pub(super) fn say(socket: &OwnedFd, message: &impl Serialize) -> io::Result<()> {
    let bytes = encode(message)?;
    loop {
        match send(socket.as_raw_fd(), &bytes, MsgFlags::MSG_NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Sends a message with a socket.
pub(super) fn give(socket: &OwnedFd, message: &impl Serialize, attached: BorrowedFd<'_>) -> io::Result<()> {
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
pub(super) struct Room(Vec<u8>);

impl Room {
    pub(super) fn new() -> Room {
        Room(vec![0; MESSAGE_MAX])
    }

    /// Waits for a message; `None` when the other end is closed. What was attached to it comes too.
    pub(super) fn hear(&mut self, socket: &OwnedFd) -> io::Result<Option<(&[u8], Option<OwnedFd>)>> {
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
            // If there was no descriptor left for what was attached, it is simply not there.
            let attached = received.cmsgs().ok().and_then(|mut messages| {
                messages.find_map(|message| match message {
                    ControlMessageOwned::ScmRights(raw) => raw.first().copied().map(own),
                    _ => None,
                })
            });
            break (received.bytes, attached, !received.flags.contains(MsgFlags::MSG_TRUNC));
        };
        match (len, whole) {
            (0, _) => Ok(None),
            (_, false) => Err(io::ErrorKind::InvalidData.into()),
            (len, true) => Ok(Some((&self.0[..len], attached))),
        }
    }
}

/// The message in a packet.
pub(super) fn decode<M: DeserializeOwned>(bytes: &[u8]) -> io::Result<M> {
    postcard::from_bytes(bytes).map_err(io::Error::other)
}

#[allow(unsafe_code, reason = "only the kernel knows that nobody else has this descriptor")]
fn own(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows of it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}
