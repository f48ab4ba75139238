//! The sockets of functions: what is known of each beside what smoltcp has.

use alloc::vec::Vec;
use core::task::Waker;
use monohull_abi::network::Readiness;
use smoltcp::iface::{SocketHandle as Inner, SocketSet};
use smoltcp::socket::tcp::{Socket as Tcp, State};
use smoltcp::socket::udp::Socket as Udp;
use smoltcp::time::Instant;
use smoltcp::wire::{IpAddress, IpEndpoint};

/// How many routers a packet may pass, unless a function sets another.
pub(super) const TTL: u8 = 64;

/// A socket, by what it is for.
pub(super) enum End {
    Listener(Listener),
    Stream(Stream),
    Datagrams(Datagrams),
}

/// A socket that others connect to.
pub(super) struct Listener {
    /// Its own address; any if none.
    pub(super) address: Option<IpAddress>,
    pub(super) six: bool,
    pub(super) port: u16,
    pub(super) backlog: usize,
    /// Connections that are being made, or wait to be accepted.
    pub(super) pending: Vec<Inner>,
    /// A thread waits for one.
    pub(super) watched: bool,
    /// What its connections begin with.
    pub(super) ttl: u8,
    pub(super) keep_alive: u64,
}

/// One end of a connection.
pub(super) struct Stream {
    pub(super) inner: Inner,
    pub(super) owner: u32,
    /// Bytes of its buffers, charged to its owner.
    pub(super) charge: u64,
    pub(super) read: Waker,
    pub(super) write: Waker,
    /// Nothing more is to be read.
    pub(super) deaf: bool,
    /// The reset of the connection has been reported.
    pub(super) reported: bool,
    /// It has been connected, as far as is known here.
    pub(super) stood: bool,
    pub(super) began: Instant,
    pub(super) local: IpEndpoint,
    pub(super) peer: IpEndpoint,
}

impl Listener {
    /// Whether a connection waits to be accepted, or has failed meanwhile.
    pub(super) fn waiting(&self, sockets: &SocketSet<'static>) -> bool {
        self.pending.iter().any(|inner| stands(sockets.get::<Tcp<'_>>(*inner).state()))
    }

    pub(super) fn takes(&self, to: IpEndpoint) -> bool {
        let same_family = matches!(to.addr, IpAddress::Ipv6(_)) == self.six;
        self.port == to.port && same_family && self.address.is_none_or(|own| own == to.addr)
    }
}

/// Whether a connection is made, or was.
pub(super) fn stands(state: State) -> bool {
    !matches!(state, State::Listen | State::SynReceived)
}

impl Stream {
    pub(super) fn watch(&self, sockets: &mut SocketSet<'static>, readiness: Readiness) -> bool {
        let socket = sockets.get_mut::<Tcp<'_>>(self.inner);
        match readiness {
            Readiness::Read => {
                socket.register_recv_waker(&self.read);
                self.deaf || socket.can_recv() || !socket.may_recv() && socket.state() != State::SynSent
            }
            Readiness::Write => {
                socket.register_send_waker(&self.write);
                socket.state() != State::SynSent && (socket.can_send() || !socket.may_send())
            }
        }
    }
}

/// A socket for datagrams.
pub(super) struct Datagrams {
    pub(super) inner: Inner,
    pub(super) owner: u32,
    /// Bytes of its buffers, charged to its owner.
    pub(super) charge: u64,
    pub(super) address: Option<IpAddress>,
    pub(super) six: bool,
    pub(super) port: u16,
    /// The only one it knows.
    pub(super) peer: Option<IpEndpoint>,
    pub(super) broadcast: bool,
    pub(super) read: Waker,
    pub(super) write: Waker,
}

impl Datagrams {
    pub(super) fn watch(&self, sockets: &mut SocketSet<'static>, readiness: Readiness) -> bool {
        let socket = sockets.get_mut::<Udp<'_>>(self.inner);
        match readiness {
            Readiness::Read => {
                socket.register_recv_waker(&self.read);
                socket.can_recv()
            }
            Readiness::Write => {
                socket.register_send_waker(&self.write);
                socket.can_send()
            }
        }
    }
}
