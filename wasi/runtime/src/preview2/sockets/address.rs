//! Types of `wasi:sockets`, as programs pass them, and which addresses a socket takes.
#![allow(dead_code, reason = "all that the interfaces have, whether or not it is ever made here")]

use crate::errno::WasiError;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use monohull_abi::network::SocketShutdown;
use wasmtime::component::{ComponentType, Lift, Lower};

/// Why a call has failed.
#[derive(ComponentType, Lift, Lower, Clone, Copy, PartialEq, Debug)]
#[component(enum)]
#[repr(u8)]
pub(super) enum ErrorCode {
    #[component(name = "unknown")]
    Unknown,
    #[component(name = "access-denied")]
    AccessDenied,
    #[component(name = "not-supported")]
    NotSupported,
    #[component(name = "invalid-argument")]
    InvalidArgument,
    #[component(name = "out-of-memory")]
    OutOfMemory,
    #[component(name = "timeout")]
    Timeout,
    #[component(name = "concurrency-conflict")]
    ConcurrencyConflict,
    #[component(name = "not-in-progress")]
    NotInProgress,
    #[component(name = "would-block")]
    WouldBlock,
    #[component(name = "invalid-state")]
    InvalidState,
    #[component(name = "new-socket-limit")]
    NewSocketLimit,
    #[component(name = "address-not-bindable")]
    AddressNotBindable,
    #[component(name = "address-in-use")]
    AddressInUse,
    #[component(name = "remote-unreachable")]
    RemoteUnreachable,
    #[component(name = "connection-refused")]
    ConnectionRefused,
    #[component(name = "connection-reset")]
    ConnectionReset,
    #[component(name = "connection-aborted")]
    ConnectionAborted,
    #[component(name = "datagram-too-large")]
    DatagramTooLarge,
    #[component(name = "name-unresolvable")]
    NameUnresolvable,
    #[component(name = "temporary-resolver-failure")]
    TemporaryResolverFailure,
    #[component(name = "permanent-resolver-failure")]
    PermanentResolverFailure,
}

impl From<WasiError> for ErrorCode {
    fn from(error: WasiError) -> ErrorCode {
        match error {
            WasiError::PERM | WasiError::ACCES => ErrorCode::AccessDenied,
            WasiError::NOTSUP | WasiError::NOSYS => ErrorCode::NotSupported,
            WasiError::INVAL => ErrorCode::InvalidArgument,
            WasiError::NOMEM | WasiError::NOBUFS => ErrorCode::OutOfMemory,
            WasiError::TIMEDOUT => ErrorCode::Timeout,
            WasiError::AGAIN => ErrorCode::WouldBlock,
            WasiError::ISCONN | WasiError::NOTCONN => ErrorCode::InvalidState,
            WasiError::MFILE => ErrorCode::NewSocketLimit,
            WasiError::ADDRNOTAVAIL => ErrorCode::AddressNotBindable,
            WasiError::ADDRINUSE => ErrorCode::AddressInUse,
            WasiError::HOSTUNREACH | WasiError::NETUNREACH | WasiError::NETDOWN => ErrorCode::RemoteUnreachable,
            WasiError::CONNREFUSED => ErrorCode::ConnectionRefused,
            WasiError::CONNRESET | WasiError::PIPE => ErrorCode::ConnectionReset,
            WasiError::CONNABORTED => ErrorCode::ConnectionAborted,
            WasiError::MSGSIZE => ErrorCode::DatagramTooLarge,
            _ => ErrorCode::Unknown,
        }
    }
}

/// Which addresses a socket has.
#[derive(ComponentType, Lift, Lower, Clone, Copy, PartialEq)]
#[component(enum)]
#[repr(u8)]
pub(super) enum Family {
    #[component(name = "ipv4")]
    V4,
    #[component(name = "ipv6")]
    V6,
}

/// Which direction of a connection ends.
#[derive(ComponentType, Lift, Lower, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
pub(super) enum ShutdownType {
    #[component(name = "receive")]
    Receive,
    #[component(name = "send")]
    Send,
    #[component(name = "both")]
    Both,
}

impl From<ShutdownType> for SocketShutdown {
    fn from(how: ShutdownType) -> SocketShutdown {
        match how {
            ShutdownType::Receive => SocketShutdown::Read,
            ShutdownType::Send => SocketShutdown::Write,
            ShutdownType::Both => SocketShutdown::Both,
        }
    }
}

