//! The network, as in `std::net`: TCP, UDP, names. What a function may reach stands in its workflow file (`network`);
//! everything else is refused as `PermissionDenied`, with words that name the address.
//!
//! Waiting parks: a thread that waits for the network holds no thread of the host, so a server with a thread per
//! connection serves a thousand of them.

mod resolve;
mod tcp;
mod udp;

pub use core::net::*;
pub use resolve::ToSocketAddrs;
pub use tcp::{Incoming, IntoIncoming, TcpListener, TcpStream};
pub use udp::UdpSocket;

use crate::io::{Error, ErrorKind, Result};
use crate::sys::socket::Socket;
use crate::time::Duration;
use monohull_abi::network::SocketOption;

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

/// Sets a timeout; no time at all is refused, as std does.
fn set_timeout(socket: &Socket, option: SocketOption, time: Option<Duration>) -> Result<()> {
    if time == Some(Duration::ZERO) {
        return Err(Error::new(ErrorKind::InvalidInput, "cannot set a 0 duration timeout"));
    }
    let ns = time.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    socket.set(option, ns)
}

/// Reads a timeout.
fn timeout(socket: &Socket, option: SocketOption) -> Result<Option<Duration>> {
    Ok(Some(socket.get(option)?).filter(|ns| *ns != 0).map(Duration::from_nanos))
}

/// The error a socket has come upon since the last time.
fn take_error(socket: &Socket) -> Result<Option<Error>> {
    let number = socket.get(SocketOption::Error)?;
    Ok(Some(number).filter(|number| *number != 0).map(|number| Error::from_raw_os_error(number as i32)))
}
