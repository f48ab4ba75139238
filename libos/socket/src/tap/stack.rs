//! smoltcp with everything around it: its sockets by our numbers, time, frames in and out.

use super::ends::End;
use super::frames::{Frames, transport};
use super::names::{Names, Over};
use super::{NAMES, Rung, key_of};
use alloc::sync::Arc;
use alloc::vec::Vec;
use monohull_abi::Errno;
use monohull_abi::module::NEVER;
use monohull_abi::network::{Readiness, SocketAddress, SocketHandle, TapConfig};
use monohull_module::HostRef;
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle as Inner, SocketSet};
use smoltcp::socket::tcp::{Socket as Tcp, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr, IpEndpoint, IpProtocol, Ipv4Address, Ipv6Address, TcpPacket};

/// Frames taken from the device at once, so that functions get their turn.
const FRAMES_AT_ONCE: usize = 16;
/// Frames that each socket sends at once, for the same reason; the longest datagram has fewer pieces.
const ROUNDS_AT_ONCE: usize = 64;
/// Closed connections that are kept for what still arrives of them.
const DEPARTED_MAX: usize = 64;
/// Ports that are given to sockets that asked for none.
const FREE_PORTS: core::ops::Range<u32> = 32_768..61_000;
const NS_PER_US: u64 = 1_000;

pub(super) struct Stack {
    pub(super) host: HostRef,
    pub(super) rung: Arc<Rung>,
    frames: Frames,
    pub(super) iface: Interface,
    pub(super) sockets: SocketSet<'static>,
    pub(super) ends: Vec<Option<End>>,
    free: Vec<SocketHandle>,
    /// How many sockets there are: what each gets of memory depends on it.
    pub(super) open: usize,
    /// Connections that no function has any more, until they have ended.
    pub(super) departing: Vec<Inner>,
    pub(super) names: Names,
    next_port: u32,
}

impl Stack {
    pub(super) fn new(host: HostRef, config: &TapConfig, rung: Arc<Rung>) -> Stack {
        let mut frames = Frames::new(host.network(), config.mtu as usize);
        let mut own = Config::new(EthernetAddress(config.mac).into());
        own.random_seed = u64::from(config.seed[0]) << 32 | u64::from(config.seed[1]);
        let mut iface = Interface::new(own, &mut frames, now(host));
        let (v4, v6) = (Ipv4Address::from(config.address4), Ipv6Address::from(config.address6));
        iface.update_ip_addrs(|addresses| {
            // There is room for four.
            if !v4.is_unspecified() {
                let _ = addresses.push(IpCidr::new(v4.into(), config.prefix4.min(32) as u8));
            }
            if !v6.is_unspecified() {
                let _ = addresses.push(IpCidr::new(v6.into(), config.prefix6.min(128) as u8));
            }
        });
        let routes = iface.routes_mut();
        if !v4.is_unspecified() {
            let _ = routes.add_default_ipv4_route(config.gateway4.into());
        }
        if !v6.is_unspecified() {
            let _ = routes.add_default_ipv6_route(config.gateway6.into());
        }
        let mut sockets = SocketSet::new(Vec::new());
        let names = Names::new(&mut sockets, config);
        Stack {
            host,
            rung,
            frames,
            iface,
            sockets,
            ends: Vec::new(),
            free: Vec::new(),
            open: 0,
            departing: Vec::new(),
            names,
            next_port: config.seed[0] % (FREE_PORTS.end - FREE_PORTS.start),
        }
    }

    /// Moves frames in both directions, as many as there are up to a limit, and asks to be called again when it is time.
    pub(super) fn turn(&mut self) {
        self.take_in();
        self.send_off();
    }

    /// Takes frames from the device, as many as there are up to a limit. Replies are sent by
    /// [`send_off`](Self::send_off).
    pub(super) fn take_in(&mut self) {
        let now = now(self.host);
        self.frames.stuck = false;
        self.iface.poll_maintenance(now);
        for _ in 0..FRAMES_AT_ONCE {
            if !self.frames.fetch() {
                break;
            }
            if self.admit() {
                self.iface.poll_ingress_single(now, &mut self.frames, &mut self.sockets);
            }
            self.frames.drop_arrived();
        }
        self.tidy();
        self.wake_waiters();
    }

