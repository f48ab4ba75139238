//! Connections to the virtual addresses of hosts that are reached over HTTPS (`monohull_network::https`).
//!
//! To the kernel they are ends of socket pairs, which have no addresses and none of TCP's options. Functions see what any
//! connection has: these answers come from here.
//!
//! Which steps may use a host is checked here, too: the broker does not know which instance asks. Functions cannot change
//! what is compared, for it is in memory of the system.

use crate::run::served_instance;
use monohull_abi::Errno;
use monohull_abi::network::{SocketEnd, SocketOption};
use monohull_network::Client;
use monohull_network::https::{LOCAL_END, Origin};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard};

/// TTL of a packet unless a program says otherwise.
const TTL_DEFAULT: u64 = 64;

/// The connections of this domain to virtual addresses.
#[derive(Default)]
pub(crate) struct Relayed(Mutex<HashMap<RawFd, Connection>>);

/// One of them.
struct Connection {
    peer: SocketAddr,
    /// Options that were set. They are given back and have no effect: this connection is within the computer.
    options: HashMap<u64, u64>,
}

impl Relayed {
    fn lock(&self) -> MutexGuard<'_, HashMap<RawFd, Connection>> {
        self.0.lock().expect("relayed connections")
    }

    /// A descriptor is one from here on.
    pub(super) fn insert(&self, descriptor: RawFd, peer: SocketAddr) {
        self.lock().insert(descriptor, Connection { peer, options: HashMap::new() });
    }

    /// A descriptor is about to be closed.
    pub(super) fn remove(&self, descriptor: RawFd) {
        self.lock().remove(&descriptor);
    }

    /// The address at an end, if this is such a connection.
    pub(super) fn name(&self, descriptor: RawFd, end: SocketEnd) -> Option<SocketAddr> {
        let peer = self.lock().get(&descriptor)?.peer;
        Some(if end == SocketEnd::Peer { peer } else { LOCAL_END })
    }

    /// The value of an option of TCP or IP, if this is such a connection.
    pub(super) fn get(&self, descriptor: RawFd, option: SocketOption) -> Option<u64> {
        let usual = match option {
            SocketOption::NoDelay | SocketOption::KeepAlive => 0,
            SocketOption::Ttl => TTL_DEFAULT,
            _ => return None,
        };
        Some(self.lock().get(&descriptor)?.options.get(&(option as u64)).copied().unwrap_or(usual))
    }

    /// Sets an option of TCP or IP; false if this is no such connection.
    pub(super) fn set(&self, descriptor: RawFd, option: SocketOption, value: u64) -> bool {
        let known = matches!(option, SocketOption::NoDelay | SocketOption::KeepAlive | SocketOption::Ttl);
        let mut connections = self.lock();
        let connection = connections.get_mut(&descriptor).filter(|_| known);
        connection.map(|connection| connection.options.insert(option as u64, value)).is_some()
    }
}

/// Whether an address is virtual. One of an entry that the calling instance may not use is refused.
pub(super) fn is_virtual(broker: &Client, to: SocketAddr) -> Result<bool, Errno> {
    match Origin::place(to.ip()).filter(|_| !broker.https().is_empty()) {
        None => Ok(false),
        Some(place) if may_use(broker, place) => Ok(true),
        Some(_) => Err(Errno::NotPermitted),
    }
}

/// The addresses of a name without virtual ones that the calling instance may not use; never none.
pub(super) fn usable(broker: &Client, addresses: Vec<IpAddr>) -> Result<Vec<IpAddr>, Errno> {
    let may_use = |address: &IpAddr| Origin::place(*address).is_none_or(|place| may_use(broker, place));
    let usable: Vec<_> = addresses.into_iter().filter(may_use).collect();
    if usable.is_empty() { Err(Errno::NotPermitted) } else { Ok(usable) }
}

fn may_use(broker: &Client, place: usize) -> bool {
    let origin = broker.https().get(place);
    let step = served_instance().map(|instance| instance.spec.labels.step.as_str());
    origin.zip(step).is_some_and(|(origin, step)| origin.admits(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_addresses_and_options_until_it_is_closed() {
        let relayed = Relayed::default();
        let peer = SocketAddr::new(Origin::address(0), 80);
        relayed.insert(7, peer);
        assert_eq!(relayed.name(7, SocketEnd::Peer), Some(peer));
        assert_eq!(relayed.name(7, SocketEnd::Local), Some(LOCAL_END));
        assert_eq!(relayed.get(7, SocketOption::Ttl), Some(TTL_DEFAULT));
        assert!(relayed.set(7, SocketOption::NoDelay, 1));
        assert_eq!(relayed.get(7, SocketOption::NoDelay), Some(1));
        assert_eq!(relayed.get(7, SocketOption::Error), None, "the kernel knows");
        assert!(!relayed.set(8, SocketOption::NoDelay, 1));
        relayed.remove(7);
        assert_eq!(relayed.name(7, SocketEnd::Peer), None);
    }
}
