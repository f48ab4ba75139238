//! One end of a socket over which two processes exchange messages of any length, each with descriptors.
//!
//! ```text
//! | version | form | body …        |  + files          a small message
//! | version | form |               |  + sealed memfd with the body, then the files
//! | text …                         |                  what was written to the socket as to a file
//! ```

use super::packet::{self, Received, SPACE_ALL, next_len, transmit};
use super::sealed::{read_sealed, seal};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::net::sockopt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
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
pub const INLINE_MAX: usize = 64 << 10;
/// The longest body: a report with all its lines.
pub const BODY_MAX: u64 = 64 << 20;
/// The most files of one message.
pub const FILES_MAX: usize = 200;

/// What came over a channel cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each means")]
pub enum ChannelError {
    #[error("the socket failed: {0}")]
    Socket(#[from] io::Error),
    /// The message is of another version of the protocol.
    #[error("a message of another version, {0}, was sent")]
    Version(u8),
    /// The message is over a limit.
    #[error("a message that is too long, or has too many files, was sent")]
    TooLarge,
    /// The message does not keep to the protocol.
    #[error("a message that cannot be read was sent: {0}")]
    Malformed(String),
}

/// One end, which sends `S` and receives `R`.
pub struct Channel<S, R> {
    socket: OwnedFd,
    messages: PhantomData<fn(S) -> R>,
}

/// Room for one packet after the other. It holds the last one until it is [wiped](Room::wipe).
pub struct Room {
    bytes: Box<[u8]>,
    /// So many bytes of it may not be zero.
    used: usize,
}

impl Room {
    /// Room for the longest packet; a longer one is cut off, and refused for that.
    pub fn new() -> Room {
        Room { bytes: vec![0; HEADER + INLINE_MAX].into(), used: 0 }
    }

    /// Makes it zero.
    pub fn wipe(&mut self) {
        self.bytes[..std::mem::take(&mut self.used)].fill(0);
    }
}

impl Default for Room {
    fn default() -> Room {
        Room::new()
    }
}

/// A message that was received, or a text.
pub struct Message<R> {
    body: Vec<u8>,
    /// Files, in the order in which they were attached.
    pub files: Vec<OwnedFd>,
    /// The sender's process id, if the channel asks for it ([`Channel::name_senders`]).
    pub sender: i32,
    /// Its body came as memory.
    pub spilled: bool,
    text: bool,
    content: PhantomData<fn() -> R>,
}

impl ChannelError {
    /// The host's error, if it [had nothing left](is_shortage) for what was sent to this process. The sender is not at fault.
    pub fn of_host(self) -> Result<io::Error, ChannelError> {
        match self {
            ChannelError::Socket(error) if is_shortage(&error) => Ok(error),
            other => Err(other),
        }
    }
}

/// Whether this process, or the host, had no descriptor or no memory left for a message. It may have one later.
pub fn is_shortage(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    let all = [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM, Errno::ENOBUFS, Errno::ETOOMANYREFS];
    errno.is_some_and(|errno| all.contains(&errno))
}

impl<R> Message<R> {
    /// What was written to the socket as to a file, if this is no message.
    pub fn text(&self) -> Option<&[u8]> {
        self.text.then_some(&self.body)
    }
}

impl<R: DeserializeOwned> Message<R> {
    /// The decoded message.
    pub fn read(&self) -> Result<R, ChannelError> {
        if self.text {
            return Err(ChannelError::Malformed("it is a text".to_owned()));
        }
        match postcard::take_from_bytes(&self.body) {
            Ok((message, [])) => Ok(message),
            Ok((_, rest)) => Err(ChannelError::Malformed(format!("{} bytes too many", rest.len()))),
            Err(error) => Err(ChannelError::Malformed(error.to_string())),
        }
    }
}

impl<S, R> fmt::Debug for Channel<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Channel").field(&self.socket).finish()
    }
}

