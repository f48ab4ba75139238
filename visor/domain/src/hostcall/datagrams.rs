//! Which UDP datagrams a workflow's sockets take and send, by the workflow's list of addresses.

use monohull_abi::Errno;
use monohull_network::Client;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard};

/// Peers that a UDP socket on the list remembers, so that it can answer them.
const PEERS_MAX: usize = 256;

/// What is known of UDP sockets: the addresses they may receive from, and those they may answer.
#[derive(Default)]
pub(crate) struct Datagrams {
    sockets: Mutex<HashMap<RawFd, Datagram>>,
    /// Held while datagrams are received with their sender. To drop one that was only looked at takes a second call, and
    /// between the two another thread must not take it: the second call would drop the next one, which may be legitimate.
    pub(super) receiving: Mutex<()>,
}

/// One UDP socket.
pub(super) struct Datagram {
    /// The broker's number for it.
    pub(super) number: u32,
    /// Its own address is on the list: it receives from all, and answers recent peers. Else it receives from those it may send
    /// to.
    pub(super) listed: bool,
    /// The addresses it has received from last.
    pub(super) peers: VecDeque<SocketAddr>,
}

impl Datagrams {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<RawFd, Datagram>> {
        self.sockets.lock().expect("datagrams")
    }

    /// The broker's number of a socket that is to send to an address.
    pub(super) fn sender(&self, socket: RawFd, broker: &Client, to: SocketAddr) -> Result<u32, Errno> {
        let sockets = self.lock();
        let datagram = sockets.get(&socket).ok_or(Errno::NotSupported)?;
        let (number, answers) = (datagram.number, datagram.listed && !datagram.peers.contains(&to));
        drop(sockets);
        match answers && !broker.may_reach(to) {
            // It may only answer, and that address has sent nothing.
            true => Err(Errno::NotPermitted),
            false => Ok(number),
        }
    }

    /// Whether a socket is to take a datagram from an address.
    pub(super) fn accepts(&self, socket: RawFd, broker: &Client, from: SocketAddr) -> bool {
        let known = |datagram: &Datagram| datagram.listed || datagram.peers.contains(&from);
        // A TCP socket has one peer, which was checked when it was connected.
        let accepted = self.lock().get(&socket).is_none_or(known) || broker.may_reach(from);
        if accepted && let Some(datagram) = self.lock().get_mut(&socket).filter(|d| !d.peers.contains(&from)) {
            datagram.peers.truncate(PEERS_MAX - 1);
            datagram.peers.push_front(from);
        }
        accepted
    }
}
