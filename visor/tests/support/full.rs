//! A server that does not answer.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// How long a connection is waited for that is not made. One to this host is made at once.
const UNMADE: Duration = Duration::from_millis(300);

/// A listener whose queue is full, and what fills it: as long as both are held, further connections are neither made nor refused.
pub(crate) struct Full {
    listener: TcpListener,
    held: Vec<TcpStream>,
}

impl Full {
    pub(crate) fn new() -> Full {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        // SAFETY: a call on a descriptor that is open; the queue becomes shorter.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let mut full = Full { listener, held: Vec::new() };
        loop {
            match TcpStream::connect_timeout(&full.address(), UNMADE) {
                Ok(stream) => full.held.push(stream),
                Err(error) => {
                    assert!(error.kind() == ErrorKind::TimedOut && !full.held.is_empty(), "{error}");
                    return full;
                }
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("its address")
    }
}
