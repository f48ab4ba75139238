//! Messages between a worker and its broker, with a socket attached to a reply where one is asked for.

use monohull_abi::network::DATAGRAM_MAX;
use monohull_ipc::Protocol;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// Sockets of a workflow.
#[derive(Debug)]
pub(super) enum Sockets {}

impl Protocol for Sockets {
    type Request<'m> = Request<'m>;
    type Reply = Reply;
    /// A datagram and its address.
    const MESSAGE_MAX: usize = DATAGRAM_MAX + 256;
}

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
