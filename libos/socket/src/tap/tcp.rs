//! Connections and listeners.
//!
//! smoltcp's listening socket becomes the connection itself. So a listener here holds none: the first segment of each
//! connection gets a socket of its own, as long as not too many wait to be accepted.

use super::ends::{End, Listener, Stream, TTL, stands};
use super::stack::{Stack, address_of, now};
use super::{key_of, waker};
use alloc::vec;
use alloc::vec::Vec;
use monohull_abi::Errno;
use monohull_abi::network::{Readiness, SocketAddress, SocketEnd, SocketHandle, SocketOption, SocketShutdown};
use monohull_abi::user::CheckedSlice;
use smoltcp::iface::SocketHandle as Inner;
use smoltcp::socket::tcp::{CongestionControl, RecvError, Socket as Tcp, SocketBuffer, State};
use smoltcp::time::Duration;
use smoltcp::wire::{IpAddress, IpEndpoint, IpListenEndpoint};

/// How long the other side may keep silent while a connection is being made, or while a connection without a socket is
/// being ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long an acknowledgement may wait for an answer to travel with.
const ACK_DELAY: Duration = Duration::from_millis(1);
/// A socket that reads this many bytes at once receives a stream. Until it writes again, data is acknowledged at once: a sender takes
/// the wait for loss, or for a slow network.
const BULK: usize = 4 << 10;
/// This many keep-alive probes without an answer end the connection.
const UNANSWERED: u32 = 8;
/// Bytes of each of a connection's two buffers, when there are so many sockets.
fn buffer_size(open: usize) -> usize {
    match open {
        ..64 => 512 << 10,
        64..512 => 128 << 10,
        _ => 32 << 10,
    }
}

impl Stack {
    pub(super) fn listen(&mut self, _: u32, at: &SocketAddress, backlog: usize) -> Result<SocketHandle, Errno> {
        self.up()?;
        let (address, six) = (self.own_address(at)?, at.family == 6);
        let overlaps = move |end: &End, port: u16| match end {
            End::Listener(other) => {
                let same = other.address.is_none() || address.is_none() || other.address == address;
                other.port == port && other.six == six && same
            }
            _ => false,
        };
        let port = match at.port as u16 {
            0 => self.free_port(|stack, port| stack.port_is_used(port))?,
            port if self.all().any(|end| overlaps(end, port)) => return Err(Errno::AddressInUse),
            port => port,
        };
        let (pending, watched, ttl, keep_alive) = (Vec::new(), false, TTL, 0);
        let listener = Listener { address, six, port, backlog, pending, watched, ttl, keep_alive };
        Ok(self.insert(|_, _| End::Listener(listener)))
    }

    pub(super) fn connect(&mut self, owner: u32, to: &SocketAddress) -> Result<SocketHandle, Errno> {
        self.up()?;
        let peer = self.destination(to)?;
        let port = self.free_port(|stack, port| stack.port_is_used(port))?;
        let (mut socket, charge) = self.tcp_socket(owner)?;
        socket.set_timeout(Some(PATIENCE));
        if socket.connect(self.iface.context(), peer, port).is_err() {
            self.host.refund(owner, charge);
            return Err(Errno::NetworkUnreachable);
        }
        let inner = self.sockets.add(socket);
        Ok(self.insert_stream(inner, owner, charge, peer))
    }

