//! One packet of a SEQPACKET socket, and the descriptors that belong to it.

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The most descriptors that the kernel passes at once (`SCM_MAX_FD`).
const KERNEL_FILES_MAX: usize = 253;

/// How many bytes of ancillary data are received: for one descriptor, or for all the kernel passes and the sender's id.
pub(crate) const SPACE_ONE: usize = cmsg_space!(ScmRights(1));
/// See [`SPACE_ONE`].
pub(crate) const SPACE_ALL: usize = cmsg_space!(ScmRights(KERNEL_FILES_MAX), ScmCredentials(1));

/// What was received besides bytes.
pub(crate) struct Received {
    /// How many bytes.
    pub(crate) len: usize,
    /// Descriptors, in the order in which they were attached.
    pub(crate) files: Vec<OwnedFd>,
    /// The sender's process id, if the socket asks the kernel for it.
    pub(crate) sender: i32,
    /// The packet was longer than the buffer.
    pub(crate) truncated: bool,
    /// There were more descriptors than space for them, or this process can open no more.
    pub(crate) files_truncated: bool,
}

/// Both ends of a new socket.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a packet. Without descriptors that is `send`, which the sandbox allows for any socket, and not `sendmsg`.
pub(crate) fn transmit(socket: &OwnedFd, bytes: &[u8], files: &[BorrowedFd<'_>], wait: bool) -> io::Result<()> {
    let flags = SendFlags::NOSIGNAL | if wait { SendFlags::empty() } else { SendFlags::DONTWAIT };
    if files.is_empty() {
        return retry(|| send(socket, bytes, flags)).map(drop);
    }
    let mut space = vec![MaybeUninit::uninit(); cmsg_space!(ScmRights(files.len()))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many files for one message"));
    }
    retry(|| sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags)).map(drop)
}

/// Receives a packet into `buffer`; one of no bytes, or none because the other end is closed, has length 0. All its
/// descriptors are this process's from here on.
pub(crate) fn receive<const SPACE: usize>(socket: &OwnedFd, buffer: &mut [u8], wait: bool) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | waiting(wait);
    let received = retry(|| recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags))?;
    let (mut files, mut sender) = (Vec::new(), 0);
    for message in control.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(passed) => files.extend(passed),
            RecvAncillaryMessage::ScmCredentials(credentials) => sender = credentials.pid.as_raw_pid(),
            _ => {}
        }
    }
    let truncated = received.flags.contains(ReturnFlags::TRUNC);
    let files_truncated = received.flags.contains(ReturnFlags::CTRUNC);
    Ok(Received { len: received.bytes, files, sender, truncated, files_truncated })
}

/// Bytes of the next packet, which stays where it is.
pub(crate) fn next_len(socket: &OwnedFd, wait: bool) -> io::Result<usize> {
    let nothing: &mut [u8] = &mut [];
    let (_, len) = retry(|| recv(socket, &mut *nothing, waiting(wait) | RecvFlags::PEEK | RecvFlags::TRUNC))?;
    Ok(len)
}

fn waiting(wait: bool) -> RecvFlags {
    if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT }
}

/// Makes a call until no signal interrupts it. A socket reports once, before what its other end had sent, that this was closed
/// with something unread (`ECONNRESET`): that is no reason to give up either.
fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR | Errno::CONNRESET) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}
