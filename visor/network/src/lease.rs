//! A device with addresses of its own, which the helper leases to one workflow.
//!
//! The lease is a connection to the helper's socket: it lasts until the last process that has it open has closed it or
//! died. Then the helper forgets it, and the device, whose descriptor the same processes have, is gone too.

use super::NetworkError;
use monohull_abi::network::{RESOLVERS_MAX, SocketAddress, TapConfig};
use monohull_ipc::{Protocol, Requester};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The default path of the helper's socket.
pub const SOCKET: &str = "/run/monohull/network.sock";
/// The environment variable with another path.
pub const SOCKET_VARIABLE: &str = "MONOHULL_NETWORK";

/// A device of the helper's.
pub(super) enum Lease {}

impl Protocol for Lease {
    type Request<'m> = LeaseRequest;
    type Reply = Granted;
    const MESSAGE_MAX: usize = 4096;
}

/// The addresses on both ends of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// The most bytes of a packet.
    pub mtu: u32,
    /// The hardware address on the workflow's end.
    pub mac: [u8; 6],
    /// IPv4, if there is any.
    pub v4: Option<Link<Ipv4Addr>>,
    /// IPv6, if there is any.
    pub v6: Option<Link<Ipv6Addr>>,
    /// The DNS servers.
    pub resolvers: Vec<IpAddr>,
}

/// Two addresses of one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link<A> {
    /// The workflow's.
    pub own: A,
    /// The host's, through which everything else is reached.
    pub gateway: A,
    /// Bits that they have in common.
    pub prefix: u8,
}

/// To the helper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum LeaseRequest {
    /// A device.
    Lease {
        /// And a way out for it.
        outside: bool,
    },
}

/// From the helper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Granted {
    /// Attached is the device.
    Device(Addresses),
    /// There is none, for this reason.
    Refused(String),
}

/// A device that a workflow has.
#[derive(Debug)]
pub struct Tap {
    device: OwnedFd,
    addresses: Addresses,
    /// Ends the lease when it is closed.
    _lease: OwnedFd,
}

impl Tap {
    pub(super) fn new(device: OwnedFd, addresses: Addresses, lease: OwnedFd) -> Tap {
        Tap { device, addresses, _lease: lease }
    }

    /// The device's descriptor.
    pub fn device(&self) -> i32 {
        self.device.as_raw_fd()
    }

    /// The addresses as modules have them; the seed is still to be filled in.
    pub fn config(&self) -> TapConfig {
        let mut config = TapConfig { mtu: self.addresses.mtu, mac: self.addresses.mac, ..TapConfig::default() };
        if let Some(v4) = &self.addresses.v4 {
            (config.address4, config.gateway4) = (v4.own.octets(), v4.gateway.octets());
            config.prefix4 = v4.prefix.into();
        }
        if let Some(v6) = &self.addresses.v6 {
            (config.address6, config.gateway6) = (v6.own.octets(), v6.gateway.octets());
            config.prefix6 = v6.prefix.into();
        }
        let resolvers = self.addresses.resolvers.iter().take(RESOLVERS_MAX);
        config.resolver_count = resolvers.len() as u32;
        for (slot, resolver) in config.resolvers.iter_mut().zip(resolvers) {
            *slot = SocketAddress::from(SocketAddr::new(*resolver, 53));
        }
        config
    }
}

/// Where the helper listens.
pub(super) fn path() -> PathBuf {
    std::env::var_os(SOCKET_VARIABLE).map_or_else(|| SOCKET.into(), PathBuf::from)
}

/// Asks the helper for a device: the device, and the lease.
pub(super) fn ask(outside: bool) -> Result<(OwnedFd, OwnedFd, Addresses), NetworkError> {
    let path = path();
    let lease = join(&path).map_err(|source| NetworkError::NoHelper { path, source })?;
    let what = "asking the network helper for a device";
    let failed = |source| NetworkError::Host { what, source };
    let helper = Requester::<Lease>::new(lease);
    match helper.ask(&LeaseRequest::Lease { outside }).map_err(failed)? {
        (Granted::Device(addresses), Some(device)) => Ok((device, helper.into(), addresses)),
        (Granted::Device(_), None) => Err(failed(io::ErrorKind::InvalidData.into())),
        (Granted::Refused(why), _) => Err(NetworkError::Refused(format!("the network helper has no device: {why}"))),
    }
}

pub(super) fn join(path: &Path) -> io::Result<OwnedFd> {
    let link = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?;
    connect(link.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(link)
}
