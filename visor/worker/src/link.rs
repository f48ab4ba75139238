//! One end of a socket between two of our processes. A packet is a message whole, with the files that belong to it.
//!
//! ```text
//! | version | form | body …        |  + files          a small message
//! | version | form |               |  + sealed memfd with the body, then the files
//! | text …                         |                  what was written to the socket as to a file
//! ```
//!
//! The other end may be in the hands of somebody hostile, so whatever comes is bounded before it is looked at: its bytes,
//! its files, and the memory it names.

use monohull_ipc::sealed::{read_sealed, seal};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::cmsg_space;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg, socketpair, sockopt,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Both ends are the same program, but one may have been forked before an upgrade.
const VERSION: u8 = 1;
const INLINE: u8 = 0;
const SPILLED: u8 = 1;
const HEADER: usize = 2;
/// A text begins with this or a higher byte, which no version will have.
const TEXT: u8 = b'\t';

/// Bodies longer than this travel as sealed memory. Half of what the kernel lets a socket hold by default would be
/// twice as much; a message below this costs one copy in and one out.
pub(super) const INLINE_MAX: usize = 64 << 10;
/// The longest body: a report with all its lines.
pub(super) const BODY_MAX: u64 = 64 << 20;
/// The most files of one message.
pub(super) const FILES_MAX: usize = 200;
/// The most files the kernel passes at once (`SCM_MAX_FD`).
const KERNEL_FILES_MAX: usize = 253;

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
    /// Its body came as memory.
    pub(super) spilled: bool,
    text: bool,
}

impl LinkError {
    /// The host's answer, if this process had no descriptor left for a file that was sent to it. The sender is not at fault.
    pub(super) fn no_descriptor(self) -> Result<io::Error, LinkError> {
        match self {
            LinkError::Socket(error) if error.raw_os_error() == Some(Errno::EMFILE as i32) => Ok(error),
            other => Err(other),
        }
    }
}

impl Packet {
    /// What was written, if this is no message.
    pub(super) fn text(&self) -> Option<&[u8]> {
        self.text.then_some(&self.body)
    }

    /// The message in it.
    pub(super) fn read<M: DeserializeOwned>(&self) -> Result<M, LinkError> {
        if self.text {
            return Err(LinkError::Malformed("it is a text".to_owned()));
        }
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
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Link(one), Link(other)))
    }

    /// The end that was passed to this process under this descriptor.
    pub(super) fn of(socket: OwnedFd) -> Link {
        Link(socket)
    }

    /// From now on the kernel says of every packet received here who sent it.
    pub(super) fn name_senders(&self) -> io::Result<()> {
        Ok(sockopt::set_socket_passcred(&self.0, true)?)
    }

    /// Sends a message; waits while the other end has no room.
    pub(super) fn send(&self, message: &impl Serialize, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let encoded = postcard::to_extend(message, vec![VERSION, INLINE]);
        let mut bytes = encoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let spilled;
        let mut attached: Vec<BorrowedFd<'_>> = Vec::with_capacity(files.len() + 1);
        if bytes.len() > HEADER + INLINE_MAX {
            spilled = seal(&bytes[HEADER..], 0)?;
            attached.push(spilled.as_fd());
            bytes.truncate(HEADER);
            bytes[1] = SPILLED;
        }
        attached.extend(files);
        let mut space = vec![MaybeUninit::uninit(); cmsg_space!(ScmRights(attached.len()))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !attached.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&attached)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many files for one message"));
        }
        retry(|| sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)).map(drop)
    }

    /// Sends a short message if the other end has room for it now; false if not. This end may be called anything: the system
    /// call is one that is not kept for `CHANNEL_FD`.
    pub(super) fn try_send(&self, message: &impl Serialize) -> io::Result<bool> {
        let encoded = postcard::to_extend(message, vec![VERSION, INLINE]);
        let bytes = encoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        match retry(|| send(&self.0, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The next packet, waiting for it; `None` when the other end is closed.
    pub(super) fn receive(&self) -> Result<Option<Packet>, LinkError> {
        self.receive_with(RecvFlags::empty())
    }

    /// The next packet if there is one now. The outer `None` means that there is none yet.
    pub(super) fn try_receive(&self) -> Result<Option<Option<Packet>>, LinkError> {
        match self.receive_with(RecvFlags::DONTWAIT) {
            Ok(packet) => Ok(Some(packet)),
            Err(LinkError::Socket(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn receive_with(&self, flags: RecvFlags) -> Result<Option<Packet>, LinkError> {
        let len = self.next_len(flags)?;
        if len > HEADER + INLINE_MAX {
            return Err(LinkError::TooLarge);
        }
        let mut bytes = vec![0; len];
        // Room for as many files as the kernel passes, so that none arrives unseen. What is not taken out is closed.
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(KERNEL_FILES_MAX), ScmCredentials(1))];
        let mut attached = RecvAncillaryBuffer::new(&mut space);
        let received = retry(|| {
            let slices = &mut [IoSliceMut::new(&mut bytes)];
            recvmsg(&self.0, slices, &mut attached, flags | RecvFlags::CMSG_CLOEXEC)
        })?;
        let (mut files, mut sender) = (Vec::new(), 0);
        for message in attached.drain() {
            match message {
                RecvAncillaryMessage::ScmRights(passed) => files.extend(passed),
                RecvAncillaryMessage::ScmCredentials(credentials) => sender = credentials.pid.as_raw_pid(),
                _ => {}
            }
        }
        if received.flags.contains(ReturnFlags::TRUNC) || files.len() > FILES_MAX + 1 {
            return Err(LinkError::TooLarge);
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            // There was room for all the kernel passes: this process has no descriptor left for one of them.
            return Err(LinkError::Socket(Errno::EMFILE.into()));
        }
        bytes.truncate(received.bytes);
        let text = bytes.first().is_some_and(|first| *first >= TEXT);
        let spilled = !text && bytes.get(1) == Some(&SPILLED);
        match bytes[..] {
            [] => return Ok(None),
            _ if text => {}
            [VERSION, INLINE, ..] => {
                bytes.drain(..HEADER);
            }
            [VERSION, SPILLED] if !files.is_empty() => bytes = read_sealed(files.remove(0), BODY_MAX)?,
            [VERSION, ..] => return Err(LinkError::Malformed("its form is unknown".to_owned())),
            [version, ..] => return Err(LinkError::Version(version)),
        }
        Ok(Some(Packet { body: bytes, files, sender, spilled, text }))
    }

    /// Whether the next packet is there, and brings its body as memory. Then it may take a while to read.
    pub(super) fn next_is_spilled(&self) -> bool {
        matches!(self.next_len(RecvFlags::DONTWAIT), Ok(HEADER))
    }

    /// Bytes of the next packet: memory is taken for what is there, not for what could be.
    fn next_len(&self, flags: RecvFlags) -> io::Result<usize> {
        let nothing: &mut [u8] = &mut [];
        let (_, len) = retry(|| recv(&self.0, &mut *nothing, flags | RecvFlags::PEEK | RecvFlags::TRUNC))?;
        Ok(len)
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

/// Makes a call until it is not interrupted. That the other end was closed with something of ours unread is told once, before
/// what it had sent: that is no reason to give up either.
fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNRESET) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}
