//! Requests and replies, one at a time, each with at most one descriptor.
//!
//! A broker is a thread of the process above a worker, or a process of its own. It does what the requester has no right to,
//! and passes on what comes of it: a file, a socket, a device.

use super::packet::{self, SPACE_ONE, transmit};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// What two processes ask and reply.
pub trait Protocol {
    /// To the responder. It may borrow from the message.
    type Request<'m>: Serialize + Deserialize<'m>;
    /// From the responder.
    type Reply: Serialize + DeserializeOwned;
    /// The longest message, in bytes. A longer one is an error of its receiver.
    const MESSAGE_MAX: usize;
}

/// A reply, and the descriptor that goes with it.
pub type Reply<P> = (<P as Protocol>::Reply, Option<OwnedFd>);

/// The responder's end of a new socket, and the requester's.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    packet::pair()
}

/// The end that makes requests.
pub struct Requester<P> {
    socket: OwnedFd,
    /// Room for a reply, while one is waited for.
    buffer: Mutex<Vec<u8>>,
    protocol: PhantomData<fn() -> P>,
}

/// The end that replies.
pub struct Responder<P> {
    socket: OwnedFd,
    buffer: Vec<u8>,
    protocol: PhantomData<fn() -> P>,
}

impl<P> fmt::Debug for Requester<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Requester")
    }
}

impl<P: Protocol> Requester<P> {
    /// Makes requests over this socket.
    pub fn new(socket: OwnedFd) -> Requester<P> {
        Requester { socket, buffer: Mutex::new(vec![0; P::MESSAGE_MAX]), protocol: PhantomData }
    }

    /// Waits for the reply to a request, and its descriptor. That the other end is closed is an error.
    pub fn ask(&self, request: &P::Request<'_>) -> io::Result<Reply<P>> {
        // A requester that panicked may have written to the buffer; the next reply overwrites it.
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        send(&self.socket, request, None)?;
        let (len, attached) = receive(&self.socket, &mut buffer)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((decode(&buffer[..len])?, attached))
    }

    /// Makes a request that has no reply.
    pub fn notify(&self, request: &P::Request<'_>) -> io::Result<()> {
        send(&self.socket, request, None)
    }
}

/// The socket, which stays connected as long as it is open.
impl<P> From<Requester<P>> for OwnedFd {
    fn from(requester: Requester<P>) -> OwnedFd {
        requester.socket
    }
}

impl<P: Protocol> Responder<P> {
    /// Replies over this socket.
    pub fn new(socket: OwnedFd) -> Responder<P> {
        Responder { socket, buffer: vec![0; P::MESSAGE_MAX], protocol: PhantomData }
    }

    /// Waits for a request; `None` when the other end is closed. A descriptor that comes with it is closed.
    pub fn receive(&mut self) -> io::Result<Option<P::Request<'_>>> {
        match receive(&self.socket, &mut self.buffer)? {
            Some((len, _closed)) => decode(&self.buffer[..len]).map(Some),
            None => Ok(None),
        }
    }

    /// Replies to a request.
    pub fn reply(&self, reply: &P::Reply, attached: Option<BorrowedFd<'_>>) -> io::Result<()> {
        send(&self.socket, reply, attached)
    }

    /// Serves until the other end is closed, cannot be replied to, or sends what is no request. Without a reply a request is a
    /// notice.
    pub fn serve(&mut self, mut answer: impl FnMut(P::Request<'_>) -> Option<Reply<P>>) {
        while let Ok(Some((len, _closed))) = receive(&self.socket, &mut self.buffer) {
            let Ok(request) = decode(&self.buffer[..len]) else { return };
            let Some((reply, attached)) = answer(request) else { continue };
            if send(&self.socket, &reply, attached.as_ref().map(AsFd::as_fd)).is_err() {
                return;
            }
        }
    }
}

impl<P> AsFd for Responder<P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn send(socket: &OwnedFd, message: &impl Serialize, attached: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let bytes = postcard::to_extend(message, Vec::new()).map_err(io::Error::other)?;
    transmit(socket, &bytes, attached.as_slice(), true)
}

/// How many bytes of the buffer are a message, and what is attached to it; `None` when the other end is closed. If this
/// process can open no more descriptors, what was attached is not there.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<(usize, Option<OwnedFd>)>> {
    let received = packet::receive::<SPACE_ONE>(socket, buffer, true)?;
    match received {
        packet::Received { len: 0, .. } => Ok(None),
        packet::Received { truncated: true, .. } => Err(io::ErrorKind::InvalidData.into()),
        // All but the first are closed.
        packet::Received { len, files, .. } => Ok(Some((len, files.into_iter().next()))),
    }
}

fn decode<'m, M: Deserialize<'m>>(bytes: &'m [u8]) -> io::Result<M> {
    postcard::from_bytes(bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::OFlag;
    use std::fs::File;
    use std::io::Read;

    /// A protocol of echoes.
    struct Echo;

    impl Protocol for Echo {
        type Request<'m> = &'m str;
        type Reply = String;
        const MESSAGE_MAX: usize = 16;
    }

    fn pipe() -> (OwnedFd, OwnedFd) {
        nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).expect("a pipe")
    }

    #[test]
    fn descriptors_besides_the_first_are_closed() {
        let (ours, theirs) = pair().expect("a socket");
        let ((wanted, one), (unwanted, other)) = (pipe(), pipe());
        transmit(&theirs, b"x", &[one.as_fd(), other.as_fd()], true).expect("sent");
        drop((one, other));
        let mut buffer = [0; 16];
        let (len, attached) = receive(&ours, &mut buffer).expect("received").expect("a message");
        assert_eq!((&buffer[..len], attached.is_some()), (&b"x"[..], true));
        assert!(File::from(wanted).read(&mut [0]).is_err(), "open, and nothing in it");
        assert_eq!(File::from(unwanted).read(&mut [0]).expect("closed"), 0);
    }

    #[test]
    fn a_request_has_its_reply_until_the_other_end_is_closed() {
        let (ours, theirs) = pair().expect("a socket");
        let server = std::thread::spawn(move || {
            Responder::<Echo>::new(ours).serve(|text| (text != "notice").then(|| (text.to_owned(), None)));
        });
        let requester = Requester::<Echo>::new(theirs);
        requester.notify(&"notice").expect("sent");
        assert_eq!(requester.ask(&"one").expect("a reply").0, "one");
        assert_eq!(requester.ask(&"two").expect("a reply").0, "two");
        requester.ask(&"a request that is too long").expect_err("it is not served");
        server.join().expect("it does not panic");
    }

    #[test]
    fn bytes_that_are_no_request_end_the_service() {
        let (ours, theirs) = pair().expect("a socket");
        // A text of 200 bytes, of which one is there.
        transmit(&theirs, &[200, 1, b'x'], &[], true).expect("sent");
        Responder::<Echo>::new(ours).serve(|_| unreachable!("no request"));
    }
}
