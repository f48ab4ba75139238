//! `udp-create-socket` and `udp`. A socket of the system is there from `start-bind` on.

use super::super::poll::Pollable;
use super::super::readiness::{Readable, Writable};
use super::super::{Caller, State as Program, resource};
use super::address::{ErrorCode, Family, IpSocketAddress};
use super::options::{self, Optioned, Options};
use super::shared::{Shared, asked, directed};
use crate::errno::WasiError;
use crate::sockets::{self, Socket, WRITE};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::result::Result as Answer;
use monohull_abi::network::{DATAGRAM_MAX, SocketEnd};
use wasmtime::component::{ComponentType, Lift, Linker, LinkerInstance, Lower, Resource};
use wasmtime::{Result, ensure};

/// Most datagrams of one call.
const TOGETHER: u64 = 16;

/// A socket, as far as it has come.
struct Udp {
    family: Family,
    state: State,
    options: Options,
}

enum State {
    Unbound,
    /// The program does not know yet.
    Binding(Arc<Socket>),
    /// With its peer, if it has one.
    Bound(Arc<Socket>, Option<SocketAddr>),
}

type UdpSocket = Shared<Udp>;
type This = (Resource<UdpSocket>,);

/// Datagrams of a socket, with its family and its peer.
struct Incoming {
    socket: Arc<Socket>,
    peer: Option<SocketAddr>,
}

struct Outgoing {
    socket: Arc<Socket>,
    family: Family,
    peer: Option<SocketAddr>,
    /// How many it has said that it takes.
    permitted: u64,
}

#[derive(ComponentType, Lift, Lower)]
#[component(record)]
struct IncomingDatagram {
    data: Vec<u8>,
    #[component(name = "remote-address")]
    from: IpSocketAddress,
}

#[derive(ComponentType, Lift, Lower)]
#[component(record)]
struct OutgoingDatagram {
    data: Vec<u8>,
    #[component(name = "remote-address")]
    to: Option<IpSocketAddress>,
}

impl Optioned for Udp {
    fn options(&mut self) -> &mut Options {
        &mut self.options
    }

    fn system(&self) -> Option<Arc<Socket>> {
        match &self.state {
            State::Unbound => None,
            State::Binding(socket) | State::Bound(socket, _) => Some(Arc::clone(socket)),
        }
    }
}

impl Udp {
    fn start_bind(&mut self, address: IpSocketAddress) -> Answer<(), ErrorCode> {
        match self.state {
            State::Unbound => {}
            State::Binding(_) => return Err(ErrorCode::ConcurrencyConflict),
            State::Bound(..) => return Err(ErrorCode::InvalidState),
        }
        let socket = Socket::bind(self.family.own(address)?)?;
        socket.set_non_blocking(true)?;
        self.options.apply(&socket)?;
        self.state = State::Binding(Arc::new(socket));
        Ok(())
    }

    fn finish_bind(&mut self) -> Answer<(), ErrorCode> {
        let State::Binding(socket) = &self.state else { return Err(ErrorCode::NotInProgress) };
        self.state = State::Bound(Arc::clone(socket), None);
        Ok(())
    }

    fn stream(&mut self, to: Option<IpSocketAddress>) -> Answer<(Incoming, Outgoing), ErrorCode> {
        let family = self.family;
        let State::Bound(socket, peer) = &mut self.state else { return Err(ErrorCode::InvalidState) };
        match to {
            Some(to) => {
                let to = family.remote(to)?;
                socket.associate(to)?;
                *peer = Some(to);
            }
            // The system gives a socket another peer, and none does not go.
            None if peer.is_some() => return Err(ErrorCode::NotSupported),
            None => {}
        }
        let (socket, peer) = (Arc::clone(socket), *peer);
        let outgoing = Outgoing { socket: Arc::clone(&socket), family, peer, permitted: 0 };
        Ok((Incoming { socket, peer }, outgoing))
    }

    fn local_address(&mut self) -> Answer<IpSocketAddress, ErrorCode> {
        match &self.state {
            State::Bound(socket, _) => Ok(socket.address(SocketEnd::Local)?.into()),
            _ => Err(ErrorCode::InvalidState),
        }
    }

    fn remote_address(&mut self) -> Answer<IpSocketAddress, ErrorCode> {
        match self.state {
            State::Bound(_, Some(peer)) => Ok(peer.into()),
            _ => Err(ErrorCode::InvalidState),
        }
    }
}

