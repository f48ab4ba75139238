//! Datagrams.

use super::ends::{Datagrams, End, TTL};
use super::stack::{Stack, address_of};
use super::{key_of, waker};
use alloc::vec;
use monohull_abi::Errno;
use monohull_abi::network::{DATAGRAM_MAX, Readiness, SocketAddress, SocketHandle};
use monohull_abi::user::CheckedSlice;
use smoltcp::iface::SocketHandle as Inner;
use smoltcp::socket::udp::{PacketBuffer, PacketMetadata, SendError, Socket as Udp};
use smoltcp::wire::{IpAddress, IpEndpoint, IpListenEndpoint};

/// Datagrams, and bytes of them, that a socket keeps in each direction.
const DATAGRAMS: usize = 64;
const BYTES: usize = 256 << 10;

/// What IPv6 and UDP put in front of a datagram.
const IPV6_HEADERS: usize = 48;

/// A socket of one version of IP reaches nothing of the other. smoltcp makes no packet of two, and ends the process if it is asked to.
fn check_family(six: bool, to: IpEndpoint) -> Result<(), Errno> {
    if matches!(to.addr, IpAddress::Ipv6(_)) == six { Ok(()) } else { Err(Errno::NetworkUnreachable) }
}

impl Stack {
    pub(super) fn bind(&mut self, owner: u32, at: &SocketAddress) -> Result<SocketHandle, Errno> {
        self.up()?;
        let (address, six) = (self.own_address(at)?, at.family == 6);
        let used = move |stack: &Stack, port: u16| {
            stack.all().any(|end| matches!(end, End::Datagrams(other) if other.port == port && other.six == six))
        };
        let port = match at.port as u16 {
            0 => self.free_port(used)?,
            port if used(self, port) => return Err(Errno::AddressInUse),
            port => port,
        };
        let charge = 2 * BYTES as u64;
        self.host.charge(owner, charge)?;
        let buffer = || PacketBuffer::new(vec![PacketMetadata::EMPTY; DATAGRAMS], vec![0; BYTES]);
        let mut socket = Udp::new(buffer(), buffer());
        if socket.bind(IpListenEndpoint { addr: address, port }).is_err() {
            self.host.refund(owner, charge);
            return Err(Errno::Invalid);
        }
        let inner = self.sockets.add(socket);
        Ok(self.insert(|stack, number| {
            End::Datagrams(Datagrams {
                inner,
                owner,
                charge,
                address,
                six,
                port,
                peer: None,
                broadcast: false,
                read: waker(&stack.rung, key_of(number, Readiness::Read)),
                write: waker(&stack.rung, key_of(number, Readiness::Write)),
            })
        }))
    }

    pub(super) fn associate(&mut self, socket: SocketHandle, to: &SocketAddress) -> Result<(), Errno> {
        let peer = self.destination(to)?;
        let End::Datagrams(datagrams) = self.end(socket)? else { return Err(Errno::NotSupported) };
        check_family(datagrams.six, peer)?;
        datagrams.peer = Some(peer);
        Ok(())
    }

    pub(super) fn receive_datagram(
        &mut self,
        socket: SocketHandle,
        to: &CheckedSlice<'_, u8>,
        peek: bool,
        from: Option<&mut SocketAddress>,
    ) -> Result<u64, Errno> {
        let End::Datagrams(datagrams) = self.end(socket)? else { return Err(Errno::NotSupported) };
        let (inner, peer, six) = (datagrams.inner, datagrams.peer, datagrams.six);
        let udp = self.sockets.get_mut::<Udp<'_>>(inner);
        loop {
            let (sender, bytes) = match udp.peek() {
                Ok((bytes, meta)) => (meta.endpoint, bytes),
                Err(_) => return Err(Errno::Again),
            };
            let for_us = peer.is_none_or(|peer| peer == sender) && matches!(sender.addr, IpAddress::Ipv6(_)) == six;
            let copied = match for_us {
                true => {
                    let now = bytes.len().min(to.len());
                    Some(to.write(&bytes[..now]).map(|()| now as u64))
                }
                false => None,
            };
            if !(peek && for_us) {
                // What does not fit is lost, as is what is not for us. There is one: it was just looked at.
                let _ = udp.recv();
            }
            if let Some(copied) = copied {
                if let Some(from) = from {
                    *from = address_of(sender);
                }
                return copied.map_err(Errno::from);
            }
        }
    }

    pub(super) fn send_datagram(
        &mut self,
        socket: SocketHandle,
        from: &CheckedSlice<'_, u8>,
        to: Option<&SocketAddress>,
    ) -> Result<u64, Errno> {
        let End::Datagrams(datagrams) = self.end(socket)? else { return Err(Errno::NotSupported) };
        let (inner, peer, broadcast, six) = (datagrams.inner, datagrams.peer, datagrams.broadcast, datagrams.six);
        let to = match to {
            Some(to) => self.destination(to)?,
            None => peer.ok_or(Errno::NoDestination)?,
        };
        check_family(six, to)?;
        // Only IPv4 has pieces here.
        let most = match to.addr {
            IpAddress::Ipv4(_) => DATAGRAM_MAX,
            IpAddress::Ipv6(_) => self.mtu() - IPV6_HEADERS,
        };
        if from.len() > most {
            return Err(Errno::MessageTooLong);
        }
        if to.addr.is_broadcast() && !broadcast {
            return Err(Errno::NotPermitted);
        }
        let udp = self.sockets.get_mut::<Udp<'_>>(inner);
        if !udp.can_send() {
            return Err(Errno::Again);
        }
        let room = match udp.send(from.len(), to) {
            Ok(room) => room,
            Err(SendError::BufferFull) => return Err(Errno::Again),
            Err(SendError::Unaddressable) => return Err(Errno::Invalid),
        };
        // If it cannot be copied, another content is sent: the datagram is already queued.
        match from.read_into(0, room) {
            Ok(()) => Ok(from.len() as u64),
            Err(refusal) => {
                room.fill(0);
                Err(refusal.into())
            }
        }
    }

    pub(super) fn datagram_ttl(&self, inner: Inner) -> u64 {
        self.sockets.get::<Udp<'_>>(inner).hop_limit().unwrap_or(TTL).into()
    }

    pub(super) fn set_datagram_ttl(&mut self, inner: Inner, ttl: u8) {
        self.sockets.get_mut::<Udp<'_>>(inner).set_hop_limit(Some(ttl));
    }
}
