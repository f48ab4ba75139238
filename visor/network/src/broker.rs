//! The broker: makes the sockets of one workflow, outside of the workflow's process.
//!
//! A worker cannot make, bind or connect a socket: its list of system calls lacks them. It asks its broker, a thread of
//! the process above, which compares the address with the workflow's list and hands over a socket that is bound or
//! connected already. So even a function that has brought its worker under its control reaches nothing new.
//!
//! ```text
//!   worker                                           supervisor, or `monohull run`
//!   connect(address) ──── Connect(address) ────────▶ on the list? socket, connect
//!                    ◀─── Done + the socket ──────── (SCM_RIGHTS; not waited for)
//!   read, write, accept: the worker's own, straight to the kernel
//! ```
//!
//! UDP sockets stay with the broker too: a datagram to an address goes through it, for an address is in memory, where a
//! list of system calls cannot look. One to a socket's only peer does not.

use super::errno_of;
use super::https::{Origin, Relay};
use super::list::{Allowed, Rules};
use super::wire::{Reply, Request, Sockets};
use monohull_abi::Errno;
use monohull_ipc::Responder;
use monohull_ipc::request::pair;
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, SockaddrStorage, bind, connect, listen, sendto, setsockopt,
    socket, sockopt,
};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// The most UDP sockets of one workflow: each takes a descriptor of the broker's process.
const DATAGRAM_SOCKETS_MAX: usize = 256;

/// A workflow's broker.
struct Broker {
    allowed: Allowed,
    relay: Relay,
    datagrams: HashMap<u32, Datagrams>,
    next: u32,
}

/// A UDP socket.
struct Datagrams {
    socket: OwnedFd,
    /// Its own address is on the list, so it may answer every peer; the worker knows which.
    listed: bool,
}

/// An answer, and the socket that goes with it.
type Answer = Result<(Reply, Option<OwnedFd>), Errno>;

/// Starts a broker for these lists. It ends when the socket that this returns is closed in every process that has it.
pub(super) fn start(rules: Rules, relay: Relay) -> io::Result<OwnedFd> {
    let (ours, theirs) = pair()?;
    let serve = move || serve(Responder::new(ours), &rules, relay);
    std::thread::Builder::new().name("network-broker".to_owned()).spawn(serve)?;
    Ok(theirs)
}

/// Serves until the other end is closed, or sends what is no request.
fn serve(mut responder: Responder<Sockets>, rules: &Rules, relay: Relay) {
    let mut broker = match Allowed::resolve(rules) {
        Ok(allowed) => Broker { allowed, relay, datagrams: HashMap::new(), next: 0 },
        Err(error) => {
            // The reply to the first request of any kind.
            if let Ok(Some(_)) = responder.receive() {
                let _ = responder.reply(&Reply::Failed(error.to_string()), None);
            }
            return;
        }
    };
    responder.serve(|request| {
        if let Request::Close(number) = request {
            broker.datagrams.remove(&number);
            return None;
        }
        Some(broker.answer(request).unwrap_or_else(|errno| (Reply::Refused(errno as i32), None)))
    });
}

impl Broker {
    fn answer(&mut self, request: Request<'_>) -> Answer {
        match request {
            Request::Hello | Request::Close(_) => Ok((Reply::Done, None)),
            Request::Listen(at, backlog) => self.listen(at, backlog),
            Request::Connect(to) => self.connect(to),
            Request::Bind(at) => self.bind(at),
            Request::Associate(number, to) => self.associate(number, to),
            Request::Send(number, to, bytes) => self.send(number, to, bytes),
            Request::May(to) if self.allowed.may_connect(to) => Ok((Reply::Done, None)),
            Request::May(_) => Err(Errno::NotPermitted),
            Request::Lookup(name) => {
                let found = match self.relay.find(name).map(Origin::address) {
                    // The name may be on the list of addresses as well.
                    Some(relayed) => [vec![relayed], self.allowed.listed(name).unwrap_or_default()].concat(),
                    None => self.allowed.lookup(name).ok_or(Errno::NotPermitted)?,
                };
                Ok((Reply::Addresses(found), None))
            }
        }
    }

    fn listen(&self, at: SocketAddr, backlog: u32) -> Answer {
        if !self.allowed.may_listen(at) {
            return Err(Errno::NotPermitted);
        }
        let socket = open(at, SockType::Stream)?;
        let work = || {
            // As std does: a server that is started again finds its port free.
            setsockopt(&socket, sockopt::ReuseAddr, &true)?;
            bind(socket.as_raw_fd(), &SockaddrStorage::from(at))?;
            listen(&socket, Backlog::new(backlog as i32).unwrap_or(Backlog::MAXCONN))
        };
        work().map_err(refused)?;
        Ok((Reply::Done, Some(socket)))
    }

    fn connect(&mut self, to: SocketAddr) -> Answer {
        if let Some(place) = Origin::place(to.ip()).filter(|_| self.relay.is_used()) {
            return self.relay.connect(place, to.port()).map(|socket| (Reply::Done, Some(socket)));
        }
        if !self.allowed.may_connect(to) {
            return Err(Errno::NotPermitted);
        }
        let socket = open(to, SockType::Stream)?;
        match connect(socket.as_raw_fd(), &SockaddrStorage::from(to)) {
            Ok(()) | Err(nix::errno::Errno::EINPROGRESS) => Ok((Reply::Done, Some(socket))),
            Err(errno) => Err(refused(errno)),
        }
    }

    fn bind(&mut self, at: SocketAddr) -> Answer {
        let listed = self.allowed.may_listen(at);
        if !listed && !self.allowed.may_bind_anywhere(at) {
            return Err(Errno::NotPermitted);
        }
        if self.datagrams.len() >= DATAGRAM_SOCKETS_MAX {
            return Err(Errno::TooMany);
        }
        let socket = open(at, SockType::Datagram)?;
        bind(socket.as_raw_fd(), &SockaddrStorage::from(at)).map_err(refused)?;
        let copy = socket.try_clone().map_err(|_| Errno::TooMany)?;
        self.next = self.next.wrapping_add(1);
        self.datagrams.insert(self.next, Datagrams { socket: copy, listed });
        Ok((Reply::Bound(self.next, listed), Some(socket)))
    }

    fn associate(&self, number: u32, to: SocketAddr) -> Answer {
        let socket = self.may_send(number, to)?;
        connect(socket.as_raw_fd(), &SockaddrStorage::from(to)).map_err(refused)?;
        Ok((Reply::Done, None))
    }

    fn send(&self, number: u32, to: SocketAddr, bytes: &[u8]) -> Answer {
        let socket = self.may_send(number, to)?;
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        sendto(socket.as_raw_fd(), bytes, &SockaddrStorage::from(to), flags).map_err(refused)?;
        Ok((Reply::Done, None))
    }

    /// The socket, if it may send to this address.
    fn may_send(&self, number: u32, to: SocketAddr) -> Result<&OwnedFd, Errno> {
        let datagrams = self.datagrams.get(&number).ok_or(Errno::BadDescriptor)?;
        match datagrams.listed || self.allowed.may_connect(to) {
            true => Ok(&datagrams.socket),
            false => Err(Errno::NotPermitted),
        }
    }
}

fn open(address: SocketAddr, kind: SockType) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let made = socket(family, kind, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None).map_err(refused)?;
    if address.is_ipv6() {
        // IPv4 has sockets of its own: an address on the list is not two.
        setsockopt(&made, sockopt::Ipv6V6Only, &true).map_err(refused)?;
    }
    Ok(made)
}

fn refused(errno: nix::errno::Errno) -> Errno {
    errno_of(errno as i32)
}