    /// Sends what can be sent, up to a limit, and sets the alarm.
    pub(super) fn send_off(&mut self) {
        let now = now(self.host);
        for _ in 0..ROUNDS_AT_ONCE {
            let sent = self.iface.poll_egress(now, &mut self.frames, &mut self.sockets) != PollResult::None;
            // Pieces of a datagram do not count as sent, but more of them are due at once.
            let due = sent || self.iface.poll_at(now, &self.sockets).is_some_and(|at| at <= now);
            if !due || self.frames.stuck {
                break;
            }
        }
        if self.names.resolve(&mut self.sockets, Over::Unanswered) {
            self.rung.ring(NAMES);
        }
        let at = match self.iface.poll_at(now, &self.sockets) {
            _ if self.frames.gone => NEVER,
            // There is no room in the device, and no event when there is.
            Some(_) if self.frames.stuck => self.host.now() + 1_000_000,
            Some(at) => {
                u64::try_from(at.total_micros()).unwrap_or(0).saturating_mul(NS_PER_US).max(self.host.now() + 1)
            }
            None => NEVER,
        };
        self.host.network().alarm(at);
    }

    /// Whether smoltcp gets the frame that has arrived. A connection to a listener gets a socket first; if the listener has
    /// no room for it the frame is dropped, and the other side tries again.
    fn admit(&mut self) -> bool {
        let Some((from, to, IpProtocol::Tcp, segment)) = transport(self.frames.arrived()) else { return true };
        let Ok(packet) = TcpPacket::new_checked(segment) else { return true };
        if !packet.syn() || packet.ack() {
            return true;
        }
        let (from, to) = (IpEndpoint::new(from, packet.src_port()), IpEndpoint::new(to, packet.dst_port()));
        self.admit_connection(from, to)
    }

    /// Removes sockets whose connection has ended.
    fn tidy(&mut self) {
        let sockets = &mut self.sockets;
        let mut waiting = 0;
        // The newest stay, for what may still arrive.
        for index in (0..self.departing.len()).rev() {
            let state = sockets.get::<Tcp<'_>>(self.departing[index]).state();
            let over = match state {
                State::Closed => true,
                State::TimeWait => {
                    waiting += 1;
                    waiting > DEPARTED_MAX
                }
                _ => false,
            };
            if over {
                sockets.remove(self.departing.swap_remove(index));
            }
        }
    }

    /// Wakes the waiters for events that smoltcp does not signal.
    fn wake_waiters(&mut self) {
        if self.frames.gone {
            for number in 0..self.ends.len() as SocketHandle {
                self.rung.ring(key_of(number, Readiness::Read));
                self.rung.ring(key_of(number, Readiness::Write));
            }
            self.rung.ring(NAMES);
            return;
        }
        for (number, end) in (0..).zip(&self.ends) {
            if let Some(End::Listener(listener)) = end
                && listener.watched
                && listener.waiting(&self.sockets)
            {
                self.rung.ring(key_of(number, Readiness::Read));
            }
        }
        if self.names.resolve(&mut self.sockets, Over::Answered) {
            self.rung.ring(NAMES);
        }
    }

    /// Whether something that functions have written is still here, or the other side does not know yet that it has ended.
    pub(super) fn is_busy(&self) -> bool {
        let unsent = |socket: &Inner| {
            let socket = self.sockets.get::<Tcp<'_>>(*socket);
            matches!(socket.state(), State::FinWait1 | State::Closing | State::LastAck | State::SynReceived)
                || socket.state() == State::Closed && socket.remote_endpoint().is_some()
        };
        self.up().is_ok() && self.departing.iter().any(unsent)
    }

    /// The most bytes of a packet.
    pub(super) fn mtu(&self) -> usize {
        self.frames.mtu
    }

    /// Refuses all calls once the device was removed.
    pub(super) fn up(&self) -> Result<(), Errno> {
        if self.frames.gone { Err(Errno::NetworkDown) } else { Ok(()) }
    }

    pub(super) fn end(&mut self, socket: SocketHandle) -> Result<&mut End, Errno> {
        self.up()?;
        self.ends.get_mut(socket as usize).and_then(Option::as_mut).ok_or(Errno::BadDescriptor)
    }

