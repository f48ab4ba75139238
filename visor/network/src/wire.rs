//! What a worker and its broker say to each other: one packet is one message, with a socket attached where one is given.

use monohull_abi::network::DATAGRAM_MAX;
pub(super) use monohull_ipc::packets::{Room, decode, give, pair, say};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// The longest message: a datagram and its address.
pub(super) const MESSAGE_MAX: usize = DATAGRAM_MAX + 256;

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