impl<S, R> Channel<S, R> {
    /// Both ends of a new socket.
    pub fn pair() -> io::Result<(Channel<S, R>, Channel<R, S>)> {
        let (one, other) = packet::pair()?;
        Ok((Channel::new(one), Channel::new(other)))
    }

    /// The end that this socket is.
    pub fn new(socket: OwnedFd) -> Channel<S, R> {
        Channel { socket, messages: PhantomData }
    }

    /// Has the kernel add the sender's process id to every packet that is received here from now on.
    pub fn name_senders(&self) -> io::Result<()> {
        Ok(sockopt::set_socket_passcred(&self.socket, true)?)
    }

    /// Waits until a packet can be received, or the other end is closed; false if that takes longer than `limit`.
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<bool> {
        let timeout = limit.map_or(PollTimeout::NONE, |limit| PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX));
        loop {
            match poll(&mut [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)], timeout) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// The next packet, waiting for it; `None` when the other end is closed.
    pub fn receive(&self) -> Result<Option<Message<R>>, ChannelError> {
        // Memory is taken for what is there, not for what could be.
        let len = next_len(&self.socket, true)?;
        if len > HEADER + INLINE_MAX {
            return Err(ChannelError::TooLarge);
        }
        let mut body = vec![0; len];
        let received = packet::receive::<SPACE_ALL>(&self.socket, &mut body, true)?;
        body.truncate(received.len);
        self.packet(body, received)?.map(Packet::load).transpose()
    }

    /// The same with room for the longest packet, which takes one system call. A copy of the packet stays in the room.
    pub fn receive_in(&self, room: &mut Room) -> Result<Option<Message<R>>, ChannelError> {
        let received = packet::receive::<SPACE_ALL>(&self.socket, &mut room.bytes, true)?;
        room.used = room.used.max(received.len);
        let body = room.bytes[..received.len].to_vec();
        self.packet(body, received)?.map(Packet::load).transpose()
    }

    /// The next packet if there is one now. The outer `None` means that there is none yet.
    pub fn try_receive(&self) -> Result<Option<Option<Message<R>>>, ChannelError> {
        match self.try_receive_packet()? {
            None => Ok(None),
            Some(packet) => packet.map(Packet::load).transpose().map(Some),
        }
    }