    /// A number for the socket that `make` makes of it.
    pub(super) fn insert(&mut self, make: impl FnOnce(&mut Stack, SocketHandle) -> End) -> SocketHandle {
        let number = self.free.pop().unwrap_or_else(|| {
            self.ends.push(None);
            self.ends.len() as SocketHandle - 1
        });
        let end = make(self, number);
        self.ends[number as usize] = Some(end);
        self.open += 1;
        number
    }

    /// Closes a socket. What a connection has not sent yet it still sends.
    pub(super) fn close(&mut self, socket: SocketHandle) {
        let Some(end) = self.ends.get_mut(socket as usize).and_then(Option::take) else { return };
        self.free.push(socket);
        self.open -= 1;
        let (owner, charge) = match end {
            End::Stream(stream) => {
                self.part(stream.inner);
                (stream.owner, stream.charge)
            }
            End::Listener(listener) => {
                for inner in listener.pending {
                    self.sockets.get_mut::<Tcp<'_>>(inner).abort();
                    self.departing.push(inner);
                }
                return;
            }
            End::Datagrams(datagrams) => {
                self.send_off();
                self.sockets.remove(datagrams.inner);
                (datagrams.owner, datagrams.charge)
            }
        };
        self.host.refund(owner, charge);
    }

    /// Whether a socket is ready; if not, its waiters are woken when it is.
    pub(super) fn watch(&mut self, socket: SocketHandle, readiness: Readiness) -> bool {
        let gone = self.frames.gone;
        let Some(Some(end)) = self.ends.get_mut(socket as usize) else { return true };
        match end {
            _ if gone => true,
            End::Stream(stream) => stream.watch(&mut self.sockets, readiness),
            End::Datagrams(datagrams) => datagrams.watch(&mut self.sockets, readiness),
            End::Listener(listener) => {
                listener.watched = true;
                listener.waiting(&self.sockets)
            }
        }
    }

    /// The address to be bound to: our own, or any (`None`).
    pub(super) fn own_address(&self, at: &SocketAddress) -> Result<Option<IpAddress>, Errno> {
        let at = at.decode().ok_or(Errno::Invalid)?.ip();
        match at {
            _ if at.is_unspecified() => Ok(None),
            at if self.iface.has_ip_addr(IpAddress::from(at)) => Ok(Some(at.into())),
            _ => Err(Errno::AddressNotAvailable),
        }
    }

    /// Where connections and datagrams go. There is no peer at the loopback addresses: what is sent there would not come
    /// back.
    pub(super) fn destination(&self, to: &SocketAddress) -> Result<IpEndpoint, Errno> {
        let to = endpoint_of(to)?;
        let oneself = to.addr.is_unspecified()
            || core::net::IpAddr::from(to.addr).is_loopback()
            || self.iface.has_ip_addr(to.addr);
        // Without an address of its own in IPv6, smoltcp would send from the loopback address.
        let source = || self.iface.get_source_address(&to.addr).map(core::net::IpAddr::from);
        if oneself || source().is_none_or(|source| source.is_loopback()) {
            return Err(Errno::NetworkUnreachable);
        }
        Ok(to)
    }

    /// An unused port.
    pub(super) fn free_port(&mut self, used: impl Fn(&Stack, u16) -> bool) -> Result<u16, Errno> {
        let count = FREE_PORTS.end - FREE_PORTS.start;
        for _ in 0..count {
            self.next_port = (self.next_port + 1) % count;
            let port = (FREE_PORTS.start + self.next_port) as u16;
            if !used(self, port) {
                return Ok(port);
            }
        }
        Err(Errno::AddressInUse)
    }

    /// All sockets, unchangeable.
    pub(super) fn all(&self) -> impl Iterator<Item = &End> {
        self.ends.iter().flatten()
    }
}

/// An address as functions have it.
pub(super) fn address_of(endpoint: IpEndpoint) -> SocketAddress {
    core::net::SocketAddr::new(endpoint.addr.into(), endpoint.port).into()
}

/// An address as smoltcp has it.
pub(super) fn endpoint_of(address: &SocketAddress) -> Result<IpEndpoint, Errno> {
    let address = address.decode().ok_or(Errno::Invalid)?;
    Ok(IpEndpoint::new(address.ip().into(), address.port()))
}

pub(super) fn now(host: HostRef) -> Instant {
    Instant::from_micros((host.now() / NS_PER_US) as i64)
}
