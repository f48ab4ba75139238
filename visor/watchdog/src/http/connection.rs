//! A connection's socket, shared by the HTTP code, which reads and writes, and the task that works for the client, which
//! observes whether the client has disconnected.
//!
//! A client that disconnects and one that has no more to send look the same: both close their sending side. The task
//! therefore continues for a moment (`farewell`), and then stops. A connection that is reset is certain to be gone.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use nix::libc;
use nix::sys::socket::{MsgFlags, Shutdown, recv, setsockopt, shutdown, sockopt};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, Sleep, sleep};

use crate::http::client_limits::ClientLimits;

/// Calls a method that both kinds of streams have.
macro_rules! each {
    ($stream:expr, $name:ident => $call:expr) => {
        match $stream {
            Stream::Tcp($name) => $call,
            Stream::Unix($name) => $call,
        }
    };
}

/// The transport of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    /// A Unix socket.
    Unix,
    /// HTTP over TCP.
    Http,
    /// HTTP over TLS.
    Https,
    /// HTTP without TLS on a port for TLS: every request is answered with an error.
    HttpForHttps,
}

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// The client's address, if it came over the network.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().ok(),
            Stream::Unix(_) => None,
        }
    }

    /// The first byte that comes, which stays to be read; nothing if the stream ends before.
    pub(crate) async fn first_byte(&self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        let length = match self {
            Stream::Tcp(stream) => stream.peek(&mut byte).await?,
            // Tokio has no such method for them, and they have no TLS.
            Stream::Unix(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok((length > 0).then_some(byte[0]))
    }

    /// Bytes that were written and that the client has not taken.
    fn unsent(&self) -> u64 {
        each!(self, stream => monohull_sys::socket::unsent(stream)).unwrap_or(0)
    }

    /// Ends the connection: what is written to it or read from it next fails. A client over TCP sees a reset, not an end: an answer without a length, as those
    /// of HTTP/1.0 may be, would look whole.
    pub(crate) fn cut(&self) {
        const RESET: libc::linger = libc::linger { l_onoff: 1, l_linger: 0 };
        // One that the client has closed before is no error; other sockets have no such option.
        let _ = each!(self, stream => setsockopt(stream, sockopt::Linger, &RESET));
        let _ = each!(self, stream => shutdown(stream.as_raw_fd(), Shutdown::Both));
    }

    /// Returns when the client has disconnected.
    pub(crate) async fn gone(&self, farewell: Duration) {
        loop {
            // Waits for the other side's end of the stream, and for nothing else: data that has not been read yet (a
            // pipelined request) does not count.
            let Ok(ready) = each!(self, stream => stream.ready(Interest::PRIORITY | Interest::ERROR).await) else {
                return;
            };
            if ready.is_write_closed() || ready.is_error() {
                return;
            }
            if ready.is_read_closed() {
                return sleep(farewell).await;
            }
            // Urgent data: there is no such thing in HTTP. It stays ready, so look again only after a while.
            sleep(farewell).await;
        }
    }
}

/// What the HTTP code reads from and writes to.
pub(crate) struct TimedStream {
    stream: Arc<Stream>,
    pace: ClientLimits,
    stalled: Option<Stalled>,
}

/// A write that makes no progress.
struct Stalled {
    /// The next check of the client's progress.
    next: Pin<Box<Sleep>>,
    /// When all of it should have been taken, at the slowest pace.
    latest: Instant,
    /// Bytes that it has not taken.
    left: u64,
}

impl Stalled {
    fn now(stream: &Stream, pace: &ClientLimits) -> Stalled {
        let left = stream.unsent();
        let latest = Instant::now() + pace.pause + Duration::from_secs(left / pace.rate.max(1));
        Stalled { next: Box::pin(sleep(pace.pause)), latest, left }
    }

    /// Comes back once the client has taken nothing for too long, or too little. More can be written long after something has been
    /// taken: the kernel waits until there is room for much.
    fn poll(&mut self, cx: &mut Context<'_>, stream: &Stream, pace: &ClientLimits) -> Poll<()> {
        while self.next.as_mut().poll(cx).is_ready() {
            let left = stream.unsent();
            if left >= self.left || Instant::now() >= self.latest {
                return Poll::Ready(());
            }
            self.left = left;
            self.next.as_mut().reset(Instant::now() + pace.pause);
        }
        Poll::Pending
    }
}

impl TimedStream {
    pub(crate) fn new(stream: Arc<Stream>, pace: ClientLimits) -> TimedStream {
        TimedStream { stream, pace, stalled: None }
    }

    /// Writes, unless the client has taken nothing for too long.
    fn write(&mut self, cx: &mut Context<'_>, write: impl Fn(&Stream) -> io::Result<usize>) -> Poll<io::Result<usize>> {
        loop {
            match each!(&*self.stream, stream => stream.poll_write_ready(cx)) {
                Poll::Pending => {
                    let stalled = self.stalled.get_or_insert_with(|| Stalled::now(&self.stream, &self.pace));
                    return stalled.poll(cx, &self.stream, &self.pace).map(|()| Err(io::ErrorKind::TimedOut.into()));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => {}
            }
            match write(&self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => {
                    self.stalled = None;
                    return Poll::Ready(done);
                }
            }
        }
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            std::task::ready!(each!(&*self.stream, stream => stream.poll_read_ready(cx)))?;
            let room = buffer.initialize_unfilled();
            let mut read = None;
            let mut receive = |stream: RawFd| {
                let bytes = *read.insert(recv(stream, room, MsgFlags::empty())?);
                // There was less than would have fit, so there is no more: the runtime need not find that out by another call. An
                // end of the stream is noted apart.
                if (1..room.len()).contains(&bytes) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            };
            let done =
                each!(&*self.stream, stream => stream.try_io(Interest::READABLE, || receive(stream.as_raw_fd())));
            match (read, done) {
                (Some(bytes), _) => {
                    buffer.advance(bytes);
                    return Poll::Ready(Ok(()));
                }
                (None, Err(error)) if error.kind() != io::ErrorKind::WouldBlock => return Poll::Ready(Err(error)),
                (None, _) => {}
            }
        }
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().write(cx, |stream| each!(stream, stream => stream.try_write(bytes)))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().write(cx, |stream| each!(stream, stream => stream.try_write_vectored(slices)))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing is kept here.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A client that has closed first is no error.
        let _ = each!(&*self.stream, stream => shutdown(stream.as_raw_fd(), Shutdown::Write));
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};
    use tokio::net::TcpListener;

    /// More than the kernel holds for a client that reads nothing.
    const MORE: usize = 64 << 20;

    #[tokio::test]
    async fn a_client_that_is_cut_off_sees_no_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut client = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
        let (stream, _) = listener.accept().await.expect("it");
        let stream = Stream::Tcp(stream);
        let Stream::Tcp(connection) = &stream else { unreachable!("it is of TCP") };
        // As much as there is room for.
        let bytes = vec![7; MORE];
        connection.writable().await.expect("room");
        assert!(connection.try_write(&bytes).expect("written") < MORE);
        stream.cut();
        drop(stream);
        let error = client.read_to_end(&mut Vec::new()).expect_err("it is not the end");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        client.write_all(b"more").expect_err("it is closed");
    }
}
