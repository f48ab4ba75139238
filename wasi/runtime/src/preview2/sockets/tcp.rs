//! `tcp-create-socket` and `tcp`.
//!
//! The system has a socket that connects or listens, and nothing before. So an address that a socket is bound to is kept until then:
//!
//! ```text
//!   unbound ── start-bind ──▶ binding ── finish-bind ──▶ bound ── start-listen ──▶ (socket) ── finish-listen ──▶ listening
//!      │                                                   │                                                     accept
//!      └────────────────────┬──────────────────────────────┘                                                        ▼
//!                     start-connect ──▶ connecting (socket) ── finish-connect ─────────────────────────────────▶ connected
//!                                            └──────────────── refused ──▶ closed
//! ```

use super::super::connection::Connection;
use super::super::poll::Pollable;
use super::super::readiness::Readiness;
use super::super::streams::{InputStream, OutputStream};
use super::super::{Caller, State as Program, resource};
use super::address::{ErrorCode, Family, IpSocketAddress, ShutdownType};
use super::options::{self, Optioned, Options};
use super::shared::{Shared, asked, directed, told};
use crate::sockets::{self, READ, Socket, WRITE};
use alloc::sync::Arc;
use core::mem;
use core::net::SocketAddr;
use core::result::Result as Answer;
use monohull_abi::network::{BACKLOG_MAX, SocketEnd};
use wasmtime::Result;
use wasmtime::component::{Linker, Resource, ResourceTable};

/// A socket, as far as it has come.
struct Tcp {
    family: Family,
    state: State,
    options: Options,
    backlog: u64,
}

enum State {
    Unbound,
    Binding(SocketAddr),
    Bound(SocketAddr),
    /// It listens, and the program does not know yet.
    Opening(Arc<Socket>),
    Listening(Arc<Socket>),
    Connecting(Arc<Socket>),
    Connected(Arc<Connection>),
    Closed,
}

type TcpSocket = Shared<Tcp>;
type This = (Resource<TcpSocket>,);

impl Optioned for Tcp {
    fn options(&mut self) -> &mut Options {
        &mut self.options
    }

    fn system(&self) -> Option<Arc<Socket>> {
        match &self.state {
            State::Opening(socket) | State::Listening(socket) | State::Connecting(socket) => Some(Arc::clone(socket)),
            State::Connected(connection) => Some(Arc::clone(connection.socket())),
            State::Unbound | State::Binding(_) | State::Bound(_) | State::Closed => None,
        }
    }
}

/// What the next call of the program would have to wait for.
impl Readiness for TcpSocket {
    fn awaits(&self) -> Option<(Arc<Socket>, u32)> {
        match &self.lock().state {
            State::Listening(socket) => Some((Arc::clone(socket), READ)),
            State::Connecting(socket) => Some((Arc::clone(socket), WRITE)),
            _ => None,
        }
    }
}

impl Tcp {
    fn new(family: Family, state: State, options: Options) -> TcpSocket {
        Shared::new(Tcp { family, state, options, backlog: BACKLOG_MAX })
    }

    /// Why something cannot begin now.
    fn cannot_begin(&self) -> ErrorCode {
        match self.state {
            State::Binding(_) | State::Opening(_) | State::Connecting(_) => ErrorCode::ConcurrencyConflict,
            _ => ErrorCode::InvalidState,
        }
    }

    fn start_bind(&mut self, address: IpSocketAddress) -> Answer<(), ErrorCode> {
        let State::Unbound = self.state else { return Err(self.cannot_begin()) };
        self.state = State::Binding(self.family.own(address)?);
        Ok(())
    }

    fn finish_bind(&mut self) -> Answer<(), ErrorCode> {
        let State::Binding(address) = self.state else { return Err(ErrorCode::NotInProgress) };
        self.state = State::Bound(address);
        Ok(())
    }

    fn start_listen(&mut self) -> Answer<(), ErrorCode> {
        let State::Bound(address) = self.state else { return Err(self.cannot_begin()) };
        let socket = Socket::listen_for(address, self.backlog)?;
        socket.set_non_blocking(true)?;
        self.options.apply(&socket)?;
        self.state = State::Opening(Arc::new(socket));
        Ok(())
    }

    fn finish_listen(&mut self) -> Answer<(), ErrorCode> {
        let State::Opening(socket) = &self.state else { return Err(ErrorCode::NotInProgress) };
        self.state = State::Listening(Arc::clone(socket));
        Ok(())
    }

    fn start_connect(&mut self, address: IpSocketAddress) -> Answer<(), ErrorCode> {
        let own = match self.state {
            State::Unbound => self.family.unspecified(),
            State::Bound(address) => address,
            _ => return Err(self.cannot_begin()),
        };
        let peer = self.family.peer(address)?;
        // The system chooses a connection's own address.
        if own != self.family.unspecified() {
            return Err(ErrorCode::NotSupported);
        }
        match Socket::connect_later(peer).map_err(ErrorCode::from) {
            Ok(socket) => {
                self.options.apply(&socket)?;
                self.state = State::Connecting(Arc::new(socket));
                Ok(())
            }
            // Nothing was attempted.
            Err(ErrorCode::AccessDenied) => Err(ErrorCode::AccessDenied),
            Err(error) => {
                self.state = State::Closed;
                Err(error)
            }
        }
    }

    fn finish_connect(&mut self) -> Answer<Arc<Connection>, ErrorCode> {
        let State::Connecting(socket) = &self.state else { return Err(ErrorCode::NotInProgress) };
        if sockets::wait(&[(socket, WRITE)], 0)? == [0] {
            return Err(ErrorCode::WouldBlock);
        }
        let State::Connecting(socket) = mem::replace(&mut self.state, State::Closed) else {
            return Err(ErrorCode::NotInProgress);
        };
        socket.failure()?;
        let connection = Connection::new(socket);
        self.state = State::Connected(Arc::clone(&connection));
        Ok(connection)
    }