type Octets = (u8, u8, u8, u8);
type Segments = (u16, u16, u16, u16, u16, u16, u16, u16);

fn octets(address: Ipv4Addr) -> Octets {
    address.octets().into()
}

fn segments(address: Ipv6Addr) -> Segments {
    address.segments().into()
}

/// An address.
#[derive(ComponentType, Lift, Lower, Clone, Copy)]
#[component(variant)]
pub(super) enum IpAddress {
    #[component(name = "ipv4")]
    V4(Octets),
    #[component(name = "ipv6")]
    V6(Segments),
}

impl From<IpAddr> for IpAddress {
    fn from(address: IpAddr) -> IpAddress {
        match address {
            IpAddr::V4(address) => IpAddress::V4(octets(address)),
            IpAddr::V6(address) => IpAddress::V6(segments(address)),
        }
    }
}

#[derive(ComponentType, Lift, Lower, Clone, Copy)]
#[component(record)]
pub(super) struct Ipv4SocketAddress {
    port: u16,
    address: Octets,
}

#[derive(ComponentType, Lift, Lower, Clone, Copy)]
#[component(record)]
pub(super) struct Ipv6SocketAddress {
    port: u16,
    #[component(name = "flow-info")]
    flow: u32,
    address: Segments,
    #[component(name = "scope-id")]
    scope: u32,
}

/// An address and a port.
#[derive(ComponentType, Lift, Lower, Clone, Copy)]
#[component(variant)]
pub(super) enum IpSocketAddress {
    #[component(name = "ipv4")]
    V4(Ipv4SocketAddress),
    #[component(name = "ipv6")]
    V6(Ipv6SocketAddress),
}

impl From<SocketAddr> for IpSocketAddress {
    fn from(address: SocketAddr) -> IpSocketAddress {
        match address {
            SocketAddr::V4(of) => IpSocketAddress::V4(Ipv4SocketAddress { port: of.port(), address: octets(*of.ip()) }),
            SocketAddr::V6(of) => IpSocketAddress::V6(Ipv6SocketAddress {
                port: of.port(),
                flow: of.flowinfo(),
                address: segments(*of.ip()),
                scope: of.scope_id(),
            }),
        }
    }
}

impl From<IpSocketAddress> for SocketAddr {
    fn from(address: IpSocketAddress) -> SocketAddr {
        match address {
            IpSocketAddress::V4(of) => (<[u8; 4]>::from(of.address), of.port).into(),
            IpSocketAddress::V6(of) => {
                SocketAddrV6::new(<[u16; 8]>::from(of.address).into(), of.port, of.flow, of.scope).into()
            }
        }
    }
}

impl Family {
    /// An address that a socket of this family may have for its own. A socket for IPv6 has no addresses of IPv4, spelled as IPv6 or not.
    pub(super) fn own(self, address: IpSocketAddress) -> Result<SocketAddr, ErrorCode> {
        let address = SocketAddr::from(address);
        let fits = match (self, address.ip()) {
            (Family::V4, IpAddr::V4(ip)) => !ip.is_multicast() && !ip.is_broadcast(),
            (Family::V6, IpAddr::V6(ip)) => !ip.is_multicast() && ip.to_ipv4_mapped().is_none(),
            _ => false,
        };
        if fits { Ok(address) } else { Err(ErrorCode::InvalidArgument) }
    }

    /// An address that it may send to.
    pub(super) fn remote(self, address: IpSocketAddress) -> Result<SocketAddr, ErrorCode> {
        let address = SocketAddr::from(address);
        let fits = match (self, address.ip()) {
            (Family::V4, IpAddr::V4(_)) => true,
            (Family::V6, IpAddr::V6(ip)) => ip.to_ipv4_mapped().is_none(),
            _ => false,
        };
        if fits && !address.ip().is_unspecified() && address.port() != 0 {
            Ok(address)
        } else {
            Err(ErrorCode::InvalidArgument)
        }
    }

    /// One that it may connect to: of one peer.
    pub(super) fn peer(self, address: IpSocketAddress) -> Result<SocketAddr, ErrorCode> {
        self.own(address).and_then(|_| self.remote(address))
    }

    pub(super) fn unspecified(self) -> SocketAddr {
        match self {
            Family::V4 => (Ipv4Addr::UNSPECIFIED, 0).into(),
            Family::V6 => (Ipv6Addr::UNSPECIFIED, 0).into(),
        }
    }
}