    /// The same, without what its body may take to read if that has come as memory.
    ///
    /// For programs with many channels: it takes one system call, and room for the longest packet once for each thread.
    pub fn try_receive_packet(&self) -> Result<Option<Option<Packet<R>>>, ChannelError> {
        thread_local! {
            static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        ROOM.with_borrow_mut(|room| {
            // A longer packet is cut off here, and refused for that.
            room.resize(HEADER + INLINE_MAX, 0);
            match packet::receive::<SPACE_ALL>(&self.socket, room, false) {
                Ok(received) => self.packet(room[..received.len].to_vec(), received).map(Some),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
    }

    /// What was received.
    fn packet(&self, mut body: Vec<u8>, received: Received) -> Result<Option<Packet<R>>, ChannelError> {
        // There was space for as many files as the kernel passes, so that none has arrived unseen. What is not taken out is closed.
        let mut files = received.files;
        if received.truncated || files.len() > FILES_MAX + 1 {
            return Err(ChannelError::TooLarge);
        }
        if received.files_truncated {
            // There was space for all the kernel passes: this process has no descriptor left for one of them.
            return Err(ChannelError::Socket(Errno::EMFILE.into()));
        }
        let text = body.first().is_some_and(|first| *first >= TEXT);
        let mut spilled = None;
        match body[..] {
            [] => return Ok(None),
            _ if text => {}
            [VERSION, INLINE, ..] => {
                body.drain(..HEADER);
            }
            [VERSION, SPILLED] if !files.is_empty() => spilled = Some(files.remove(0)),
            [VERSION, ..] => return Err(ChannelError::Malformed("its form is unknown".to_owned())),
            [version, ..] => return Err(ChannelError::Version(version)),
        }
        let is_spilled = spilled.is_some();
        let message = Message { body, files, sender: received.sender, spilled: is_spilled, text, content: PhantomData };
        Ok(Some(Packet { message, spilled }))
    }
}

/// A message whose body may still have to be read.
pub struct Packet<R> {
    message: Message<R>,
    /// The body, if it came as memory.
    spilled: Option<OwnedFd>,
}

impl<R> fmt::Debug for Packet<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet").field("spilled", &self.spilled).finish_non_exhaustive()
    }
}

impl<R> Packet<R> {
    /// Whether its body came as memory. Then it may take a while to read.
    pub fn is_spilled(&self) -> bool {
        self.spilled.is_some()
    }

    /// The message, with its body.
    pub fn load(self) -> Result<Message<R>, ChannelError> {
        let Packet { mut message, spilled } = self;
        if let Some(body) = spilled {
            message.body = read_sealed(body, BODY_MAX)?;
        }
        Ok(message)
    }
}

impl<S: Serialize, R> Channel<S, R> {
    /// Sends a message; waits while the other end has no room.
    pub fn send(&self, message: &S, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut bytes = encode(message)?;
        if bytes.len() <= HEADER + INLINE_MAX {
            return transmit(&self.socket, &bytes, files, true);
        }
        let body = seal(&bytes[HEADER..], 0)?;
        bytes.truncate(HEADER);
        bytes[1] = SPILLED;
        let attached: Vec<BorrowedFd<'_>> = [body.as_fd()].into_iter().chain(files.iter().copied()).collect();
        transmit(&self.socket, &bytes, &attached, true)
    }

    /// Sends a short message if the other end has room for it now; false if not.
    pub fn try_send(&self, message: &S, files: &[BorrowedFd<'_>]) -> io::Result<bool> {
        match transmit(&self.socket, &encode(message)?, files, false) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    // Most messages fit, so that no part of one is copied while it grows.
    let mut bytes = Vec::with_capacity(1024);
    bytes.extend([VERSION, INLINE]);
    let encoded = postcard::to_extend(message, bytes);
    encoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

impl<S, R> AsFd for Channel<S, R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl<S, R> From<Channel<S, R>> for OwnedFd {
    fn from(channel: Channel<S, R>) -> OwnedFd {
        channel.socket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_holds_nothing_of_a_packet_once_it_is_wiped() {
        let (ours, theirs) = Channel::<Vec<u8>, Vec<u8>>::pair().expect("a socket");
        let mut room = Room::new();
        // The longest that travels in a packet, and one that does not.
        for length in [1, INLINE_MAX - 3, INLINE_MAX + 1] {
            ours.send(&vec![7; length], &[]).expect("sent");
            let message = theirs.receive_in(&mut room).expect("a message").expect("not the end");
            assert_eq!(message.read().expect("bytes"), vec![7; length]);
            assert!(room.bytes.iter().any(|byte| *byte != 0), "otherwise this shows nothing");
            room.wipe();
            assert!(room.bytes.iter().all(|byte| *byte == 0), "{length}");
        }
        // A long one, and a short one over its beginning.
        for length in [1000, 10] {
            ours.send(&vec![7; length], &[]).expect("sent");
            theirs.receive_in(&mut room).expect("a message").expect("not the end");
        }
        room.wipe();
        assert!(room.bytes.iter().all(|byte| *byte == 0));
        // A longer packet is refused, and no part of it stays.
        packet::transmit(&ours.socket, &vec![1; HEADER + INLINE_MAX + 1], &[], true).expect("sent");
        assert!(matches!(theirs.receive_in(&mut room), Err(ChannelError::TooLarge)));
        room.wipe();
        assert!(room.bytes.iter().all(|byte| *byte == 0));
        drop(ours);
        assert!(theirs.receive_in(&mut room).expect("the end").is_none());
    }
}