    fn accept(&mut self) -> Answer<(TcpSocket, Arc<Connection>), ErrorCode> {
        let State::Listening(socket) = &self.state else { return Err(ErrorCode::InvalidState) };
        let accepted = socket.accept()?;
        accepted.set_non_blocking(true)?;
        self.options.apply(&accepted)?;
        let connection = Connection::new(Arc::new(accepted));
        let state = State::Connected(Arc::clone(&connection));
        Ok((Tcp::new(self.family, state, self.options.clone()), connection))
    }

    fn local_address(&mut self) -> Answer<IpSocketAddress, ErrorCode> {
        match (&self.state, self.system()) {
            (State::Bound(address), _) => Ok((*address).into()),
            (_, Some(socket)) => Ok(socket.address(SocketEnd::Local)?.into()),
            _ => Err(ErrorCode::InvalidState),
        }
    }

    fn connection(&self) -> Answer<&Arc<Connection>, ErrorCode> {
        match &self.state {
            State::Connected(connection) => Ok(connection),
            _ => Err(ErrorCode::InvalidState),
        }
    }

    fn set_backlog(&mut self, size: u64) -> Answer<(), ErrorCode> {
        match self.state {
            _ if size == 0 => Err(ErrorCode::InvalidArgument),
            State::Unbound | State::Binding(_) | State::Bound(_) => {
                self.backlog = size.min(BACKLOG_MAX);
                Ok(())
            }
            State::Opening(_) | State::Listening(_) => Err(ErrorCode::NotSupported),
            State::Connecting(_) | State::Connected(_) | State::Closed => Err(ErrorCode::InvalidState),
        }
    }
}

/// Both directions of a connection.
type Streams = (Resource<InputStream>, Resource<OutputStream>);

fn streams(table: &mut ResourceTable, connection: Arc<Connection>) -> Result<Streams> {
    let input = table.push(InputStream::Connection(Arc::clone(&connection)))?;
    Ok((input, table.push(OutputStream::Connection(connection))?))
}

pub(super) fn link(linker: &mut Linker<Program>) -> Result<()> {
    let mut create = linker.instance("wasi:sockets/tcp-create-socket@0.2.0")?;
    create.func_wrap("create-tcp-socket", |mut caller: Caller<'_>, (family,): (Family,)| {
        if !sockets::are_granted() {
            return Ok((Err(ErrorCode::AccessDenied),));
        }
        let socket = Tcp::new(family, State::Unbound, Options::default());
        Ok((Ok(caller.data_mut().table.push(socket)?),))
    })?;
    let mut tcp = linker.instance("wasi:sockets/tcp@0.2.0")?;
    resource::<TcpSocket>(&mut tcp, "tcp-socket")?;
    directed(&mut tcp, "[method]tcp-socket.start-bind", Tcp::start_bind)?;
    asked(&mut tcp, "[method]tcp-socket.finish-bind", Tcp::finish_bind)?;
    asked(&mut tcp, "[method]tcp-socket.start-listen", Tcp::start_listen)?;
    asked(&mut tcp, "[method]tcp-socket.finish-listen", Tcp::finish_listen)?;
    directed(&mut tcp, "[method]tcp-socket.start-connect", Tcp::start_connect)?;
    tcp.func_wrap("[method]tcp-socket.finish-connect", |mut caller: Caller<'_>, (this,): This| {
        let table = &mut caller.data_mut().table;
        let connected = table.get(&this)?.lock().finish_connect();
        Ok((match connected {
            Ok(connection) => Ok(streams(table, connection)?),
            Err(error) => Err(error),
        },))
    })?;
    tcp.func_wrap("[method]tcp-socket.accept", |mut caller: Caller<'_>, (this,): This| {
        let table = &mut caller.data_mut().table;
        let accepted = table.get(&this)?.lock().accept();
        Ok((match accepted {
            Ok((socket, connection)) => {
                let socket = table.push(socket)?;
                let (input, output) = streams(table, connection)?;
                Ok((socket, input, output))
            }
            Err(error) => Err(error),
        },))
    })?;
    asked(&mut tcp, "[method]tcp-socket.local-address", Tcp::local_address)?;
    asked(&mut tcp, "[method]tcp-socket.remote-address", |tcp: &mut Tcp| -> Answer<IpSocketAddress, ErrorCode> {
        Ok(tcp.connection()?.socket().address(SocketEnd::Peer)?.into())
    })?;
    asked(&mut tcp, "[method]tcp-socket.is-listening", |tcp: &mut Tcp| matches!(tcp.state, State::Listening(_)))?;
    asked(&mut tcp, "[method]tcp-socket.address-family", |tcp: &mut Tcp| tcp.family)?;
    told(&mut tcp, "[method]tcp-socket.set-listen-backlog-size", Tcp::set_backlog)?;
    told(&mut tcp, "[method]tcp-socket.shutdown", |tcp: &mut Tcp, how: ShutdownType| {
        Ok(tcp.connection()?.shut_down(how.into())?)
    })?;
    options::common::<Tcp>(&mut tcp, "tcp-socket", "hop-limit")?;
    options::keep_alive::<Tcp>(&mut tcp)?;
    tcp.func_wrap("[method]tcp-socket.subscribe", |mut caller: Caller<'_>, (this,): This| {
        let table = &mut caller.data_mut().table;
        let socket = table.get(&this)?.clone();
        Ok((table.push(Pollable::Socket(Arc::new(socket)))?,))
    })
}