impl Incoming {
    /// What has come; at most so many.
    fn receive(&self, most: u64) -> Answer<Vec<IncomingDatagram>, ErrorCode> {
        let mut received = Vec::new();
        let most = most.min(TOGETHER) as usize;
        let mut buffer = vec![0; if most == 0 { 0 } else { DATAGRAM_MAX }];
        while received.len() < most {
            match self.socket.receive_from(&mut buffer) {
                // What came from others before there was a peer.
                Ok((_, from)) if self.peer.is_some_and(|peer| peer != from) => {}
                Ok((len, from)) => received.push(IncomingDatagram { data: buffer[..len].to_vec(), from: from.into() }),
                Err(WasiError::AGAIN) => break,
                Err(_) if !received.is_empty() => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(received)
    }
}

impl Outgoing {
    fn check(&mut self) -> Answer<u64, ErrorCode> {
        let has_room = sockets::wait(&[(&self.socket, WRITE)], 0)? != [0];
        self.permitted = if has_room { TOGETHER } else { 0 };
        Ok(self.permitted)
    }

    /// Sends as many as it can.
    fn send(&mut self, datagrams: &[OutgoingDatagram]) -> Answer<u64, ErrorCode> {
        let mut sent = 0;
        for datagram in datagrams {
            match self.send_one(datagram) {
                Ok(()) => sent += 1,
                Err(ErrorCode::WouldBlock) => break,
                Err(_) if sent > 0 => break,
                Err(error) => return Err(error),
            }
        }
        self.permitted -= sent;
        Ok(sent)
    }

    fn send_one(&self, datagram: &OutgoingDatagram) -> Answer<(), ErrorCode> {
        let to = datagram.to.map(|to| self.family.remote(to)).transpose()?;
        if datagram.data.len() > DATAGRAM_MAX {
            return Err(ErrorCode::DatagramTooLarge);
        }
        match (self.peer, to) {
            (Some(peer), to) if to.is_none_or(|to| to == peer) => Ok(self.socket.send(&datagram.data).map(drop)?),
            (None, Some(to)) => Ok(self.socket.send_to(&datagram.data, to)?),
            _ => Err(ErrorCode::InvalidArgument),
        }
    }
}

pub(super) fn link(linker: &mut Linker<Program>) -> Result<()> {
    let mut create = linker.instance("wasi:sockets/udp-create-socket@0.2.0")?;
    create.func_wrap("create-udp-socket", |mut caller: Caller<'_>, (family,): (Family,)| {
        if !sockets::are_granted() {
            return Ok((Err(ErrorCode::AccessDenied),));
        }
        let socket = Shared::new(Udp { family, state: State::Unbound, options: Options::default() });
        Ok((Ok(caller.data_mut().table.push(socket)?),))
    })?;
    let mut udp = linker.instance("wasi:sockets/udp@0.2.0")?;
    resource::<UdpSocket>(&mut udp, "udp-socket")?;
    directed(&mut udp, "[method]udp-socket.start-bind", Udp::start_bind)?;
    asked(&mut udp, "[method]udp-socket.finish-bind", Udp::finish_bind)?;
    type Peer = (Resource<UdpSocket>, Option<IpSocketAddress>);
    udp.func_wrap("[method]udp-socket.stream", |mut caller: Caller<'_>, (this, peer): Peer| {
        let table = &mut caller.data_mut().table;
        let streams = table.get(&this)?.lock().stream(peer);
        Ok((match streams {
            Ok((incoming, outgoing)) => Ok((table.push(incoming)?, table.push(outgoing)?)),
            Err(error) => Err(error),
        },))
    })?;
    asked(&mut udp, "[method]udp-socket.local-address", Udp::local_address)?;
    asked(&mut udp, "[method]udp-socket.remote-address", Udp::remote_address)?;
    asked(&mut udp, "[method]udp-socket.address-family", |udp: &mut Udp| udp.family)?;
    options::common::<Udp>(&mut udp, "udp-socket", "unicast-hop-limit")?;
    // No call of it waits.
    udp.func_wrap("[method]udp-socket.subscribe", |mut caller: Caller<'_>, (_,): This| {
        Ok((caller.data_mut().table.push(Pollable::Ready)?,))
    })?;
    datagrams(&mut udp)
}

/// The streams.
fn datagrams(udp: &mut LinkerInstance<'_, Program>) -> Result<()> {
    resource::<Incoming>(udp, "incoming-datagram-stream")?;
    udp.func_wrap(
        "[method]incoming-datagram-stream.receive",
        |caller: Caller<'_>, (this, most): (Resource<Incoming>, u64)| {
            Ok((caller.data().table.get(&this)?.receive(most),))
        },
    )?;
    udp.func_wrap(
        "[method]incoming-datagram-stream.subscribe",
        |mut caller: Caller<'_>, (this,): (Resource<Incoming>,)| {
            let table = &mut caller.data_mut().table;
            let socket = Arc::clone(&table.get(&this)?.socket);
            Ok((table.push(Pollable::Socket(Arc::new(Readable(socket))))?,))
        },
    )?;
    resource::<Outgoing>(udp, "outgoing-datagram-stream")?;
    udp.func_wrap(
        "[method]outgoing-datagram-stream.check-send",
        |mut caller: Caller<'_>, (this,): (Resource<Outgoing>,)| Ok((caller.data_mut().table.get_mut(&this)?.check(),)),
    )?;
    type Sent = (Resource<Outgoing>, Vec<OutgoingDatagram>);
    udp.func_wrap("[method]outgoing-datagram-stream.send", |mut caller: Caller<'_>, (this, datagrams): Sent| {
        let stream = caller.data_mut().table.get_mut(&this)?;
        let [count, permitted] = [datagrams.len() as u64, stream.permitted];
        ensure!(count <= permitted, "{count} datagrams were to be sent, and {permitted} may be (`check-send`)");
        Ok((stream.send(&datagrams),))
    })?;
    udp.func_wrap(
        "[method]outgoing-datagram-stream.subscribe",
        |mut caller: Caller<'_>, (this,): (Resource<Outgoing>,)| {
            let table = &mut caller.data_mut().table;
            let socket = Arc::clone(&table.get(&this)?.socket);
            Ok((table.push(Pollable::Socket(Arc::new(Writable(socket))))?,))
        },
    )
}
