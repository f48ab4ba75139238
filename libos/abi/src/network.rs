//! Sockets: the data of their hostcalls, and the services of the visor for the module `socket`.
//!
//! A workflow has one of three networks, chosen in its file:
//!
//! ```text
//!            function ── SocketAddress, bytes ──▶ module `socket`
//!                                                   │
//!   none     every call is refused                  │
//!   host     one kernel socket per socket  ◀────────┤  made by the visor, under the workflow's list of addresses
//!   tap      TCP/IP in the module ── frames ────────┘
//! ```

use crate::call::Call;
use crate::services::service_table;
use core::net::{IpAddr, SocketAddr, SocketAddrV6};

/// The most sockets of one instance.
pub const SOCKETS_MAX: usize = 4096;
/// The most connections that wait to be accepted; more is cut to this.
pub const BACKLOG_MAX: u64 = 4096;
/// The longest name that can be looked up, in bytes.
pub const HOST_NAME_MAX: usize = 253;
/// The most addresses one look-up gives.
pub const LOOKUP_MAX: usize = 32;
/// The most resolvers of a workflow.
pub const RESOLVERS_MAX: usize = 4;
/// The longest frame, with the header for checksum and segmentation offload ([`FRAME_HEADER`]).
pub const FRAME_MAX: usize = 64 * 1024 + 64;
/// Bytes of that header: `struct virtio_net_hdr`.
pub const FRAME_HEADER: usize = 10;
/// The most bytes one datagram carries.
pub const DATAGRAM_MAX: usize = 65_507;

/// `SOCKET_RECV` and `SOCKET_RECVFROM` flag: leave the bytes where they are.
pub const PEEK: u64 = 1;
/// `SOCKET_RECV`, `SOCKET_RECVFROM`, `SOCKET_SEND` and `SOCKET_SENDTO` flag: answer `Again` instead of waiting, as if the socket were
/// non-blocking for this call.
pub const DONT_WAIT: u64 = 2;

/// `TCP_CONNECT` flag: do not wait. The socket is non-blocking; it becomes writable when it is connected or refused, and
/// [`SocketOption::Error`] returns which.
pub const CONNECT_LATER: u64 = 1;

/// The most queues of one instance.
pub const QUEUES_MAX: usize = 64;
/// The most events that one `QUEUE_WAIT` writes; more stay for the next.
pub const QUEUE_EVENTS_MAX: usize = 64;
/// The most different data of posted events that wait in a queue.
pub const QUEUE_POSTS_MAX: usize = 4096;

/// Bits of `QUEUE_SET`'s events and of [`QueueEvent::ready`].
pub mod ready {
    /// Something to read or accept, or the end.
    pub const READ: u32 = 1;
    /// Room to write, or a connection made or refused.
    pub const WRITE: u32 = 1 << 1;
    /// What has been reported is reported again only after a call on the socket that answered `Again`, that read or accepted something, or
    /// that wrote less than it was asked to.
    pub const EDGE: u32 = 1 << 2;
    /// Reported once; then the socket is not watched until it is set again.
    pub const ONCE: u32 = 1 << 3;
    /// All of them.
    pub const ALL: u32 = (1 << 4) - 1;
}

/// What a queue reports (user memory).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct QueueEvent {
    /// As it was set or posted.
    pub data: u64,
    /// [`ready::READ`], [`ready::WRITE`] or both. It may be over when a call is made.
    pub ready: u32,
    /// 1 if it was posted.
    pub posted: u32,
}

/// An address and a port (user memory).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct SocketAddress {
    /// 4 or 6.
    pub family: u32,
    /// The port, at most 65535.
    pub port: u32,
    /// The address in network order; IPv4 uses the first four bytes.
    pub address: [u8; 16],
    /// IPv6 flow information.
    pub flow: u32,
    /// IPv6 scope.
    pub scope: u32,
}

impl SocketAddress {
    /// As Rust programs have it. An IPv6 address that stands for an IPv4 one reads as that, so that no list of
    /// addresses can be got round by spelling. `None` if it is no address.
    pub fn decode(&self) -> Option<SocketAddr> {
        let port = u16::try_from(self.port).ok()?;
        let [a, b, c, d, ..] = self.address;
        match self.family {
            4 => Some(SocketAddr::from(([a, b, c, d], port))),
            6 => match IpAddr::from(self.address).to_canonical() {
                IpAddr::V4(address) => Some(SocketAddr::from((address, port))),
                IpAddr::V6(address) => Some(SocketAddrV6::new(address, port, self.flow, self.scope).into()),
            },
            _ => None,
        }
    }
}

