//! A worker's end of its broker.

use super::NetworkError;
use super::https::Origin;
use super::wire::{Reply, Request, Sockets};
use monohull_abi::Errno;
use monohull_ipc::Requester;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

/// Where sockets come from. Asking takes two messages between processes; nothing the broker does waits for the network.
#[derive(Debug)]
pub struct Client {
    requester: Requester<Sockets>,
    https: Vec<Origin>,
}

impl Client {
    /// Waits until the broker has resolved the names on the list.
    pub(super) fn connect(socket: OwnedFd, https: Vec<Origin>) -> Result<Client, NetworkError> {
        let client = Client { requester: Requester::new(socket), https };
        match client.ask(&Request::Hello) {
            Ok((Reply::Failed(why), _)) => Err(NetworkError::Refused(why)),
            Ok(_) => Ok(client),
            Err(_) => Err(NetworkError::NoBroker),
        }
    }

    /// The hosts that are reached over HTTPS.
    pub fn https(&self) -> &[Origin] {
        &self.https
    }

    /// A TCP socket that listens.
    pub fn listen(&self, at: SocketAddr, backlog: u32) -> Result<OwnedFd, Errno> {
        self.ask(&Request::Listen(at, backlog))?.1.ok_or(Errno::TooMany)
    }

    /// A TCP socket that begins to connect.
    pub fn begin_to_connect(&self, to: SocketAddr) -> Result<OwnedFd, Errno> {
        self.ask(&Request::Connect(to))?.1.ok_or(Errno::TooMany)
    }

    /// A UDP socket, the broker's number for it, and whether its own address is on the list.
    pub fn bind(&self, at: SocketAddr) -> Result<(OwnedFd, u32, bool), Errno> {
        match self.ask(&Request::Bind(at))? {
            (Reply::Bound(number, listed), Some(socket)) => Ok((socket, number, listed)),
            (Reply::Bound(number, _), None) => {
                self.close(number);
                Err(Errno::TooMany)
            }
            _ => Err(Errno::NetworkDown),
        }
    }

    /// A UDP socket gets a peer.
    pub fn associate(&self, number: u32, to: SocketAddr) -> Result<(), Errno> {
        self.ask(&Request::Associate(number, to)).map(drop)
    }

    /// A UDP socket sends a datagram.
    pub fn send(&self, number: u32, to: SocketAddr, bytes: &[u8]) -> Result<(), Errno> {
        self.ask(&Request::Send(number, to, bytes)).map(drop)
    }

    /// A UDP socket is closed.
    pub fn close(&self, number: u32) {
        // Without a broker no socket is left to close.
        let _ = self.requester.notify(&Request::Close(number));
    }

    /// Whether an address may be reached.
    pub fn may_reach(&self, to: SocketAddr) -> bool {
        self.ask(&Request::May(to)).is_ok()
    }

    /// The addresses of a name on the list.
    pub fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, Errno> {
        match self.ask(&Request::Lookup(name))? {
            (Reply::Addresses(found), _) => Ok(found),
            _ => Err(Errno::NetworkDown),
        }
    }

    fn ask(&self, request: &Request<'_>) -> Result<(Reply, Option<OwnedFd>), Errno> {
        match self.requester.ask(request) {
            Ok((Reply::Refused(number), _)) => Err(Errno::from_value(-i64::from(number)).err().unwrap_or(Errno::Io)),
            answer => answer.map_err(|_| Errno::NetworkDown),
        }
    }
}