    pub(super) fn connected(&mut self, socket: SocketHandle) -> Result<(), Errno> {
        let (inner, began) = match self.end(socket)? {
            End::Stream(stream) => (stream.inner, stream.began),
            _ => return Err(Errno::NotSupported),
        };
        let now = now(self.host);
        match self.sockets.get::<Tcp<'_>>(inner).state() {
            State::SynSent | State::SynReceived => Err(Errno::Again),
            State::Closed if now >= began + PATIENCE => Err(Errno::TimedOut),
            State::Closed => Err(Errno::ConnectionRefused),
            _ => {
                self.sockets.get_mut::<Tcp<'_>>(inner).set_timeout(None);
                if let End::Stream(stream) = self.end(socket)? {
                    stream.stood = true;
                }
                Ok(())
            }
        }
    }

    pub(super) fn accept(&mut self, owner: u32, socket: SocketHandle) -> Result<(SocketHandle, SocketAddress), Errno> {
        loop {
            self.up()?;
            let listener = match self.ends.get_mut(socket as usize) {
                Some(Some(End::Listener(listener))) => listener,
                Some(Some(End::Stream(_))) => return Err(Errno::Invalid),
                Some(Some(End::Datagrams(_))) => return Err(Errno::NotSupported),
                _ => return Err(Errno::BadDescriptor),
            };
            let found = listener.pending.iter().position(|inner| stands(self.sockets.get::<Tcp<'_>>(*inner).state()));
            let Some(found) = found else { return Err(Errno::Again) };
            let inner = listener.pending[found];
            let tcp = self.sockets.get_mut::<Tcp<'_>>(inner);
            let Some(peer) = tcp.remote_endpoint().filter(|_| tcp.state() != State::Closed) else {
                // It was closed before it was accepted.
                listener.pending.remove(found);
                self.sockets.remove(inner);
                continue;
            };
            let charge = 2 * tcp.recv_capacity() as u64;
            self.host.charge(owner, charge)?;
            tcp.set_timeout(None);
            tcp.set_hop_limit(Some(listener.ttl));
            keep_alive(tcp, listener.keep_alive);
            listener.pending.remove(found);
            return Ok((self.insert_stream(inner, owner, charge, peer), address_of(peer)));
        }
    }

    /// The first segment of a connection has arrived: whether it may go on.
    pub(super) fn admit_connection(&mut self, from: IpEndpoint, to: IpEndpoint) -> bool {
        let open = self.open;
        let takes = |end: &&mut End| matches!(end, End::Listener(listener) if listener.takes(to));
        let (sockets, ends) = (&mut self.sockets, &mut self.ends);
        let Some(End::Listener(listener)) = ends.iter_mut().flatten().find(takes) else { return true };
        // A first segment is given to smoltcp right after its socket was made. One that still waits for it was of a segment that smoltcp has
        // dropped, or of a connection that was reset: it would keep its place for ever.
        listener.pending.retain(|inner| {
            let is_left = sockets.get::<Tcp<'_>>(*inner).state() == State::Listen;
            if is_left {
                sockets.remove(*inner);
            }
            !is_left
        });
        let known = |inner: &Inner| sockets.get::<Tcp<'_>>(*inner).remote_endpoint() == Some(from);
        if listener.pending.iter().any(known) {
            return true;
        }
        if listener.pending.len() >= listener.backlog {
            return false;
        }
        let mut socket = new_socket(buffer_size(open + listener.pending.len()));
        socket.set_timeout(Some(PATIENCE));
        if socket.listen(IpListenEndpoint::from(to)).is_err() {
            return false;
        }
        listener.pending.push(sockets.add(socket));
        true
    }

    pub(super) fn receive(
        &mut self,
        socket: SocketHandle,
        to: &CheckedSlice<'_, u8>,
        peek: bool,
    ) -> Result<u64, Errno> {
        let (inner, deaf) = match self.end(socket)? {
            End::Stream(stream) => (stream.inner, stream.deaf),
            _ => return Err(Errno::NotConnected),
        };
        let tcp = self.sockets.get_mut::<Tcp<'_>>(inner);
        if tcp.state() == State::SynSent {
            return Err(Errno::Again);
        }
        let mut done = 0;
        while done < to.len() {
            let left = to.len() - done;
            let copied = match peek {
                // What is seen at once is what lies in one piece.
                true if done > 0 => break,
                true => tcp.peek(left).map(|bytes| (to.write_at(0, bytes), bytes.len())),
                false => tcp.recv(|bytes| {
                    let now = bytes.len().min(left);
                    let copied = to.write_at(done, &bytes[..now]);
                    // What could not be copied is still there.
                    (if copied.is_ok() { now } else { 0 }, (copied, now))
                }),
            };
            match copied {
                Ok((Ok(()), 0)) => break,
                Ok((Ok(()), bytes)) => done += bytes,
                Ok((Err(refusal), _)) => return Err(refusal.into()),
                Err(_) if done > 0 => break,
                Err(RecvError::Finished) => return Ok(0),
                Err(RecvError::InvalidState) => return self.lost(socket),
            }
        }
        if !peek && done >= BULK {
            tcp.set_ack_delay(None);
        }
        match done {
            0 if deaf => Ok(0),
            0 => Err(Errno::Again),
            done => Ok(done as u64),
        }
    }

    pub(super) fn send(&mut self, socket: SocketHandle, from: &CheckedSlice<'_, u8>) -> Result<u64, Errno> {
        let inner = match self.end(socket)? {
            End::Stream(stream) => stream.inner,
            _ => return Err(Errno::BrokenPipe),
        };
        let tcp = self.sockets.get_mut::<Tcp<'_>>(inner);
        if tcp.state() == State::SynSent {
            return Err(Errno::Again);
        }
        let mut done = 0;
        while done < from.len() {
            let copied = tcp.send(|room| {
                let now = room.len().min(from.len() - done);
                let copied = from.read_into(done, &mut room[..now]);
                (if copied.is_ok() { now } else { 0 }, (copied, now))
            });
            match copied {
                Ok((Ok(()), 0)) => break,
                Ok((Ok(()), bytes)) => done += bytes,
                Ok((Err(refusal), _)) => return Err(refusal.into()),
                Err(_) if done > 0 => break,
                Err(_) if tcp.state() != State::Closed || matches!(tcp.peek(1), Err(RecvError::Finished)) => {
                    return Err(Errno::BrokenPipe);
                }
                Err(_) => return self.lost(socket).and(Err(Errno::BrokenPipe)),
            }
        }
        tcp.set_ack_delay(Some(ACK_DELAY));
        if done == 0 && !from.is_empty() { Err(Errno::Again) } else { Ok(done as u64) }
    }

    /// The connection has ended: reported once as reset, then reads return the end.
    fn lost(&mut self, socket: SocketHandle) -> Result<u64, Errno> {
        match self.end(socket)? {
            End::Stream(stream) if !stream.reported && !stream.deaf => {
                stream.reported = true;
                Err(Errno::ConnectionReset)
            }
            _ => Ok(0),
        }
    }

    pub(super) fn shutdown(&mut self, socket: SocketHandle, how: SocketShutdown) -> Result<(), Errno> {
        let (inner, read) = match self.end(socket)? {
            End::Stream(stream) => {
                stream.deaf |= how != SocketShutdown::Write;
                (stream.inner, stream.read.clone())
            }
            _ => return Err(Errno::NotConnected),
        };
        let tcp = self.sockets.get_mut::<Tcp<'_>>(inner);
        if matches!(tcp.state(), State::Closed) {
            return Err(Errno::NotConnected);
        }
        if how != SocketShutdown::Read {
            tcp.close();
        }
        read.wake_by_ref();
        Ok(())
    }

    /// The connection has no socket any more.
    pub(super) fn part(&mut self, inner: Inner) {
        let tcp = self.sockets.get_mut::<Tcp<'_>>(inner);
        tcp.set_timeout(Some(PATIENCE));
        match tcp.recv_queue() {
            0 => tcp.close(),
            // The peer has sent data that will not be read, and gets a reset.
            _ => tcp.abort(),
        }
        self.departing.push(inner);
    }

    pub(super) fn name(&mut self, socket: SocketHandle, end: SocketEnd) -> Result<SocketAddress, Errno> {
        let named = match (self.end(socket)?, end) {
            (End::Stream(stream), SocketEnd::Local) => address_of(stream.local),
            (End::Stream(stream), SocketEnd::Peer) => address_of(stream.peer),
            (End::Listener(listener), SocketEnd::Local) => any_address(listener.address, listener.six, listener.port),
            (End::Listener(_), SocketEnd::Peer) => return Err(Errno::NotConnected),
            (End::Datagrams(datagrams), SocketEnd::Local) => {
                any_address(datagrams.address, datagrams.six, datagrams.port)
            }
            (End::Datagrams(datagrams), SocketEnd::Peer) => address_of(datagrams.peer.ok_or(Errno::NotConnected)?),
        };
        Ok(named)
    }

    pub(super) fn get(&mut self, socket: SocketHandle, option: SocketOption) -> Result<u64, Errno> {
        let inner = match self.end(socket)? {
            End::Stream(stream) => stream.inner,
            End::Datagrams(datagrams) => {
                let (inner, broadcast) = (datagrams.inner, datagrams.broadcast);
                return match option {
                    SocketOption::Ttl => Ok(self.datagram_ttl(inner)),
                    SocketOption::Broadcast => Ok(broadcast.into()),
                    SocketOption::Error => Ok(0),
                    _ => Err(Errno::NotSupported),
                };
            }
            End::Listener(listener) => {
                return match option {
                    SocketOption::Ttl => Ok(listener.ttl.into()),
                    SocketOption::KeepAlive => Ok(listener.keep_alive),
                    SocketOption::Error => Ok(0),
                    _ => Err(Errno::NotSupported),
                };
            }
        };
        let tcp = self.sockets.get::<Tcp<'_>>(inner);
        match option {
            SocketOption::NoDelay => Ok((!tcp.nagle_enabled()).into()),
            SocketOption::Ttl => Ok(tcp.hop_limit().unwrap_or(TTL).into()),
            SocketOption::KeepAlive => Ok(tcp.keep_alive().map_or(0, |time| time.total_micros().saturating_mul(1000))),
            SocketOption::Error => self.error_of(socket),
            _ => Err(Errno::NotSupported),
        }
    }

    /// Why a connection without a waiting thread has failed; reported once.
    fn error_of(&mut self, socket: SocketHandle) -> Result<u64, Errno> {
        match self.end(socket)? {
            End::Stream(stream) if !stream.stood && !stream.reported => {}
            _ => return Ok(0),
        }
        match self.connected(socket) {
            Ok(()) | Err(Errno::Again) => Ok(0),
            Err(errno) => {
                if let End::Stream(stream) = self.end(socket)? {
                    stream.reported = true;
                }
                Ok(errno as u64)
            }
        }
    }

    pub(super) fn set(&mut self, socket: SocketHandle, option: SocketOption, value: u64) -> Result<(), Errno> {
        let inner = match self.end(socket)? {
            End::Stream(stream) => stream.inner,
            End::Datagrams(datagrams) => {
                let inner = datagrams.inner;
                match option {
                    SocketOption::Ttl => self.set_datagram_ttl(inner, value as u8),
                    SocketOption::Broadcast => datagrams.broadcast = value == 1,
                    _ => return Err(Errno::NotSupported),
                }
                return Ok(());
            }
            End::Listener(listener) => {
                match option {
                    SocketOption::Ttl => listener.ttl = value as u8,
                    SocketOption::KeepAlive => listener.keep_alive = value,
                    _ => return Err(Errno::NotSupported),
                }
                return Ok(());
            }
        };
        let tcp = self.sockets.get_mut::<Tcp<'_>>(inner);
        match option {
            SocketOption::NoDelay => tcp.set_nagle_enabled(value == 0),
            SocketOption::Ttl => tcp.set_hop_limit(Some(value as u8)),
            SocketOption::KeepAlive => keep_alive(tcp, value),
            _ => return Err(Errno::NotSupported),
        }
        Ok(())
    }

    fn tcp_socket(&mut self, owner: u32) -> Result<(Tcp<'static>, u64), Errno> {
        let size = buffer_size(self.open);
        let charge = 2 * size as u64;
        self.host.charge(owner, charge)?;
        Ok((new_socket(size), charge))
    }

    fn insert_stream(&mut self, inner: Inner, owner: u32, charge: u64, peer: IpEndpoint) -> SocketHandle {
        let began = now(self.host);
        let local = self.sockets.get::<Tcp<'_>>(inner).local_endpoint().unwrap_or(peer);
        self.insert(|stack, number| {
            End::Stream(Stream {
                inner,
                owner,
                charge,
                read: waker(&stack.rung, key_of(number, Readiness::Read)),
                write: waker(&stack.rung, key_of(number, Readiness::Write)),
                deaf: false,
                reported: false,
                stood: false,
                began,
                local,
                peer,
            })
        })
    }

    fn port_is_used(&self, port: u16) -> bool {
        let used = |end: &End| match end {
            End::Listener(listener) => listener.port == port,
            End::Stream(stream) => stream.local.port == port,
            End::Datagrams(_) => false,
        };
        let departing =
            |inner: &Inner| self.sockets.get::<Tcp<'_>>(*inner).local_endpoint().is_some_and(|l| l.port == port);
        self.all().any(used) || self.departing.iter().any(departing)
    }
}

/// After so much silence (in ns; 0 is never) the other side is asked whether it is there.
fn keep_alive(tcp: &mut Tcp<'static>, silence: u64) {
    let time = Duration::from_micros((silence / 1000).clamp(1_000_000, u64::MAX >> 8));
    let time = Some(time).filter(|_| silence > 0);
    tcp.set_keep_alive(time);
    // Unanswered probes end the connection.
    tcp.set_timeout(time.map(|time| time * UNANSWERED));
}

fn new_socket(size: usize) -> Tcp<'static> {
    let mut socket = Tcp::new(SocketBuffer::new(vec![0; size]), SocketBuffer::new(vec![0; size]));
    socket.set_congestion_control(CongestionControl::Reno);
    socket.set_ack_delay(Some(ACK_DELAY));
    socket
}

/// An own address as functions see it.
fn any_address(address: Option<IpAddress>, six: bool, port: u16) -> SocketAddress {
    let any = if six { IpAddress::v6(0, 0, 0, 0, 0, 0, 0, 0) } else { IpAddress::v4(0, 0, 0, 0) };
    address_of(IpEndpoint::new(address.unwrap_or(any), port))
}