impl From<SocketAddr> for SocketAddress {
    fn from(address: SocketAddr) -> SocketAddress {
        match address {
            SocketAddr::V4(v4) => {
                let mut address = [0; 16];
                address[..4].copy_from_slice(&v4.ip().octets());
                SocketAddress { family: 4, port: v4.port().into(), address, flow: 0, scope: 0 }
            }
            SocketAddr::V6(v6) => SocketAddress {
                family: 6,
                port: v6.port().into(),
                address: v6.ip().octets(),
                flow: v6.flowinfo(),
                scope: v6.scope_id(),
            },
        }
    }
}

macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $number:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u64)]
        pub enum $name { $($(#[$doc])* $variant = $number,)* }

        impl $name {
            /// The one with this number.
            pub const fn from_raw(raw: u64) -> Option<$name> {
                match raw {
                    $($number => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

numbered! {
    /// Which end of a socket `SOCKET_GETNAME` asks for.
    SocketEnd {
        /// Its own address.
        Local = 0,
        /// The address it is connected to.
        Peer = 1,
    }
}

numbered! {
    /// Which direction `SOCKET_SHUTDOWN` ends.
    SocketShutdown {
        /// Nothing more is read.
        Read = 0,
        /// Nothing more is written; the peer reads the end.
        Write = 1,
        /// Both.
        Both = 2,
    }
}

numbered! {
    /// What `SOCKET_GET_OPTION` and `SOCKET_SET_OPTION` are about. Times are in ns; 0 stands for none.
    SocketOption {
        /// 1: calls that would wait answer `Again`.
        NonBlocking = 0,
        /// The longest a read, or an accept, waits.
        ReadTimeout = 1,
        /// The longest a write waits.
        WriteTimeout = 2,
        /// 1: small writes are sent at once.
        NoDelay = 3,
        /// How many routers a packet passes, 1 to 255.
        Ttl = 4,
        /// A connection that is silent for this long is probed.
        KeepAlive = 5,
        /// 1: datagrams may go to a broadcast address.
        Broadcast = 6,
        /// The error that came up since the last call, as its number; only to get.
        Error = 7,
    }
}

/// What sort of network a workflow has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum NetworkKind {
    /// None.
    None = 0,
    /// The host's sockets, under a list of addresses.
    Host = 1,
    /// A device with addresses of its own, and TCP/IP in the module.
    Tap = 2,
}

/// A workflow's own addresses, and what is around them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct TapConfig {
    /// The most bytes of a packet.
    pub mtu: u32,
    /// Bits of the IPv4 network.
    pub prefix4: u32,
    /// Bits of the IPv6 network.
    pub prefix6: u32,
    /// How many of `resolvers` there are.
    pub resolver_count: u32,
    /// Its own IPv4 address; all zero if it has none.
    pub address4: [u8; 4],
    /// The host's IPv4 address on the device, through which everything else is reached.
    pub gateway4: [u8; 4],
    /// Its own IPv6 address; all zero if it has none.
    pub address6: [u8; 16],
    /// The host's IPv6 address on the device.
    pub gateway6: [u8; 16],
    /// The device's hardware address on the workflow's side.
    pub mac: [u8; 6],
    /// Unused.
    pub padding: [u8; 2],
    /// Random: the seed of numbers that peers must not be able to guess.
    pub seed: [u32; 2],
    /// The DNS resolvers.
    pub resolvers: [SocketAddress; RESOLVERS_MAX],
}

/// What a function waits for on a kernel socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Readiness {
    /// Something to read or accept, or the end.
    Read = 0,
    /// Room to write, or a connection made or refused.
    Write = 1,
}

/// A bit of [`Found::ready`].
pub const WATCHED_NOW: u32 = 1 << 31;

/// What a queue finds of a socket that it watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Found {
    /// What the socket has become: [`ready::READ`], [`ready::WRITE`], and [`WATCHED_NOW`].
    pub ready: u32,
    /// How many sockets had become ready before it, counted from anywhere: what came first is reported first. The count begins again after 2³².
    pub turn: u32,
}

/// A kernel socket, as the visor numbers it.
pub type SocketHandle = u32;

service_table! {
    /// The visor's services for the module `socket`. Every one may be called from any carrier; none of them waits. A negative
    /// answer is an [`Errno`](crate::Errno) negated; `NotPermitted` means that the workflow's list lacks the address.
    ///
    /// User memory is named by addresses that the module has checked: the kernel copies straight to and from there, and
    /// survives holes.
    struct NetworkHost;
    /// An implementation of these services: the visor's, or a test double.
    trait NetworkServices;

    /// Which network the workflow has.
    fn kind(&domain) -> NetworkKind;
    /// A TCP socket that listens → handle.
    fn listen(&domain, at: *const SocketAddress, backlog: u32) -> i64;
    /// A TCP socket that begins to connect → handle. It becomes writable when it is connected or refused.
    fn connect(&domain, to: *const SocketAddress) -> i64;
    /// A connection that waits to be accepted → handle, and the peer's address; `Again` if there is none.
    fn accept(&domain, socket: SocketHandle, peer: *mut SocketAddress) -> i64;
    /// A UDP socket → handle.
    fn bind(&domain, at: *const SocketAddress) -> i64;
    /// A UDP socket's only peer from here on → 0.
    fn associate(&domain, socket: SocketHandle, to: *const SocketAddress) -> i64;
    /// Bytes into user memory → how many, and the sender where `from` is not null; `Again` if there are none.
    fn receive(&domain, socket: SocketHandle, to: u64, len: usize, peek: u32, from: *mut SocketAddress) -> i64;
    /// Bytes from user memory, to `to` where that is not null → how many; `Again` if there is no room.
    fn send(&domain, socket: SocketHandle, from: u64, len: usize, to: *const SocketAddress) -> i64;
    /// Ends a direction → 0.
    fn shutdown(&domain, socket: SocketHandle, how: SocketShutdown) -> i64;
    /// Closes a socket, and wakes the threads that wait for it.
    fn close(&domain, socket: SocketHandle);
    /// An option's value. `NonBlocking` and the timeouts are handled by the module.
    fn get(&domain, socket: SocketHandle, option: SocketOption) -> i64;
    /// Sets an option → 0.
    fn set(&domain, socket: SocketHandle, option: SocketOption, value: u64) -> i64;
    /// The address at an end → 0.
    fn name(&domain, socket: SocketHandle, end: SocketEnd, out: *mut SocketAddress) -> i64;
    /// The addresses of a name on the workflow's list → how many; at most `most` are written. The port is 0.
    fn lookup(&domain, name: *const u8, len: usize, out: *mut SocketAddress, most: usize) -> i64;
    /// Registers the call's thread until the socket is ready, or until `deadline` (monotonic ns). It may have become
    /// ready before. The deadlock detector does not count the wait.
    fn wait(&domain, call: *mut Call, socket: SocketHandle, readiness: Readiness, deadline: u64);
    /// Which of `wanted` ([`ready::READ`], [`ready::WRITE`]) a kernel socket has become since it was asked before; what it has not is
    /// watched from here on, and wakes the queue's key when it comes. [`WATCHED_NOW`] is added if it was not watched yet: it may be
    /// ready already, and that is known after the next `settle`.
    fn watch(&domain, socket: SocketHandle, wanted: u32, queue: u64) -> Found;
    /// Takes in what has happened to kernel sockets, before a queue looks at its own.
    fn settle(&domain, queue: u64);
    /// Registers the call's thread on a queue's key; wakes it at once if something has happened since `settle`. As with `wait`,
    /// the deadlock detector does not count it.
    fn wait_in_queue(&domain, call: *mut Call, queue: u64, deadline: u64);
    /// The queue watches nothing any more.
    fn forget_queue(&domain, queue: u64);
    /// The workflow's addresses → 0. From here on the module's [`poll`](crate::module::ModuleTable::poll) is called when
    /// frames have arrived.
    fn tap(&domain, out: *mut TapConfig) -> i64;
    /// A frame with its header → bytes; `Again` if there is none.
    fn frame_in(&domain, to: *mut u8, len: usize) -> i64;
    /// Sends a frame with its header → bytes; `Again` if there is no room.
    fn frame_out(&domain, from: *const u8, len: usize) -> i64;
    /// The module's `poll` is to be called at this time (monotonic ns, or never); replaces what was asked for before.
    fn alarm(&domain, at: u64);
    /// Registers the call's thread on a key that frames or alarms may lead to waking. As with `wait`, the
    /// deadlock detector does not count it.
    fn wait_for_key(&domain, call: *mut Call, key: u64, deadline: u64);
}
