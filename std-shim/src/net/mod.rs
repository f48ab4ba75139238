//! The network, as in `std::net`: TCP, UDP, names. What a function may reach stands in its workflow file (`network`);
//! everything else is refused as `PermissionDenied`, with a message that names the address.
//!
//! Waiting parks: a thread that waits for the network holds no thread of the host, so a server with a thread per
//! connection serves a thousand of them.

mod options;
mod resolve;
mod tcp;
mod udp;

pub use core::net::*;
pub use resolve::ToSocketAddrs;
pub use tcp::{Incoming, IntoIncoming, TcpListener, TcpStream};
pub use udp::UdpSocket;

use crate::io::{Error, ErrorKind, Result};

/// Which half of a connection [`TcpStream::shutdown`] ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shutdown {
    /// Nothing more is read.
    Read,
    /// Nothing more is written; the peer reads the end.
    Write,
    /// Both.
    Both,
}

/// Tries the addresses in turn; the last error if none will do.
fn each_address<A: ToSocketAddrs, T>(addresses: A, mut work: impl FnMut(&SocketAddr) -> Result<T>) -> Result<T> {
    let mut last = None;
    for address in addresses.to_socket_addrs()? {
        match work(&address) {
            Ok(done) => return Ok(done),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| Error::new(ErrorKind::InvalidInput, "could not resolve to any addresses")))
}
